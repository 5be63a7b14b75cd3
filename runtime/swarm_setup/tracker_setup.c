#include "runtime/swarm_setup/tracker_setup.h"

#include "base/file.h"
#include "base/log.h"
#include "runtime/swarm/delegation/delegation_server.h"
#include "runtime/swarm/replica/sum_check.h"
#include "runtime/swarm/tracker/allow_list.h"
#include "runtime/swarm/tracker/tracker_import.h"
#include "runtime/swarm_setup/state_folder.h"
#include "runtime/swarm_setup/tracker_delegation.h"
#include "transport/identity/identity.h"
#include "transport/identity/operator_key.h"
#include "transport/messages/messages.h"
#include "transport/site/stop.h"

#include <unistd.h>

static const char SCHEME[] = "tcp://";
static const char DEFAULT_LISTEN[] = "tcp://*:7700";

enum {
    QUEUED_FRAMES = 16,          /* maximum number of frames in each queue of a connection */
    ASSUMED_STEP_MS = 2000,      /* assumed duration of an inner step until members measure it */
    ASSUMED_TRANSFER_MS = 60000, /* assumed transfer time of an exchange until it is measured */
    ASSUMED_ROUND_TRIP_MS = 100, /* assumed round-trip time until it is measured */
    /* wait for a member with the newest state before a rollback: enough to restart a machine */
    ROLLBACK_AFTER_MS = 30 * 60 * 1000,
};

static enum status set_address_fault(const char *given, const char *flag, const char *error,
                                     struct fault *fault) {
    return fault_set(fault, STATUS_USAGE, flag, "write it as tcp://HOST:PORT", "\"%s\" %s", given,
                     error);
}

static enum status add_scheme(const char *given, const char *flag,
                              char address[static MESSAGE_ADDRESS_BYTES], struct fault *fault) {
    struct text text = text_over(address, MESSAGE_ADDRESS_BYTES);
    bool has_scheme = strstr(given, "://") != NULL;
    text_add(&text, "%s%s", has_scheme ? "" : SCHEME, given);
    return text.truncated ? set_address_fault(given, flag, "is too long", fault) : OK;
}

/* Returns the digits of the port number, or NULL if the address has none. */
static const char *find_port(const char *address) {
    const char *colon = strrchr(address, ':');
    return colon == NULL || strchr(colon, '/') != NULL || strchr(colon, ']') != NULL ? NULL
                                                                                     : colon + 1;
}

static bool has_wildcard_port(const char *address) {
    const char *port = find_port(address);
    return port != NULL && (strcmp(port, "*") == 0 || strcmp(port, "0") == 0);
}

static enum status set_port_number(char address[static MESSAGE_ADDRESS_BYTES], const char *port,
                                   struct fault *fault) {
    char host[MESSAGE_ADDRESS_BYTES];
    size_t length = (size_t)(find_port(address) - address);
    memcpy(host, address, length);
    struct text text = text_over(address, MESSAGE_ADDRESS_BYTES);
    text_add(&text, "%.*s%s", (int)length, host, port);
    return text.truncated ? set_address_fault(host, "--listen", "is too long", fault) : OK;
}

/* Sets the address to listen on. A free port number is chosen only once, for a new swarm: the
 * manifest contains it, and members reconnect to it. */
static enum status choose_listen_address(struct tracker_setup *setup,
                                         const struct tracker_setup_args *args,
                                         const struct manifest *earlier, struct fault *fault) {
    const char *given = args->listen_address == NULL ? DEFAULT_LISTEN : args->listen_address;
    char port[8];
    TRY(add_scheme(given, "--listen", setup->listen_address, fault));
    if (find_port(setup->listen_address) == NULL) {
        return set_address_fault(given, "--listen", "does not end in :PORT", fault);
    }
    bool is_chosen_earlier = earlier != NULL && (args->listen_address == NULL ||
                                                 has_wildcard_port(setup->listen_address));
    if (is_chosen_earlier && args->public_address == NULL) {
        return set_port_number(setup->listen_address, find_port(earlier->join.address), fault);
    }
    if (!has_wildcard_port(setup->listen_address)) {
        return OK;
    }
    struct text text = text_over(port, sizeof port);
    text_add(&text, "%u", local_free_port());
    return set_port_number(setup->listen_address, port, fault);
}

