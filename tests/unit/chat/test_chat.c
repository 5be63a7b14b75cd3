/* Tests of chat: texts and trained ranges as transformers has them (make_fixtures.py), templates by
 * their hash, and conversations that are rejected. An argument names another file of fixtures. */
#include "base/check.h"
#include "base/file.h"
#include "base/text.h"
#include "runtime/chat/chat.h"
#include "runtime/chat/chat_template.h"
#include "tests/unit/train/scratch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { FIXTURE_BYTES_MAX = 1 << 27, RANGES_MAX = 64 };

static const char *fixtures_path;

/* ---- texts ---- */

static const char *text_of(const struct json_node *object, const char *key) {
    struct fault fault;
    const char *text = NULL;
    assert_int_equal(json_get_text(object, key, &text, NULL, &fault), OK);
    assert_non_null(text);
    return text;
}

static bool truth_of(const struct json_node *object, const char *key) {
    struct fault fault;
    bool truth = false;
    assert_int_equal(json_get_bool(object, key, &truth, NULL, &fault), OK);
    return truth;
}

/* The trained ranges of a text; neighbours are joined. Returns their number. */
static int trained_ranges(const struct chat_text *text, int64_t ranges[RANGES_MAX][2]) {
    int count = 0;
    assert_true(text->segment_count > 0 && text->segments[0].begin == 0);
    for (int i = 0; i < text->segment_count; i++) {
        const struct chat_segment *segment = &text->segments[i];
        const size_t end = i + 1 < text->segment_count ? segment[1].begin : (size_t)text->length;
        assert_true(segment->begin <= end);
        if (segment->is_trained && segment->begin < end) {
            assert_true(count < RANGES_MAX);
            ranges[count][0] = (int64_t)segment->begin;
            ranges[count++][1] = (int64_t)end;
        }
    }
    return count;
}

static void check_ranges(const struct json_node *fixture, const struct chat_text *text) {
    struct fault fault;
    struct json_node list;
    int64_t ranges[RANGES_MAX][2];
    const int count = trained_ranges(text, ranges);
    assert_int_equal(json_require(fixture, "trained", &list, &fault), OK);
    assert_int_equal(json_child_count(&list), count);
    for (int i = 0; i < count; i++) {
        const struct json_node pair = json_element(&list, (size_t)i);
        for (size_t end = 0; end < 2; end++) {
            const struct json_node node = json_element(&pair, end);
            int64_t expected = -1;
            assert_int_equal(json_as_i64(&node, &expected, &fault), OK);
            assert_int_equal(ranges[i][end], expected);
        }
    }
}

static void check_fixture(const struct json_node *fixture, struct chat_text *text) {
    struct fault fault = {0};
    struct json_node conversation;
    const struct chat_options options = {.chat = chat_template_by_name(text_of(fixture, "name")),
                                         .date = text_of(fixture, "date_string"),
                                         .bos = text_of(fixture, "bos_token"),
                                         .eos = text_of(fixture, "eos_token"),
                                         .is_thinking = truth_of(fixture, "thinking"),
                                         .starts_answer = truth_of(fixture, "starts_answer")};
    assert_non_null(options.chat);
    assert_int_equal(json_require(fixture, "conversation", &conversation, &fault), OK);
    if (chat_render(&options, &conversation, text, &fault) != OK) {
        print_error("%s: %s\n", fault.subject, fault.reason);
        fail();
    }
    assert_string_equal(text->bytes, text_of(fixture, "text"));
    check_ranges(fixture, text);
}

static void texts_equal_the_reference(void **state) {
    (void)state;
    struct region region = {0};
    struct chat_text text = {.region = &region};
    struct fault fault = {0};
    char *line = NULL;
    size_t length;
    int count = 0;
    assert_int_equal(
        file_read_into_region(fixtures_path, FIXTURE_BYTES_MAX, &region, &line, &length, &fault),
        OK);
    for (char *end; (end = strchr(line, '\n')) != NULL; line = end + 1) {
        struct json_document fixture;
        char name[32];
        snprintf(name, sizeof name, "fixture %d", ++count);
        assert_int_equal(
            json_parse(line, (size_t)(end - line), FIXTURE_BYTES_MAX, name, &fixture, &fault), OK);
        check_fixture(&fixture.root, &text);
        json_finish(&fixture);
    }
    assert_true(count >= 60);
    region_finish(&region);
}

/* ---- turns ---- */

