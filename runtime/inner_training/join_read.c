/* member_run_read: who a member is, which swarm it joins, and with which settings. */
#include "base/log.h"
#include "runtime/inner_training/join_order.h"
#include "runtime/swarm/client/document_fetch.h"
#include "transport/identity/identity.h"
#include "transport/site/stop.h"

#include <string.h>

static const int FIRST_WAIT_MS = 5000;
static const int LONGEST_WAIT_MS = 60000; /* cli.md: tries again at most every 60 s */

static enum status read_identity(struct member_run *joining, struct fault *fault) {
    char path[PATH_BYTES];
    bool made = false;
    enum status status = identity_path(joining->request.identity, path, fault);
    if (status == OK) {
        status = identity_load_or_create(path, &joining->keys, &made, fault);
    }
    if (status == OK && made) {
        log_line(LOG_INFO, "made an identity, and kept it secret, in %s", path);
    }
    return status;
}

static bool keep_on(void *context) {
    struct fault lost; /* which every later exchange says too */
    return lockstep_idle(context, &lost) == OK && !stop_requested();
}

/* The tracker may not run yet, or not for days: that is said once. */
static enum status fetch(struct member_run *joining, const struct join_string *tracker,
                         const char **text, size_t *length, struct fault *fault) {
    struct document_request wish = {.tracker = tracker,
                                    .ask = WIRE_MANIFEST_REQUEST,
                                    .answer = WIRE_MANIFEST,
                                    .bytes_max = MANIFEST_BYTES_MAX,
                                    .timeout_ms = FIRST_WAIT_MS,
                                    .keep_on = keep_on,
                                    .context = joining};
    enum status status = document_fetch(&wish, &joining->session.region, text, length, fault);
    if (status == STATUS_FAILED) {
        log_line(LOG_WARNING, "%s: %s; %s Trying again until it answers", fault->place,
                 fault->reason, fault->remedy);
    }
    while (status == STATUS_FAILED) {
        wish.timeout_ms =
            wish.timeout_ms * 2 < LONGEST_WAIT_MS ? wish.timeout_ms * 2 : LONGEST_WAIT_MS;
        status = document_fetch(&wish, &joining->session.region, text, length, fault);
    }
    return status;
}

/* A file every rank reads by itself; of several ranks one asks the tracker. */
static enum status get_manifest(struct member_run *joining, struct fault *fault) {
    struct join_string tracker;
    struct lockstep_command order = {.kind = COMMAND_MANIFEST};
    const char *text;
    size_t length;
    if (!is_join_string(joining->request.swarm)) {
        return OK;
    }
    enum status status = join_string_read(joining->request.swarm, &tracker, fault);
    if (status == OK) {
        status = fetch(joining, &tracker, &text, &length, fault);
    }
    if (status != OK) {
        return status;
    }
    joining->manifest_text = region_alloc(&joining->session.region, length + 1, 1);
    memcpy(joining->manifest_text, text, length);
    joining->manifest_bytes = order.bytes = length;
    return lockstep_do(joining, &order, fault);
}

static enum status ask(struct member_run *joining, struct fault *fault) {
    enum status status = read_identity(joining, fault);
    return status == OK ? get_manifest(joining, fault) : status;
}

static enum status read_manifest(struct member_run *joining, struct fault *fault) {
    struct region *region = &joining->session.region;
    struct join_string tracker;
    if (joining->manifest_text == NULL) {
        joining->place = joining->request.swarm;
        return manifest_read_file(joining->place, region, &joining->manifest, fault);
    }
    enum status status = join_string_read(joining->request.swarm, &tracker, fault);
    if (status != OK) {
        return status;
    }
    joining->place = region_text(region, tracker.address);
    status = manifest_read(joining->manifest_text, joining->manifest_bytes, joining->place,
                           &tracker.keys, region, &joining->manifest, fault);
    if (status == OK) { /* it answered there, and may have moved since the manifest was written */
        memcpy(joining->manifest.tracker.address, tracker.address, sizeof tracker.address);
    }
    return status;
}

static enum status read_settings(struct member_run *joining, struct fault *fault) {
    enum status status = read_manifest(joining, fault);
    struct swarm_member_source source = {.manifest = &joining->manifest,
                                         .place = joining->place,
                                         .overrides = joining->request.overrides,
                                         .override_count = joining->request.override_count};
    return status == OK ? session_read_swarm(&joining->session, &source, fault) : status;
}

enum status member_run_read(struct member_run *joining, const struct member_run_args *request,
                            struct fault *fault) {
    joining->request = *request;
    joining->metrics.fd = -1;
    joining->ledger.fd = -1;
    stop_watch();
    lockstep_plan(joining);
    enum status status = lockstep_run(joining, ask, fault);
    return status == OK ? session_agree(&joining->session, read_settings(joining, fault), fault)
                        : status;
}
