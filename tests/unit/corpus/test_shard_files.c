/* Tests of shard_header, shard_writer and validation_split: the bytes of a file, files that are
 * divided, interrupted and continued, and the documents that are kept. */
#include "../train/scratch.h"
#include "base/check.h"
#include "base/file.h"
#include "runtime/corpus/shard_writer.h"
#include "runtime/corpus/validation_split.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { FILE_MAX = 1 << 20 };

static struct fault fault;
static struct shard_writer writer;
static uint8_t bytes[FILE_MAX];

static void must(enum status status) {
    if (status != OK) {
        fail_msg("%s: %s", fault.subject, fault.reason);
    }
}

static size_t read_file(const char *path) {
    size_t length = 0;
    must(file_read_text(path, (char *)bytes, sizeof bytes, &length, &fault));
    return length;
}

static struct shard_header example(int width) {
    struct shard_header header = {.width = width,
                                  .version = width == 2 ? 1 : 7,
                                  .token_count = 123456,
                                  .has_origin = true,
                                  .tokenizer_hash = hash_of("tokenizer", 9),
                                  .tokenizer_version = 3,
                                  .document_token = 50256,
                                  .document_count = 5000000000,
                                  .text_bytes = 1ull << 40};
    return header;
}

static void a_header_is_read_as_it_was_written(void **state) {
    (void)state;
    for (int width = 2; width <= 4; width += 2) {
        uint8_t encoded[SHARD_HEADER_BYTES];
        struct shard_header written = example(width), read;
        shard_header_write(&written, encoded);
        assert_null(shard_header_read(encoded, &read));
        assert_int_equal(read.width, width);
        assert_int_equal(read.token_count, 123456);
        assert_true(read.has_origin && !read.has_mask);
        assert_true(hash_equal(&read.tokenizer_hash, &written.tokenizer_hash));
        assert_int_equal(read.tokenizer_version, 3);
        assert_int_equal(read.document_token, 50256);
        assert_int_equal(read.document_count, 5000000000);
        assert_int_equal(read.text_bytes, 1ull << 40);
    }
}

/* llm.c's programs read three words; its tools write zeros behind them. */
static void llm_c_reads_and_writes_the_same_header(void **state) {
    (void)state;
    static const uint8_t START[] = {0x88, 0xd8, 0x34, 0x01, 1, 0, 0, 0, 0x40, 0xe2, 1, 0};
    static const uint8_t WIDE[] = {0xa1, 0xd9, 0x34, 0x01, 7, 0, 0, 0, 0x40, 0xe2, 1, 0};
    uint8_t encoded[SHARD_HEADER_BYTES];
    struct shard_header header = example(2), read;
    shard_header_write(&header, encoded);
    assert_memory_equal(encoded, START, sizeof START);
    header = example(4);
    shard_header_write(&header, encoded);
    assert_memory_equal(encoded, WIDE, sizeof WIDE);
    memset(encoded, 0, sizeof encoded);
    memcpy(encoded, START, sizeof START);
    assert_null(shard_header_read(encoded, &read));
    assert_false(read.has_origin);
    assert_int_equal(read.document_token, SHARD_NO_DOCUMENT_TOKEN);
    assert_int_equal(read.token_count, 123456);
}

static void damaged_headers_are_rejected(void **state) {
    (void)state;
    static const struct {
        size_t at;
        uint8_t value;
        const char *reason;
    } ROWS[] = {{0, 0, "magic number"},       {4, 2, "version is not 1"},
                {11, 0x80, "negative"},       {4 * 65, 2, "newer version"},
                {4 * 68, 2, "newer version"}, {4 * 67 + 3, 0x80, "document token is negative"}};
    for (size_t i = 0; i < ARRAY_COUNT(ROWS); i++) {
        uint8_t encoded[SHARD_HEADER_BYTES];
        struct shard_header header = example(2), read = {.token_count = 77};
        shard_header_write(&header, encoded);
        encoded[ROWS[i].at] = ROWS[i].value;
        const char *reason = shard_header_read(encoded, &read);
        assert_non_null(reason);
        assert_non_null(strstr(reason, ROWS[i].reason));
        assert_int_equal(read.token_count, 77);
    }
}

/* Adds 25 documents of 7 ids and 30 bytes each. */
static void add_documents(int from, int to) {
    for (int document = from; document < to; document++) {
        int32_t ids[7];
        const struct shard_source source = {.text_bytes = 30, .ends_document = true};
        for (int i = 0; i < 7; i++) {
            ids[i] = document * 7 + i;
        }
        must(shard_writer_add(&writer, ids, 7, &source, &fault));
    }
}