/* Sets the address that members connect to: that of --public, else that in the existing manifest,
 * else that of --listen, else an address of this machine. */
static enum status choose_public_address(struct tracker_setup *setup,
                                         const struct tracker_setup_args *args,
                                         const struct manifest *earlier, struct fault *fault) {
    char *address = setup->join.address;
    const char *port = find_port(setup->listen_address);
    const char *host = setup->listen_address + sizeof SCHEME - 1;
    bool is_everywhere =
        *host == '*' || strncmp(host, "0.0.0.0:", 8) == 0 || strncmp(host, "[::]:", 5) == 0;
    if (args->public_address != NULL) {
        TRY(add_scheme(args->public_address, "--public", address, fault));
    } else if (earlier != NULL && args->listen_address == NULL) {
        memcpy(address, earlier->join.address, sizeof earlier->join.address);
    } else if (!is_everywhere) {
        memcpy(address, setup->listen_address, sizeof setup->listen_address);
    } else {
        char local[LOCAL_ADDRESS_BYTES];
        struct text text = text_over(address, MESSAGE_ADDRESS_BYTES);
        text_add(&text, "%s%s:%s", SCHEME, local_address(local), port);
    }
    const char *error = address_error(address);
    return error == NULL ? OK : set_address_fault(address, "--public", error, fault);
}

/* Makes a path absolute, because it is logged for people who work in other folders. */
static enum status make_absolute(const char *path, char out[static PATH_BYTES],
                                 struct fault *fault) {
    char folder[PATH_BYTES / 2];
    if (getcwd(folder, sizeof folder) == NULL || strlen(path) >= PATH_BYTES / 2) {
        return fault_set(fault, STATUS_INPUT, "path", NULL, "is longer than %d characters",
                         PATH_BYTES / 2);
    }
    path_join(folder, path, out, PATH_BYTES);
    return OK;
}

static enum status set_paths(struct tracker_setup *setup, const struct tracker_setup_args *args,
                             struct fault *fault) {
    char name[MANIFEST_NAME_BYTES + 8];
    struct text text = text_over(name, sizeof name);
    text_add(&text, "%s.skep", setup->draft.settings.swarm_name);
    TRY(make_absolute(args->state_folder == NULL ? setup->draft.settings.stem : args->state_folder,
                      setup->state_folder, fault));
    if (strlen(setup->state_folder) + sizeof name + 2 > PATH_BYTES) {
        return fault_set(fault, STATUS_INPUT, "--state", NULL, "the path is too long");
    }
    path_join(setup->state_folder, name, setup->manifest_path, PATH_BYTES);
    path_join(setup->state_folder, "tracker.db", setup->store_path, PATH_BYTES);
    path_join(setup->state_folder, "roster.yaml", setup->allow_list_path, PATH_BYTES);
    path_join(setup->state_folder, "identity", setup->identity_path, PATH_BYTES);
    path_join(setup->state_folder, "operator.key", setup->operator_key_path, PATH_BYTES);
    path_join(setup->state_folder, "rollback.json", setup->order_path, PATH_BYTES);
    path_join(setup->state_folder, "waiting.json", setup->waiting_path, PATH_BYTES);
    path_join(setup->state_folder, "continue.json", setup->continue_path, PATH_BYTES);
    path_join(setup->state_folder, DELEGATION_FILE_NAME, setup->delegation_path, PATH_BYTES);
    if (args->allow_list_path != NULL) {
        TRY(make_absolute(args->allow_list_path, setup->allow_list_path, fault));
    }
    if (args->identity_path != NULL) {
        TRY(make_absolute(args->identity_path, setup->identity_path, fault));
    }
    if (args->operator_key_path != NULL) {
        TRY(make_absolute(args->operator_key_path, setup->operator_key_path, fault));
    }
    return OK;
}

