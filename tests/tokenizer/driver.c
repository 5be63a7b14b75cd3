/* Encodes and decodes for compare.py. A request on standard input is a letter, a length of 4 bytes
 * and the payload; the answer is a length and a payload. Letters: e text to ids, E with the special
 * tokens of the template, l special tokens as plain text; d ids to text, D without special tokens;
 * t ids of documents that NUL bytes divide, answered with the CPU time in nanoseconds only. */
#include "base/fault.h"
#include "base/region.h"
#include "runtime/tokenizer/tokenizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum { IDS_MAX = 1 << 24, TEXT_BYTES_MAX = 1 << 28 };

struct driver {
    struct tokenizer_encoder *encoder;
    struct tokenizer_decoder *decoder;
    char *payload, *text; /* [TEXT_BYTES_MAX] */
};

static void answer(const void *bytes, size_t count) {
    uint32_t length = (uint32_t)count;
    (void)fwrite(&length, sizeof length, 1, stdout);
    (void)fwrite(bytes, 1, count, stdout);
    (void)fflush(stdout);
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

static void append(struct driver *driver, size_t *filled, struct token_text piece) {
    ASSERT(*filled + piece.count <= TEXT_BYTES_MAX);
    memcpy(driver->text + *filled, piece.bytes, piece.count);
    *filled += piece.count;
}

static void decode(struct driver *driver, size_t bytes, bool skips) {
    size_t filled = 0;
    tokenizer_decode_begin(driver->decoder, skips);
    for (size_t at = 0; at < bytes; at += sizeof(int32_t)) {
        int32_t id;
        memcpy(&id, driver->payload + at, sizeof id);
        append(driver, &filled, tokenizer_decode_next(driver->decoder, id));
    }
    append(driver, &filled, tokenizer_decode_end(driver->decoder));
    answer(driver->text, filled);
}

static int64_t cpu_ns(void) {
    struct rusage usage;
    (void)getrusage(RUSAGE_SELF, &usage);
    return (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000000 +
           (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1000;
}

static void time_documents(const struct driver *driver, size_t bytes) {
    int64_t begin = cpu_ns();
    for (size_t at = 0; at < bytes;) {
        const char *end = memchr(driver->payload + at, 0, bytes - at);
        size_t count = end == NULL ? bytes - at : (size_t)(end - driver->payload) - at;
        (void)encode(driver, driver->payload + at, count, 'e');
        at += count + 1;
    }
    int64_t spent = cpu_ns() - begin;
    answer(&spent, sizeof spent);
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
                            .payload = region_alloc(&region, TEXT_BYTES_MAX, 1),
                            .text = region_alloc(&region, TEXT_BYTES_MAX, 1)};
    char letter;
    uint32_t count;
    while (read_all(&letter, 1) && read_all(&count, sizeof count) && count <= TEXT_BYTES_MAX &&
           read_all(driver.payload, count)) {
        if (letter == 'd' || letter == 'D') {
            decode(&driver, count, letter == 'D');
        } else if (letter == 't') {
            time_documents(&driver, count);
        } else {
            struct token_list list = encode(&driver, driver.payload, count, letter);
            answer(list.ids, list.count * sizeof *list.ids);
        }
    }
    region_finish(&region);
    return 0;
}