/* Renders a conversation given as JSON, and as turns. */
static void check_turns(const char *name, bool is_thinking, const struct chat_turn *turns,
                        int count) {
    struct region region = {0};
    struct fault fault = {0};
    struct json_document document;
    struct chat_text wanted = {.region = &region}, found = {.region = &region};
    const struct chat_options options = {.chat = chat_template_by_name(name),
                                         .date = CHAT_DATE,
                                         .bos = "<s>",
                                         .eos = "</s>",
                                         .is_thinking = is_thinking,
                                         .starts_answer = true};
    char line[1024];
    size_t content_bytes = 0;
    struct text text = text_over(line, sizeof line);
    text_add(&text, "{\"messages\": [");
    for (int i = 0; i < count; i++) {
        text_add(&text, "%s{\"role\": \"%s\", \"content\": ", i > 0 ? ", " : "", turns[i].role);
        text_add_json(&text, turns[i].content);
        text_add(&text, "}");
        content_bytes += strlen(turns[i].content);
    }
    text_add(&text, "]}");
    assert_int_equal(json_parse(line, text.length, sizeof line, "line", &document, &fault), OK);
    assert_int_equal(chat_render(&options, &document.root, &wanted, &fault), OK);
    chat_text_reserve(&found, &options, count, content_bytes);
    process_seal(); /* growth would end the test */
    assert_int_equal(chat_render_turns(&options, turns, count, &found, &fault), OK);
    process_unseal();
    assert_string_equal(found.bytes, wanted.bytes);
    assert_true((size_t)found.length <= chat_text_bytes_max(&options, count, content_bytes));
    json_finish(&document);
    region_finish(&region);
}

static void turns_are_rendered_as_messages_without_allocation(void **state) {
    (void)state;
    static const char *const NAMES[] = {"ChatML",
                                        "Llama 3",
                                        "Llama 3.1 and 3.3",
                                        "Llama 3.2",
                                        "Mistral 7B Instruct v0.3",
                                        "Qwen 2",
                                        "Qwen 2.5",
                                        "Qwen 3"};
    static const struct chat_turn TURNS[] = {{"system", "Be brief."},
                                             {"user", " What? "},
                                             {"assistant", "<think>\nSo\n</think>\n\nThat."},
                                             {"user", "Wax"},
                                             {"assistant", ""},
                                             {"user", ""}};
    for (size_t i = 0; i < ARRAY_COUNT(NAMES); i++) {
        for (int count = 2; count <= (int)ARRAY_COUNT(TURNS); count += 2) {
            check_turns(NAMES[i], count % 4 == 0, TURNS, count);
            check_turns(NAMES[i], count % 4 == 2, TURNS + 1, count - 1);
        }
    }
}

/* ---- conversations that are rejected ---- */

static void bad_conversations_are_rejected(void **state) {
    (void)state;
    static const struct {
        const char *name, *line, *reason;
    } ROWS[] = {
        {"ChatML", "{}", "`messages` is missing"},
        {"ChatML", "{\"messages\": null}", "`messages` is null"},
        {"ChatML", "{\"messages\": [{\"role\": \"user\", \"content\": null}]}",
         "`messages[0].content` is null"},
        {"ChatML", "{\"messages\": []}", "`messages` has 0 messages"},
        {"ChatML", "{\"messages\": [1]}", "`messages[0]` is the integer 1, expected an object"},
        {"ChatML", "{\"messages\": [{\"content\": \"x\"}]}", "`messages[0].role` is missing"},
        {"ChatML", "{\"messages\": [{\"role\": \"user\"}]}", "`messages[0].content` is missing"},
        {"ChatML", "{\"messages\": [{\"role\": \"user\", \"content\": [\"x\"]}]}",
         "`messages[0].content` is an array, expected a string"},
        {"ChatML", "{\"messages\": [{\"role\": \"bot\", \"content\": \"x\"}]}",
         "`messages[0].role` is \"bot\"; it must be system, user, assistant"},
        {"ChatML", "{\"messages\": [{\"role\": \"tool\", \"content\": \"x\"}]}",
         "`messages[0].role` is \"tool\"; it must be system, user, assistant"},
        {"ChatML", "{\"messages\": [{\"role\": \"user\", \"content\": \"x\"}], \"tools\": [{}]}",
         "`tools` cannot be rendered: the template ChatML does not support tools"},
        {"Qwen 3",
         "{\"messages\": [{\"role\": \"user\", \"content\": \"x\", \"tool_calls\": [{}]}]}",
         "`messages[0].tool_calls` belongs to a message of the role \"user\""},
        {"Llama 3.2", "{\"messages\": [{\"role\": \"assistant\", \"tool_calls\": [{}, {}]}]}",
         "`messages[0].tool_calls` has 2 calls"},
        {"Mistral 7B Instruct v0.3",
         "{\"messages\": [{\"role\": \"assistant\", \"content\": \"x\"}]}",
         "`messages[0].role` is \"assistant\"; after an optional system message"},
        {"Mistral 7B Instruct v0.3",
         "{\"messages\": [{\"role\": \"user\", \"content\": \"x\"}, {\"role\": \"assistant\", "
         "\"tool_calls\": [{\"id\": \"1\", \"name\": \"f\", \"arguments\": {}}]}]}",
         "`messages[1].tool_calls[0].id` has 1 characters"},
    };
    struct region region = {0};
    struct chat_text text = {.region = &region};
    for (size_t i = 0; i < ARRAY_COUNT(ROWS); i++) {
        struct fault fault = {0};
        struct json_document document;
        const struct chat_options options = {
            .chat = chat_template_by_name(ROWS[i].name), .date = "", .bos = "", .eos = ""};
        assert_int_equal(json_parse(ROWS[i].line, strlen(ROWS[i].line), FIXTURE_BYTES_MAX, "line",
                                    &document, &fault),
                         OK);
        assert_int_equal(chat_render(&options, &document.root, &text, &fault), STATUS_INPUT);
        if (strstr(fault.reason, ROWS[i].reason) == NULL) {
            print_error("row %zu: %s\n", i, fault.reason);
            fail();
        }
        json_finish(&document);
    }
    region_finish(&region);
}

