/* track: `skep track RUN.yaml`: the tracker of a swarm: makes its manifest, prints the join string,
 * and serves until it is asked to stop. */
#include "base/log.h"
#include "base/text.h"
#include "runtime/cli/arguments.h"
#include "runtime/cli/command.h"
#include "runtime/cli/reports/json_stdout.h"
#include "runtime/swarm_setup/tracker_setup.h"
#include "transport/site/stop.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

struct tracking {
    struct tracker_setup track;
    struct region region;
    struct tracker_loop *loop;
    bool json;
};

/* From here on the three signals end the loop's wait. Threads made later inherit the mask, so none
 * of them takes a signal. */
static enum status watch_signals(int *fd, struct fault *fault) {
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGHUP);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    signal(SIGXFSZ, SIG_IGN); /* a file that may not grow is a full disk, which is waited for */
    *fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
    return *fd >= 0 ? OK
                    : fault_set_errno(fault, STATUS_FAILED, "signals", "cannot be watched", errno);
}

static void print_document(const struct tracker_setup *track, const char *join) {
    struct json_stdout out;
    struct json_writer *json = json_stdout_begin(&out);
    json_add_i64(json, "format", 1);
    json_add_text(json, "join", join);
    json_add_text(json, "name", track->manifest.name);
    json_add_hex(json, "hash", track->manifest.hash.bytes, HASH_BYTES);
    json_add_text(json, "manifest", track->manifest_path);
    json_add_text(json, "roster", track->roster);
    json_add_text(json, "state", track->state);
    json_stdout_end(&out);
}

static void say_where(const struct tracking *tracking) {
    const struct tracker_setup *track = &tracking->track;
    char join[JOIN_STRING_BYTES];
    char hash[HASH_HEX_BYTES];
    char bytes[24];
    const struct tracker_loop_options options = tracker_setup_options(track);
    join_string_write(&track->join, join);
    if (tracking->json) {
        print_document(track, join);
    } else {
        puts(join);
    }
    fflush(stdout);
    log_line(LOG_INFO, "swarm %s, manifest %.16s%s in %s", track->manifest.name,
             hash_hex(&track->manifest.hash, hash), track->is_new ? ", made now," : "",
             track->manifest_path);
    log_line(LOG_INFO, "listening at %s as %s; who may join stands in %s", track->listen,
             track->join.address, track->roster);
    log_line(LOG_INFO, "%u slices, at most %u members, a run of %u committed rounds; %s held",
             options.settings.slice_count, options.members_max, options.settings.commits_max,
             text_bytes(tracker_loop_bytes(&options), bytes));
}

static enum status serve(struct tracking *tracking, struct fault *fault) {
    struct tracker_loop_options options = tracker_setup_options(&tracking->track);
    enum status status = watch_signals(&options.stop_fd, fault);
    if (status != OK || stop_requested()) {
        return status;
    }
    status = tracker_loop_open(&options, &tracking->region, &tracking->loop, fault);
    if (status == OK) {
        say_where(tracking);
        status = tracker_loop_run(tracking->loop, fault);
        tracker_loop_close(tracking->loop);
    }
    close(options.stop_fd);
    return status;
}

int command_track(int argc, char **argv) {
    static struct tracking tracking;
    struct arguments arguments;
    struct tracker_setup_args wish = {0};
    struct fault fault;
    const struct flag flags[] = {
        {"--listen", &wish.listen, NULL},     {"--public", &wish.address, NULL},
        {"--state", &wish.state, NULL},       {"--roster", &wish.roster, NULL},
        {"--identity", &wish.identity, NULL}, {"--ledger", &wish.ledger, NULL},
        {"--json", NULL, &tracking.json}};
    enum status status =
        arguments_read(argc, argv, flags, ARRAY_COUNT(flags), 1, &arguments, &fault);
    stop_watch();
    if (status == OK) {
        wish.run_path = arguments.positionals[0];
        wish.overrides = arguments.overrides;
        wish.override_count = arguments.override_count;
        status = tracker_setup_prepare(&wish, &tracking.region, &tracking.track, &fault);
    }
    if (status == OK) {
        status = serve(&tracking, &fault);
    }
    keys_wipe(&tracking.track.keys);
    region_finish(&tracking.region);
    if (status != OK && status != STATUS_STOPPED) {
        fault_print(&fault, STDERR_FILENO);
    }
    return fault_exit_code(status);
}
