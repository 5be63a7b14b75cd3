/* Ranges: copies between random layouts, held against lists of elements made one by one. */
#include "runtime/shard/ranges.h"

#include "base/random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { CASES = 3000, SIDE_MAX = 9, ELEMENTS_MAX = SIDE_MAX * SIDE_MAX * SIDE_MAX * SIDE_MAX };

/* A stream of small numbers from one seed, printed when a case fails. */
struct dice {
    uint64_t key, next;
};

static int roll(struct dice *dice, int below) {
    return (int)(random_uniform(dice->key, dice->next++) * below);
}

static int cells(const struct tensor_layout *layout) {
    int count = 1;
    for (int m = 0; m < layout->mesh_dims; m++) {
        count *= layout->mesh_sizes[m];
    }
    return count;
}

static struct tensor_layout random_layout(struct dice *dice, int rank, const int64_t *shape) {
    struct tensor_layout layout = {.rank = rank, .mesh_dims = roll(dice, 5)};
    for (int dim = 0; dim < rank; dim++) {
        layout.shape[dim] = shape[dim];
    }
    for (int m = 0; m < layout.mesh_dims; m++) {
        layout.mesh_sizes[m] = 1 + roll(dice, m < 2 ? 5 : 3);
        layout.placements[m].kind = roll(dice, 3) == 0 ? PLACEMENT_REPLICATE : PLACEMENT_SHARD;
        layout.placements[m].dim = roll(dice, rank);
    }
    return layout;
}

/* The indices of one dimension that a cell holds, list by list: each split cuts the list into
 * pieces of ceil(length / pieces). */
static int indices_of(const struct tensor_layout *layout, int cell, int dim,
                      int64_t list[SIDE_MAX]) {
    int length = (int)layout->shape[dim];
    for (int i = 0; i < length; i++) {
        list[i] = i;
    }
    int below = cells(layout);
    for (int m = 0; m < layout->mesh_dims; m++) {
        below /= layout->mesh_sizes[m];
        int place = cell / below % layout->mesh_sizes[m];
        if (layout->placements[m].kind != PLACEMENT_SHARD || layout->placements[m].dim != dim) {
            continue;
        }
        int each = (length + layout->mesh_sizes[m] - 1) / layout->mesh_sizes[m];
        int kept = 0;
        for (int i = 0; i < length; i++) {
            if (i / each == place) {
                list[kept++] = list[i];
            }
        }
        length = kept;
    }
    return length;
}

/* The global elements of a cell's buffer, in its order. */
static int elements_of(const struct tensor_layout *layout, int cell, int64_t *elements) {
    int64_t lists[4][SIDE_MAX];
    int lengths[4] = {1, 1, 1, 1};
    for (int dim = 0; dim < layout->rank; dim++) {
        lengths[dim] = indices_of(layout, cell, dim, lists[dim]);
    }
    int count = lengths[0] * lengths[1] * lengths[2] * lengths[3];
    for (int i = 0; i < count; i++) {
        int64_t element = 0;
        int rest = i;
        int below = count;
        for (int dim = 0; dim < layout->rank; dim++) {
            below /= lengths[dim];
            element = element * layout->shape[dim] + lists[dim][rest / below];
            rest %= below;
        }
        elements[i] = element;
    }
    return count;
}

static void check_target(const struct tensor_layout *from, const struct tensor_layout *to,
                         int target, int number) {
    static int64_t wanted[ELEMENTS_MAX];
    static int64_t held[ELEMENTS_MAX];
    struct region region = {0};
    struct range_copy *copies;
    int count = ranges_between(from, to, target, &region, &copies);
    int elements = elements_of(to, target, wanted);
    assert_int_equal(ranges_local_elements(to, target), elements);
    int64_t filled = 0;
    for (int c = 0; c < count; c++) {
        const struct range_copy *copy = &copies[c];
        assert_true(copy->target == target && copy->to == filled && copy->count > 0);
        assert_true(copy->source >= 0 && copy->source < cells(from));
        int have = elements_of(from, copy->source, held);
        assert_int_equal(ranges_local_elements(from, copy->source), have);
        assert_true(copy->from >= 0 && copy->from + copy->count <= have);
        if (memcmp(&held[copy->from], &wanted[copy->to], (size_t)copy->count * sizeof held[0]) !=
            0) {
            fail_msg("case %d: copy %d of cell %d brings other elements", number, c, target);
        }
        bool merged = c == 0 || copy[-1].source != copy->source ||
                      copy[-1].from + copy[-1].count != copy->from;
        assert_true(merged);
        filled += copy->count;
    }
    assert_int_equal(filled, elements);
    region_finish(&region);
}

