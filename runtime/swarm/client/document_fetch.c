#include "runtime/swarm/client/document_fetch.h"

#include "runtime/swarm/client/client.h"

#include <string.h>

/* The answer lies in the asker, which goes. */
static enum status take(const struct document_request *wish, const struct tracker_answer *answer,
                        struct region *region, const char **text, size_t *length,
                        struct fault *fault) {
    if (answer->count > wish->bytes_max) {
        return fault_set(fault, STATUS_INPUT, wish->tracker->address, NULL,
                         "the tracker sends %zu bytes, at most %zu are wanted", answer->count,
                         wish->bytes_max);
    }
    char *taken = region_alloc(region, answer->count + 1, 1);
    memcpy(taken, answer->bytes, answer->count);
    *text = taken;
    *length = answer->count;
    return OK;
}

enum status document_fetch(const struct document_request *wish, struct region *region,
                           const char **text, size_t *length, struct fault *fault) {
    const struct tracker_query_args question = {.ask = (enum wire_kind)wish->ask,
                                                .timeout_ms = wish->timeout_ms,
                                                .keep_on = wish->keep_on,
                                                .context = wish->context};
    struct region scratch = {0};
    struct tracker_client *asker = NULL;
    struct tracker_answer answer;
    enum status status = tracker_client_open(NULL, wish->tracker, &scratch, &asker, fault);
    if (status == OK) {
        status = tracker_query(asker, &question, &answer, fault);
        if (status == OK) {
            status = take(wish, &answer, region, text, length, fault);
        }
        tracker_client_close(asker);
    }
    region_finish(&scratch);
    return status;
}
