#include "runtime/swarm_setup/member_session.h"

#include "runtime/model/families/families.h"
#include "runtime/swarm/client/client.h"
#include "runtime/swarm/ledger/entry.h"
#include "runtime/swarm/ledger/rollback.h"
#include "runtime/swarm/replica/state_file.h"
#include "runtime/swarm_setup/swarm_memory.h"

#include <stdio.h>

/* ---- checks ---- */

/* Uses the weights in the folder that the member's `model` specifies. The structure of the model
 * comes from the manifest. */
static enum status find_weights(struct session *session, struct fault *fault) {
    const struct settings *settings = &session->settings;
    struct blueprint found;
    char folder[PATH_BYTES];
    TRY(blueprint_open(settings->model, &session->region, &found, folder, fault));
    int64_t local = blueprint_elements(&found);
    int64_t swarm = blueprint_elements(&session->blueprint);
    if (local != swarm) {
        return fault_set(fault, STATUS_INPUT, settings_location(settings, "model"),
                         "set model to the one that the swarm started from, or leave it unset",
                         "model %.200s has %lld parameters, but the swarm's model has %lld",
                         settings->model, (long long)local, (long long)swarm);
    }
    memcpy(session->model_folder, folder, sizeof folder);
    return OK;
}

/* Rejects members of several ranks on GPUs: they would have to gather their masters into pinned
 * memory, which no collective supports. */
static enum status check_ranks(const struct session *session, struct fault *fault) {
    if (session_rank_count(session) == 1 || session->target->kind == TARGET_CPU) {
        return OK;
    }
    char subject[NAME_BYTES];
    snprintf(subject, sizeof subject, "target %.100s", session->target->name);
    return fault_set(fault, STATUS_INPUT, subject,
                     "start one member for each GPU, each with its own identity and state folder",
                     "a member with several ranks can only run on CPUs, not on GPUs");
}

/* Rejects GPUs with the sparse codec, which has no CUDA kernels. */
static enum status check_codec(const struct session *session, struct fault *fault) {
    if (session->target->kind == TARGET_CPU || !swarm_codec_is_sparse(&session->settings)) {
        return OK;
    }
    char subject[NAME_BYTES];
    snprintf(subject, sizeof subject, "target %.100s", session->target->name);
    return fault_set(fault, STATUS_INPUT, subject, "join with target=cpu",
                     "swarm.codec of this swarm is sparse, with which members run on CPUs only");
}

/* ---- memory ---- */

/* Raises the capacity that each rank may plan with. All ranks have the same plan, but only rank
 * 0 uses the swarm's extents, so the machine needs their `bytes` only once. */
static void count_swarm_bytes_once(struct session *session, uint64_t bytes) {
    uint64_t ranks = (uint64_t)session_local_rank_count(session);
    if (ranks == 1) {
        return;
    }
    struct region *region = &session->region;
    struct target *share = region_alloc(region, 1, sizeof *share);
    *share = *session->target;
    struct target_space *device = &share->spaces[SPACE_DEVICE];
    device->capacity_bytes += bytes / ranks * (ranks - 1);
    device->capacity_source =
        region_format(region, "%.200s, reduced because only rank 0 stores the outer state",
                      device->capacity_source);
    session->target = share;
}

static void add_swarm_memory(struct session *session, const struct swarm_terms *terms) {
    struct resident_extent *extents =
        region_alloc(&session->region, SWARM_EXTENT_COUNT, sizeof *extents);
    const struct swarm_member_kind kind = {.is_site = session_rank_count(session) > 1,
                                           .records_rounds =
                                               session->settings.swarm_record != NULL};
    swarm_memory_list_extents(terms, session->target, kind, extents);
    uint64_t declared = target_declared_bytes(session->target, SPACE_DEVICE);
    session->target = swarm_memory_declare_queues(terms, session->target, &session->region);
    session->resident = extents;
    session->resident_count = SWARM_EXTENT_COUNT;
    uint64_t once = target_declared_bytes(session->target, SPACE_DEVICE) - declared;
    for (int i = 0; i < SWARM_EXTENT_COUNT; i++) {
        once += extents[i].bytes;
    }
    count_swarm_bytes_once(session, once);
}

