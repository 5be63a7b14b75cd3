/* Tests of targets/profile: broken profiles are refused where and why, good ones survive
 * writing. */
#include "targets/probe/detect.h"
#include "targets/profile.h"
#include "targets/profiles.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* Small, but with every key: each broken profile below differs from it in one place. */
static const char GOOD[] = "name: box\n"                                             /* 1 */
                           "description: a box\n"                                    /* 2 */
                           "kind: cuda\n"                                            /* 3 */
                           "unified: false\n"                                        /* 4 */
                           "alignment: 256\n"                                        /* 5 */
                           "threads: 8\n"                                            /* 6 */
                           "memory:\n"                                               /* 7 */
                           "  device:\n"                                             /* 8 */
                           "    capacity: 10 GiB\n"                                  /* 9 */
                           "    source: sheet\n"                                     /* 10 */
                           "    declared:\n"                                         /* 11 */
                           "      - {name: context, bytes: 300 MiB, source: seen}\n" /* 12 */
                           "      - {name: other, bytes: 1 GiB, source: guess, per: site}\n"
                           "  pinned: {capacity: 1 GiB, source: s, declared: []}\n" /* 14 */
                           "  host: {capacity: 2 GiB, source: s, declared: []}\n"   /* 15 */
                           "speeds:\n"                                              /* 16 */
                           "  f32_flops: {value: 10e12, source: s}\n"               /* 17 */
                           "  bf16_flops: {value: 20e12, source: s}\n"              /* 18 */
                           "  memory_bandwidth: {value: 300e9, source: s}\n"        /* 19 */
                           "  host_link_bandwidth: {value: 30e9, source: s}\n"      /* 20 */
                           "  peer_link_bandwidth: {value: 15e9, source: s}\n"      /* 21 */
                           "efficiency:\n"                                          /* 22 */
                           "  matmul: {value: 0.7, source: s}\n"                    /* 23 */
                           "  memory: {value: 0.8, source: s}\n"                    /* 24 */
                           "  link: {value: 0.9, source: s}\n"                      /* 25 */
                           "capabilities:\n"                                        /* 26 */
                           "  compute_capability: \"8.6\"\n"                        /* 27 */
                           "  multiprocessors: 28\n";                               /* 28 */

static struct region region;
static struct fault fault;

static int finish_region(void **state) {
    (void)state;
    region_finish(&region);
    return 0;
}

static void read_fills_every_field_from_its_key(void **state) {
    (void)state;
    struct target target;
    assert_int_equal(profile_read(GOOD, strlen(GOOD), "b.yaml", &region, &target, &fault), OK);
    assert_string_equal(target.name, "box");
    assert_string_equal(target.origin, "b.yaml");
    assert_int_equal(target.kind, TARGET_CUDA);
    assert_int_equal(target.align_bytes, 256);
    assert_int_equal(target.threads, 8);
    assert_int_equal(target.spaces[SPACE_DEVICE].capacity_bytes, 10737418240);
    assert_int_equal(target.spaces[SPACE_PINNED].capacity_bytes, 1073741824);
    assert_int_equal(target.spaces[SPACE_HOST].capacity_bytes, 2147483648);
    assert_int_equal(target.spaces[SPACE_DEVICE].declared_use_count, 2);
    assert_string_equal(target.spaces[SPACE_DEVICE].declared[0].name, "context");
    assert_int_equal(target.spaces[SPACE_DEVICE].declared[0].bytes, 314572800);
    assert_string_equal(target.spaces[SPACE_DEVICE].declared[1].source, "guess");
    assert_int_equal(target.spaces[SPACE_DEVICE].declared[0].per, PER_PROCESS);
    assert_int_equal(target.spaces[SPACE_DEVICE].declared[1].per, PER_SITE);
    assert_true(target.f32_flops.value == 10e12 && target.bf16_flops.value == 20e12);
    assert_true(target.memory_bandwidth.value == 300e9);
    assert_true(target.host_link_bandwidth.value == 30e9);
    assert_true(target.peer_link_bandwidth.value == 15e9);
    assert_true(target.matmul_efficiency.value == 0.7 && target.memory_efficiency.value == 0.8);
    assert_true(target.link_efficiency.value == 0.9);
    assert_int_equal(target.compute_major, 8);
    assert_int_equal(target.compute_minor, 6);
    assert_int_equal(target.multiprocessor_count, 28);
    assert_string_equal(target.isa, "");
}

