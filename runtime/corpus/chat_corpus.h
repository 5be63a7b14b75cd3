/* chat_corpus: from conversations in JSON lines to token files of packed rows with a mask.
 *
 *     inputs -> chat_reader -> chat_render, chat_encode -> row_packer -> shard_writer -> FOLDER
 *               lines          threads                     rows
 *
 * Each row contains whole conversations. Only the tokens that the assistant writes are trained. The
 * files do not depend on the number of threads, and an interrupted call continues, as in
 * corpus_write: behind the last rows that were packed. */
#ifndef SKEP_CORPUS_CHAT_CORPUS_H
#define SKEP_CORPUS_CHAT_CORPUS_H

#include "base/fault.h"
#include "base/region.h"
#include "runtime/chat/chat.h"
#include "runtime/corpus/corpus.h"
#include "runtime/corpus/input_list.h"

#include <stdbool.h>
#include <stdint.h>

enum { CHAT_ROW_TOKENS_MIN = 8, CHAT_ROW_TOKENS_MAX = 1 << 20 }; /* limits of row_tokens */

struct chat_corpus_options {
    const char *const *paths; /* files of JSON lines, folders of them, "-" for standard input */
    int path_count;           /* number of `paths` */
    const char *folder;       /* folder of the token files; must not exist, or be empty */
    const struct tokenizer *tokenizer;
    const struct chat_options *chat; /* how to render conversations */
    int64_t row_tokens;      /* tokens of a row, CHAT_ROW_TOKENS_MIN to CHAT_ROW_TOKENS_MAX */
    bool waits;              /* as in struct corpus_options */
    bool cuts_long;          /* conversations longer than a row are truncated; false: left out */
    bool is_strict;          /* ill-formed UTF-8 is an error */
    uint64_t validation_ppm; /* share of conversations kept for validation, in millionths */
    int64_t shard_tokens;    /* tokens of a full file, rounded down to whole rows */
    int threads;             /* number of threads that encode */
};

struct chat_part_report {
    int64_t shards;               /* number of token files */
    uint64_t rows, conversations; /* rows that were written, and conversations in them */
    uint64_t tokens, trained; /* tokens that are not padding, and those of them that are trained */
    /* Conversations longer than a row: cut and among those above, or left out. */
    uint64_t long_count;
    uint64_t untrained_count; /* others, left out because they have no trained token */
};

struct chat_corpus_report {
    struct chat_part_report parts[2]; /* train, validation */
    uint64_t replacements;            /* ill-formed sequences, now U+FFFD */
    const char *replaced_path;        /* first file with one; NULL: none */
    uint64_t replaced_offset;         /* offset in it of the first ill-formed sequence */
    int skipped_count;                /* files in folders that are neither text nor JSON lines */
    const char *skipped_path;         /* the first of them */
};

/* chat_corpus_write: render, encode and pack the conversations, and write the token files.
 * memory  paths of the inputs in `region`; the rest is released: at most 128 MiB for the rows that
 *         are packed, and a quarter of a byte for each token of a full file
 * errors  STATUS_INPUT, with file and line: a line that is not a conversation; those of
 *         corpus_write */
MUST_CHECK enum status chat_corpus_write(const struct chat_corpus_options *options,
                                         struct region *region, struct chat_corpus_report *report,
                                         struct fault *fault);

/* chat_part_add_json: add the counts of a part as the member `name` of an object. */
void chat_part_add_json(struct json_writer *json, const char *name,
                        const struct chat_part_report *part);

/* chat_corpus_is_chat: whether the inputs are conversations: the first line of the first one that
 * is not blank is an object with a list `messages` and no text in the field `text`. An input that
 * cannot be read is none. */
bool chat_corpus_is_chat(const struct input_list *inputs);

#endif
