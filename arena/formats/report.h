/* report: what fills an arena, by role and by tenant, for printing. */
#ifndef SKEP_ARENA_FORMATS_REPORT_H
#define SKEP_ARENA_FORMATS_REPORT_H

#include "arena/plan.h"
#include "base/text.h"

/* One role's share of one space. */
struct role_total {
    uint64_t peak_bytes; /* alive at the space's peak step */
    uint64_t most_bytes; /* alive at any one step */
    uint32_t most_step;  /* the first such step */
    int extent_count;
};

/* One line of what is alive at a space's peak step. */
struct tenant {
    const char *name; /* an extent's, or "(gap)" */
    const char *role; /* "" for the gap */
    uint64_t bytes;
    int extent; /* index in plan->problem.extents; -1 for the gap */
};

struct tenant_list {
    int count;
    struct tenant *tenants; /* largest first; equals in the order of the extents */
};

/* report_role_totals: peak_bytes of all roles add up to plan->bound_bytes[space].
 * memory  scratch in `region` */
void report_role_totals(const struct plan *plan, enum space space, struct region *region,
                        struct role_total totals[static ROLE_COUNT]);

/* report_tenant_list: what is alive at plan->peak_step[space]. Where the layout's peak is above
 * what is alive, the rest is a tenant named "(gap)", so that the list adds up to
 * plan->peak_bytes[space] to the byte.
 * memory  the list in `region`; names point into the plan */
struct tenant_list report_tenant_list(const struct plan *plan, enum space space,
                                      struct region *region);

/* report_gap_percent: how far the peak is above the bound; 0 for an empty space. */
double report_gap_percent(const struct plan *plan, enum space space);

/* report_spaces: one line for each space in use: peak, bound, gap, heuristic, extents. */
void report_spaces(const struct plan *plan, struct text *text);

/* report_roles: one table for each space in use: bytes at the peak and most bytes, by role.
 * memory  scratch in `region` */
void report_roles(const struct plan *plan, struct region *region, struct text *text);

/* report_tenants: the tenants of one space, largest first; beyond `line_max` lines the rest is
 * added up in one line, so that the column adds up to the peak all the same.
 *   line_max  0: no limit
 * memory    scratch in `region` */
void report_tenants(const struct plan *plan, enum space space, int line_max, struct region *region,
                    struct text *text);

#endif
