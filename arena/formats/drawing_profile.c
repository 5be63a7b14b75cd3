#include "arena/formats/drawing_profile.h"

enum { LIVE_COLUMNS = 480 }; /* number of columns of the usage curve */

/* Live bytes of each role in each column of the drawing. */
struct live_columns {
    /* live bytes by role and column: at the step of the column with the most live bytes of all
     * roles */
    uint64_t bytes[ROLE_COUNT][LIVE_COLUMNS];
};

/* Return the live bytes of one role at each step, as a running sum: a birth adds bytes, a death
 * subtracts them. */
static uint64_t *live_bytes_by_step(const struct panel *panel, const struct drawing *drawing,
                                    int role, struct region *region) {
    size_t step_count = panel->end - panel->begin;
    uint64_t *alive = region_alloc(region, step_count + 1, sizeof *alive);
    for (int i = 0; i < drawing->plan->problem.extent_count; i++) {
        const struct extent *extent = &drawing->plan->problem.extents[i];
        if (extent->space == drawing->space && (int)extent->role == role) {
            alive[extent->first - panel->begin] += extent->bytes;
            alive[extent->last - panel->begin] -= extent->bytes;
        }
    }
    for (size_t step = 1; step < step_count; step++) {
        alive[step] += alive[step - 1];
    }
    return alive;
}

static uint64_t live_bytes_of_all_roles(uint64_t *const alive[static ROLE_COUNT], size_t step) {
    uint64_t bytes = 0;
    for (int role = 0; role < ROLE_COUNT; role++) {
        bytes += alive[role][step];
    }
    return bytes;
}

static void compute_live_columns(const struct panel *panel, const struct drawing *drawing,
                                 struct region *region, struct live_columns *live) {
    uint64_t *alive[ROLE_COUNT];
    size_t step_count = panel->end - panel->begin;
    for (int role = 0; role < ROLE_COUNT; role++) {
        alive[role] = live_bytes_by_step(panel, drawing, role, region);
    }
    for (size_t column = 0; column < LIVE_COLUMNS; column++) {
        size_t from = column * step_count / LIVE_COLUMNS;
        size_t to = (column + 1) * step_count / LIVE_COLUMNS;
        size_t fullest = from;
        for (size_t step = from + 1; step < to; step++) {
            fullest = live_bytes_of_all_roles(alive, step) > live_bytes_of_all_roles(alive, fullest)
                          ? step
                          : fullest;
        }
        for (int role = 0; role < ROLE_COUNT; role++) {
            live->bytes[role][column] = alive[role][fullest];
        }
    }
}

static double column_x(const struct panel *panel, int column) {
    return panel->left + panel->width * column / LIVE_COLUMNS;
}

/* Write the outline of one role's area: along the area's upper edge, then back along its lower
 * edge. Points are written only where the edge changes its height. */
static void write_area(const struct panel *panel, const uint64_t *lower, const uint64_t *upper,
                       const char *colour, struct writer *writer) {
    writer_add(writer, "<path fill=\"%s\" d=\"M%.1f %.1f", colour, panel->left,
               panel_y(panel, (double)upper[0]));
    for (int column = 1; column < LIVE_COLUMNS; column++) {
        if (upper[column] != upper[column - 1]) {
            writer_add(writer, "H%.1fV%.1f", column_x(panel, column),
                       panel_y(panel, (double)upper[column]));
        }
    }
    writer_add(writer, "H%.1fV%.1f", panel->left + panel->width,
               panel_y(panel, (double)lower[LIVE_COLUMNS - 1]));
    for (int column = LIVE_COLUMNS - 1; column > 0; column--) {
        if (lower[column] != lower[column - 1]) {
            writer_add(writer, "H%.1fV%.1f", column_x(panel, column),
                       panel_y(panel, (double)lower[column - 1]));
        }
    }
    writer_add(writer, "H%.1fZ\"/>\n", panel->left);
}

void write_usage_curve(const struct panel *panel, const struct drawing *drawing,
                       struct region *region, struct writer *writer) {
    struct live_columns *live = region_alloc(region, 1, sizeof *live);
    uint64_t *edges = region_alloc(region, 2 * LIVE_COLUMNS, sizeof *edges);
    uint64_t *lower = edges, *upper = edges + LIVE_COLUMNS;
    compute_live_columns(panel, drawing, region, live);
    for (enum extent_role role = 0; role < ROLE_COUNT; role++) {
        uint64_t sum = 0;
        for (int column = 0; column < LIVE_COLUMNS; column++) {
            upper[column] = lower[column] + live->bytes[role][column];
            sum |= live->bytes[role][column];
        }
        if (sum > 0) {
            write_area(panel, lower, upper, drawing_role_colour(role), writer);
        }
        uint64_t *swapped = lower;
        lower = upper;
        upper = swapped;
    }
}
