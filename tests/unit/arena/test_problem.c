/* Tests of packing problems in CSV: which files are accepted, where a fault is located, and that a
 * written table reads back unchanged. */
#include "arena/formats/formats.h"

#include "base/file.h"
#include "instances.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

static enum status parse(const char *text, struct region *region, struct problem *problem,
                         struct fault *fault) {
    return problem_parse(text, strlen(text), "p.csv", region, problem, fault);
}

static void parse_reads_rows_in_any_column_order(void **state) {
    (void)state;
    static const char *const TEXTS[] = {
        "id,lower,upper,size\nb1,0,3,4\nb2,3,9,18\n",
        "size,upper,lower,id\n4,3,0,b1\n18,9,3,b2",
        " id , lower,upper ,size\r\nb1,0, 3,4\r\n\r\n b2 ,3,9,18\r\n\r\n",
        "id,lower,upper,size,offset\nb1,0,3,4,\nb2,3,9,18,anything\n",
        "id,alignment,lower,upper,size\nb1,1,0,3,4\nb2,1,3,9,18\n",
    };
    for (size_t i = 0; i < ARRAY_COUNT(TEXTS); i++) {
        struct region region = {0};
        struct problem problem;
        struct fault fault;
        assert_int_equal(parse(TEXTS[i], &region, &problem, &fault), OK);
        assert_int_equal(problem.extent_count, 2);
        const struct extent *b1 = &problem.extents[0], *b2 = &problem.extents[1];
        assert_string_equal(b1->name, "b1");
        assert_string_equal(b2->name, "b2");
        assert_true(b1->first == 0 && b1->last == 3 && b1->bytes == 4 && b1->align == 1);
        assert_true(b2->first == 3 && b2->last == 9 && b2->bytes == 18 && b2->align == 1);
        assert_true(b1->space == SPACE_DEVICE);
        region_finish(&region);
    }
}

