#include "runtime/swarm/client/swarm_place.h"

#include "runtime/swarm/ledger/manifest.h"
#include "transport/identity/identity.h"

#include <string.h>

static const char SUFFIX[] = ".skep";

bool swarm_is_reference(const char *text) {
    size_t length = strlen(text);
    size_t suffix = sizeof SUFFIX - 1;
    return is_join_string(text) || (length > suffix && strcmp(text + length - suffix, SUFFIX) == 0);
}

enum status swarm_reference_read(const char *swarm, struct region *region,
                                 struct join_string *tracker, struct fault *fault) {
    struct manifest manifest;
    if (is_join_string(swarm)) {
        return join_string_read(swarm, tracker, fault);
    }
    enum status status = manifest_read_file(swarm, region, &manifest, fault);
    if (status == OK) {
        *tracker = manifest.tracker;
    }
    return status;
}

enum status swarm_identity(const char *given, struct key_pairs *keys, struct fault *fault) {
    char path[PATH_BYTES];
    bool made = false;
    enum status status = identity_path(given, path, fault);
    return status == OK ? identity_load_or_create(path, keys, &made, fault) : status;
}