static bool is_same_file(const char *a, const char *b) {
    const struct file_stamp one = file_stamp_of(a), other = file_stamp_of(b);
    return one.inode != 0 && one.inode == other.inode && one.device == other.device;
}

static enum status replace_text_file(const char *path, const char *text, struct fault *fault) {
    char beside[PATH_BYTES + 8];
    struct text name = text_over(beside, sizeof beside);
    text_add(&name, "%s.new", path);
    return file_replace(path, beside, text, strlen(text), fault);
}

/* Writes the path of the manifest's copy beside the run file. Returns false for a service, which
 * may not write there. */
static bool manifest_copy_path(const struct tracker_setup *setup, const char *run_path,
                               char path[static PATH_BYTES]) {
    char folder[PATH_BYTES];
    const char *name = strrchr(setup->manifest_path, '/');
    file_parent_folder(run_path, folder, sizeof folder);
    path_join(folder, name == NULL ? setup->manifest_path : name + 1, path, PATH_BYTES);
    return access(folder, W_OK) == 0;
}

static enum status write_manifest_copy(const struct tracker_setup *setup, const char *run_path,
                                       struct fault *fault) {
    char path[PATH_BYTES];
    if (!manifest_copy_path(setup, run_path, path)) {
        log_line(LOG_INFO, "%s: this copy of the manifest cannot be written; the only copy is %s",
                 path, setup->manifest_path);
        return OK;
    }
    return replace_text_file(path, setup->manifest_text, fault);
}

/* Rejects a run whose copy of the manifest would replace the manifest of another swarm. */
static enum status check_manifest_copy(const struct tracker_setup *setup, const char *run_path,
                                       const struct manifest *earlier, struct fault *fault) {
    struct region scratch = {0};
    struct fault unreadable;
    char path[PATH_BYTES];
    char *text = region_alloc(&scratch, MANIFEST_BYTES_MAX + 1, 1);
    size_t length = 0;
    bool is_other = manifest_copy_path(setup, run_path, path) && file_exists(path) &&
                    !is_same_file(path, setup->manifest_path);
    if (is_other && earlier != NULL) {
        is_other = file_read_text(path, text, MANIFEST_BYTES_MAX + 1, &length, &unreadable) != OK ||
                   strcmp(text, setup->manifest_text) != 0;
    }
    region_finish(&scratch);
    return !is_other
               ? OK
               : fault_set(fault, STATUS_INPUT, path, "move it away, or choose another swarm.name",
                           "is the manifest of another swarm, which this one would overwrite");
}

static enum status read_earlier_manifest(struct tracker_setup *setup, struct region *region,
                                         struct fault *fault) {
    size_t length = 0;
    setup->manifest_text = region_alloc(region, MANIFEST_BYTES_MAX + 1, 1);
    TRY(file_read_text(setup->manifest_path, setup->manifest_text, MANIFEST_BYTES_MAX + 1, &length,
                       fault));
    return manifest_read(setup->manifest_text, length, setup->manifest_path, NULL, region,
                         &setup->manifest, fault);
}

/* If there is no operator's key yet, creates it beside the tracker's identity. */
static enum status read_or_create_operator_key(const struct tracker_setup *setup,
                                               struct operator_key *key, struct fault *fault) {
    bool is_created = false;
    TRY(operator_key_read_or_create(setup->operator_key_path, key, &is_created, fault));
    if (is_created) {
        log_line(LOG_INFO,
                 "created the operator's key %s; only signing new keys of the tracker and orders "
                 "needs it, so move it to a safe place",
                 setup->operator_key_path);
    }
    return key->has_secrets
               ? OK
               : fault_set(fault, STATUS_INPUT, setup->operator_key_path,
                           "pass the identity file of the operator; it may be moved away once the "
                           "swarm is created",
                           "contains only the operator's public key, which cannot sign a new "
                           "swarm");
}

