/* Tests of the drawing: the document is well formed, each extent is one rectangle at the right
 * place, and a small drawing equals a golden file (SKEP_GOLDEN_WRITE=1 writes it). */
#include "arena/formats/formats.h"
#include "instances.h"

#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

enum { SVG_BYTES_MAX = 1 << 22 };

static char svg[SVG_BYTES_MAX], golden[SVG_BYTES_MAX];

static size_t draw(const struct drawing *drawing, struct region *region) {
    struct fault fault;
    int fd = memfd_create("svg", 0);
    assert_int_equal(drawing_write(drawing, fd, "memory", region, &fault), OK);
    ssize_t length = pread(fd, svg, sizeof svg - 1, 0);
    assert_in_range(length, 1, sizeof svg - 2);
    svg[length] = '\0';
    close(fd);
    return (size_t)length;
}

/* Every tag that is opened is closed, in order; no stray '<' or '&'. */
static void assert_well_formed(const char *text) {
    char open[16][16];
    int depth = 0;
    for (const char *c = text; *c != '\0'; c++) {
        if (*c == '&') {
            assert_true(strncmp(c, "&amp;", 5) == 0 || strncmp(c, "&lt;", 4) == 0 ||
                        strncmp(c, "&gt;", 4) == 0);
        }
        if (*c != '<') {
            continue;
        }
        const char *end = strchr(c, '>');
        assert_non_null(end);
        bool closes = c[1] == '/';
        const char *name = c + 1 + closes;
        size_t length = strcspn(name, " >/");
        assert_in_range(length, 1, 15);
        if (closes) {
            assert_true(depth > 0 && strlen(open[depth - 1]) == length);
            assert_memory_equal(open[--depth], name, length);
        } else if (end[-1] != '/') {
            assert_true(depth < 16);
            snprintf(open[depth++], 16, "%.*s", (int)length, name);
        }
        c = end;
    }
    assert_int_equal(depth, 0);
}

static int count_of(const char *text, const char *word) {
    int count = 0;
    for (const char *c = strstr(text, word); c != NULL; c = strstr(c + 1, word)) {
        count++;
    }
    return count;
}

static void drawing_has_one_rectangle_for_each_extent_of_the_space(void **state) {
    (void)state;
    struct region region = {0};
    struct random_instance with = {.seed = 5,
                                   .count = 300,
                                   .steps = 200,
                                   .life_max = 60,
                                   .bytes_max = 1 << 20,
                                   .unit = 256,
                                   .align_max = 256,
                                   .space_count = SPACE_COUNT};
    struct instance instance = instance_random(&with, &region);
    struct plan plan;
    instance_plan(&instance, &region, &plan);
    int drawn = 0;
    for (enum space space = 0; space < SPACE_COUNT; space++) {
        struct drawing drawing = {&plan, space, "random", NULL, 0};
        draw(&drawing, &region);
        assert_well_formed(svg);
        drawn += count_of(svg, "<rect class=");
        assert_int_equal(count_of(svg, "\nsteps ["), count_of(svg, "<rect class="));
    }
    assert_int_equal(drawn, instance.count);
    region_finish(&region);
}

/* The tooltip gives bytes and steps, the rectangle gives pixels: one scale must hold for all. */
static void drawing_is_to_scale(void **state) {
    (void)state;
    struct region region = {0};
    struct instance training = instance_training(4, &region);
    struct plan plan;
    instance_plan(&training, &region, &plan);
    struct drawing drawing = {&plan, SPACE_DEVICE, "to scale", NULL, 0};
    draw(&drawing, &region);
    double bottom = -1, step_pixels = -1, byte_pixels = -1;
    int seen = 0;
    for (const char *c = strstr(svg, "<rect class="); c != NULL;
         c = strstr(c + 1, "<rect class=")) {
        double x, y, width, height;
        unsigned first, last;
        unsigned long long offset;
        const char *steps = strstr(c, "\nsteps [");
        assert_int_equal(sscanf(strstr(c, "x=") - 1,
                                " x=\"%lf\" y=\"%lf\" width=\"%lf\" height=\"%lf\"", &x, &y, &width,
                                &height),
                         4);
        assert_int_equal(sscanf(steps, "\nsteps [%u, %u)\noffset %llu", &first, &last, &offset), 3);
        uint64_t bytes = 0;
        for (int i = 0; i < training.count; i++) {
            const struct extent *extent = &training.extents[i];
            if (extent->first == first && extent->last == last && plan.offsets[i] == offset) {
                bytes = extent->bytes;
            }
        }
        assert_true(bytes > 0);
        if (bytes < 4 << 20) {
            continue; /* too small to measure a scale by */
        }
        if (seen++ == 0) {
            step_pixels = width / (last - first);
            byte_pixels = height / (double)bytes;
            bottom = y + height + (double)offset * byte_pixels;
        }
        assert_true(fabs(width - step_pixels * (last - first)) < 0.05);
        assert_true(fabs(height - byte_pixels * (double)bytes) < 0.05);
        assert_true(fabs(y + height + (double)offset * byte_pixels - bottom) < 0.5);
    }
    assert_true(seen > 8);
    region_finish(&region);
}

