#include "arena/formats/drawing_axes.h"

#include <math.h>
#include <string.h>

/* The colours of the roles: blue for weights, warm colours for gradients, green for activations, so
 * that readers who cannot distinguish red from green can tell the three largest kinds apart. */
static const char *const COLOURS[ROLE_COUNT] = {
    [ROLE_PARAMS] = "#4e79a7",      [ROLE_MASTER] = "#2f4b7c",
    [ROLE_GATHERED] = "#7ea6d3",    [ROLE_GRADIENTS] = "#d1495b",
    [ROLE_MOMENTS] = "#8f6bb3",     [ROLE_CONSTANTS] = "#a5a5a5",
    [ROLE_SCALARS] = "#5f6368",     [ROLE_BATCH] = "#76b7b2",
    [ROLE_ACTIVATIONS] = "#59a14f", [ROLE_ACTIVATION_GRADIENTS] = "#f28e2b",
    [ROLE_WORKSPACE] = "#edc948",   [ROLE_CACHE] = "#6cc3e8",
    [ROLE_STAGING] = "#9c755f",     [ROLE_OUTER] = "#6b4c9a",
    [ROLE_EXCHANGE] = "#d37295",
};

enum {
    STEP_TICKS_MAX = 10,    /* maximum number of labels of the step axis */
    LEGEND_ROW_HEIGHT = 34, /* distance between two rows of the legend, in px */
    MARK_NAME_MAX = 40,     /* maximum number of characters of a mark's name */
};

/* average width of a character of the 11 px font, in px */
static const double MARK_LETTER_WIDTH = 6.2;

const char *drawing_role_colour(enum extent_role role) {
    ASSERT(role < ROLE_COUNT);
    return COLOURS[role];
}

void writer_add_xml(struct writer *writer, const char *text, size_t length_max) {
    for (size_t i = 0; i < length_max && text[i] != '\0'; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c == '&') {
            writer_add_text(writer, "&amp;");
        } else if (c == '<') {
            writer_add_text(writer, "&lt;");
        } else if (c == '>') {
            writer_add_text(writer, "&gt;");
        } else if (c < ' ' || c > '~') {
            writer_add_text(writer,
                            "?"); /* bytes that are not valid UTF-8 would break the document */
        } else {
            writer_add_text(writer, (const char[]){(char)c, '\0'});
        }
    }
}

/* Return the distance between ticks: the smallest power of two that gives at most `tick_max`
 * ticks. Labels are then whole numbers of their unit. */
static uint64_t byte_tick_interval(uint64_t bytes, int tick_max) {
    uint64_t tick = 1;
    while (bytes / tick > (uint64_t)tick_max) {
        tick *= 2;
    }
    return tick;
}

