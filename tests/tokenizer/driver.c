/* Encodes and decodes for compare.py. A request on standard input is a letter, a length of 4 bytes
 * and the payload; the answer is a length and a payload. Each payload consists of items, which are
 * a length and bytes. Letters: e texts to ids, E with the special tokens of the template, l special
 * tokens as plain text; d ids to texts, D without special tokens; t as e, answered with one item,
 * the CPU time in nanoseconds. */
#include "base/fault.h"
#include "base/region.h"
#include "runtime/tokenizer/tokenizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum { IDS_MAX = 1 << 24, PAYLOAD_MAX = 1 << 28 };

struct driver {
    struct tokenizer_encoder *encoder;
    struct tokenizer_decoder *decoder;
    char *payload, *answer; /* [PAYLOAD_MAX] */
    size_t answered;        /* bytes of the answer */
};

static void append(struct driver *driver, const void *bytes, size_t count) {
    ASSERT(driver->answered + count <= PAYLOAD_MAX);
    if (count > 0) {
        memcpy(driver->answer + driver->answered, bytes, count);
    }
    driver->answered += count;
}

static void append_item(struct driver *driver, const void *bytes, size_t count) {
    uint32_t length = (uint32_t)count;
    append(driver, &length, sizeof length);
    append(driver, bytes, count);
}

static struct token_list encode(const struct driver *driver, const char *text, size_t bytes,
                                char letter) {
    struct tokenizer_options options = {.adds_special_tokens = letter == 'E',
                                        .is_literal = letter == 'l'};
    struct token_list list;
    struct fault fault;
    if (tokenizer_encode(driver->encoder, text, bytes, &options, &list, &fault) != OK) {
        fault_print(&fault, 2);
        exit(1);
    }
    return list;
}

static void decode(struct driver *driver, const char *ids, size_t bytes, bool skips) {
    size_t begin = driver->answered;
    append_item(driver, NULL, 0);
    tokenizer_decode_begin(driver->decoder, skips);
    for (size_t at = 0; at <= bytes; at += sizeof(int32_t)) {
        int32_t id = 0;
        memcpy(&id, ids + at, at < bytes ? sizeof id : 0);
        struct token_text piece = at < bytes ? tokenizer_decode_next(driver->decoder, id)
                                             : tokenizer_decode_end(driver->decoder);
        append(driver, piece.bytes, piece.count);
    }
    uint32_t length = (uint32_t)(driver->answered - begin - sizeof length);
    memcpy(driver->answer + begin, &length, sizeof length);
}

static int64_t cpu_ns(void) {
    struct rusage usage;
    (void)getrusage(RUSAGE_SELF, &usage);
    return (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000000 +
           (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1000;
}

static void answer_item(struct driver *driver, const char *item, size_t bytes, char letter) {
    if (letter == 'd' || letter == 'D') {
        decode(driver, item, bytes, letter == 'D');
        return;
    }
    struct token_list list = encode(driver, item, bytes, letter);
    if (letter != 't') {
        append_item(driver, list.ids, list.count * sizeof *list.ids);
    }
}

static void answer(struct driver *driver, size_t bytes, char letter) {
    int64_t begin = cpu_ns();
    uint32_t length;
    driver->answered = 0;
    for (size_t at = 0; at < bytes; at += length) {
        memcpy(&length, driver->payload + at, sizeof length);
        at += sizeof length;
        ASSERT(length <= bytes - at);
        answer_item(driver, driver->payload + at, length, letter);
    }
    if (letter == 't') {
        int64_t spent = cpu_ns() - begin;
        append_item(driver, &spent, sizeof spent);
    }
    length = (uint32_t)driver->answered;
    (void)fwrite(&length, sizeof length, 1, stdout);
    (void)fwrite(driver->answer, 1, driver->answered, stdout);
    (void)fflush(stdout);
}

static bool read_all(void *bytes, size_t count) {
    return fread(bytes, 1, count, stdin) == count;
}

int main(int argc, char **argv) {
    struct region region = {0};
    const struct tokenizer *tokenizer;
    struct fault fault;
    if (argc != 2 || tokenizer_load(argv[1], &region, &tokenizer, &fault) != OK) {
        if (argc == 2) {
            fault_print(&fault, 2);
        }
        return 2;
    }
    struct driver driver = {.encoder = tokenizer_encoder_make(tokenizer, &region),
                            .decoder = tokenizer_decoder_make(tokenizer, IDS_MAX, &region),
                            .payload = region_alloc(&region, PAYLOAD_MAX, 1),
                            .answer = region_alloc(&region, PAYLOAD_MAX, 1)};
    char letter;
    uint32_t count;
    while (read_all(&letter, 1) && read_all(&count, sizeof count) && count <= PAYLOAD_MAX &&
           read_all(driver.payload, count)) {
        answer(&driver, count, letter);
    }
    region_finish(&region);
    return 0;
}
