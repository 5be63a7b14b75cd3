/* member_settings: reads the identity of a member, the manifest of the swarm and the settings. */
#include "base/clock.h"
#include "base/log.h"
#include "runtime/inner_training/lockstep.h"
#include "runtime/swarm/client/client.h"
#include "transport/identity/identity.h"
#include "transport/site/stop.h"

#include <poll.h>

enum { STOP_POLL_MS = 100 }; /* time between two tests for a request to stop */

static const int FIRST_TIMEOUT_MS = 5000;
/* longest timeout of a query, and so the longest time between two retries */
static const int LONGEST_TIMEOUT_MS = 60000;

static enum status read_identity(struct member_run *member, struct fault *fault) {
    char path[PATH_BYTES];
    bool made = false;
    TRY(identity_path(member->swarm.args.identity, path, fault));
    TRY(identity_load_or_create(path, &member->swarm.keys, &made, fault));
    if (made) {
        log_line(LOG_INFO, "created an identity in %s; keep the file secret", path);
    }
    return OK;
}

/* Called while this process waits for an answer: keeps the other ranks waiting too. Returns false
 * once a signal asked the process to stop, or a rank was lost. */
static bool should_continue(void *context) {
    struct fault lost; /* ignored, because every later exchange reports the same fault */
    return lockstep_send_idle(context, &lost) == OK && !stop_requested();
}

/* Finds the tracker's keys and, unless `manifest` is NULL, fetches the manifest. */
static enum status contact_tracker(struct member_run *member, const struct join_string *join,
                                   int timeout_ms, struct tracker_answer *manifest,
                                   struct fault *fault) {
    struct region *region = &member->trainer.session.region;
    const struct key_pairs *identity = &member->swarm.keys;
    struct tracker_contact *tracker = &member->swarm.tracker;
    const struct delegation_search_args search = {.timeout_ms = timeout_ms,
                                                  .may_store = !member->swarm.args.reports_only,
                                                  .should_continue = should_continue,
                                                  .context = member};
    const struct tracker_query_args args = {.request = WIRE_MANIFEST_REQUEST,
                                            .timeout_ms = timeout_ms,
                                            .should_continue = should_continue,
                                            .context = member};
    if (!delegation_cache_path(join, member->swarm.delegation_path)) {
        member->swarm.delegation_path[0] = '\0';
    }
    TRY(delegation_search(join, &search, tracker, fault));
    return manifest == NULL ? OK
                            : tracker_query_once(identity, tracker, &args, region, manifest, fault);
}

/* After a failed query, waits until `wait_ms` have passed, unless the process is asked to stop. A
 * query fails at once if a name cannot be resolved. */
static enum status wait_for_retry(struct member_run *member, int64_t wait_ms, struct fault *fault) {
    const int64_t until_ms = clock_monotonic_ms() + wait_ms;
    while (clock_monotonic_ms() < until_ms) {
        if (!should_continue(member)) {
            return fault_set(fault, STATUS_STOPPED, "join", NULL, "stopped by request");
        }
        poll(NULL, 0, STOP_POLL_MS);
    }
    return OK;
}

/* Logs for how long the tracker has not answered, and when the next attempt begins. */
static void log_next_attempt(const char *address, int64_t began_ms, int64_t wait_ms) {
    char buffer[NAME_BYTES];
    struct text line = text_over(buffer, sizeof buffer);
    activity_add_time(&line, 1e-3 * (double)(clock_monotonic_ms() - began_ms));
    text_add(&line, wait_ms > 0 ? "; next attempt in %lld s" : "; next attempt now",
             (long long)(wait_ms + 999) / 1000);
    log_line(LOG_INFO, "%s: still no answer for %s", address, buffer);
}

/* Repeats the query until the tracker answers, because it may start much later. */
static enum status await_tracker(struct member_run *member, const struct join_string *join,
                                 struct tracker_answer *manifest, struct fault *fault) {
    int timeout_ms = FIRST_TIMEOUT_MS;
    const int64_t first_ms = clock_monotonic_ms();
    int64_t began_ms = first_ms;
    enum status status = contact_tracker(member, join, timeout_ms, manifest, fault);
    if (status == STATUS_FAILED && member->swarm.args.reports_only) {
        fault->status = STATUS_INPUT;
        return STATUS_INPUT;
    }
    if (status == STATUS_FAILED) {
        log_line(LOG_WARNING, "%s: %s; %s; retrying until it answers", fault->subject,
                 fault->reason, fault->remedy);
    }
    while (status == STATUS_FAILED) {
        const int64_t wait_ms = timeout_ms - (clock_monotonic_ms() - began_ms);
        if (began_ms != first_ms) { /* the first attempt was logged above */
            log_next_attempt(join->address, first_ms, wait_ms);
        }
        TRY(wait_for_retry(member, wait_ms, fault));
        began_ms = clock_monotonic_ms();
        timeout_ms = 2 * timeout_ms < LONGEST_TIMEOUT_MS ? 2 * timeout_ms : LONGEST_TIMEOUT_MS;
        status = contact_tracker(member, join, timeout_ms, manifest, fault);
    }
    return status;
}