void write_byte_axis(const struct panel *panel, int tick_max, struct writer *writer) {
    static const char *const UNITS[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    uint64_t tick = byte_tick_interval(panel->top_bytes, tick_max);
    /* Use the largest unit (KiB, MiB, ...) of which the axis shows at least two. */
    int unit = panel->top_bytes < 2 ? 0 : (62 - __builtin_clzll(panel->top_bytes)) / 10;
    for (uint64_t bytes = 0; bytes <= panel->top_bytes; bytes += tick) {
        double y = panel_y(panel, (double)bytes);
        writer_add(writer, "<path class=\"grid\" d=\"M%.1f %.1fh%.1f\"/>\n", panel->left, y,
                   panel->width);
        writer_add(writer, "<text class=\"tick\" text-anchor=\"end\" x=\"%.1f\" y=\"%.1f\">",
                   panel->left - 8, y + 3.5);
        double value = ldexp((double)bytes, -10 * unit);
        writer_add(writer, "%.6g%s%s</text>\n", value, bytes > 0 ? " " : "",
                   bytes > 0 ? UNITS[unit] : "");
    }
}

static double step_tick_interval(double span) {
    double tick = pow(10, floor(log10(span / STEP_TICKS_MAX)));
    tick = tick < 1 ? 1 : tick;
    static const double FACTORS[] = {1, 2, 5, 10};
    for (size_t i = 0; i < ARRAY_COUNT(FACTORS); i++) {
        if (span / (tick * FACTORS[i]) <= STEP_TICKS_MAX) {
            return tick * FACTORS[i];
        }
    }
    return tick * 20;
}

void write_step_axis(const struct panel *panel, struct writer *writer) {
    double tick = step_tick_interval((double)(panel->end - panel->begin));
    double bottom = panel->top + panel->height;
    for (double step = ceil(panel->begin / tick) * tick; step <= panel->end; step += tick) {
        double x = panel_x(panel, step);
        writer_add(writer, "<path class=\"rule\" d=\"M%.1f %.1fv4\"/>", x, bottom);
        writer_add(
            writer,
            "<text class=\"tick\" text-anchor=\"middle\" x=\"%.1f\" y=\"%.1f\">%.0f</text>\n", x,
            bottom + 17, step);
    }
    writer_add(writer, "<path class=\"rule\" d=\"M%.1f %.1fh%.1f\"/>\n", panel->left, bottom,
               panel->width);
    writer_add(
        writer,
        "<text class=\"axis\" text-anchor=\"end\" x=\"%.1f\" y=\"%.1f\">program step</text>\n",
        panel->left + panel->width, bottom + 34);
}

/* Write the name of mark `index` to the right of its line if the name ends before the next line.
 * Write the name of the last mark to the left of its line if it does not fit on the right. Omit a
 * name that does not fit. */
static void write_mark_name(const struct panel *panel, const struct drawing *drawing, int index,
                            struct writer *writer) {
    const struct drawing_mark *mark = &drawing->marks[index];
    double x = panel_x(panel, mark->step);
    double next = panel->left + panel->width;
    if (index + 1 < drawing->mark_count && mark[1].step < panel->end) {
        next = panel_x(panel, mark[1].step);
    }
    size_t length = strnlen(mark->name, MARK_NAME_MAX);
    bool fits = x + 6 + MARK_LETTER_WIDTH * (double)length <= next;
    bool is_last = index + 1 == drawing->mark_count;
    if (fits || is_last) {
        writer_add(writer, "<text class=\"tick\" text-anchor=\"%s\" x=\"%.1f\" y=\"%.1f\">",
                   fits ? "start" : "end", fits ? x + 4 : x - 4, panel->top - 6);
        writer_add_xml(writer, mark->name, MARK_NAME_MAX);
        writer_add(writer, "</text>\n");
    }
}

void write_program_marks(const struct panel *panel, const struct drawing *drawing, bool show_names,
                         struct writer *writer) {
    for (int i = 0; i < drawing->mark_count; i++) {
        uint32_t step = drawing->marks[i].step;
        if (step < panel->begin || step >= panel->end) {
            continue;
        }
        double above = show_names ? 16 : 0;
        writer_add(writer, "<path class=\"mark\" d=\"M%.1f %.1fv%.1f\"/>\n", panel_x(panel, step),
                   panel->top - above, panel->height + above);
        if (show_names) {
            write_mark_name(panel, drawing, i, writer);
        }
    }
}

void write_role_legend(const struct role_total totals[static ROLE_COUNT], double left, double top,
                       struct writer *writer) {
    double y = top;
    writer_add(writer,
               "<text class=\"axis\" x=\"%.1f\" y=\"%.1f\">role, bytes at the peak</text>\n", left,
               y);
    for (enum extent_role role = 0; role < ROLE_COUNT; role++) {
        char bytes[24];
        if (totals[role].extent_count == 0) {
            continue;
        }
        y += LEGEND_ROW_HEIGHT;
        writer_add(writer,
                   "<rect x=\"%.1f\" y=\"%.1f\" width=\"14\" height=\"14\" rx=\"2\" fill=\"%s\"/>",
                   left, y - 12, drawing_role_colour(role));
        writer_add(writer, "<text class=\"role\" x=\"%.1f\" y=\"%.1f\">%s</text>", left + 22, y - 1,
                   extent_role_name(role));
        writer_add(writer, "<text class=\"tick\" x=\"%.1f\" y=\"%.1f\">%s</text>\n", left + 22,
                   y + 12, text_format_bytes(totals[role].peak_bytes, bytes));
    }
}