static void names_cannot_break_the_document(void **state) {
    (void)state;
    struct region region = {0};
    struct extent extents[] = {
        {"</title><script>alert(1)</script>", ROLE_CACHE, SPACE_HOST, 512, 256, 0, 9},
        {"a&b \x01\xff\"'", ROLE_BATCH, SPACE_HOST, 100, 4, 0, 9},
    };
    struct drawing_mark marks[] = {{"<begin>", 0}, {"a & b", 4}};
    struct plan plan;
    arena_plan(&(struct arena_problem){extents, 2}, &region, &plan);
    struct drawing drawing = {&plan, SPACE_HOST, "<&>", marks, 2};
    draw(&drawing, &region);
    assert_well_formed(svg);
    assert_null(strstr(svg, "<script"));
    assert_non_null(strstr(svg, "a&amp;b ??\"'"));
    assert_non_null(strstr(svg, "&lt;begin&gt;"));
    region_finish(&region);
}

static void an_empty_space_is_drawn_empty(void **state) {
    (void)state;
    struct region region = {0};
    struct plan plan;
    arena_plan(&(struct arena_problem){0}, &region, &plan);
    struct drawing drawing = {&plan, SPACE_PINNED, "nothing", NULL, 0};
    draw(&drawing, &region);
    assert_well_formed(svg);
    assert_int_equal(count_of(svg, "<rect class="), 0);
    assert_null(strstr(svg, "nan"));
    region_finish(&region);
}

static void drawing_reports_a_full_device(void **state) {
    (void)state;
    struct region region = {0};
    struct fault fault;
    struct plan plan;
    arena_plan(&(struct arena_problem){0}, &region, &plan);
    struct drawing drawing = {&plan, SPACE_PINNED, "nothing", NULL, 0};
    int fd = open("/dev/full", O_WRONLY);
    assert_int_equal(drawing_write(&drawing, fd, "plan.svg", &region, &fault), STATUS_FAILED);
    assert_string_equal(fault.subject, "plan.svg");
    close(fd);
    region_finish(&region);
}

static void drawing_of_a_small_stack_is_the_golden_one(void **state) {
    (void)state;
    static const char PATH[] = GOLDEN_FOLDER "/arena_stack.svg";
    struct region region = {0};
    struct instance stack = instance_stack(6, &region);
    struct drawing_mark marks[] = {{"forward", 0}, {"backward", 6}};
    struct plan plan;
    instance_plan(&stack, &region, &plan);
    struct drawing drawing = {&plan, SPACE_DEVICE, "a stack of six layers", marks, 2};
    size_t length = draw(&drawing, &region);
    bool writes = getenv("SKEP_GOLDEN_WRITE") != NULL;
    int fd = open(PATH, writes ? O_WRONLY | O_CREAT | O_TRUNC : O_RDONLY, 0644);
    assert_true(fd >= 0);
    if (writes) {
        assert_int_equal(write(fd, svg, length), length);
    } else {
        ssize_t golden_length = read(fd, golden, sizeof golden - 1);
        assert_true(golden_length >= 0);
        golden[golden_length] = '\0';
        assert_string_equal(svg, golden);
    }
    close(fd);
    region_finish(&region);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(drawing_has_one_rectangle_for_each_extent_of_the_space),
        cmocka_unit_test(drawing_is_to_scale),
        cmocka_unit_test(names_cannot_break_the_document),
        cmocka_unit_test(an_empty_space_is_drawn_empty),
        cmocka_unit_test(drawing_reports_a_full_device),
        cmocka_unit_test(drawing_of_a_small_stack_is_the_golden_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
