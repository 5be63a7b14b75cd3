#include "arena/formats/formats.h"

#include <stdlib.h>

/* The birth or death of an extent at a step. */
struct life_change {
    uint32_t step; /* program step */
    bool is_birth; /* true: the life begins; false: the life ends */
    enum extent_role role;
    uint64_t bytes; /* size of the extent in bytes */
};

static int compare_life_changes(const void *left, const void *right) {
    const struct life_change *a = left, *b = right;
    if (a->step != b->step) {
        return a->step < b->step ? -1 : 1;
    }
    return (int)a->is_birth - (int)b->is_birth;
}

static bool is_alive_at(const struct extent *extent, enum space space, uint32_t step) {
    return extent->space == space && extent->first <= step && step < extent->last;
}

static void find_role_maxima(struct life_change *changes, size_t count,
                             struct role_total totals[static ROLE_COUNT]) {
    uint64_t alive_bytes[ROLE_COUNT] = {0};
    qsort(changes, count, sizeof *changes, compare_life_changes);
    for (size_t i = 0; i < count; i++) {
        const struct life_change *change = &changes[i];
        uint64_t *alive = &alive_bytes[change->role];
        struct role_total *total = &totals[change->role];
        *alive += change->is_birth ? change->bytes : -change->bytes;
        if (*alive > total->max_bytes) {
            total->max_bytes = *alive;
            total->max_step = change->step;
        }
    }
}

void compute_role_totals(const struct plan *plan, enum space space, struct region *region,
                         struct role_total totals[static ROLE_COUNT]) {
    struct life_change *changes =
        region_alloc(region, 2 * (size_t)plan->problem.extent_count, sizeof *changes);
    size_t change_count = 0;
    for (int role = 0; role < ROLE_COUNT; role++) {
        totals[role] = (struct role_total){0};
    }
    for (int i = 0; i < plan->problem.extent_count; i++) {
        const struct extent *extent = &plan->problem.extents[i];
        if (extent->space != space) {
            continue;
        }
        struct role_total *total = &totals[extent->role];
        total->extent_count++;
        if (is_alive_at(extent, space, plan->peak_step[space])) {
            total->peak_bytes += extent->bytes;
        }
        changes[change_count++] =
            (struct life_change){extent->first, true, extent->role, extent->bytes};
        changes[change_count++] =
            (struct life_change){extent->last, false, extent->role, extent->bytes};
    }
    find_role_maxima(changes, change_count, totals);
}

static int compare_tenants(const void *left, const void *right) {
    const struct tenant *a = left, *b = right;
    if (a->bytes != b->bytes) {
        return a->bytes > b->bytes ? -1 : 1;
    }
    return a->extent < b->extent ? -1 : a->extent > b->extent;
}

struct tenant_list list_tenants(const struct plan *plan, enum space space, struct region *region) {
    int count = 0;
    for (int i = 0; i < plan->problem.extent_count; i++) {
        count += is_alive_at(&plan->problem.extents[i], space, plan->peak_step[space]);
    }
    struct tenant_list list = {.tenants =
                                   region_alloc(region, (size_t)count + 1, sizeof(struct tenant))};
    uint64_t alive_bytes = 0;
    for (int i = 0; i < plan->problem.extent_count; i++) {
        const struct extent *extent = &plan->problem.extents[i];
        if (is_alive_at(extent, space, plan->peak_step[space])) {
            alive_bytes += extent->bytes;
            list.tenants[list.count++] =
                (struct tenant){extent->name, extent_role_name(extent->role), extent->bytes, i};
        }
    }
    if (plan->peak_bytes[space] > alive_bytes) {
        list.tenants[list.count++] =
            (struct tenant){"(gap)", "", plan->peak_bytes[space] - alive_bytes, -1};
    }
    qsort(list.tenants, (size_t)list.count, sizeof *list.tenants, compare_tenants);
    return list;
}

double peak_gap_percent(const struct plan *plan, enum space space) {
    if (plan->bound_bytes[space] == 0) {
        return 0;
    }
    uint64_t gap_bytes = plan->peak_bytes[space] - plan->bound_bytes[space];
    return 100 * (double)gap_bytes / (double)plan->bound_bytes[space];
}

