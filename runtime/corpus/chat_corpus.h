/* chat_corpus: converts conversations in JSON lines to token files of packed rows with a mask.
 *
 *     inputs -> chat_reader -> chat_render, chat_encode -> row_packer -> shard_writer -> FOLDER
 *               lines          threads                     rows
 *
 * Each row contains whole conversations. Only the tokens that the assistant writes are trained. The
 * files do not depend on the number of threads, and the same call continues one that was
 * interrupted, as in corpus_write, after the last rows that were packed. */
#ifndef SKEP_CORPUS_CHAT_CORPUS_H
#define SKEP_CORPUS_CHAT_CORPUS_H

#include "base/fault.h"
#include "base/region.h"
#include "runtime/chat/chat.h"
#include "runtime/corpus/corpus.h"
#include "runtime/corpus/input_list.h"

#include <stdbool.h>
#include <stdint.h>

/* minimum and maximum of row_tokens */
enum { CHAT_ROW_TOKENS_MIN = 8, CHAT_ROW_TOKENS_MAX = 1 << 20 };

struct chat_corpus_options {
    /* [path_count] files of JSON lines, folders of such files, "-" for standard input */
    const char *const *paths;
    int path_count;     /* number of `paths` */
    const char *folder; /* folder of the token files; must not exist, or be empty */
    const struct tokenizer *tokenizer;
    /* template and parameters with which conversations are rendered */
    const struct chat_options *chat;
    /* number of tokens of a row, CHAT_ROW_TOKENS_MIN to CHAT_ROW_TOKENS_MAX */
    int64_t row_tokens;
    bool waits; /* wait while another process writes the folder; false: an error */
    /* conversations longer than a row are truncated; false: they are left out */
    bool cuts_long;
    bool is_strict;          /* ill-formed UTF-8 is an error */
    uint64_t validation_ppm; /* share of conversations kept for validation, in millionths */
    int64_t shard_tokens;    /* number of tokens of a full file, rounded down to whole rows */
    int threads;             /* number of threads that encode */
};

struct chat_part_report {
    int64_t shards; /* number of token files */
    /* number of rows that were written, and of conversations in these rows */
    uint64_t rows, conversations;
    uint64_t tokens, trained; /* number of tokens except padding, and number of trained tokens */
    /* Number of conversations longer than a row: truncated and counted in `conversations`, or left
     * out. */
    uint64_t long_count;
    /* number of other conversations, left out because they have no trained token */
    uint64_t untrained_count;
};

struct chat_corpus_report {
    struct chat_part_report parts[2]; /* train, validation */
    /* number of ill-formed sequences in the inputs, each replaced by U+FFFD */
    uint64_t replacements;
    const char *replaced_path; /* first file with an ill-formed sequence; NULL: none */
    uint64_t replaced_offset;  /* offset of the first ill-formed sequence in replaced_path */
    /* number of files in folders that are neither text nor JSON lines */
    int skipped_count;
    const char *skipped_path; /* first of the skipped files */
};

/* chat_corpus_write: render, encode and pack the conversations, and write the token files.
 * memory  paths of the inputs in `region`; all other memory is released at the end: at most 128 MiB
 *         for the rows that are packed, and a quarter of a byte for each token of a full file
 * errors  STATUS_INPUT, with file and line: a line that is not a conversation; those of
 *         corpus_write */
MUST_CHECK enum status chat_corpus_write(const struct chat_corpus_options *options,
                                         struct region *region, struct chat_corpus_report *report,
                                         struct fault *fault);

/* chat_part_add_json: add the counts of a part as the member `name` of an object. */
void chat_part_add_json(struct json_writer *json, const char *name,
                        const struct chat_part_report *part);

/* chat_corpus_is_chat: whether the inputs are conversations: the first line that is not blank of
 * the first input is an object with a list `messages` and no text in the field `text`. False if the
 * input cannot be read. */
bool chat_corpus_is_chat(const struct input_list *inputs);

#endif
