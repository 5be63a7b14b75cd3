#include "runtime/swarm_setup/member_session.h"

#include "runtime/model/families/families.h"
#include "runtime/swarm/client/client.h"
#include "runtime/swarm/ledger/entry.h"
#include "runtime/swarm_setup/swarm_memory.h"

#include <stdio.h>

/* ---- checks ---- */

/* The folder that a member names holds the first weights; its structure is the manifest's. */
static enum status find_weights(struct session *session, struct fault *fault) {
    const struct settings *settings = &session->settings;
    struct blueprint found;
    char folder[PATH_BYTES];
    TRY(blueprint_open(settings->model, &session->region, &found, folder, fault));
    int64_t local = blueprint_elements(&found);
    int64_t swarm = blueprint_elements(&session->blueprint);
    if (local != swarm) {
        return fault_set(fault, STATUS_INPUT, settings_location(settings, "model"),
                         "name the model that the swarm began with, or none",
                         "model %.200s has %lld parameters, the swarm's has %lld", settings->model,
                         (long long)local, (long long)swarm);
    }
    memcpy(session->model_folder, folder, sizeof folder);
    return OK;
}

/* The masters of several GPUs would have to be gathered into pinned memory, which no collective
 * reaches. */
static enum status check_ranks(const struct session *session, struct fault *fault) {
    if (session_rank_count(session) == 1 || session->target->kind == TARGET_CPU) {
        return OK;
    }
    char subject[NAME_BYTES];
    snprintf(subject, sizeof subject, "target %.100s", session->target->name);
    return fault_set(fault, STATUS_INPUT, subject,
                     "start one member for each GPU, each with its own identity and state folder",
                     "a member of several ranks computes on processors, not on GPUs");
}

/* ---- memory ---- */

/* All ranks have one plan, but only rank 0 uses the swarm's extents: a rank's share of the machine
 * is these bytes, counted once, and an equal part of the rest. */
static void charge_once(struct session *session, uint64_t bytes) {
    uint64_t ranks = (uint64_t)session_local_rank_count(session);
    if (ranks == 1) {
        return;
    }
    struct region *region = &session->region;
    struct target *share = region_alloc(region, 1, sizeof *share);
    *share = *session->target;
    struct target_space *device = &share->spaces[SPACE_DEVICE];
    device->capacity_bytes += bytes / ranks * (ranks - 1);
    device->capacity_source = region_format(
        region, "%.200s, but for what rank 0 alone keeps of the swarm", device->capacity_source);
    session->target = share;
}

static void add_memory(struct session *session, const struct swarm_terms *terms) {
    struct resident_extent *extents =
        region_alloc(&session->region, SWARM_EXTENTS, sizeof *extents);
    const struct swarm_member_kind kind = {.is_site = session_rank_count(session) > 1,
                                           .records = session->settings.swarm_record != NULL};
    swarm_memory_extents(terms, session->target, kind, extents);
    uint64_t declared = target_declared_bytes(session->target, SPACE_DEVICE);
    session->target = swarm_memory_declared(terms, session->target, &session->region);
    session->resident = extents;
    session->resident_count = SWARM_EXTENTS;
    uint64_t once = target_declared_bytes(session->target, SPACE_DEVICE) - declared;
    for (int i = 0; i < SWARM_EXTENTS; i++) {
        once += extents[i].bytes;
    }
    charge_once(session, once);
}

/* ---- disk ---- */

/* An OPEN and a COMMIT in which every seat is taken and no samples are returned. */
static uint64_t round_ledger_bytes(const struct swarm_terms *terms) {
    enum { FIXED = 24 + 3 * HASH_BYTES + 12 + 4 + 4 + HASH_BYTES + 4 };
    uint64_t seats = terms->shape.members_max;
    uint64_t open = FIXED + seats * ENTRY_SEAT_BYTES + ENTRY_SIGNATURE_BYTES;
    return open + FIXED + seats * (ENTRY_SEAT_BYTES + 16 + ENTRY_SIGNATURE_BYTES) +
           (uint64_t)terms->shape.slices.count * ENTRY_SLICE_BYTES;
}

/* A member stores the encoded results of all slices of a round: for the rounds since its newest
 * snapshot, for the open round, and for members that replay. */
static struct disk_addition disk_of(const struct settings *settings,
                                    const struct swarm_terms *terms) {
    const struct replica_memory memory = replica_memory_of(&terms->shape);
    uint64_t rounds = (uint64_t)swarm_snapshot_rounds(settings) + 1 + REPLAY_ROUNDS_MAX;
    return (struct disk_addition){.snapshot_bytes = memory.momentum + memory.feedback,
                                  .results_bytes = rounds * memory.contribution,
                                  .ledger_bytes = terms->commits_max * round_ledger_bytes(terms)};
}

/* ---- reading ---- */

static enum status read_settings(struct session *session, const struct swarm_member_source *source,
                                 struct fault *fault) {
    const char *config = source->manifest->config_text;
    struct region *region = &session->region;
    struct settings *settings = &session->settings;
    char subject[PATH_BYTES];
    snprintf(subject, sizeof subject, "%.4000s:config", source->place);
    TRY(swarm_settings_read(source, region, settings, fault));
    TRY(blueprint_read(config, strlen(config), subject, region, &session->blueprint, fault));
    if (settings->model != NULL) {
        return find_weights(session, fault);
    }
    settings->model = region_copy_text(region, source->place);
    return OK;
}

enum status member_session_read(struct session *session, const struct swarm_member_source *source,
                                struct swarm_terms *terms, struct fault *fault) {
    TRY(read_settings(session, source, fault));
    TRY(session_build(session, fault));
    TRY(check_ranks(session, fault));
    TRY(swarm_terms_of(source->manifest, &session->settings, &session->blueprint, terms, fault));
    session->config_text = source->manifest->config_text;
    session->shared_settings_fixed = true;
    session->disk = disk_of(&session->settings, terms);
    add_memory(session, terms);
    return OK;
}

static bool is_manifest_file(const char *what) {
    const char *dot = strrchr(what, '.');
    return dot != NULL && strcmp(dot, ".skep") == 0;
}

enum status member_session_or_run_read(struct session *session, const char *what,
                                       const char *const *overrides, int override_count,
                                       struct swarm_terms *terms, struct fault *fault) {
    struct region *region = &session->region;
    bool is_link = is_join_string(what);
    if (!is_link && !is_manifest_file(what)) {
        return session_read(session, what, overrides, override_count, fault);
    }
    struct manifest *manifest = region_alloc(region, 1, sizeof *manifest);
    struct swarm_terms unused;
    struct swarm_member_source source = {.manifest = manifest,
                                         .place = what,
                                         .overrides = overrides,
                                         .override_count = override_count};
    TRY(is_link ? manifest_fetch(what, region, manifest, &source.place, fault)
                : manifest_read_file(what, region, manifest, fault));
    return member_session_read(session, &source, terms != NULL ? terms : &unused, fault);
}