static int count_extents(const struct plan *plan, enum space space) {
    int count = 0;
    for (int i = 0; i < plan->problem.extent_count; i++) {
        count += plan->problem.extents[i].space == space;
    }
    return count;
}

void report_spaces(const struct plan *plan, struct text *text) {
    text_add(text, "%-8s %12s %22s %10s %8s  %s\n", "space", "peak", "bytes", "gap", "extents",
             "laid out");
    for (enum space space = 0; space < SPACE_COUNT; space++) {
        int count = count_extents(plan, space);
        char peak[24], grouped[32];
        if (count > 0) {
            text_add(text, "%-8s %12s %22s %8.2f %% %8d  %s\n", space_name(space),
                     text_format_bytes(plan->peak_bytes[space], peak),
                     text_format_grouped(plan->peak_bytes[space], grouped),
                     peak_gap_percent(plan, space), count, plan->heuristic[space]);
        }
    }
}

static void report_role_line(const char *name, const struct role_total *total, struct text *text) {
    char peak[24], max[24];
    text_add(text, "  %-22s %12s %12s %10u %8d\n", name, text_format_bytes(total->peak_bytes, peak),
             text_format_bytes(total->max_bytes, max), total->max_step, total->extent_count);
}

static void report_roles_of_space(const struct plan *plan, enum space space, struct region *region,
                                  struct text *text) {
    struct role_total totals[ROLE_COUNT];
    char bytes[24];
    compute_role_totals(plan, space, region, totals);
    text_add(text, "%s space, step %u\n", space_name(space), plan->peak_step[space]);
    text_add(text, "  %-22s %12s %12s %10s %8s\n", "role", "at the peak", "most", "at step",
             "extents");
    for (enum extent_role role = 0; role < ROLE_COUNT; role++) {
        if (totals[role].extent_count > 0) {
            report_role_line(extent_role_name(role), &totals[role], text);
        }
    }
    uint64_t gap_bytes = plan->peak_bytes[space] - plan->bound_bytes[space];
    if (gap_bytes > 0) {
        text_add(text, "  %-22s %12s\n", "(gap)", text_format_bytes(gap_bytes, bytes));
    }
    text_add(text, "  %-22s %12s\n", "total", text_format_bytes(plan->peak_bytes[space], bytes));
}

void report_roles(const struct plan *plan, struct region *region, struct text *text) {
    for (enum space space = 0; space < SPACE_COUNT; space++) {
        if (count_extents(plan, space) > 0) {
            report_roles_of_space(plan, space, region, text);
        }
    }
}

static void report_tenant_line(const char *name, const char *role, uint64_t bytes,
                               struct text *text) {
    char rounded[24], grouped[32];
    text_add(text, "  %22s %12s  %-20s  %s\n", text_format_grouped(bytes, grouped),
             text_format_bytes(bytes, rounded), role, name);
}

void report_tenants(const struct plan *plan, enum space space, int line_max, struct region *region,
                    struct text *text) {
    struct tenant_list list = list_tenants(plan, space, region);
    int shown = list.count;
    if (line_max > 0 && list.count > line_max) {
        shown = line_max - 1; /* the last line is the sum of the tenants that are not shown */
    }
    text_add(text, "%s space, alive at step %u\n", space_name(space), plan->peak_step[space]);
    uint64_t rest_bytes = 0;
    for (int i = 0; i < list.count; i++) {
        const struct tenant *tenant = &list.tenants[i];
        if (i < shown) {
            report_tenant_line(tenant->name, tenant->role, tenant->bytes, text);
        } else {
            rest_bytes += tenant->bytes;
        }
    }
    if (shown < list.count) {
        char name[48];
        struct text rest = text_over(name, sizeof name);
        text_add(&rest, "(%d more)", list.count - shown);
        report_tenant_line(name, "", rest_bytes, text);
    }
    report_tenant_line("(total)", "", plan->peak_bytes[space], text);
}
