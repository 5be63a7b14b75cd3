#include "runtime/swarm/client/client.h"

#include "transport/identity/identity.h"

#include <string.h>

static const char SUFFIX[] = ".skep";

bool swarm_is_reference(const char *text) {
    size_t length = strlen(text);
    size_t suffix = sizeof SUFFIX - 1;
    return is_join_string(text) || (length > suffix && strcmp(text + length - suffix, SUFFIX) == 0);
}

enum status swarm_reference_read(const char *swarm, struct region *region, struct join_string *join,
                                 struct fault *fault) {
    struct manifest manifest;
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
