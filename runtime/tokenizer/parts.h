/* parts: the private structures of a tokenizer and of its encoder. */
#ifndef SKEP_TOKENIZER_PARTS_H
#define SKEP_TOKENIZER_PARTS_H

#include "runtime/tokenizer/tokenizer.h"
#include "runtime/tokenizer/unicode/unicode.h"
#include "runtime/tokenizer/vocabulary.h"

enum {
    STEPS_MAX = 8,         /* of a normalizer, pre-tokenizer or decoder; published ones have 4 */
    TEMPLATE_IDS_MAX = 16, /* special tokens before or after a text */
    META_BYTES = 3,        /* size of U+2581, which stands for a space in a vocabulary */
    ADDED_TOKENS_MAX = 1 << 18,
    ADDED_TEXT_BYTES_MAX = 1 << 12,
};
#define META_SPACE "\xe2\x96\x81"

/* A string of tokenizer.json. */
struct counted_text {
    const char *bytes;
    size_t count;
};

/* An added token, as its entry in tokenizer.json. */
struct added_token {
    struct counted_text text;  /* `content` */
    struct counted_text match; /* what is searched for: `text`, or its normalized form */
    int32_t id;
    bool is_single_word, strips_left, strips_right, is_normalized, is_special;
    bool is_literal; /* `text` is that of a special token: skipped when those are plain text */
};

/* Tokens that are searched for together, sorted by `match`. */
struct added_set {
    const struct added_token *const *tokens;
    size_t count;
    uint32_t first[257]; /* tokens[first[b], first[b + 1]) begin with byte b */
};

enum normal_kind { NORMAL_NFC, NORMAL_PREPEND, NORMAL_REPLACE };
struct normalizer_step {
    enum normal_kind kind;
    struct counted_text pattern; /* what NORMAL_REPLACE searches for */
    struct counted_text content; /* what replaces it, or is prepended */
};

enum split_kind {
    SPLIT_GPT2,    /* the pattern of ByteLevel */
    SPLIT_LLAMA3,  /* also qwen2: numbers of at most `digits_max` digits */
    SPLIT_TEKKEN,  /* also o200k: with contractions at the end of words */
    SPLIT_DIGITS,  /* single characters with UNICODE_NUMERIC */
    SPLIT_TEXT,    /* `text` itself */
    SPLIT_META,    /* before a run of META_SPACE; only where no merge can cross */
    SPLIT_PATTERN, /* any other pattern */
};
enum split_behavior {
    BEHAVIOR_REMOVED,
    BEHAVIOR_ISOLATED,
    BEHAVIOR_MERGED_WITH_PREVIOUS,
    BEHAVIOR_MERGED_WITH_NEXT,
    BEHAVIOR_CONTIGUOUS,
};
struct pattern;
struct split_step {
    enum split_kind kind;
    enum split_behavior behavior;
    bool is_inverted;            /* the parts between matches count as matches */
    bool has_contractions;       /* SPLIT_TEKKEN */
    int digits_max;              /* SPLIT_LLAMA3, SPLIT_TEKKEN */
    struct counted_text text;    /* SPLIT_TEXT */
    const struct pattern *regex; /* SPLIT_PATTERN */
};

/* What is put before a text that is split. */
enum prefix_kind { PREFIX_NEVER, PREFIX_FIRST, PREFIX_ALWAYS };

enum decode_kind {
    DECODE_BYTE_LEVEL,
    DECODE_BYTE_FALLBACK,
    DECODE_FUSE,
    DECODE_METASPACE,
    DECODE_REPLACE,
    DECODE_STRIP,
};
struct decode_step {
    enum decode_kind kind;
    struct counted_text pattern, content; /* DECODE_REPLACE; DECODE_METASPACE, DECODE_STRIP: a
                                             character */
    uint32_t start, stop;                 /* DECODE_STRIP: characters at each end */
    bool has_prefix;                      /* DECODE_METASPACE: the first token loses its space */
};

