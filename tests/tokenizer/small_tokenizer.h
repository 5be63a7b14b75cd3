/* small_tokenizer: small tokenizers that tests load from a folder of their own. */
#ifndef SKEP_TESTS_TOKENIZER_SMALL_TOKENIZER_H
#define SKEP_TESTS_TOKENIZER_SMALL_TOKENIZER_H

#include "runtime/tokenizer/tokenizer.h"

/* Members of a small tokenizer, as JSON; NULL: the default. The default tokens are a, b, c, ab, a
 * space and U+2581, with the ids 0 to 5. */
struct parts {
    const char *added, *normalizer, *pre_tokenizer, *post_processor, *decoder, *options, *vocab,
        *merges;
};

/* Parts of the JSON: a pre-tokenizer, an added token with some more members, a normalizer, and a
 * pre-tokenizer with the prepend_scheme first. */
#define SPLIT(regex)                                                                               \
    "{\"type\": \"Split\", \"pattern\": {\"Regex\": \"" regex "\"}, \"behavior\": \"Isolated\"}"
#define TOKEN(id, content, more)                                                                   \
    "{\"id\": " id ", \"content\": \"" content "\", \"special\": true, \"normalized\": false" more \
    "}"
#define RSTRIP ", \"rstrip\": true"
#define LSTRIP ", \"lstrip\": true"
#define REPLACE(text, content)                                                                     \
    "{\"type\": \"Replace\", \"pattern\": {\"String\": \"" text "\"}, \"content\": \"" content "\"}"
#define META_FIRST                                                                                 \
    "{\"type\": \"Metaspace\", \"replacement\": \"\xe2\x96\x81\", "                                \
    "\"prepend_scheme\": \"first\", \"split\": false}"

/* small_folder: the folder, which make_small_folder makes before a group of tests, and
 * remove_small_folder removes after it. */
const char *small_folder(void);
int make_small_folder(void **state);
int remove_small_folder(void **state);

/* write_small_file: write a file of the folder. remove_small_file: remove it, if it exists. */
void write_small_file(const char *name, const char *text);
void remove_small_file(const char *name);

/* load_small: write the tokenizer.json with these parts, and load it. */
enum status load_small(const struct parts *parts, struct region *region,
                       const struct tokenizer **tokenizer, struct fault *fault);

#endif
