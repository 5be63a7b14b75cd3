#include "runtime/swarm/packer/packer_tokens.h"

#include <msgpack/unpack.h> /* error codes that the parser template below uses */

struct token_list {
    struct packer_token *tokens; /* [PACKER_TOKENS_MAX] */
    uint32_t count;              /* number of tokens parsed so far */
};

/* The parser template builds an object for each value. Nothing is needed here but the tokens, so
 * the object is empty. */
struct token_object {
    char unused;
};

static int add_token(struct token_list *list, struct packer_token token,
                     struct token_object *object) {
    *object = (struct token_object){0};
    if (list->count == PACKER_TOKENS_MAX) {
        return MSGPACK_UNPACK_NOMEM_ERROR;
    }
    list->tokens[list->count++] = token;
    return 0;
}

/* Called by the parser template before it parses the value. */
static struct token_object on_root(struct token_list *list) {
    (void)list;
    return (struct token_object){0};
}

#define ON_NUMBER(name, type)                                                                      \
    static int on_##name(struct token_list *list, type value, struct token_object *object) {       \
        return add_token(list, (struct packer_token){TOKEN_NUMBER, value, NULL}, object);          \
    }
ON_NUMBER(uint8, uint8_t)
ON_NUMBER(uint16, uint16_t)
ON_NUMBER(uint32, uint32_t)
ON_NUMBER(uint64, uint64_t)

#define ON_REJECTED_NUMBER(name, type)                                                             \
    static int on_##name(struct token_list *list, type value, struct token_object *object) {       \
        (void)list;                                                                                \
        (void)value;                                                                               \
        (void)object;                                                                              \
        return MSGPACK_UNPACK_PARSE_ERROR;                                                         \
    }
ON_REJECTED_NUMBER(int8, int8_t)
ON_REJECTED_NUMBER(int16, int16_t)
ON_REJECTED_NUMBER(int32, int32_t)
ON_REJECTED_NUMBER(int64, int64_t)
ON_REJECTED_NUMBER(float, float)
ON_REJECTED_NUMBER(double, double)

#define ON_REJECTED_VALUE(name)                                                                    \
    static int on_##name(struct token_list *list, struct token_object *object) {                   \
        (void)list;                                                                                \
        (void)object;                                                                              \
        return MSGPACK_UNPACK_PARSE_ERROR;                                                         \
    }
ON_REJECTED_VALUE(nil)
ON_REJECTED_VALUE(true)
ON_REJECTED_VALUE(false)

/* Each element takes at least one token, so a container with more elements than tokens are left
 * is rejected before its elements are parsed. */
static int add_container(struct token_list *list, struct packer_token token,
                         struct token_object *object) {
    return token.value > PACKER_TOKENS_MAX ? MSGPACK_UNPACK_NOMEM_ERROR
                                           : add_token(list, token, object);
}

static int on_array(struct token_list *list, size_t count, struct token_object *object) {
    return add_container(list, (struct packer_token){TOKEN_ARRAY, count, NULL}, object);
}

static int on_array_item(struct token_list *list, struct token_object *array,
                         struct token_object item) {
    (void)list;
    (void)array;
    (void)item;
    return 0;
}

static int on_map(struct token_list *list, size_t count, struct token_object *object) {
    return add_container(list, (struct packer_token){TOKEN_MAP, count, NULL}, object);
}

static int on_map_item(struct token_list *list, struct token_object *map, struct token_object key,
                       struct token_object value) {
    (void)list;
    (void)map;
    (void)key;
    (void)value;
    return 0;
}

/* For an empty text or bin, the parser passes an unrelated pointer. */
#define ON_BYTES(name, kind)                                                                       \
    static int on_##name(struct token_list *list, const char *base, const char *bytes,             \
                         unsigned int count, struct token_object *object) {                        \
        (void)base;                                                                                \
        const void *content = count > 0 ? bytes : NULL;                                            \
        return add_token(list, (struct packer_token){kind, count, content}, object);               \
    }
ON_BYTES(str, TOKEN_TEXT)
ON_BYTES(bin, TOKEN_BIN)

static int on_ext(struct token_list *list, const char *base, const char *bytes, unsigned int count,
                  struct token_object *object) {
    (void)list;
    (void)base;
    (void)bytes;
    (void)count;
    (void)object;
    return MSGPACK_UNPACK_PARSE_ERROR;
}

#define MSGPACK_EMBED_STACK_SIZE       PACKER_DEPTH_MAX
#define msgpack_unpack_struct(name)    struct token_parser##name
#define msgpack_unpack_func(ret, name) static inline ret token_parser##name
#define msgpack_unpack_callback(name)  on##name
#define msgpack_unpack_object          struct token_object
#define msgpack_unpack_user            struct token_list

#include <msgpack/unpack_define.h>
#include <msgpack/unpack_template.h>

size_t packer_tokens_parse(const uint8_t *bytes, size_t count,
                           struct packer_token tokens[static PACKER_TOKENS_MAX],
                           uint32_t *token_count, const char **error) {
    struct token_parser_context parser;
    size_t used = 0;
    parser.user = (struct token_list){.tokens = tokens};
    token_parser_init(&parser);
    int result = token_parser_execute(&parser, (const char *)bytes, count, &used);
    if (result < 0) {
        *error = result == MSGPACK_UNPACK_NOMEM_ERROR
                     ? "has more values, or more deeply nested ones, than any message"
                     : "is not MessagePack, or has a type that messages do not use";
        return 0;
    }
    if (result == 0) {
        *error = "is truncated";
        return 0;
    }
    ASSERT(used > 0 && used <= count);
    *token_count = parser.user.count;
    return used;
}
