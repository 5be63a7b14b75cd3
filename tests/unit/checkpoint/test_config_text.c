/* config_text: every byte kept but the element type. */
#include "runtime/checkpoint/config_text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { TEXT_BYTES = 512 };

static void dtype_is_set_under_the_spelling_that_is_there(void **state) {
    (void)state;
    static const struct {
        const char *config;
        enum dtype dtype;
        const char *wanted;
    } CASES[] = {
        {"{\"a\": 1, \"torch_dtype\" : \"float32\"}\n", DTYPE_BF16,
         "{\"a\": 1, \"torch_dtype\" : \"bfloat16\"}\n"},
        {"{\"dtype\":\"bfloat16\",\"b\":[\"dtype\"]}", DTYPE_F32,
         "{\"dtype\":\"float32\",\"b\":[\"dtype\"]}"},
        {"{\"dtype\": null}", DTYPE_F16, "{\"dtype\": \"float16\"}"},
        {"{\"torch_dtype\": \"float16\", \"dtype\": \"float16\"}", DTYPE_F32,
         "{\"torch_dtype\": \"float32\", \"dtype\": \"float32\"}"},
        {"{\"sub\": {\"dtype\": \"float16\"}}", DTYPE_F32, "{\"sub\": {\"dtype\": \"float16\"}}"},
        {"{\"sub\": {\"dtype\": \"float16\"}}", DTYPE_BF16,
         "{\n  \"torch_dtype\": \"bfloat16\",\"sub\": {\"dtype\": \"float16\"}}"},
        {"{}", DTYPE_BF16, "{\n  \"torch_dtype\": \"bfloat16\"}"},
        {" { } ", DTYPE_F32, " { } "},
    };
    for (size_t i = 0; i < ARRAY_COUNT(CASES); i++) {
        char out[TEXT_BYTES];
        size_t length = 0;
        struct fault fault;
        assert_int_equal(config_text_set_dtype(CASES[i].config, strlen(CASES[i].config),
                                               CASES[i].dtype, out, sizeof out, &length, &fault),
                         OK);
        assert_string_equal(out, CASES[i].wanted);
        assert_int_equal(length, strlen(CASES[i].wanted));
    }
}

static void text_that_is_no_object_is_refused(void **state) {
    (void)state;
    static const char *const CASES[] = {"", "[]", "{\"a\"}", "{\"a\": 1", "{\"dtype\": }"};
    for (size_t i = 0; i < ARRAY_COUNT(CASES); i++) {
        char out[TEXT_BYTES];
        size_t length = 77;
        struct fault fault = {0};
        assert_int_equal(config_text_set_dtype(CASES[i], strlen(CASES[i]), DTYPE_BF16, out,
                                               sizeof out, &length, &fault),
                         STATUS_INPUT);
        assert_int_equal(length, 77);
        assert_true(fault.reason[0] != '\0');
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dtype_is_set_under_the_spelling_that_is_there),
        cmocka_unit_test(text_that_is_no_object_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
