/* parts: the private structures of a tokenizer and of its encoder. */
#ifndef SKEP_TOKENIZER_PARTS_H
#define SKEP_TOKENIZER_PARTS_H

#include "runtime/tokenizer/tokenizer.h"
#include "runtime/tokenizer/unicode/unicode.h"
#include "runtime/tokenizer/vocabulary.h"

enum {
    /* maximum number of steps of a normalizer, pre-tokenizer or decoder; published ones have 4 */
    STEPS_MAX = 8,
    TEMPLATE_IDS_MAX = 16, /* maximum number of special tokens before or after a text */
    /* size of U+2581 in UTF-8; it stands for a space in a vocabulary */
    META_BYTES = 3,
    ADDED_TOKENS_MAX = 1 << 18,     /* maximum number of added tokens in a file */
    ADDED_TEXT_BYTES_MAX = 1 << 12, /* maximum size of the text of an added token */
};
#define META_SPACE "\xe2\x96\x81"

/* A string of tokenizer.json. */
struct counted_text {
    const char *bytes; /* [count] */
    size_t count;      /* length in bytes */
};

/* An added token, as its entry in tokenizer.json. */
struct added_token {
    struct counted_text text;  /* `content` of the entry */
    struct counted_text match; /* what is searched for: `text`, or its normalized form */
    int32_t id;                /* token id */
    /* `single_word`, `lstrip`, `rstrip`, `normalized` and `special` of the entry */
    bool is_single_word, strips_left, strips_right, is_normalized, is_special;
    /* `text` is that of a special token: with tokenizer_options.is_literal it is ordinary text */
    bool is_literal;
};

/* Tokens that are searched for together, sorted by `match`. */
struct added_set {
    const struct added_token *const *tokens; /* [count] tokens, sorted by `match` */
    size_t count;
    uint32_t first[257]; /* tokens[first[b], first[b + 1]) begin with byte b */
};

enum normalizer_kind {
    NORMALIZE_NFC,     /* compose characters (Unicode NFC) */
    NORMALIZE_PREPEND, /* put `content` before the text */
    NORMALIZE_REPLACE, /* replace each `pattern` by `content` */
};
struct normalizer_step {
    enum normalizer_kind kind;
    struct counted_text pattern; /* what NORMALIZE_REPLACE searches for */
    struct counted_text content; /* text that replaces `pattern`, or that is prepended */
};

enum split_kind {
    SPLIT_GPT2,    /* the pattern of GPT-2, which ByteLevel uses */
    SPLIT_LLAMA3,  /* patterns of llama3 and qwen2; they differ in `digits_max` */
    SPLIT_TEKKEN,  /* patterns of tekken and o200k; they differ in has_contractions */
    SPLIT_DIGITS,  /* matches each character with the flag UNICODE_NUMERIC */
    SPLIT_TEXT,    /* `text` itself */
    SPLIT_META,    /* divides before a run of META_SPACE; used only if no merge can cross it */
    SPLIT_PATTERN, /* any other pattern */
};
enum split_behavior {
    BEHAVIOR_REMOVED,              /* matches are dropped from the text */
    BEHAVIOR_ISOLATED,             /* each match is a piece of its own */
    BEHAVIOR_MERGED_WITH_PREVIOUS, /* a match ends the piece before it */
    BEHAVIOR_MERGED_WITH_NEXT,     /* a match begins the piece after it */
    BEHAVIOR_CONTIGUOUS,           /* adjacent matches are one piece */
};
struct pattern;

/* A step of the pre-tokenizer: it divides text into pieces. */
struct split_step {
    enum split_kind kind;
    enum split_behavior behavior; /* how matches and the text between them become pieces */
    bool is_inverted;             /* the parts between matches count as matches */
    bool has_contractions;        /* SPLIT_TEKKEN: a word includes 's, 't and the like */
    int digits_max;               /* SPLIT_LLAMA3, SPLIT_TEKKEN: longest number; 0: no limit */
    struct counted_text text;     /* SPLIT_TEXT: the text that is searched for */
    const struct pattern *regex;  /* SPLIT_PATTERN: the pattern that is searched for */
};

/* Which texts get the prefix before they are split. */
enum prefix_kind {
    PREFIX_NEVER,  /* no text */
    PREFIX_FIRST,  /* only the text at the beginning of the input */
    PREFIX_ALWAYS, /* also the text after each added token */
};

enum decode_kind {
    DECODE_BYTE_LEVEL,    /* characters of GPT-2's alphabet become the bytes they stand for */
    DECODE_BYTE_FALLBACK, /* a token such as <0x0A> becomes its byte */
    DECODE_FUSE,          /* later steps get the texts of all tokens as one text */
    DECODE_METASPACE,     /* the character `content` becomes a space */
    DECODE_REPLACE,       /* each `pattern` becomes `content` */
    DECODE_STRIP,         /* `content` is removed at the start and end of a text */
};
struct decode_step {
    enum decode_kind kind;
    /* DECODE_REPLACE uses both texts; DECODE_METASPACE and DECODE_STRIP use `content`, one
     * character */
    struct counted_text pattern, content;
    /* DECODE_STRIP: maximum number of characters removed at the start and at the end */
    uint32_t start, stop;
    bool has_prefix; /* DECODE_METASPACE: the first token loses its space */
};

