#include "runtime/swarm/client/swarm_fetch.h"

#include "runtime/swarm/client/client.h"

static enum status ask(const struct join_string *tracker, struct region *region,
                       struct manifest *manifest, struct fault *fault) {
    const struct tracker_query_args question = {.ask = WIRE_MANIFEST_REQUEST,
                                                .timeout_ms = SWARM_FETCH_MS};
    struct region scratch = {0};
    struct tracker_client *asker = NULL;
    struct tracker_answer answer;
    enum status status = tracker_client_open(NULL, tracker, &scratch, &asker, fault);
    if (status == OK) {
        status = tracker_query(asker, &question, &answer, fault);
    }
    if (status == OK) {
        status = manifest_read((const char *)answer.bytes, answer.count, tracker->address,
                               &tracker->keys, region, manifest, fault);
    }
    if (asker != NULL) {
        tracker_client_close(asker);
    }
    region_finish(&scratch);
    return status;
}

enum status manifest_fetch(const char *join_string, struct region *region,
                           struct manifest *manifest, const char **place, struct fault *fault) {
    struct join_string tracker;
    enum status status = join_string_read(join_string, &tracker, fault);
    if (status != OK) {
        return status;
    }
    status = ask(&tracker, region, manifest, fault);
    if (status == OK) {
        *place = region_text(region, tracker.address);
    }
    return status;
}