/* Finds the tracker's keys for a manifest in a file, which contains all else. */
static enum status find_tracker_of_manifest_file(struct member_run *member, struct fault *fault) {
    struct region scratch = {0};
    struct join_string join;
    enum status status = swarm_reference_read(member->swarm.args.swarm, &scratch, &join, fault);
    region_finish(&scratch);
    return status == OK ? await_tracker(member, &join, NULL, fault) : status;
}

/* Fetches what is missing from the tracker. Every rank reads a manifest file by itself, but only
 * rank 0 requests the manifest from the tracker. */
static enum status get_manifest(struct member_run *member, struct fault *fault) {
    struct member_swarm *swarm = &member->swarm;
    struct lockstep_command command = {.kind = COMMAND_MANIFEST};
    struct join_string join;
    struct tracker_answer manifest;
    if (!is_join_string(swarm->args.swarm)) {
        return find_tracker_of_manifest_file(member, fault);
    }
    TRY(join_string_read(swarm->args.swarm, &join, fault));
    TRY(await_tracker(member, &join, &manifest, fault));
    swarm->text = region_alloc(&member->trainer.session.region, manifest.count + 1, 1);
    memcpy(swarm->text, manifest.bytes, manifest.count);
    swarm->text_bytes = command.bytes = manifest.count;
    return lockstep_execute(member, &command, fault);
}

/* Reads what rank 0 alone reads: the identity and the tracker's answer. A join string is checked
 * before an identity is created. */
static enum status read_as_rank0(struct member_run *member, struct fault *fault) {
    const char *swarm = member->swarm.args.swarm;
    struct join_string tracker;
    TRY(swarm_reference_check(swarm, fault));
    if (is_join_string(swarm)) {
        TRY(join_string_read(swarm, &tracker, fault));
    }
    TRY(read_identity(member, fault));
    return get_manifest(member, fault);
}

/* Reads the manifest from its file, or from the text that the tracker sent. If there is a join
 * string, its address replaces that in the manifest, because the tracker has answered there. */
static enum status read_manifest(struct member_swarm *swarm, struct region *region,
                                 struct fault *fault) {
    struct join_string join;
    if (swarm->text == NULL) {
        swarm->subject = swarm->args.swarm;
        return manifest_read_file(swarm->subject, region, &swarm->manifest, fault);
    }
    TRY(join_string_read(swarm->args.swarm, &join, fault));
    swarm->subject = region_copy_text(region, join.address);
    TRY(manifest_read(swarm->text, swarm->text_bytes, swarm->subject, &join.operator_keys, region,
                      &swarm->manifest, fault));
    memcpy(swarm->manifest.join.address, join.address, sizeof join.address);
    return OK;
}

static enum status read_settings(struct member_run *member, struct fault *fault) {
    struct session *session = &member->trainer.session;
    struct member_swarm *swarm = &member->swarm;
    TRY(read_manifest(swarm, &session->region, fault));
    if (session_is_rank0(session)) {
        TRY(manifest_check_delegation(&swarm->manifest, &swarm->tracker, fault));
    }
    const struct swarm_member_source source = {.manifest = &swarm->manifest,
                                               .subject = swarm->subject,
                                               .overrides = swarm->args.overrides,
                                               .override_count = swarm->args.override_count};
    return member_session_read(session, &source, &swarm->terms, fault);
}

enum status member_run_read(struct member_run *member, const struct member_run_args *args,
                            struct fault *fault) {
    member->swarm.args = *args;
    member->trainer.metrics.fd = -1;
    member->outer.ledger.fd = -1;
    watch_stop_signals();
    lockstep_plan(member);
    TRY(lockstep_run(member, read_as_rank0, fault));
    return session_agree(&member->trainer.session, read_settings(member, fault), fault);
}
