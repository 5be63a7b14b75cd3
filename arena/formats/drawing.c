
#include "arena/formats/drawing_profile.h"

#include <string.h>

/* Layout of the page, in CSS pixels. */
enum {
    PAGE_WIDTH = 1360,   /* width of the whole drawing, in px */
    PAGE_HEIGHT = 860,   /* height of the whole drawing, in px */
    PANEL_LEFT = 92,     /* left edge of the drawing of the arena and of the usage curve, in px */
    PANEL_WIDTH = 1060,  /* width of the drawing of the arena and of the usage curve, in px */
    ARENA_TOP = 104,     /* upper edge of the drawing of the arena, in px */
    ARENA_HEIGHT = 500,  /* height of the drawing of the arena, in px */
    CURVE_TOP = 660,     /* upper edge of the usage curve, in px */
    CURVE_HEIGHT = 130,  /* height of the usage curve, in px */
    LEGEND_LEFT = 1180,  /* left edge of the legend of roles, in px */
    NAME_HEIGHT = 11,    /* minimum height of a rectangle that shows a name, in px */
    NAME_BYTES_MAX = 60, /* maximum bytes of a name that are shown */
};

/* average width of a character of the 9 px font, in px */
static const double NAME_BYTE_WIDTH = 5.4;

static const char STYLE[] =
    "<style>\n"
    "text{font-family:'Inter','Helvetica Neue',Helvetica,Arial,'DejaVu Sans',sans-serif;"
    "fill:#1f2933}\n"
    ".title{font-size:19px;font-weight:600}\n"
    ".facts{font-size:12.5px;fill:#52606d}\n"
    ".axis{font-size:11.5px;fill:#52606d}\n"
    ".tick{font-size:11px;fill:#52606d}\n"
    ".role{font-size:12.5px}\n"
    ".name{font-size:9px;fill:#fff;stroke:none;pointer-events:none}\n"
    ".dark{fill:#33290a}\n"
    ".grid{stroke:#e4e7eb;fill:none}\n"
    ".rule{stroke:#9aa5b1;fill:none}\n"
    ".mark{stroke:#616e7c;stroke-dasharray:1 3;fill:none}\n"
    ".peak{stroke:#111827;stroke-dasharray:6 3;fill:none}\n"
    ".note{font-size:11.5px;font-weight:600;paint-order:stroke;stroke:#fff;stroke-width:3px}\n"
    ".e{stroke:#fff;stroke-width:.6}\n"
    ".t{stroke-width:.35}\n"
    "rect.e:hover,rect.t:hover{stroke:#000;stroke-width:1.5}\n"
    "</style>\n";

static struct panel make_arena_panel(const struct drawing *drawing) {
    const struct plan *plan = drawing->plan;
    struct panel panel = {.left = PANEL_LEFT,
                          .top = ARENA_TOP,
                          .width = PANEL_WIDTH,
                          .height = ARENA_HEIGHT,
                          .top_bytes = plan->peak_bytes[drawing->space],
                          .begin = UINT32_MAX};
    for (int i = 0; i < plan->problem.extent_count; i++) {
        const struct extent *extent = &plan->problem.extents[i];
        if (extent->space == drawing->space) {
            panel.begin = extent->first < panel.begin ? extent->first : panel.begin;
            panel.end = extent->last > panel.end ? extent->last : panel.end;
        }
    }
    if (panel.begin >= panel.end) { /* an empty drawing: any range of steps works */
        panel.begin = 0;
        panel.end = 1;
        panel.top_bytes = 1;
    }
    return panel;
}

static void write_svg_head(const struct drawing *drawing, int extent_count, struct writer *writer) {
    const struct plan *plan = drawing->plan;
    enum space space = drawing->space;
    char peak[24], grouped[32];
    writer_add(writer,
               "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" "
               "height=\"%d\" role=\"img\">\n<title>",
               PAGE_WIDTH, PAGE_HEIGHT, PAGE_WIDTH, PAGE_HEIGHT);
    writer_add_xml(writer, drawing->title, 200);
    writer_add(writer, "</title>\n%s<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n",
               STYLE);
    writer_add(writer, "<text class=\"title\" x=\"%d\" y=\"38\">", PANEL_LEFT);
    writer_add_xml(writer, drawing->title, 110);
    writer_add(writer, "</text>\n<text class=\"facts\" x=\"%d\" y=\"60\">", PANEL_LEFT);
    writer_add(writer,
               "%s space: peak %s (%s bytes), %.2f %% above the bound, %d extents, %s</text>\n",
               space_name(space), text_format_bytes(plan->peak_bytes[space], peak),
               text_format_grouped(plan->peak_bytes[space], grouped), peak_gap_percent(plan, space),
               extent_count, plan->heuristic[space]);
}

static void write_tooltip(const struct extent *extent, uint64_t offset, struct writer *writer) {
    char bytes[24], grouped[32];
    writer_add(writer, "<title>");
    writer_add_xml(writer, extent->name, SIZE_MAX);
    writer_add(writer, "\n%s\n%s (%s bytes)\nsteps [%u, %u)\noffset %llu</title>",
               extent_role_name(extent->role), text_format_bytes(extent->bytes, bytes),
               text_format_grouped(extent->bytes, grouped), extent->first, extent->last,
               (unsigned long long)offset);
}

/* Draw one extent as a rectangle. A large rectangle has a border; it shows the extent's name,
 * truncated to fit, if there is space. */
