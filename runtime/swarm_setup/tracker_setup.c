#include "runtime/swarm_setup/tracker_setup.h"

#include "base/file.h"
#include "base/log.h"
#include "runtime/swarm/tracker/allow_list.h"
#include "runtime/swarm/tracker/tracker_import.h"
#include "transport/identity/identity.h"
#include "transport/messages/messages.h"
#include "transport/site/stop.h"

#include <unistd.h>

static const char SCHEME[] = "tcp://";
static const char DEFAULT_LISTEN[] = "tcp://*:7700";

enum {
    QUEUED_FRAMES = 16,
    /* Assumed of members that have measured nothing yet: too high only makes the first round
     * long. */
    FIRST_STEP_MS = 2000,
    FIRST_TRANSFER_MS = 10000,
    FIRST_ROUND_TRIP_MS = 100,
    /* With no member on the newest state: long enough to restart a machine. */
    ROLLBACK_AFTER_MS = 30 * 60 * 1000,
};

static enum status bad_address(const char *given, const char *flag, const char *wrong,
                               struct fault *fault) {
    return fault_set(fault, STATUS_USAGE, flag, "write it as tcp://HOST:PORT", "\"%s\" %s", given,
                     wrong);
}

static enum status with_scheme(const char *given, const char *flag,
                               char address[static MESSAGE_ADDRESS_BYTES], struct fault *fault) {
    struct text text = text_over(address, MESSAGE_ADDRESS_BYTES);
    bool has_scheme = strstr(given, "://") != NULL;
    text_add(&text, "%s%s", has_scheme ? "" : SCHEME, given);
    return text.truncated ? bad_address(given, flag, "is too long", fault) : OK;
}

/* The digits of the port number, or NULL without one. */
static const char *port_of(const char *address) {
    const char *colon = strrchr(address, ':');
    return colon == NULL || strchr(colon, '/') != NULL || strchr(colon, ']') != NULL ? NULL
                                                                                     : colon + 1;
}

static bool is_any_port(const char *address) {
    const char *port = port_of(address);
    return port != NULL && (strcmp(port, "*") == 0 || strcmp(port, "0") == 0);
}

static enum status set_port(char address[static MESSAGE_ADDRESS_BYTES], const char *port,
                            struct fault *fault) {
    char host[MESSAGE_ADDRESS_BYTES];
    size_t length = (size_t)(port_of(address) - address);
    memcpy(host, address, length);
    struct text text = text_over(address, MESSAGE_ADDRESS_BYTES);
    text_add(&text, "%.*s%s", (int)length, host, port);
    return text.truncated ? bad_address(host, "--listen", "is too long", fault) : OK;
}

/* The address to listen at. A free port number is chosen once, for a new swarm: the manifest
 * contains it, and members reconnect to it. */
static enum status choose_listen(struct tracker_setup *track, const struct tracker_setup_args *wish,
                                 const struct manifest *before, struct fault *fault) {
    const char *given = wish->listen == NULL ? DEFAULT_LISTEN : wish->listen;
    char port[8];
    TRY(with_scheme(given, "--listen", track->listen, fault));
    if (port_of(track->listen) == NULL) {
        return bad_address(given, "--listen", "has no :PORT at its end", fault);
    }
    bool is_chosen_before = before != NULL && (wish->listen == NULL || is_any_port(track->listen));
    if (is_chosen_before && wish->address == NULL) {
        return set_port(track->listen, port_of(before->tracker.address), fault);
    }
    if (!is_any_port(track->listen)) {
        return OK;
    }
    struct text text = text_over(port, sizeof port);
    text_add(&text, "%u", local_free_port());
    return set_port(track->listen, port, fault);
}

/* The address that members connect to: the given one, the earlier one, the one listened at, or this
 * machine's. */
static enum status choose_address(struct tracker_setup *track,
                                  const struct tracker_setup_args *wish,
                                  const struct manifest *before, struct fault *fault) {
    char *address = track->join.address;
    const char *port = port_of(track->listen);
    const char *host = track->listen + sizeof SCHEME - 1;
    bool is_everywhere =
        *host == '*' || strncmp(host, "0.0.0.0:", 8) == 0 || strncmp(host, "[::]:", 5) == 0;
    if (wish->address != NULL) {
        TRY(with_scheme(wish->address, "--public", address, fault));
    } else if (before != NULL && wish->listen == NULL) {
        memcpy(address, before->tracker.address, sizeof before->tracker.address);
    } else if (!is_everywhere) {
        memcpy(address, track->listen, sizeof track->listen);
    } else {
        char own[LOCAL_ADDRESS_BYTES];
        struct text text = text_over(address, MESSAGE_ADDRESS_BYTES);
        text_add(&text, "%s%s:%s", SCHEME, local_address(own), port);
    }
    const char *wrong = address_error(address);
    return wrong == NULL ? OK : bad_address(address, "--public", wrong, fault);
}