/* Signs all documents. The manifest is written last, because a swarm exists once it has one. */
static enum status sign_swarm_documents(struct tracker_setup *setup,
                                        const struct key_pairs *operator_keys,
                                        struct region *region, struct fault *fault) {
    const char *text = NULL;
    TRY(manifest_draft_sign(&setup->draft, setup->join.address, operator_keys, region,
                            &setup->manifest, &text, fault));
    if (stop_requested()) {
        return fault_set(fault, STATUS_STOPPED, "track", NULL, "stopped by request");
    }
    TRY(tracker_delegation_sign(setup, operator_keys, &setup->manifest.hash,
                                &setup->keys.public_keys, 0, fault));
    TRY(allow_list_sign_file(setup->allow_list_path, &setup->manifest.hash, operator_keys, fault));
    setup->manifest_text = (char *)(uintptr_t)text;
    setup->is_new = true;
    return replace_text_file(setup->manifest_path, text, fault);
}

static enum status create_manifest(struct tracker_setup *setup, struct region *region,
                                   struct fault *fault) {
    struct operator_key key;
    enum status status = read_or_create_operator_key(setup, &key, fault);
    if (status == OK) {
        status = sign_swarm_documents(setup, &key.keys, region, fault);
    }
    keys_wipe(&key.keys);
    return status;
}

/* Checks that the allow-list can be read and that the address can be used. This happens before a
 * new swarm is created, because its manifest contains the address permanently. */
static enum status check_list_and_address(const struct tracker_setup *setup, struct fault *fault) {
    struct region scratch = {0};
    struct messenger *messenger = NULL;
    struct delegation_server *server = NULL;
    const struct messenger_options options = {
        .keys = &setup->keys, .listen = setup->listen_address, .peers_max = 1, .queued_frames = 2};
    struct allow_list *roster = region_alloc(&scratch, 1, sizeof *roster);
    enum status status = allow_list_read_complete(setup->allow_list_path, roster, fault);
    if (status == OK) {
        status = messenger_open(&options, &scratch, &messenger, fault);
    }
    if (status == OK) {
        messenger_close(messenger, 0);
        status = delegation_server_open(setup->listen_address, &scratch, &server, fault);
    }
    if (status == OK) {
        delegation_server_close(server);
    }
    region_finish(&scratch);
    return status;
}

/* Starts the allow-list of a new swarm with the identity of the user who runs the tracker, so that
 * `skep status` answers the operator. A service without a home folder has no such identity. */
static enum status add_operator_to_allow_list(const struct tracker_setup *setup,
                                              struct fault *fault) {
    struct fault ignored;
    struct key_pairs keys;
    char path[PATH_BYTES], key[KEYS_TEXT_BYTES];
    bool is_created = false;
    if (file_exists(setup->allow_list_path) || identity_path(NULL, path, &ignored) != OK ||
        identity_load_or_create(path, &keys, &is_created, &ignored) != OK) {
        return OK;
    }
    public_keys_write(&keys.public_keys, key);
    keys_wipe(&keys);
    TRY(allow_list_add(setup->allow_list_path, key, "operator", fault));
    log_line(LOG_INFO,
             "created the allow-list %s with the key of the identity file %s, as the member named "
             "operator",
             setup->allow_list_path, path);
    return OK;
}

static enum status create_swarm(struct tracker_setup *setup, const struct tracker_setup_args *args,
                                struct region *region, struct fault *fault) {
    TRY(check_list_and_address(setup, fault));
    TRY(check_manifest_copy(setup, args->run_path, NULL, fault));
    TRY(args->allow_list_path == NULL ? add_operator_to_allow_list(setup, fault) : OK);
    return create_manifest(setup, region, fault);
}

/* Rejects a lost store: members have copies of its ledger and would reject a new, empty one. */
static enum status report_lost_store(const struct tracker_setup *setup, struct fault *fault) {
    char remedy[sizeof fault->remedy];
    struct text text = text_over(remedy, sizeof remedy);
    text_add(&text,
             "restore it, or recreate it from the longest ledger.jsonl of any member with --ledger "
             "FILE; "
             "if no member has ever joined, remove %.*s",
             (int)(sizeof remedy / 2), setup->manifest_path);
    return fault_set(fault, STATUS_INPUT, setup->store_path, remedy,
                     "contains no ledger, but the swarm %s already exists", setup->manifest.name);
}

