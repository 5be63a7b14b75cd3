#include "runtime/model/model.h"

#include <stdio.h>

/* The tensor names in the weight files of one family. */
struct name_spelling {
    const char *prefix; /* first part of every name; absent in files saved from the base model */
    const char *layer_prefix;            /* text between the prefix and the layer number */
    const char *const *ignored_suffixes; /* suffixes of legacy buffers; NULL-terminated */
};

static const char *const ROPE_BUFFERS[] = {"rotary_emb.inv_freq", NULL};
static const char *const GPT2_BUFFERS[] = {".attn.bias", ".attn.masked_bias", NULL};

static const struct name_spelling DECODER = {"model.", "layers.", ROPE_BUFFERS};
static const struct name_spelling GPT2 = {"transformer.", "h.", GPT2_BUFFERS};

enum { LAYER_DIGITS_MAX = 4 }; /* maximum number of digits of a layer index */

static bool ends_with(const char *text, const char *ending) {
    size_t length = strlen(text);
    size_t ending_length = strlen(ending);
    return length >= ending_length && strcmp(text + length - ending_length, ending) == 0;
}

/* Return the layer number in a name such as "model.layers.12.rest", or PARAM_NO_LAYER. The number
 * must be in range, unsigned, and at most LAYER_DIGITS_MAX digits long. The caller's comparison of
 * whole names rejects leading zeros. */
static int parse_layer(const struct blueprint *blueprint, const struct name_spelling *spelling,
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

static int find_param(const struct blueprint *blueprint, int begin, int end, const char *name) {
    for (int i = begin; i < end; i++) {
        if (strcmp(blueprint->params[i].name, name) == 0) {
            return i;
        }
    }
    return WEIGHT_UNKNOWN;
}

static int match_full_name(const struct blueprint *blueprint, const struct name_spelling *spelling,
                           const char *name) {
    const struct param_layout layout = blueprint_param_layout(blueprint);
    if (strncmp(name, spelling->prefix, strlen(spelling->prefix)) == 0) {
        int layer = parse_layer(blueprint, spelling, name);
        if (layer != PARAM_NO_LAYER) {
            int begin = layout.blocks_begin + layer * layout.params_per_layer;
            return find_param(blueprint, begin, begin + layout.params_per_layer, name);
        }
    }
    int index = find_param(blueprint, 0, layout.blocks_begin, name);
    return index != WEIGHT_UNKNOWN
               ? index
               : find_param(blueprint, layout.blocks_end, blueprint->param_count, name);
}

static bool is_ignored(const struct blueprint *blueprint, const struct name_spelling *spelling,
                       const char *name) {
    if (blueprint->tied && strcmp(name, "lm_head.weight") == 0) {
        return true;
    }
    for (int i = 0; spelling->ignored_suffixes[i] != NULL; i++) {
        if (ends_with(name, spelling->ignored_suffixes[i])) {
            return true;
        }
    }
    return false;
}

int weight_name_match(const struct blueprint *blueprint, const char *file_name) {
    const struct name_spelling *spelling = blueprint->family == FAMILY_GPT2 ? &GPT2 : &DECODER;
    char full[NAME_BYTES];
    int index = match_full_name(blueprint, spelling, file_name);
    if (index != WEIGHT_UNKNOWN) {
        return index;
    }
    int length = snprintf(full, sizeof full, "%s%s", spelling->prefix, file_name);
    if (length > 0 && (size_t)length < sizeof full) {
        index = match_full_name(blueprint, spelling, full);
    }
    if (index == WEIGHT_UNKNOWN && is_ignored(blueprint, spelling, file_name)) {
        return WEIGHT_IGNORED;
    }
    return index;
}