/* The BPE model. */
struct bpe_model {
    struct vocabulary vocabulary;
    struct merge_table merges;
    int32_t byte_ids[256];    /* byte level: of the character of a byte; VOCABULARY_ABSENT */
    int32_t byte_tokens[256]; /* of <0x00> and so on, with byte_fallback; VOCABULARY_ABSENT */
    int32_t ascii_ids[128];   /* of characters below U+0080; VOCABULARY_ABSENT */
    int32_t unk_id;           /* VOCABULARY_ABSENT: unknown characters are left out */
    bool fuses_unk, falls_back_to_bytes, ignores_merges;
    bool is_byte_level; /* a word is bytes, each of which stands for a character of GPT-2 */
    const struct vocabulary *words; /* ignores_merges: whole words, in the form that they are
                                       searched for */
};

/* Where documents may be divided (tokenizer_split_position). */
struct split_rule {
    bool allows_space;      /* between a character that is no white space and a space */
    bool allows_newline;    /* between a line feed and a letter */
    bool needs_one_newline; /* ... if only one white space character precedes the letter */
    bool ends[256];         /* bytes that end an added token */
    bool begins[256];       /* bytes that begin an added token */
};

struct tokenizer {
    struct tokenizer_info info;
    const struct unicode *unicode;
    struct bpe_model model;
    const struct added_token *added;
    size_t added_count;
    struct added_set raw, normalized; /* searched for before and after the normalizer */
    struct normalizer_step normalizer_steps[STEPS_MAX];
    size_t normalizer_step_count;
    struct counted_text meta; /* the character that replaces spaces before the splits; empty */
    enum prefix_kind prefix;
    struct counted_text prefix_text;
    struct split_step split[STEPS_MAX];
    size_t split_count;
    int32_t before[TEMPLATE_IDS_MAX], after[TEMPLATE_IDS_MAX]; /* the template's special tokens */
    size_t before_count, after_count;
    struct decode_step decode[STEPS_MAX];
    size_t decode_count;
    bool has_decoder;
    const struct counted_text *decoded; /* [info.id_count]: the text of a token for decoding */
    const bool *is_skipped;             /* [info.id_count]: its text is that of a special token */
    struct split_rule rule;
};

/* Scratch memory that grows before the seal. */
struct scratch {
    void *memory;
    size_t capacity; /* in bytes */
};

/* scratch_reserve: make room for `count` objects of `size` bytes, and keep the first `kept` bytes.
 * returns  false after process_seal when there is not enough; nothing changes */
bool scratch_reserve(struct scratch *scratch, struct region *region, size_t count, size_t size,
                     size_t kept);

enum {
    CACHE_KEY_BYTES = 24, /* longest word in the cache */
    CACHE_IDS = 8,        /* most tokens of such a word */
    CACHE_SLOTS = 1 << 15,
};
/* A word and its ids: one cache line. */
struct cached_word {
    uint64_t key[CACHE_KEY_BYTES / 8]; /* padded with zeros */
    int32_t ids[CACHE_IDS];
    uint8_t byte_count; /* 0: empty */
    uint8_t id_count;
};

struct matcher;
struct tokenizer_encoder {
    const struct tokenizer *tokenizer;
    struct region *region;
    struct cached_word *cache; /* [CACHE_SLOTS] */
    struct scratch ids;        /* int32_t: the ids so far */
    size_t id_count;
    struct scratch normal[2]; /* char: the text after a step of the normalizer */
    struct scratch prefixed;  /* char: the text with its prefix */
    struct scratch points;    /* uint32_t: of unicode_nfc */
    struct scratch symbols;   /* of a long word */
    struct scratch heap;      /* uint64_t */
    struct matcher *matchers; /* [split_count] */
    struct fault *fault;      /* of the call that runs */
};

/* encoder_is_full: set the fault of a text that needs more memory than is reserved. */
enum status encoder_is_full(struct tokenizer_encoder *encoder);

#endif