/* Other processes use these paths in other folders: make them absolute. */
static enum status from_root(const char *path, char out[static PATH_BYTES], struct fault *fault) {
    char folder[PATH_BYTES / 2];
    if (getcwd(folder, sizeof folder) == NULL || strlen(path) >= PATH_BYTES / 2) {
        return fault_set(fault, STATUS_INPUT, "path", NULL, "is longer than %d characters",
                         PATH_BYTES / 2);
    }
    file_join(folder, path, out, PATH_BYTES);
    return OK;
}

static enum status place_files(struct tracker_setup *track, const struct tracker_setup_args *wish,
                               struct fault *fault) {
    char name[MANIFEST_NAME_BYTES + 8];
    struct text text = text_over(name, sizeof name);
    text_add(&text, "%s.skep", track->offer.settings.swarm_name);
    TRY(from_root(wish->state == NULL ? track->offer.settings.stem : wish->state, track->state,
                  fault));
    if (strlen(track->state) + sizeof name + 2 > PATH_BYTES) {
        return fault_set(fault, STATUS_INPUT, "--state", NULL, "the path is too long");
    }
    file_join(track->state, name, track->manifest_path, PATH_BYTES);
    file_join(track->state, "tracker.db", track->store, PATH_BYTES);
    file_join(track->state, "roster.yaml", track->roster, PATH_BYTES);
    file_join(track->state, "identity", track->identity, PATH_BYTES);
    if (wish->roster != NULL) {
        TRY(from_root(wish->roster, track->roster, fault));
    }
    if (wish->identity != NULL) {
        TRY(from_root(wish->identity, track->identity, fault));
    }
    return OK;
}

static enum status write_text(const char *path, const char *text, struct fault *fault) {
    char beside[PATH_BYTES + 8];
    struct text name = text_over(beside, sizeof beside);
    text_add(&name, "%s.new", path);
    return file_replace(path, beside, text, strlen(text), fault);
}

/* A copy for people, beside the run file. */
static enum status write_copy(const struct tracker_setup *track, const char *run_path,
                              struct fault *fault) {
    char folder[PATH_BYTES], path[PATH_BYTES];
    const char *name = strrchr(track->manifest_path, '/');
    file_folder_of(run_path, folder, sizeof folder);
    file_join(folder, name == NULL ? track->manifest_path : name + 1, path, sizeof path);
    return write_text(path, track->text, fault);
}

static enum status read_before(struct tracker_setup *track, struct region *region,
                               struct fault *fault) {
    size_t length = 0;
    track->text = region_alloc(region, MANIFEST_BYTES_MAX + 1, 1);
    TRY(file_read_text(track->manifest_path, track->text, MANIFEST_BYTES_MAX + 1, &length, fault));
    return manifest_read(track->text, length, track->manifest_path, &track->keys.public_keys,
                         region, &track->manifest, fault);
}

static enum status make_manifest(struct tracker_setup *track, struct region *region,
                                 struct fault *fault) {
    const char *text = NULL;
    TRY(manifest_draft_sign(&track->offer, track->join.address, &track->keys, region,
                            &track->manifest, &text, fault));
    if (stop_requested()) {
        return fault_set(fault, STATUS_STOPPED, "track", NULL, "asked to stop");
    }
    track->text = (char *)(uintptr_t)text;
    track->is_new = true;
    return write_text(track->manifest_path, text, fault);
}

/* Errors that would prevent serving are found before a new swarm is created, because its manifest
 * contains the address for ever. */
static enum status try_serving(const struct tracker_setup *track, struct fault *fault) {
    struct region scratch = {0};
    struct messenger *messenger = NULL;
    const struct messenger_options options = {
        .keys = &track->keys, .listen = track->listen, .peers_max = 1, .queued_frames = 2};
    struct allow_list *roster = region_alloc(&scratch, 1, sizeof *roster);
    enum status status = allow_list_read(track->roster, roster, fault);
    if (status == OK) {
        status = messenger_open(&options, &scratch, &messenger, fault);
    }
    if (status == OK) {
        messenger_close(messenger, 0);
    }
    region_finish(&scratch);
    return status;
}

static enum status make_swarm(struct tracker_setup *track, struct region *region,
                              struct fault *fault) {
    TRY(try_serving(track, fault));
    return make_manifest(track, region, fault);
}

/* Members have copies of the lost ledger and would reject a second one. */
static enum status fault_of_lost_store(const struct tracker_setup *track, struct fault *fault) {
    char remedy[sizeof fault->remedy];
    struct text text = text_over(remedy, sizeof remedy);
    text_add(&text,
             "restore it, or start from the longest ledger.jsonl of the members: --ledger FILE; "
             "if no member has ever joined, remove %.*s",
             (int)(sizeof remedy / 2), track->manifest_path);
    return fault_set(fault, STATUS_INPUT, track->store, remedy,
                     "contains no ledger, but the swarm %s has begun", track->manifest.name);
}

