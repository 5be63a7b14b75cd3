/* corpus: converts text to token files. It reads text files, JSON lines, gzip and Zstandard,
 * folders and standard input; repairs what is not UTF-8; divides the text into documents; encodes
 * them with a model's tokenizer on several threads; and writes the ids to token files of llm.c's
 * format.
 *
 *     inputs -> input_window -> document_reader -> batches -> tokenizer -> shard_writer -> FOLDER
 *               repaired text   documents, parts   threads    ids          train_000000.bin ...
 *
 * The files do not depend on the number of threads. They are written to FOLDER.new, which becomes
 * FOLDER when all of them are complete. An interrupted call leaves FOLDER.new, and the same call
 * continues it: that call reads the text again from the beginning, but encodes only the text after
 * the progress of the interrupted call.
 *
 * public   chat_corpus.h input_list.h input_window.h shard_header.h tokenizer_folder.h */
#ifndef SKEP_CORPUS_CORPUS_H
#define SKEP_CORPUS_CORPUS_H

#include "base/fault.h"
#include "base/json_write.h"
#include "base/region.h"
#include "runtime/corpus/shard_header.h"
#include "runtime/tokenizer/tokenizer.h"

#include <stdbool.h>
#include <stdint.h>

/* number of tokens of a full file by default, as in llm.c's data */
enum { CORPUS_SHARD_TOKENS = 100000000 };

/* the field of JSON lines that contains text, unless the user specifies another field */
#define CORPUS_FIELD "text"

struct corpus_options {
    const char *const *paths; /* [path_count] files, folders, "-" for standard input */
    int path_count;           /* number of `paths` */
    const char *folder;       /* folder of the token files; must not exist, or be empty */
    bool waits;               /* wait while another process writes the folder; false: an error */
    const struct tokenizer *tokenizer;
    int32_t document_token;  /* id that follows each document; TOKENIZER_NO_ID: none */
    const char *field;       /* field of a JSON line that contains the text */
    bool is_stdin_json;      /* the user named the field: standard input contains JSON lines */
    bool is_strict;          /* ill-formed UTF-8 is an error */
    bool is_literal;         /* texts of special tokens are encoded as any other text */
    uint64_t validation_ppm; /* share of documents kept for validation, in millionths */
    int64_t shard_tokens;    /* number of tokens of a full file */
    int threads;             /* number of threads that encode */
};

struct corpus_part_report {
    int64_t shards; /* number of token files */
    uint64_t tokens, documents, text_bytes;
};

struct corpus_report {
    struct corpus_part_report train, validation;
    int input_count;          /* number of files */
    int skipped_count;        /* number of files in folders that are neither text nor JSON lines */
    const char *skipped_path; /* first of the skipped files */
    uint64_t empty_documents; /* number of documents without text, which are left out */
    /* number of ill-formed sequences and lone surrogates, each replaced by U+FFFD */
    uint64_t replacements;
    const char *replaced_path; /* first file with ill-formed UTF-8; NULL: none */
    uint64_t replaced_offset;  /* offset of the first ill-formed sequence in replaced_path */
};

/* corpus_write: encode the inputs and write the token files. Progress is logged.
 * memory  paths of the report in `region`; all other memory is released at the end
 * errors  STATUS_INPUT: inputs that cannot be read, with file and place; a folder that is not
 *         empty, or is in use by another process; no document for a part; is_stdin_json and no
 *         input with JSON lines. STATUS_FIT when the disk is full. STATUS_STOPPED after a signal:
 *         if corpus_has_progress returns true, the same call continues. After an error, the folder
 *         does not exist and *report is unchanged */
MUST_CHECK enum status corpus_write(const struct corpus_options *options, struct region *region,
                                    struct corpus_report *report, struct fault *fault);

/* corpus_part_add_json: add the counts of a part as the member `name` of an object. */
void corpus_part_add_json(struct json_writer *json, const char *name,
                          const struct corpus_part_report *part);

/* corpus_remove: remove the token files and data.json of `folder`, and the folder if it is then
 * empty. */
void corpus_remove(const char *folder);

/* corpus_has_progress: whether a call that was interrupted has left progress for `folder`, from
 * which the same call continues. */
bool corpus_has_progress(const char *folder);

#endif
