#include "runtime/shard/pattern.h"

#include "base/text.h"

static bool pattern_matches(const char *pattern, const char *name) {
    size_t length = strlen(pattern);
    if (pattern[length - 1] == '*') {
        return strncmp(pattern, name, length - 1) == 0;
    }
    return strncmp(pattern, name, length) == 0 && (name[length] == '.' || name[length] == '\0');
}

int patterns_find_match(const struct name_patterns *patterns, const char *name) {
    int best = -1;
    for (int i = 0; i < patterns->count; i++) {
        if (pattern_matches(patterns->texts[i], name) &&
            (best < 0 || strlen(patterns->texts[i]) > strlen(patterns->texts[best]))) {
            best = i;
        }
    }
    return best;
}

static bool matches_any_param(const char *pattern, const struct blueprint *blueprint) {
    for (int i = 0; i < blueprint->param_count; i++) {
        if (pattern_matches(pattern, blueprint->params[i].name)) {
            return true;
        }
    }
    return false;
}

/* Return the position of the first dot at or after `from`, or the length of `name`. */
static size_t find_next_dot(const char *name, size_t from) {
    return from + strcspn(name + from, ".");
}

static size_t shared_prefix_length(const char *a, const char *b) {
    size_t length = 0;
    while (a[length] != '\0' && a[length] == b[length]) {
        length++;
    }
    return length;
}

/* List every module and parameter of the model once. The fault for an unknown name suggests the
 * nearest of them. */
static int list_names(const struct blueprint *blueprint, struct region *region,
                      const char ***names) {
    int count = 0;
    for (int pass = 0; pass < 2; pass++) {
        const char **list = pass == 0 ? NULL : region_alloc(region, (size_t)count, sizeof *list);
        count = 0;
        for (int i = 0; i < blueprint->param_count; i++) {
            const char *name = blueprint->params[i].name;
            size_t shared = i == 0 ? 0 : shared_prefix_length(name, blueprint->params[i - 1].name);
            for (size_t end = find_next_dot(name, shared);; end = find_next_dot(name, end + 1)) {
                if (list != NULL) {
                    char *copy = region_alloc(region, end + 1, 1);
                    memcpy(copy, name, end);
                    list[count] = copy;
                }
                count++;
                if (name[end] == '\0') {
                    break;
                }
            }
        }
        *names = list;
    }
    return count;
}

static enum status no_match_fault(const char *pattern, const char *subject,
                                  const struct blueprint *blueprint, struct fault *fault) {
    struct region scratch = {0};
    const char **names;
    int count = list_names(blueprint, &scratch, &names);
    int nearest = text_find_nearest(pattern, names, count);
    const char *suggestion = nearest >= 0 ? names[nearest] : names[0];
    enum status status = fault_set(
        fault, STATUS_INPUT, subject, "run `skep inspect MODEL` to list the names",
        "\"%s\" matches no parameter; this model has, for example, \"%s\"", pattern, suggestion);
    region_finish(&scratch);
    return status;
}

/* Return a copy of the `length` bytes at `from`, without leading and trailing spaces. */
static const char *copy_trimmed(const char *from, size_t length, struct region *region) {
    while (length > 0 && *from == ' ') {
        from++;
        length--;
    }
    while (length > 0 && from[length - 1] == ' ') {
        length--;
    }
    char *copy = region_alloc(region, length + 1, 1);
    memcpy(copy, from, length);
    return copy;
}

static int count_patterns(const char *text) {
    int count = 1;
    for (; *text != '\0' && count <= PATTERNS_MAX; text++) {
        count += *text == ',';
    }
    return count;
}

enum status patterns_read(const char *text, const char *subject, const struct blueprint *blueprint,
                          struct region *region, struct name_patterns *patterns,
                          struct fault *fault) {
    if (text == NULL || text[0] == '\0') {
        *patterns = (struct name_patterns){0};
        return OK;
    }
    int count = count_patterns(text);
    if (count > PATTERNS_MAX) {
        return fault_set(fault, STATUS_INPUT, subject,
                         "use a pattern that ends in * to match many names",
                         "the list has more than %d names", PATTERNS_MAX);
    }
    const char **texts = region_alloc(region, (size_t)count, sizeof *texts);
    for (int i = 0; i < count; i++) {
        size_t length = strcspn(text, ",");
        texts[i] = copy_trimmed(text, length, region);
        text += length + 1;
        if (texts[i][0] == '\0') {
            return fault_set(fault, STATUS_INPUT, subject, "separate names with one comma",
                             "name %d of the list is empty", i + 1);
        }
        if (strlen(texts[i]) >= NAME_BYTES || !matches_any_param(texts[i], blueprint)) {
            return no_match_fault(texts[i], subject, blueprint, fault);
        }
    }
    *patterns = (struct name_patterns){.texts = texts, .count = count};
    return OK;
}