static enum status check_store(const struct tracker_setup *track, const char *copy,
                               struct fault *fault) {
    if (copy == NULL) {
        bool has_entries = true;
        TRY(tracker_store_has_entries(track->store, &has_entries, fault));
        return has_entries ? OK : fault_of_lost_store(track, fault);
    }
    const struct tracker_import import = {.from = copy,
                                          .store = track->store,
                                          .tracker_key = track->keys.public_keys.sign,
                                          .manifest = track->manifest.hash};
    uint64_t count = 0;
    TRY(tracker_import(&import, &count, fault));
    log_line(LOG_INFO, "recreated the store from %s: %llu entries", copy,
             (unsigned long long)count);
    return OK;
}

/* A copy of the ledger is of no use without the manifest of its swarm. */
static enum status fault_of_missing_manifest(const struct tracker_setup *track,
                                             struct fault *fault) {
    return fault_set(fault, STATUS_INPUT, track->manifest_path,
                     "restore it and the tracker's identity, or start without --ledger",
                     "is missing, and identifies the swarm of the ledger");
}

/* Returns the manifest of a swarm that was created before; *before is NULL for a new one. */
static enum status find_before(struct tracker_setup *track, const struct tracker_setup_args *wish,
                               struct region *region, const struct manifest **before,
                               struct fault *fault) {
    *before = NULL;
    if (file_exists(track->manifest_path)) {
        *before = &track->manifest;
        return read_before(track, region, fault);
    }
    return wish->ledger == NULL ? OK : fault_of_missing_manifest(track, fault);
}

static enum status check_before(struct tracker_setup *track, const struct tracker_setup_args *wish,
                                struct fault *fault) {
    TRY(manifest_draft_matches(&track->offer, &track->manifest, track->manifest_path, &track->join,
                               fault));
    return check_store(track, wish->ledger, fault);
}

enum status tracker_setup_prepare(const struct tracker_setup_args *wish, struct region *region,
                                  struct tracker_setup *track, struct fault *fault) {
    const struct manifest *before;
    bool made = false;
    TRY(manifest_draft_read(wish->run_path, wish->overrides, wish->override_count, region,
                            &track->offer, fault));
    TRY(place_files(track, wish, fault));
    TRY(file_make_folders(track->state, fault));
    TRY(identity_load_or_create(track->identity, &track->keys, &made, fault));
    TRY(find_before(track, wish, region, &before, fault));
    track->join.keys = track->keys.public_keys;
    TRY(choose_listen(track, wish, before, fault));
    TRY(choose_address(track, wish, before, fault));
    TRY(before != NULL ? check_before(track, wish, fault) : make_swarm(track, region, fault));
    track->offer.terms.manifest = &track->manifest;
    return write_copy(track, wish->run_path, fault);
}

struct tracker_loop_options tracker_setup_options(const struct tracker_setup *track) {
    const struct settings *settings = &track->offer.settings;
    const struct swarm_terms *terms = &track->offer.terms;
    const struct timing_measured first = {.step_ms = FIRST_STEP_MS,
                                          .transfer_ms = FIRST_TRANSFER_MS,
                                          .round_trip_ms = FIRST_ROUND_TRIP_MS};
    const struct timing_training training = {.steps = (uint32_t)settings->swarm_inner_steps,
                                             .patience = settings->swarm_patience};
    return (struct tracker_loop_options){
        .keys = &track->keys,
        .name = track->manifest.name,
        .listen = track->listen,
        .store_path = track->store,
        .allow_list_path = track->roster,
        .manifest = (const uint8_t *)track->text,
        .manifest_bytes = strlen(track->text),
        .manifest_hash = track->manifest.hash,
        .genesis_root = track->manifest.genesis,
        .settings = {.slice_count = terms->shape.slices.count,
                     .slice_elements = (uint64_t)terms->shape.slices.elements,
                     .parameter_count = (uint64_t)terms->shape.slices.parameter_count,
                     .seat_samples = terms->seat_samples,
                     .sample_tokens = terms->sample_tokens,
                     .members_min = (uint32_t)settings->swarm_members_min,
                     .shrink_after_ms = (uint32_t)(settings->swarm_shrink_after_s * 1000),
                     .rollback_after_ms = ROLLBACK_AFTER_MS,
                     .commits_max = terms->commits_max,
                     .training = training,
                     .timing = timing_derive(&first, 1, &training)},
        .members_max = terms->shape.members_max,
        .queued_frames = QUEUED_FRAMES,
        .stop_fd = -1,
    };
}