static void any_layout_becomes_any_other(void **state) {
    (void)state;
    struct dice dice = {.key = random_key(20, "ranges")};
    for (int number = 0; number < CASES; number++) {
        int64_t shape[4];
        int rank = 1 + roll(&dice, 4);
        for (int dim = 0; dim < rank; dim++) {
            shape[dim] = 1 + roll(&dice, rank > 2 ? 6 : SIDE_MAX);
        }
        struct tensor_layout from = random_layout(&dice, rank, shape);
        struct tensor_layout to = random_layout(&dice, rank, shape);
        check_target(&from, &to, roll(&dice, cells(&to)), number);
    }
}

static void the_same_layout_copies_only_from_itself(void **state) {
    (void)state;
    struct dice dice = {.key = random_key(21, "same")};
    for (int number = 0; number < CASES; number++) {
        int64_t shape[2] = {1 + roll(&dice, SIDE_MAX), 1 + roll(&dice, SIDE_MAX)};
        struct tensor_layout layout = random_layout(&dice, 2, shape);
        struct region region = {0};
        struct range_copy *copies;
        int target = roll(&dice, cells(&layout));
        int count = ranges_between(&layout, &layout, target, &region, &copies);
        int64_t elements = ranges_local_elements(&layout, target);
        assert_int_equal(count, elements > 0);
        assert_true(count == 0 || (copies[0].source == target && copies[0].from == 0 &&
                                   copies[0].to == 0 && copies[0].count == elements));
        region_finish(&region);
    }
}

/* Seven rows over three ranks: 3, 3, 1; over five: 2, 2, 2, 1, 0. */
static void rows_are_cut_by_ceil_chunks(void **state) {
    (void)state;
    const struct tensor_layout three = {.rank = 2,
                                        .shape = {7, 10},
                                        .mesh_dims = 1,
                                        .mesh_sizes = {3},
                                        .placements = {{PLACEMENT_SHARD, 0}}};
    struct tensor_layout five = three;
    five.mesh_sizes[0] = 5;
    static const int64_t WANTED[5] = {20, 20, 20, 10, 0};
    for (int cell = 0; cell < 5; cell++) {
        assert_int_equal(ranges_local_elements(&five, cell), WANTED[cell]);
    }
    struct region region = {0};
    struct range_copy *copies;
    assert_int_equal(ranges_between(&three, &five, 1, &region, &copies), 2);
    assert_memory_equal(&copies[0], &((struct range_copy){0, 1, 20, 0, 10}), sizeof *copies);
    assert_memory_equal(&copies[1], &((struct range_copy){1, 1, 0, 10, 10}), sizeof *copies);
    assert_int_equal(ranges_between(&three, &five, 4, &region, &copies), 0);
    region_finish(&region);
}

static void big_tensors_need_few_copies(void **state) {
    (void)state;
    struct tensor_layout eight = {.rank = 2,
                                  .shape = {262144, 16384},
                                  .mesh_dims = 1,
                                  .mesh_sizes = {8},
                                  .placements = {{PLACEMENT_SHARD, 0}}};
    struct tensor_layout whole = {.rank = 2, .shape = {262144, 16384}};
    struct region region = {0};
    struct range_copy *copies;
    assert_int_equal(ranges_between(&eight, &whole, 0, &region, &copies), 8);
    assert_int_equal(copies[7].to, 7LL * 32768 * 16384);
    assert_int_equal(ranges_between(&whole, &eight, 3, &region, &copies), 1);
    assert_int_equal(copies[0].from, 3LL * 32768 * 16384);
    region_finish(&region);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_layout_becomes_any_other),
        cmocka_unit_test(the_same_layout_copies_only_from_itself),
        cmocka_unit_test(rows_are_cut_by_ceil_chunks),
        cmocka_unit_test(big_tensors_need_few_copies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