static void write_extent(const struct panel *panel, const struct extent *extent, uint64_t offset,
                         struct writer *writer) {
    double x = panel_x(panel, extent->first);
    double width = panel_x(panel, extent->last) - x;
    double top = panel_y(panel, (double)(offset + extent->bytes));
    double height = panel_y(panel, (double)offset) - top;
    writer_add(writer, "<rect class=\"%s\" x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\">",
               width >= 3 && height >= 3 ? "e" : "t", x, top, width, height > 0.2 ? height : 0.2);
    write_tooltip(extent, offset, writer);
    writer_add(writer, "</rect>\n");
    double room = (width - 8) / NAME_BYTE_WIDTH;
    size_t shown = room > NAME_BYTES_MAX ? NAME_BYTES_MAX : room > 0 ? (size_t)room : 0;
    if (height >= NAME_HEIGHT && shown >= 4) {
        bool is_light = extent->role == ROLE_WORKSPACE || extent->role == ROLE_CACHE;
        writer_add(writer, "<text class=\"name%s\" x=\"%.2f\" y=\"%.2f\">", is_light ? " dark" : "",
                   x + 4, top + height / 2 + 3.2);
        writer_add_xml(writer, extent->name, shown);
        writer_add(writer, "</text>\n");
    }
}

static void write_extents(const struct panel *panel, const struct drawing *drawing,
                          struct writer *writer) {
    for (enum extent_role role = 0; role < ROLE_COUNT; role++) {
        const char *colour = drawing_role_colour(role);
        writer_add(writer, "<g fill=\"%s\" stroke=\"%s\">\n", colour, colour);
        for (int i = 0; i < drawing->plan->problem.extent_count; i++) {
            const struct extent *extent = &drawing->plan->problem.extents[i];
            if (extent->space == drawing->space && extent->role == role) {
                write_extent(panel, extent, drawing->plan->offsets[i], writer);
            }
        }
        writer_add(writer, "</g>\n");
    }
}

/* Draw a horizontal line across the arena at `level_bytes`, and write its name and value at
 * `label_y` on the right. */
static void write_level_line(const struct panel *panel, const char *name, uint64_t level_bytes,
                             double label_y, struct writer *writer) {
    char bytes[24];
    double right = panel->left + panel->width;
    writer_add(writer, "<path class=\"peak\" d=\"M%.1f %.1fH%.1f\"/>\n", panel->left,
               panel_y(panel, (double)level_bytes), right);
    writer_add(writer, "<text class=\"note\" x=\"%.1f\" y=\"%.1f\">%s %s</text>\n", right + 8,
               label_y + 4, name, text_format_bytes(level_bytes, bytes));
}

static void write_peak_lines(const struct panel *panel, const struct panel *curve,
                             const struct drawing *drawing, struct writer *writer) {
    uint64_t peak_bytes = drawing->plan->peak_bytes[drawing->space];
    uint64_t bound_bytes = drawing->plan->bound_bytes[drawing->space];
    uint32_t step = drawing->plan->peak_step[drawing->space];
    double x = panel_x(panel, step + 0.5);
    bool is_right = x > panel->left + panel->width * 0.75;
    char bytes[24];
    write_level_line(panel, "peak", peak_bytes, panel->top, writer);
    if (bound_bytes < peak_bytes) {
        write_level_line(panel, "bound", bound_bytes, panel->top + 17, writer);
    }
    writer_add(writer, "<path class=\"peak\" d=\"M%.1f %.1fV%.1f\"/>\n", x, panel->top,
               curve->top + curve->height);
    writer_add(writer,
               "<text class=\"note\" text-anchor=\"%s\" x=\"%.1f\" y=\"%.1f\">"
               "most alive at step %u: %s</text>\n",
               is_right ? "end" : "start", is_right ? x - 6 : x + 6, curve->top - 10, step,
               text_format_bytes(bound_bytes, bytes));
}

static void write_axes(const struct panel *panel, const struct panel *curve,
                       const struct drawing *drawing, struct writer *writer) {
    write_program_marks(panel, drawing, true, writer);
    write_program_marks(curve, drawing, false, writer);
    write_step_axis(curve, writer);
    writer_add(writer, "<text class=\"axis\" text-anchor=\"end\" x=\"%d\" y=\"%d\">",
               PANEL_LEFT - 8, ARENA_TOP - 14);
    writer_add(writer, "address</text>\n");
    writer_add(writer, "<text class=\"axis\" text-anchor=\"end\" x=\"%d\" y=\"%d\">",
               PANEL_LEFT - 8, CURVE_TOP - 14);
    writer_add(writer, "alive</text>\n");
}

enum status drawing_write(const struct drawing *drawing, int fd, const char *path,
                          struct region *region, struct fault *fault) {
    struct writer writer = writer_for_fd(fd);
    struct role_total totals[ROLE_COUNT];
    int extent_count = 0;
    compute_role_totals(drawing->plan, drawing->space, region, totals);
    for (int role = 0; role < ROLE_COUNT; role++) {
        extent_count += totals[role].extent_count;
    }
    struct panel panel = make_arena_panel(drawing);
    struct panel curve = panel;
    curve.top = CURVE_TOP;
    curve.height = CURVE_HEIGHT;
    write_svg_head(drawing, extent_count, &writer);
    write_byte_axis(&panel, 10, &writer);
    write_byte_axis(&curve, 4, &writer);
    write_extents(&panel, drawing, &writer);
    write_usage_curve(&curve, drawing, region, &writer);
    write_axes(&panel, &curve, drawing, &writer);
    if (extent_count > 0) {
        write_peak_lines(&panel, &curve, drawing, &writer);
    }
    write_role_legend(totals, LEGEND_LEFT, ARENA_TOP + 56, &writer);
    writer_add(&writer, "</svg>\n");
    return writer_end(&writer, path, fault);
}
