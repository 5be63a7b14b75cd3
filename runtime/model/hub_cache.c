#include "runtime/model/model.h"

#include "base/file.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    REVISION_BYTES = 256, /* size of the text of a commit hash */
    COMMAND_BYTES = 300,  /* size of the download command */
};

static bool is_hub_name(const char *text, size_t length) {
    if (length == 0 || length > 96 || text[0] == '.' || text[0] == '-') {
        return false;
    }
    for (size_t i = 0; i < length; i++) {
        if (!isalnum((unsigned char)text[i]) && strchr("-_.", text[i]) == NULL) {
            return false;
        }
    }
    return true;
}

bool hub_cache_is_model_name(const char *path) {
    const char *slash = strchr(path, '/');
    return slash != NULL && is_hub_name(path, (size_t)(slash - path)) &&
           is_hub_name(slash + 1, strlen(slash + 1));
}

static const char *nonempty_variable(const char *name) {
    const char *value = getenv(name);
    return value != NULL && value[0] != '\0' ? value : NULL;
}

static bool find_cache_folder(char *out, size_t capacity) {
    static const char *const LOCATIONS[][2] = {{"HF_HUB_CACHE", ""},
                                               {"HF_HOME", "/hub"},
                                               {"XDG_CACHE_HOME", "/huggingface/hub"},
                                               {"HOME", "/.cache/huggingface/hub"}};
    for (size_t i = 0; i < ARRAY_COUNT(LOCATIONS); i++) {
        const char *value = nonempty_variable(LOCATIONS[i][0]);
        if (value != NULL) {
            int length = snprintf(out, capacity, "%s%s", value, LOCATIONS[i][1]);
            return length > 0 && (size_t)length < capacity;
        }
    }
    return false;
}

/* Read the commit hash in the file refs/main. It must be hexadecimal, so that a path built from it
 * cannot point outside the model's folder. */
static enum status read_revision(const char *model, char *revision, struct fault *fault) {
    char path[PATH_BYTES + 16];
    size_t length;
    snprintf(path, sizeof path, "%s/refs/main", model);
    TRY(file_read_text(path, revision, REVISION_BYTES, &length, fault));
    length = strcspn(revision, " \r\n");
    revision[length] = '\0';
    if (length == 0 || strspn(revision, "0123456789abcdefABCDEF") != length) {
        return fault_set(
            fault, STATUS_INPUT, path, NULL,
            "does not contain the hash of a commit, as a refs file of the Hub cache does");
    }
    return OK;
}

enum status hub_cache_find(const char *name, char *folder, struct fault *fault) {
    char cache[PATH_BYTES / 2];
    char model[PATH_BYTES];
    char revision[REVISION_BYTES];
    char command[COMMAND_BYTES];
    const char *slash = strchr(name, '/');
    ASSERT(hub_cache_is_model_name(name));
    snprintf(command, sizeof command, "run `hf download %s` (pip install huggingface_hub)", name);
    if (!find_cache_folder(cache, sizeof cache)) {
        return fault_set(fault, STATUS_INPUT, name, command,
                         "no such file, and the Hub cache folder is unknown: HF_HUB_CACHE, "
                         "HF_HOME, XDG_CACHE_HOME and HOME are unset or too long");
    }
    snprintf(model, sizeof model, "%s/models--%.*s--%s", cache, (int)(slash - name), name,
             slash + 1);
    if (!file_is_folder(model)) {
        return fault_set(fault, STATUS_INPUT, name, command,
                         "no such file, and the model is not in the Hub cache folder %s", cache);
    }
    enum status status = read_revision(model, revision, fault);
    if (status != OK) {
        snprintf(fault->remedy, sizeof fault->remedy, "%s", command);
        return status;
    }
    char found[PATH_BYTES + REVISION_BYTES + 16];
    int length = snprintf(found, sizeof found, "%s/snapshots/%s", model, revision);
    if (!file_is_folder(found) || length >= PATH_BYTES) {
        return fault_set(fault, STATUS_INPUT, found, command,
                         "the model's files are not in the Hub cache");
    }
    memcpy(folder, found, (size_t)length + 1);
    return OK;
}