/* The BPE model. */
struct bpe_model {
    struct vocabulary vocabulary; /* texts and ids of the tokens */
    struct merge_table merges;    /* which pairs of tokens become one */
    /* ids of texts; VOCABULARY_ABSENT: no token has the text */
    /* [b]: id of the character in GPT-2's alphabet that stands for byte b */
    int32_t byte_ids[256];
    /* [b]: for falls_back_to_bytes, id of byte b's token, such as <0x0A> */
    int32_t byte_tokens[256];
    int32_t ascii_ids[128]; /* [c]: id of the character c, which is below U+0080 */
    int32_t unk_id;         /* token for unknown characters; VOCABULARY_ABSENT: they are left out */
    /* `fuse_unk`, `byte_fallback` and `ignore_merges` of the file */
    bool fuses_unk, falls_back_to_bytes, ignores_merges;
    bool is_byte_level; /* texts of tokens are written in the alphabet of byte_level.h */
    /* with ignores_merges: the vocabulary in which whole words are searched for */
    const struct vocabulary *words;
};

/* Where documents may be divided (tokenizer_split_position). */
struct split_rule {
    bool allows_space;      /* documents may be divided before a space, after no white space */
    bool allows_newline;    /* documents may be divided between a line feed and a letter */
    bool needs_one_newline; /* allows_newline: only if no white space precedes the line feed */
    bool ends[256];         /* [b]: an added token ends with byte b */
    bool begins[256];       /* [b]: an added token begins with byte b */
};

struct tokenizer {
    struct tokenizer_info info;
    const struct unicode *unicode; /* properties of characters */
    struct bpe_model model;
    const struct added_token *added; /* [added_count], in the order of the file */
    size_t added_count;
    /* added tokens that are searched for before the normalizer, and after it */
    struct added_set raw, normalized;
    struct normalizer_step normalizer_steps[STEPS_MAX];
    size_t normalizer_step_count;
    /* text that replaces each space before the split steps; empty: spaces stay */
    struct counted_text meta;
    enum prefix_kind prefix; /* which texts get `prefix_text` */
    struct counted_text prefix_text;
    struct split_step split[STEPS_MAX]; /* [split_count]: steps of the pre-tokenizer */
    size_t split_count;
    /* ids of the template's special tokens, before and after the text */
    int32_t before[TEMPLATE_IDS_MAX], after[TEMPLATE_IDS_MAX];
    size_t before_count, after_count;
    struct decode_step decode[STEPS_MAX]; /* [decode_count]: steps of the decoder */
    size_t decode_count;
    /* the file has a decoder; else tokens are joined by spaces */
    bool has_decoder;
    const struct counted_text *decoded; /* [info.id_count]: the text of a token for decoding */
    /* [info.id_count]: whether the id's text is that of a special token */
    const bool *is_skipped;
    struct split_rule rule; /* where documents may be divided */
};

/* Scratch memory that grows before the seal. */
struct scratch {
    void *memory;    /* [capacity] */
    size_t capacity; /* in bytes */
};

/* scratch_reserve: make room for `count` objects of `size` bytes, and keep the first `kept` bytes.
 * returns  false after process_seal when the memory is too small; *scratch is then unchanged */
bool scratch_reserve(struct scratch *scratch, struct region *region, size_t count, size_t size,
                     size_t kept);

enum {
    CACHE_KEY_BYTES = 24,  /* longest word in the cache, in bytes */
    CACHE_IDS = 8,         /* maximum number of tokens of a word in the cache */
    CACHE_SLOTS = 1 << 15, /* number of words that the cache of an encoder can store */
};
/* A word and its ids: one cache line. */
struct cached_word {
    uint64_t key[CACHE_KEY_BYTES / 8]; /* the word, padded with zeros */
    int32_t ids[CACHE_IDS];            /* [id_count]: token ids of the word */
    uint8_t byte_count;                /* length of the word; 0: no word */
    uint8_t id_count;                  /* number of token ids */
};

struct matcher;
struct tokenizer_encoder {
    const struct tokenizer *tokenizer;
    struct region *region;     /* region of the scratch memory */
    struct cached_word *cache; /* [CACHE_SLOTS] */
    struct scratch ids;        /* int32_t: ids that the current call has appended so far */
    size_t id_count;
    struct scratch normalized[2]; /* char: the text after a step of the normalizer */
    struct scratch prefixed;      /* char: the text with its prefix */
    struct scratch points;        /* uint32_t: code points, for unicode_nfc */
    struct scratch symbols;       /* int32_t: symbols of a word, for merge_all */
    struct scratch heap;          /* uint64_t: heap of merge_all */
    struct matcher *matchers;     /* [split_count]: matcher of each split step */
    struct fault *fault;          /* the caller's fault, set if the current call fails */
    tokenizer_stop *stops;        /* ends a call early; NULL: nothing does */
};

/* encoder_full_fault: set the fault of a text that needs more memory than is reserved, and return
 * STATUS_FIT. */
enum status encoder_full_fault(struct tokenizer_encoder *encoder);

#endif