/* GOOD with the first `old` replaced. */
static size_t replaced(const char *old, const char *new, char *out, size_t capacity) {
    const char *at = strstr(GOOD, old);
    assert_non_null(at);
    int length = snprintf(out, capacity, "%.*s%s%s", (int)(at - GOOD), GOOD, new, at + strlen(old));
    assert_true(length > 0 && (size_t)length < capacity);
    return (size_t)length;
}

static void read_refuses_a_broken_profile_where_and_why(void **state) {
    (void)state;
    static const struct {
        const char *old, *new, *place, *reason, *remedy;
    } CASES[] = {
        {"name: box\n", "", "b.yaml:1:1", "name is missing", ""},
        {"name: box", "name:", "b.yaml:1:1", "name has no value", ""},
        {"name: box", "nam: box", "b.yaml:1:1", "nam is not a known key", "did you mean name?"},
        {"kind: cuda", "kind: rocm", "b.yaml:3:1", "kind is \"rocm\"", "one of cpu, cuda"},
        {"unified: false", "unified: no", "b.yaml:4:1", "unified is \"no\"", ""},
        {"alignment: 256", "alignment: 300", "b.yaml:5:1", "not a power of two", ""},
        {"alignment: 256", "alignment: 128", "b.yaml:5:1", "from 256 to 1048576", ""},
        {"threads: 8", "threads: 0", "b.yaml:6:1", "from 1 to 256", ""},
        {"threads: 8", "threads: eight", "b.yaml:6:1", "threads is \"eight\"", ""},
        {"capacity: 10 GiB", "capasity: 10 GiB", "b.yaml:9:5", "memory.device.capasity is not",
         "did you mean memory.device.capacity?"},
        {"capacity: 10 GiB", "capacity: 10 gibi", "b.yaml:9:5", "not a size", ""},
        {"capacity: 10 GiB", "capacity: 0", "b.yaml:9:5", "must not be 0", ""},
        {"    capacity: 10 GiB\n", "", "b.yaml:8:3", "memory.device.capacity is missing", ""},
        {"    source: sheet\n", "", "b.yaml:8:3", "memory.device.source is missing", ""},
        {"bytes: 300 MiB", "bytes: 10 GiB", "b.yaml:12:9", "leaves no memory", ""},
        {"bytes: 1 GiB", "bytes: 9.8 GiB", "b.yaml:13:9", "leaves no memory", ""},
        {"bytes: 300 MiB", "bytes: -1", "b.yaml:12:25", "not a size", ""},
        {"bytes: 300 MiB, source: seen", "bytes: 300 MiB", "b.yaml:12:9", "source is missing", ""},
        {"bytes: 300 MiB", "byts: 300 MiB", "b.yaml:12:25", "declared[0].byts is not",
         "declared[].bytes?"},
        {"{name: other, bytes: 1 GiB, source: guess, per: site}", "other", "b.yaml:13:9",
         "declared[1] is a map of keys", ""},
        {"per: site", "per: rank", "b.yaml:13:52", "declared[1].per is \"rank\", which is unknown",
         "one of process, site, group"},
        {"declared: []}\n  host", "declared: x}\n  host", "b.yaml:14:40", "declared must be a list",
         ""},
        {"unified: false", "unified: true", "b.yaml:14:3",
         "memory.pinned is the same memory as memory.device", "add it to memory.device"},
        {"  host: {capacity: 2 GiB, source: s, declared: []}\n", "", "b.yaml:7:1",
         "memory.host.capacity is missing", ""},
        {"value: 10e12", "value: 10e22", "b.yaml:17:15", "not a number from 1e+06", ""},
        {"value: 10e12", "value: nan", "b.yaml:17:15", "speeds.f32_flops.value is \"nan\"", ""},
        {"  bf16_flops: {value: 20e12, source: s}\n", "", "b.yaml:16:1",
         "speeds.bf16_flops.value is missing", ""},
        {"value: 10e12, source: s", "value: 10e12", "b.yaml:17:3", "source is missing", ""},
        {"f32_flops: {value: 10e12, source: s}", "f32_flops: 10e12", "b.yaml:17:3",
         "is a map of keys", ""},
        {"value: 0.7", "value: 1.7", "b.yaml:23:12", "not a number from 0.01 to 1", ""},
        {"\"8.6\"", "\"8,6\"", "b.yaml:27:3", "write MAJOR.MINOR, such as 8.6", ""},
        {"\"8.6\"", "\"8.66\"", "b.yaml:27:3", "write MAJOR.MINOR, such as 8.6", ""},
        {"multiprocessors: 28", "isa: avx2", "b.yaml:28:3", "does not apply to a cuda target", ""},
        {"kind: cuda", "kind: cpu", "b.yaml:27:3", "does not apply to a cpu target", ""},
        {"threads: 8", "threads: 8\nthreads: 9", "b.yaml:7:1", "appears twice", ""},
        {"threads: 8", "threads: &a 8", "b.yaml:6", "anchors", ""},
        {"threads: 8", "threads: [8", "b.yaml:", "", ""},
    };
    for (size_t i = 0; i < ARRAY_COUNT(CASES); i++) {
        char text[2 * sizeof GOOD];
        size_t length = replaced(CASES[i].old, CASES[i].new, text, sizeof text);
        struct target target = {.name = "untouched"};
        memset(&fault, 0, sizeof fault);
        enum status status = profile_read(text, length, "b.yaml", &region, &target, &fault);
        if (status != STATUS_INPUT ||
            strncmp(fault.subject, CASES[i].place, strlen(CASES[i].place)) != 0 ||
            strstr(fault.reason, CASES[i].reason) == NULL ||
            strstr(fault.remedy, CASES[i].remedy) == NULL) {
            fail_msg("case %zu: status %d, \"%s: %s; %s\"", i, status, fault.subject, fault.reason,
                     fault.remedy);
        }
        assert_string_equal(target.name, "untouched");
    }
}