static enum status open_or_import_store(const struct tracker_setup *setup, const char *copy,
                                        struct fault *fault) {
    if (copy == NULL) {
        bool has_entries = true;
        TRY(tracker_store_has_entries(setup->store_path, &has_entries, fault));
        return has_entries ? OK : report_lost_store(setup, fault);
    }
    const struct tracker_import import = {.source_path = copy,
                                          .store_path = setup->store_path,
                                          .operator_key = setup->manifest.join.operator_keys.sign,
                                          .manifest = setup->manifest.hash};
    uint64_t count = 0;
    TRY(tracker_import(&import, &count, fault));
    log_line(LOG_INFO, "recreated the store from %s: %llu entries", copy,
             (unsigned long long)count);
    return OK;
}

/* Reports that --ledger was given although the manifest is missing. */
static enum status report_missing_manifest(const struct tracker_setup *setup, struct fault *fault) {
    return fault_set(
        fault, STATUS_INPUT, setup->manifest_path,
        "restore it and the tracker's identity, or start without --ledger",
        "is missing, but a ledger copy cannot be used without the manifest of its swarm");
}

/* Finds the manifest of an earlier start. Sets *earlier to NULL if the swarm is new. Called
 * before anything is written, because the folder may be another swarm's. */
static enum status find_earlier_manifest(struct tracker_setup *setup,
                                         const struct tracker_setup_args *args,
                                         struct region *region, const struct manifest **earlier,
                                         struct fault *fault) {
    *earlier = NULL;
    if (file_exists(setup->manifest_path)) {
        *earlier = &setup->manifest;
        return read_earlier_manifest(setup, region, fault);
    }
    return args->ledger_copy_path == NULL ? state_folder_check_unused(setup, fault)
                                          : report_missing_manifest(setup, fault);
}

/* Checks that a given operator's key is that of the existing swarm, which cannot change. */
static enum status check_operator_key(const struct tracker_setup *setup,
                                      const struct tracker_setup_args *args, struct fault *fault) {
    struct operator_key key;
    if (args->operator_key_path == NULL) {
        return OK;
    }
    TRY(operator_key_read(setup->operator_key_path, &key, fault));
    const bool is_same =
        public_keys_equal(&key.keys.public_keys, &setup->manifest.join.operator_keys);
    keys_wipe(&key.keys);
    return is_same
               ? OK
               : fault_set(fault, STATUS_INPUT, setup->operator_key_path,
                           "leave out --operator-key, or create a new swarm in a different "
                           "--state folder",
                           "is not the operator's key in the manifest of %s", setup->manifest.name);
}

static enum status check_earlier_manifest(struct tracker_setup *setup,
                                          const struct tracker_setup_args *args,
                                          struct fault *fault) {
    TRY(check_operator_key(setup, args, fault));
    TRY(tracker_delegation_load(setup, fault));
    TRY(check_manifest_copy(setup, args->run_path, &setup->manifest, fault));
    TRY(manifest_draft_compare(&setup->draft, &setup->manifest, setup->manifest_path, fault));
    return open_or_import_store(setup, args->ledger_copy_path, fault);
}

enum status tracker_setup_prepare(const struct tracker_setup_args *args, struct region *region,
                                  struct tracker_setup *setup, struct fault *fault) {
    const struct manifest *earlier;
    bool is_created = false;
    TRY(manifest_draft_read(args->run_path, args->overrides, args->override_count, region,
                            &setup->draft, fault));
    TRY(set_paths(setup, args, fault));
    TRY(find_earlier_manifest(setup, args, region, &earlier, fault));
    TRY(file_make_folders(setup->state_folder, fault));
    TRY(identity_load_or_create(setup->identity_path, &setup->keys, &is_created, fault));
    TRY(choose_listen_address(setup, args, earlier, fault));
    TRY(choose_public_address(setup, args, earlier, fault));
    TRY(earlier != NULL ? check_earlier_manifest(setup, args, fault)
                        : create_swarm(setup, args, region, fault));
    setup->join.operator_keys = setup->manifest.join.operator_keys;
    setup->authority = (struct allow_list_authority){
        setup->manifest.hash, setup->join.operator_keys, setup->operator_key_path};
    setup->draft.terms.manifest = &setup->manifest;
    return write_manifest_copy(setup, args->run_path, fault);
}

