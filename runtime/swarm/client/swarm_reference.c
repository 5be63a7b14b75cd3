#include "runtime/swarm/client/client.h"

#include "transport/identity/identity.h"

#include <string.h>

static const char SUFFIX[] = ".skep";

bool swarm_is_reference(const char *text) {
    size_t length = strlen(text);
    size_t suffix = sizeof SUFFIX - 1;
    return is_join_string(text) || (length > suffix && strcmp(text + length - suffix, SUFFIX) == 0);
}

static bool has_suffix(const char *text, const char *suffix) {
    const size_t length = strlen(text), tail = strlen(suffix);
    return length > tail && strcmp(text + length - tail, suffix) == 0;
}

enum status swarm_reference_check(const char *swarm, struct fault *fault) {
    struct public_keys keys;
    if (has_suffix(swarm, ".yaml") || has_suffix(swarm, ".yml")) {
        return fault_set(fault, STATUS_INPUT, swarm,
                         "pass the manifest NAME.skep, or the join string that `skep track` prints",
                         "is a run file, which does not contain the tracker's address");
    }
    if (public_keys_read(swarm, &keys) == NULL) {
        return fault_set(fault, STATUS_INPUT, "the swarm",
                         "pass the whole join string, in the form tcp://HOST:PORT#KEY",
                         "%.16s... is a key, without the tracker's address", swarm);
    }
    return OK;
}

enum status swarm_reference_read(const char *swarm, struct region *region, struct join_string *join,
                                 struct fault *fault) {
    struct manifest manifest;
    TRY(swarm_reference_check(swarm, fault));
    if (is_join_string(swarm)) {
        return join_string_read(swarm, join, fault);
    }
    TRY(manifest_read_file(swarm, region, &manifest, fault));
    *join = manifest.join;
    return OK;
}

enum status swarm_load_identity(const char *path, struct key_pairs *keys, struct fault *fault) {
    char file[PATH_BYTES];
    bool is_new = false;
    TRY(identity_path(path, file, fault));
    return identity_load_or_create(file, keys, &is_new, fault);
}