static void special_tokens_in_a_text_are_rejected(void **state) {
    (void)state;
    static const char LINE[] =
        "{\"messages\": [{\"role\": \"user\", \"content\": \"a <|endoftext|> b\"}]}";
    struct region region = {0};
    struct fault fault = {0};
    struct json_document document;
    struct chat_options options = {.chat = chat_template_by_name("ChatML")};
    struct chat_text text = {.region = &region};
    assert_int_equal(
        json_parse(LINE, strlen(LINE), sizeof LINE, "chats.jsonl:7", &document, &fault), OK);
    assert_int_equal(tokenizer_load(SMALL_TOKENIZER, &region, &options.guard, &fault), OK);
    assert_int_equal(chat_render(&options, &document.root, &text, &fault), STATUS_INPUT);
    assert_string_equal(fault.subject, "chats.jsonl:7");
    assert_string_equal(fault.reason, "`messages[0]` contains the control token <|endoftext|>");
    options.guard = NULL;
    assert_int_equal(chat_render(&options, &document.root, &text, &fault), OK);
    assert_string_equal(text.bytes, "<|im_start|>user\na <|endoftext|> b<|im_end|>\n");
    json_finish(&document);
    region_finish(&region);
}

/* ---- templates ---- */

static const char CHATML[] =
    "{%- for message in messages %}\n"
    "{{- '<|im_start|>' ~ message.role ~ '\\n' ~ message.content ~ '<|im_end|>\\n' }}\n"
    "{%- endfor %}\n"
    "{%- if add_generation_prompt %}\n"
    "{{- '<|im_start|>assistant\\n' }}\n"
    "{%- endif %}";

static void write_config(const char *path, const char *template_text, bool is_list) {
    char config[2048];
    struct text text = text_over(config, sizeof config);
    text_add(&text, is_list ? "{\"chat_template\": [{\"name\": \"rag\", \"template\": \"x\"}, "
                              "{\"name\": \"default\", \"template\": "
                            : "{\"chat_template\": ");
    text_add_json(&text, template_text);
    text_add(&text, is_list ? "}]}" : "}");
    assert_false(text.truncated);
    scratch_write_text(path, config);
}

static void templates_are_found_by_their_hash(void **state) {
    (void)state;
    const struct chat_template *found = NULL;
    struct fault fault = {0};
    write_config("config/tokenizer_config.json", CHATML, false);
    write_config("list/tokenizer_config.json", CHATML, true);
    write_config("both/tokenizer_config.json", "other", false);
    scratch_write_text("both/chat_template.jinja", CHATML);
    static const char *const FOLDERS[] = {"config", "list", "both"};
    for (size_t i = 0; i < ARRAY_COUNT(FOLDERS); i++) {
        found = NULL;
        assert_int_equal(chat_template_find(FOLDERS[i], NULL, &found, &fault), OK);
        assert_string_equal(chat_template_name(found), "ChatML of docs/DATA.md");
    }
    write_config("unknown/tokenizer_config.json", "other", false);
    assert_int_equal(chat_template_find("unknown", NULL, &found, &fault), STATUS_INPUT);
    assert_non_null(strstr(fault.reason, "hash "));
    assert_non_null(strstr(fault.remedy, "--template or data.chat: chatml, llama3, mistral"));
    scratch_write_text("none/tokenizer_config.json", "{}");
    assert_int_equal(chat_template_find("none", NULL, &found, &fault), STATUS_INPUT);
    assert_string_equal(fault.reason, "has no chat template");
}

static void templates_are_chosen_by_their_name(void **state) {
    (void)state;
    static const char *const ROWS[][2] = {{"chatml", "ChatML"},
                                          {"llama3", "Llama 3.2"},
                                          {"mistral", "Mistral 7B Instruct v0.3"},
                                          {"qwen3", "Qwen 3"}};
    const struct chat_template *found = NULL;
    struct fault fault = {0};
    for (size_t i = 0; i < ARRAY_COUNT(ROWS); i++) {
        assert_int_equal(chat_template_find("missing", ROWS[i][0], &found, &fault), OK);
        assert_string_equal(chat_template_name(found), ROWS[i][1]);
    }
    assert_int_equal(chat_template_find("missing", "alpaca", &found, &fault), STATUS_USAGE);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_equal_the_reference),
        cmocka_unit_test(turns_are_rendered_as_messages_without_allocation),
        cmocka_unit_test(bad_conversations_are_rejected),
        cmocka_unit_test(special_tokens_in_a_text_are_rejected),
        cmocka_unit_test(templates_are_found_by_their_hash),
        cmocka_unit_test(templates_are_chosen_by_their_name),
    };
    fixtures_path = argc > 1 ? argv[1] : FIXTURES;
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
