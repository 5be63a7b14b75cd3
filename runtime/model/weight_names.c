#include "runtime/model/model.h"

#include <stdio.h>

/* How the weight files of one family spell names. */
struct spelling {
    const char *prefix;         /* of the full model; files saved from the base model lack it */
    const char *layer_prefix;   /* between the prefix and the layer number */
    const char *const *ignored; /* endings of buffers that older versions saved; NULL-terminated */
};

static const char *const ROPE_BUFFERS[] = {"rotary_emb.inv_freq", NULL};
static const char *const GPT2_BUFFERS[] = {".attn.bias", ".attn.masked_bias", NULL};

static const struct spelling DECODER = {"model.", "layers.", ROPE_BUFFERS};
static const struct spelling GPT2 = {"transformer.", "h.", GPT2_BUFFERS};

enum { LAYER_DIGITS_MAX = 4 };

static bool ends_with(const char *text, const char *ending) {
    size_t length = strlen(text);
    size_t ending_length = strlen(ending);
    return length >= ending_length && strcmp(text + length - ending_length, ending) == 0;
}

/* The layer number in "PREFIX LAYERS 12.rest", or PARAM_NO_LAYER. It must have no sign and at most
 * LAYER_DIGITS_MAX digits and be in range. The comparison of whole names rejects leading zeros. */
static int layer_of(const struct blueprint *blueprint, const struct spelling *spelling,
                    const char *name) {
    const char *digits = name + strlen(spelling->prefix);
    size_t skipped = strlen(spelling->layer_prefix);
    if (strncmp(digits, spelling->layer_prefix, skipped) != 0) {
        return PARAM_NO_LAYER;
    }
    digits += skipped;
    int layer = 0;
    int count = 0;
    for (; digits[count] >= '0' && digits[count] <= '9' && count < LAYER_DIGITS_MAX; count++) {
        layer = 10 * layer + (digits[count] - '0');
    }
    return count > 0 && digits[count] == '.' && layer < blueprint->layers ? layer : PARAM_NO_LAYER;
}

static int find(const struct blueprint *blueprint, int begin, int end, const char *name) {
    for (int i = begin; i < end; i++) {
        if (strcmp(blueprint->params[i].name, name) == 0) {
            return i;
        }
    }
    return WEIGHT_UNKNOWN;
}

static int match_full(const struct blueprint *blueprint, const struct spelling *spelling,
                      const char *name) {
    const struct param_span span = blueprint_span(blueprint);
    if (strncmp(name, spelling->prefix, strlen(spelling->prefix)) == 0) {
        int layer = layer_of(blueprint, spelling, name);
        if (layer != PARAM_NO_LAYER) {
            int begin = span.first + layer * span.per_layer;
            return find(blueprint, begin, begin + span.per_layer, name);
        }
    }
    int index = find(blueprint, 0, span.first, name);
    return index != WEIGHT_UNKNOWN ? index
                                   : find(blueprint, span.after, blueprint->param_count, name);
}

static bool is_ignored(const struct blueprint *blueprint, const struct spelling *spelling,
                       const char *name) {
    if (blueprint->tied && strcmp(name, "lm_head.weight") == 0) {
        return true;
    }
    for (int i = 0; spelling->ignored[i] != NULL; i++) {
        if (ends_with(name, spelling->ignored[i])) {
            return true;
        }
    }
    return false;
}

int weight_name_match(const struct blueprint *blueprint, const char *file_name) {
    const struct spelling *spelling = blueprint->family == FAMILY_GPT2 ? &GPT2 : &DECODER;
    char full[NAME_BYTES];
    int index = match_full(blueprint, spelling, file_name);
    if (index != WEIGHT_UNKNOWN) {
        return index;
    }
    int length = snprintf(full, sizeof full, "%s%s", spelling->prefix, file_name);
    if (length > 0 && (size_t)length < sizeof full) {
        index = match_full(blueprint, spelling, full);
    }
    if (index == WEIGHT_UNKNOWN && is_ignored(blueprint, spelling, file_name)) {
        return WEIGHT_IGNORED;
    }
    return index;
}