/* ---- disk ---- */

/* Returns the size of the OPEN and COMMIT of a round in which every seat is taken and no samples
 * are returned. */
static uint64_t round_ledger_bytes(const struct swarm_terms *terms) {
    uint64_t seats = terms->shape.members_max;
    uint64_t open = ENTRY_FIXED_BYTES_MAX + seats * ENTRY_SEAT_BYTES + ENTRY_SIGNATURE_BYTES;
    return open + ENTRY_FIXED_BYTES_MAX +
           seats * (ENTRY_SEAT_BYTES + ENTRY_MEMBER_BYTES + ENTRY_SIGNATURE_BYTES);
}

/* Returns the disk space that a member needs for the swarm: for the encoded results of the
 * rounds since its newest snapshot, of the open round, and of the rounds that other members may
 * replay. */
static struct planned_disk_use swarm_disk_use(const struct settings *settings,
                                              const struct swarm_terms *terms) {
    const struct replica_memory memory = replica_memory_of(&terms->shape);
    uint64_t rounds = (uint64_t)swarm_snapshot_rounds(settings) + 1 + REPLAY_ROUNDS_MAX;
    return (struct planned_disk_use){
        .snapshot_bytes = memory.momentum + memory.feedback,
        .results_bytes = rounds * slices_results_bytes(&terms->shape.slices),
        .ledger_bytes = terms->commits_max * round_ledger_bytes(terms),
        .states_bytes = STORED_STATES_MAX * state_file_bytes(&terms->shape.slices)};
}

/* ---- reading ---- */

static enum status read_settings(struct session *session, const struct swarm_member_source *source,
                                 struct fault *fault) {
    const char *config = source->manifest->config_text;
    struct region *region = &session->region;
    struct settings *settings = &session->settings;
    char subject[PATH_BYTES];
    snprintf(subject, sizeof subject, "%.4000s:config", source->subject);
    TRY(swarm_settings_read(source, region, settings, fault));
    TRY(blueprint_read(config, strlen(config), subject, region, &session->blueprint, fault));
    if (settings->model != NULL) {
        return find_weights(session, fault);
    }
    /* used in place of a path, because the manifest has no path of the model */
    settings->model = session->blueprint.model_type;
    return OK;
}

enum status member_session_read(struct session *session, const struct swarm_member_source *source,
                                struct swarm_terms *terms, struct fault *fault) {
    TRY(read_settings(session, source, fault));
    TRY(session_build(session, fault));
    TRY(check_ranks(session, fault));
    TRY(check_codec(session, fault));
    TRY(swarm_terms_of(source->manifest, &session->settings, &session->blueprint, terms, fault));
    session->config_text = source->manifest->config_text;
    session->shared_settings_fixed = true;
    session->disk = swarm_disk_use(&session->settings, terms);
    add_swarm_memory(session, terms);
    return OK;
}

static bool is_manifest_file(const char *path) {
    const char *dot = strrchr(path, '.');
    return dot != NULL && strcmp(dot, ".skep") == 0;
}

enum status member_session_or_run_read(struct session *session, const char *run_or_swarm,
                                       const char *const *overrides, int override_count,
                                       struct swarm_terms *terms, struct fault *fault) {
    struct region *region = &session->region;
    bool is_link = is_join_string(run_or_swarm);
    if (!is_link && !is_manifest_file(run_or_swarm)) {
        return session_read(session, run_or_swarm, overrides, override_count, fault);
    }
    struct manifest *manifest = region_alloc(region, 1, sizeof *manifest);
    struct swarm_terms unused;
    struct swarm_member_source source = {.manifest = manifest,
                                         .subject = run_or_swarm,
                                         .overrides = overrides,
                                         .override_count = override_count};
    TRY(is_link ? manifest_fetch(run_or_swarm, region, manifest, &source.subject, fault)
                : manifest_read_file(run_or_swarm, region, manifest, fault));
    return member_session_read(session, &source, terms != NULL ? terms : &unused, fault);
}