enum status tracker_setup_open_manifest(const struct tracker_setup_args *args,
                                        struct region *region, struct tracker_setup *setup,
                                        struct fault *fault) {
    TRY(manifest_draft_read(args->run_path, args->overrides, args->override_count, region,
                            &setup->draft, fault));
    TRY(set_paths(setup, args, fault));
    if (!file_exists(setup->manifest_path)) {
        return fault_set(fault, STATUS_INPUT, setup->manifest_path,
                         "start the tracker first, or pass its folder with --state",
                         "is missing, so there is no swarm in this folder");
    }
    TRY(read_earlier_manifest(setup, region, fault));
    setup->join = setup->manifest.join;
    return args->public_address == NULL
               ? OK
               : add_scheme(args->public_address, "--public", setup->join.address, fault);
}

enum status tracker_setup_open(const struct tracker_setup_args *args, struct region *region,
                               struct tracker_setup *setup, struct fault *fault) {
    TRY(tracker_setup_open_manifest(args, region, setup, fault));
    return identity_load(setup->identity_path, &setup->keys, fault);
}

struct tracker_loop_options tracker_setup_options(const struct tracker_setup *setup) {
    const struct settings *settings = &setup->draft.settings;
    const struct swarm_terms *terms = &setup->draft.terms;
    const struct slices *slices = &terms->shape.slices;
    const struct timing_training training = {.steps = (uint32_t)settings->swarm_inner_steps,
                                             .patience = settings->swarm_patience};
    return (struct tracker_loop_options){
        .keys = &setup->keys,
        .name = setup->manifest.name,
        .listen = setup->listen_address,
        .store_path = setup->store_path,
        .allow_list_path = setup->allow_list_path,
        .authority = &setup->authority,
        .order_path = setup->order_path,
        .waiting_path = setup->waiting_path,
        .continue_path = setup->continue_path,
        .operator_keys = setup->manifest.join.operator_keys,
        .delegation = &setup->delegation,
        .delegation_path = setup->delegation_path,
        .manifest = (const uint8_t *)setup->manifest_text,
        .manifest_bytes = strlen(setup->manifest_text),
        .manifest_hash = setup->manifest.hash,
        .genesis_root = setup->manifest.genesis_root,
        .needs_leases = settings->swarm_forks == 1,
        .settings = {.slice_count = slices->count,
                     .slice_elements = (uint64_t)slices->elements,
                     .parameter_count = (uint64_t)slices->parameter_count,
                     .seat_samples = terms->seat_samples,
                     .sample_tokens = terms->sample_tokens,
                     .zero_root = slices_zero_root(slices),
                     .has_sketches = sum_check_has_sketches(slices),
                     .is_sparse = slices_are_sparse(slices),
                     .members_min = (uint32_t)settings->swarm_members_min,
                     .shrink_after_ms = (uint32_t)(settings->swarm_shrink_after_s * 1000),
                     .rollback_after_ms = ROLLBACK_AFTER_MS,
                     .commits_max = terms->commits_max,
                     .training = training,
                     .times = {.train_ms = training.steps * ASSUMED_STEP_MS,
                               .contribution_ms = ASSUMED_TRANSFER_MS,
                               .result_ms = ASSUMED_TRANSFER_MS,
                               .apply_ms = ASSUMED_TRANSFER_MS,
                               .round_trip_ms = ASSUMED_ROUND_TRIP_MS}},
        .members_max = terms->shape.members_max,
        .queued_frames = QUEUED_FRAMES,
        .stop_fd = -1,
    };
}