static void assert_same_space(const struct target_space *a, const struct target_space *b) {
    assert_int_equal(a->capacity_bytes, b->capacity_bytes);
    assert_string_equal(a->capacity_source, b->capacity_source);
    assert_int_equal(a->declared_use_count, b->declared_use_count);
    for (int i = 0; i < a->declared_use_count; i++) {
        assert_string_equal(a->declared[i].name, b->declared[i].name);
        assert_int_equal(a->declared[i].bytes, b->declared[i].bytes);
        assert_string_equal(a->declared[i].source, b->declared[i].source);
        assert_int_equal(a->declared[i].per, b->declared[i].per);
    }
}

static void written_profiles_are_read_back_the_same(void **state) {
    (void)state;
    for (int p = 0; p < EMBEDDED_PROFILE_COUNT; p++) {
        static char buffer[16384];
        struct text text = text_over(buffer, sizeof buffer);
        const struct target *shipped = NULL;
        struct target again;
        assert_int_equal(target_open(EMBEDDED_PROFILES[p].name, &region, &shipped, &fault), OK);
        profile_write(shipped, &text);
        assert_false(text.truncated);
        if (profile_read(buffer, text.length, "again", &region, &again, &fault) != OK) {
            fail_msg("%s: %s", fault.subject, fault.reason);
        }
        assert_string_equal(again.name, shipped->name);
        assert_string_equal(again.description, shipped->description);
        assert_int_equal(again.kind, shipped->kind);
        assert_int_equal(again.unified, shipped->unified);
        assert_int_equal(again.align_bytes, shipped->align_bytes);
        assert_int_equal(again.threads, shipped->threads);
        assert_true(again.bf16_flops.value == shipped->bf16_flops.value);
        assert_true(again.link_efficiency.value == shipped->link_efficiency.value);
        assert_string_equal(again.peer_link_bandwidth.source, shipped->peer_link_bandwidth.source);
        assert_string_equal(again.isa, shipped->isa);
        assert_int_equal(again.compute_major, shipped->compute_major);
        assert_int_equal(again.compute_minor, shipped->compute_minor);
        assert_int_equal(again.multiprocessor_count, shipped->multiprocessor_count);
        for (int space = 0; space < SPACE_COUNT; space++) {
            assert_same_space(&again.spaces[space], &shipped->spaces[space]);
        }
    }
}

static void written_names_survive_quotes_and_colons(void **state) {
    (void)state;
    static char buffer[16384];
    struct text text = text_over(buffer, sizeof buffer);
    struct target target;
    struct target again;
    assert_int_equal(profile_read(GOOD, strlen(GOOD), "b.yaml", &region, &target, &fault), OK);
    target.description = "a \"box\": # with \\ odd, [signs] & more\ttab";
    profile_write(&target, &text);
    assert_int_equal(profile_read(buffer, text.length, "again", &region, &again, &fault), OK);
    assert_string_equal(again.description, target.description);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(read_fills_every_field_from_its_key, finish_region),
        cmocka_unit_test_teardown(read_refuses_a_broken_profile_where_and_why, finish_region),
        cmocka_unit_test_teardown(written_profiles_are_read_back_the_same, finish_region),
        cmocka_unit_test_teardown(written_names_survive_quotes_and_colons, finish_region),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
