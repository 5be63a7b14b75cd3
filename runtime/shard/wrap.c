#include "runtime/shard/wrap.h"

#include "base/text.h"
#include "runtime/shard/pattern.h"

#include <stdio.h>

static bool is_in_final_group(enum param_kind kind) {
    return kind == PARAM_FINAL_NORM || kind == PARAM_FINAL_NORM_BIAS || kind == PARAM_HEAD;
}

/* Return the default group of a parameter: 0 for the embedding, 1 + l for layer l, 1 +
 * layers for the final group. */
static int default_group(const struct blueprint *blueprint, const struct param *param) {
    if (param->layer != PARAM_NO_LAYER) {
        return 1 + param->layer;
    }
    return is_in_final_group(param->kind) ? 1 + (int)blueprint->layers : 0;
}

static int default_group_count(const struct blueprint *blueprint) {
    return (int)blueprint->layers + 2;
}

static const char *default_group_name(const struct blueprint *blueprint, int group,
                                      struct region *region) {
    if (group == 0) {
        return "embed";
    }
    if (group == 1 + (int)blueprint->layers) {
        return "final";
    }
    return region_format(region, "layers.%d", group - 1);
}

static struct wrapping allocate_wrapping(const struct blueprint *blueprint, int groups,
                                         struct region *region) {
    struct wrapping wrapping = {
        .group_of_param = region_alloc(region, (size_t)blueprint->param_count, sizeof(int)),
        .group_count = groups,
        .names = region_alloc(region, (size_t)groups, sizeof(const char *)),
        .layers = region_alloc(region, (size_t)groups, sizeof(int))};
    for (int group = 0; group < groups; group++) {
        wrapping.layers[group] = PARAM_NO_LAYER;
    }
    return wrapping;
}

/* Make the default groups, with capacity for `extra_groups` after them. */
static struct wrapping wrap_by_block(const struct blueprint *blueprint, int extra_groups,
                                     struct region *region) {
    int blocks = default_group_count(blueprint);
    struct wrapping wrapping = allocate_wrapping(blueprint, blocks + extra_groups, region);
    for (int block = 0; block < blocks; block++) {
        wrapping.names[block] = default_group_name(blueprint, block, region);
        bool outside = block == 0 || block == blocks - 1;
        wrapping.layers[block] = outside ? PARAM_NO_LAYER : block - 1;
    }
    for (int i = 0; i < blueprint->param_count; i++) {
        wrapping.group_of_param[i] = default_group(blueprint, &blueprint->params[i]);
    }
    return wrapping;
}

/* Return the name of the joined default groups first to last, such as "layers.3..5" or
 * "embed..layers.2". */
static const char *joined_groups_name(const struct blueprint *blueprint, int first, int last,
                                      struct region *region) {
    if (first == last) {
        return default_group_name(blueprint, first, region);
    }
    if (first == 0 && last == default_group_count(blueprint) - 1) {
        return "root";
    }
    const char *begin = default_group_name(blueprint, first, region);
    const char *end = default_group_name(blueprint, last, region);
    bool layers = first > 0 && last < default_group_count(blueprint) - 1;
    return region_format(region, "%s..%s", begin, layers ? end + strlen("layers.") : end);
}

/* Join consecutive blocks until each group has at least `elements_min` parameters. A smaller
 * remainder at the end joins the last group. */
static struct wrapping wrap_by_size(const struct blueprint *blueprint, int64_t elements_min,
                                    struct region *region) {
    int blocks = default_group_count(blueprint);
    int64_t *elements = region_alloc(region, (size_t)blocks, sizeof *elements);
    int *group_of = region_alloc(region, (size_t)blocks, sizeof *group_of);
    int *first = region_alloc(region, (size_t)blocks + 1, sizeof *first);
    for (int i = 0; i < blueprint->param_count; i++) {
        elements[default_group(blueprint, &blueprint->params[i])] +=
            param_elements(&blueprint->params[i]);
    }
    int groups = 0;
    int64_t sum = 0;
    for (int block = 0; block < blocks; block++) {
        group_of[block] = groups;
        sum += elements[block];
        if (sum >= elements_min) {
            first[++groups] = block + 1;
            sum = 0;
        }
    }
    groups = groups == 0 ? 1 : groups;
    first[groups] = blocks;
    struct wrapping wrapping = allocate_wrapping(blueprint, groups, region);
    for (int group = 0; group < groups; group++) {
        wrapping.names[group] =
            joined_groups_name(blueprint, first[group], first[group + 1] - 1, region);
        bool one = first[group + 1] - first[group] == 1;
        bool layer = one && first[group] > 0 && first[group] < blocks - 1;
        wrapping.layers[group] = layer ? first[group] - 1 : PARAM_NO_LAYER;
    }
    for (int i = 0; i < blueprint->param_count; i++) {
        int group = group_of[default_group(blueprint, &blueprint->params[i])];
        wrapping.group_of_param[i] = group < groups ? group : groups - 1;
    }
    return wrapping;
}

static enum status wrap_by_name(const struct blueprint *blueprint, const char *list,
                                const char *subject, struct region *region,
                                struct wrapping *wrapping, struct fault *fault) {
    struct name_patterns patterns;
    enum status status = patterns_read(list, subject, blueprint, region, &patterns, fault);
    if (status != OK) {
        snprintf(fault->remedy, sizeof fault->remedy,
                 "write block, root, size:N, or names from `skep inspect MODEL`");
        return status;
    }
    int blocks = default_group_count(blueprint);
    *wrapping = wrap_by_block(blueprint, patterns.count, region);
    for (int k = 0; k < patterns.count; k++) {
        wrapping->names[blocks + k] = patterns.texts[k];
    }
    for (int i = 0; i < blueprint->param_count; i++) {
        int pattern = patterns_find_match(&patterns, blueprint->params[i].name);
        if (pattern >= 0) {
            wrapping->group_of_param[i] = blocks + pattern;
        }
    }
    return OK;
}

enum status wrap_params(const struct blueprint *blueprint, const char *policy, const char *subject,
                        struct region *region, struct wrapping *wrapping, struct fault *fault) {
    if (policy == NULL || policy[0] == '\0' || strcmp(policy, "block") == 0) {
        *wrapping = wrap_by_block(blueprint, 0, region);
        return OK;
    }
    if (strcmp(policy, "root") == 0) {
        *wrapping = wrap_by_size(blueprint, INT64_MAX, region);
        return OK;
    }
    if (strncmp(policy, "size:", strlen("size:")) == 0) {
        int64_t elements_min;
        if (!text_parse_i64(policy + strlen("size:"), &elements_min) || elements_min < 1) {
            return fault_set(fault, STATUS_INPUT, subject, "write size:N, such as size:10000000",
                             "\"%s\" does not give a number of parameters greater than 0", policy);
        }
        *wrapping = wrap_by_size(blueprint, elements_min, region);
        return OK;
    }
    return wrap_by_name(blueprint, policy, subject, region, wrapping, fault);
}