static void parse_names_the_place_of_a_fault(void **state) {
    (void)state;
    static const struct {
        const char *text, *place, *words;
    } CASES[] = {
        {"", "p.csv:0:1", "empty"},
        {"\n \n", "p.csv:2:1", "empty"},
        {"id,lower,upper\na,0,1\n", "p.csv:1:1", "'size' is a required column, but is missing"},
        {"id,lower,upper,size,gaps\n", "p.csv:1:21", "'gaps' is not a known column"},
        {"id,lower,upper,size,\n", "p.csv:1:21", "'' is not a known column"},
        {"id,lower,lower,size\n", "p.csv:1:10", "'lower' occurs twice"},
        {"id,lower,upper,size\n", "p.csv:1:1", "the file ends after the header"},
        {"id,lower,upper,size\na,0,1\n", "p.csv:2:6", "the row has too few fields"},
        {"id,lower,upper,size\na,0,1,2,3\n", "p.csv:2:9", "'3' is a surplus field"},
        {"id,lower,upper,size\na,-1,1,2\n", "p.csv:2:3", "'-1' is not a whole number"},
        {"id,lower,upper,size\na,0,1,2\nb,0,1.5,2\n", "p.csv:3:5", "'1.5' is not a whole number"},
        {"id,lower,upper,size\na,0,,2\n", "p.csv:2:5", "'' is not a whole number"},
        {"id,lower,upper,size\na,0,1, 0x2\n", "p.csv:2:8", "'0x2' is not a whole number"},
        {"id,lower,upper,size\na,0,1,18446744073709551616\n", "p.csv:2:7", "below 2^64"},
        {"id,lower,upper,size\na,3,3,2\n", "p.csv:2:5", "the lifetime is empty"},
        {"id,lower,upper,size\na,0,4294967296,2\n", "p.csv:2:5", "below 2^32"},
        {"id,lower,upper,size\na,0,1,0\n", "p.csv:2:7", "'0' is not from 1"},
        {"id,lower,upper,size\na,0,1,4611686018427387904\n", "p.csv:2:7", "2^62"},
        {"id,lower,upper,size\na,0,1,4611686018427387800\nb,1,2,200\n", "p.csv:3:7", "exceed 2^62"},
        {"id,lower,upper,size,alignment\na,0,1,2,3\n", "p.csv:2:9", "'3' is not a power of two"},
        {"id,lower,upper,size,alignment\na,0,1,2,0\n", "p.csv:2:9", "'0' is not a power of two"},
        {"id,lower,upper,size\n\x1b[31m,0,1,x\n", "p.csv:2:11", "'x' is no"},
        {"\x1b[31m,lower,upper,size\n", "p.csv:1:1", "'?[31m' is not a known"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(CASES); i++) {
        struct region region = {0};
        struct problem problem = {.extent_count = 77};
        struct fault fault = {0};
        enum status status = parse(CASES[i].text, &region, &problem, &fault);
        if (status != STATUS_INPUT || strcmp(fault.subject, CASES[i].place) != 0 ||
            strstr(fault.reason, CASES[i].words) == NULL || fault.remedy[0] == '\0') {
            print_error("case %zu: status %d, \"%s: %s; %s\"\n", i, status, fault.subject,
                        fault.reason, fault.remedy);
            fail();
        }
        assert_int_equal(problem.extent_count, 77);
        region_finish(&region);
    }
}

static void parse_keeps_the_line_of_a_fault_when_the_path_is_long(void **state) {
    (void)state;
    char path[1000];
    memset(path, 'd', sizeof path);
    memcpy(path + sizeof path - 7, "/p.csv", 7);
    struct region region = {0};
    struct problem problem;
    struct fault fault;
    enum status status = problem_parse("id\n", 3, path, &region, &problem, &fault);
    assert_int_equal(status, STATUS_INPUT);
    assert_non_null(strstr(fault.subject, "/p.csv:1:1"));
    region_finish(&region);
}

static void parse_refuses_too_long_ids_and_nul_bytes(void **state) {
    (void)state;
    char text[512] = "id,lower,upper,size\n";
    size_t head = strlen(text);
    memset(text + head, 'n', PROBLEM_ID_BYTES_MAX + 1);
    memcpy(text + head + PROBLEM_ID_BYTES_MAX + 1, ",0,1,2\n", 8);
    struct region region = {0};
    struct problem problem;
    struct fault fault;
    assert_int_equal(parse(text, &region, &problem, &fault), STATUS_INPUT);
    assert_non_null(strstr(fault.reason, "too long for an id"));
    static const char NUL[] = "id,lower,upper,size\na\0b,0,1,2\n";
    assert_int_equal(problem_parse(NUL, sizeof NUL - 1, "p.csv", &region, &problem, &fault),
                     STATUS_INPUT);
    assert_non_null(strstr(fault.reason, "NUL"));
    region_finish(&region);
}

static void parse_refuses_too_many_rows(void **state) {
    (void)state;
    static const char HEAD[] = "id,lower,upper,size\n", ROW[] = "a,0,1,2\n";
    size_t length = sizeof HEAD - 1;
    char *text = malloc(length + (PROBLEM_EXTENTS_MAX + 1) * (sizeof ROW - 1));
    memcpy(text, HEAD, length);
    for (int i = 0; i <= PROBLEM_EXTENTS_MAX; i++) {
        memcpy(text + length, ROW, sizeof ROW - 1);
        length += sizeof ROW - 1;
    }
    struct region region = {0};
    struct problem problem;
    struct fault fault;
    assert_int_equal(problem_parse(text, length, "p.csv", &region, &problem, &fault), STATUS_INPUT);
    assert_non_null(strstr(fault.reason, "above the limit on the number of rows"));
    length -= sizeof ROW - 1;
    assert_int_equal(problem_parse(text, length, "p.csv", &region, &problem, &fault), OK);
    assert_int_equal(problem.extent_count, PROBLEM_EXTENTS_MAX);
    free(text);
    region_finish(&region);
}

static void write_adds_offsets_and_keeps_the_columns(void **state) {
    (void)state;
    struct region region = {0};
    struct problem problem;
    struct fault fault;
    char buffer[256] = {0};
    int fd = memfd_create("solution", 0);
    assert_int_equal(parse("size,id,alignment,upper,lower\n4,b1,8,3,0\n18,b2,2,9,3\n", &region,
                           &problem, &fault),
                     OK);
    const uint64_t offsets[] = {24, 0};
    assert_int_equal(problem_write(&problem, offsets, fd, "memory", &fault), OK);
    assert_true(pread(fd, buffer, sizeof buffer - 1, 0) > 0);
    assert_string_equal(buffer,
                        "size,id,alignment,upper,lower,offset\n4,b1,8,3,0,24\n18,b2,2,9,3,0\n");
    close(fd);
    region_finish(&region);
}

static void written_problems_read_back_the_same(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < 20; seed++) {
        struct region region = {0};
        struct random_instance with = {.seed = seed,
                                       .count = 1 + (int)seed * 20,
                                       .steps = 1000000,
                                       .life_max = 500000,
                                       .bytes_max = 1ull << 50,
                                       .unit = 1,
                                       .align_max = 4096,
                                       .space_count = 1};
        struct instance instance = instance_random(&with, &region);
        struct problem problem = {
            instance.count, instance.extents, 6, {3, 0, 5, 1, 4, 2}}; /* any order will do */
        struct problem again;
        struct fault fault;
        const uint64_t *offsets = region_alloc(&region, (size_t)instance.count, sizeof *offsets);
        char path[] = "/tmp/skep_problem_XXXXXX";
        int fd = mkstemp(path);
        assert_int_equal(problem_write(&problem, offsets, fd, path, &fault), OK);
        close(fd);
        assert_int_equal(problem_read(path, &region, &again, &fault), OK);
        unlink(path);
        assert_int_equal(again.extent_count, problem.extent_count);
        for (int i = 0; i < instance.count; i++) {
            const struct extent *a = &problem.extents[i], *b = &again.extents[i];
            assert_string_equal(a->name, b->name);
            assert_true(a->bytes == b->bytes && a->align == b->align && a->first == b->first &&
                        a->last == b->last);
        }
        region_finish(&region);
    }
}

static void write_reports_a_full_device(void **state) {
    (void)state;
    struct region region = {0};
    struct problem problem;
    struct fault fault;
    int fd = open("/dev/full", O_WRONLY);
    assert_true(fd >= 0);
    assert_int_equal(parse("id,lower,upper,size\na,0,1,2\n", &region, &problem, &fault), OK);
    assert_int_equal(problem_write(&problem, (const uint64_t[]){0}, fd, "out.csv", &fault),
                     STATUS_FAILED);
    assert_string_equal(fault.subject, "out.csv");
    close(fd);
    region_finish(&region);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parse_reads_rows_in_any_column_order),
        cmocka_unit_test(parse_names_the_place_of_a_fault),
        cmocka_unit_test(parse_keeps_the_line_of_a_fault_when_the_path_is_long),
        cmocka_unit_test(parse_refuses_too_long_ids_and_nul_bytes),
        cmocka_unit_test(parse_refuses_too_many_rows),
        cmocka_unit_test(write_adds_offsets_and_keeps_the_columns),
        cmocka_unit_test(written_problems_read_back_the_same),
        cmocka_unit_test(write_reports_a_full_device),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