static void begin_writer(int64_t shard_tokens) {
    const struct shard_header header = {.width = 2, .has_origin = true, .document_token = -1};
    shard_writer_init(&writer, ".", "train", &header, shard_tokens);
}

static void check_files(void) {
    static const struct {
        const char *path;
        int64_t tokens;
        uint64_t documents;
    } ROWS[] = {
        {"train_000000.bin", 80, 11}, {"train_000001.bin", 80, 11}, {"train_000002.bin", 15, 3}};
    int32_t expected = 0;
    uint64_t text_bytes = 0;
    for (size_t i = 0; i < ARRAY_COUNT(ROWS); i++) {
        struct shard_header header;
        const size_t length = read_file(ROWS[i].path);
        assert_null(shard_header_read(bytes, &header));
        assert_int_equal(header.token_count, ROWS[i].tokens);
        assert_int_equal(header.document_count, ROWS[i].documents);
        assert_int_equal(length, SHARD_HEADER_BYTES + 2 * ROWS[i].tokens);
        text_bytes += header.text_bytes;
        for (int64_t t = 0; t < ROWS[i].tokens; t++) {
            const uint8_t *at = bytes + SHARD_HEADER_BYTES + 2 * t;
            assert_int_equal(at[0] | at[1] << 8, expected++);
        }
    }
    assert_int_equal(expected, 25 * 7);
    assert_int_equal(text_bytes, 25 * 30);
}

static void tokens_are_divided_between_files(void **state) {
    (void)state;
    begin_writer(80);
    add_documents(0, 25);
    must(shard_writer_end(&writer, &fault));
    assert_int_equal(writer.position.shard, 3);
    check_files();
}

/* An interrupted writer leaves a file that is no token file; another one continues before what it
 * wrote last. */
static void an_interrupted_file_is_continued(void **state) {
    (void)state;
    for (int synced = 0; synced <= 20; synced++) {
        struct shard_header header;
        begin_writer(80);
        add_documents(0, synced);
        must(shard_writer_sync(&writer, &fault));
        const struct shard_position position = writer.position;
        add_documents(synced, 22); /* lost */
        must(shard_writer_sync(&writer, &fault));
        (void)read_file("train_000001.bin");
        assert_non_null(shard_header_read(bytes, &header));
        shard_writer_close(&writer);
        begin_writer(80);
        must(shard_writer_resume(&writer, &position, &fault));
        add_documents(synced, 25);
        must(shard_writer_end(&writer, &fault));
        check_files();
    }
}

static void a_file_that_lost_tokens_is_not_continued(void **state) {
    (void)state;
    begin_writer(80);
    add_documents(0, 5);
    must(shard_writer_sync(&writer, &fault));
    const struct shard_position position = writer.position;
    shard_writer_close(&writer);
    assert_int_equal(truncate("train_000000.bin", SHARD_HEADER_BYTES + 20), 0);
    begin_writer(80);
    assert_int_equal(shard_writer_resume(&writer, &position, &fault), STATUS_INPUT);
    shard_writer_close(&writer);
}

static void one_of_each_group_of_documents_is_kept(void **state) {
    (void)state;
    static const uint64_t SHARES[] = {10, 10000, 33333, 50000, 300000, 500000};
    for (size_t s = 0; s < ARRAY_COUNT(SHARES); s++) {
        const uint64_t share = SHARES[s];
        uint64_t kept = 0;
        uint64_t first = UINT64_MAX;
        for (uint64_t i = 0; i < 300000; i++) {
            const bool has = validation_split_has(i, share);
            first = has && first == UINT64_MAX ? i : first;
            kept += has;
            /* never more than one document away from the share */
            const double due = (double)(i + 1) * (double)share / VALIDATION_MILLION;
            assert_true((double)kept > due - 1.0001 && (double)kept < due + 1.0001);
        }
        if (first != UINT64_MAX) {
            assert_int_equal(validation_split_documents_min(share), first + 1);
        }
    }
    assert_false(validation_split_has(0, 0));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_header_is_read_as_it_was_written),
        cmocka_unit_test(llm_c_reads_and_writes_the_same_header),
        cmocka_unit_test(damaged_headers_are_rejected),
        cmocka_unit_test(tokens_are_divided_between_files),
        cmocka_unit_test(an_interrupted_file_is_continued),
        cmocka_unit_test(a_file_that_lost_tokens_is_not_continued),
        cmocka_unit_test(one_of_each_group_of_documents_is_kept),
    };
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
