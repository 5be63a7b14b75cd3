/* member_outer_state: the durable state of a member: snapshots of the outer state and of the
 * member's own moments, and the rounds that it replays after them. */
#include "base/clock.h"
#include "base/log.h"
#include "runtime/inner_training/lockstep.h"
#include "runtime/inner_training/member_run_state.h"

#include <stdio.h>

/* ---- what snapshots hold ---- */

/* Describes the flat space `flat` as tensors with the names of the parameters. On ranks other than
 * rank 0, `flat` is NULL, and the set contains no data. */
static struct tensor_set flat_tensor_set(struct session *session, float *flat) {
    size_t count = (size_t)session->blueprint.param_count;
    struct tensor_spec *tensors = region_alloc(&session->region, count, sizeof *tensors);
    struct tensor_piece *pieces = region_alloc(&session->region, count, sizeof *pieces);
    for (size_t i = 0; i < count; i++) {
        const struct param *param = &session->blueprint.params[i];
        tensors[i] = (struct tensor_spec){.name = param->name,
                                          .dtype = DTYPE_F32,
                                          .rank = param->rank,
                                          .shape = {param->shape[0], param->shape[1]}};
        if (flat != NULL) {
            pieces[i] = piece_of_spec(&tensors[i], flat);
            flat += param_elements(param);
        }
    }
    return (struct tensor_set){.tensors = tensors,
                               .tensor_count = (int)count,
                               .pieces = pieces,
                               .piece_count = flat != NULL ? (int)count : 0};
}

static void add_flat_group(struct trainer *trainer, const char *file, const char *prefix,
                           float *flat) {
    const struct snapshot_group group = {
        .file = file, .prefix = prefix, .set = flat_tensor_set(&trainer->session, flat)};
    trainer_add_group(trainer, &group, &group.set);
}

void outer_state_plan_snapshots(struct member_run *member) {
    struct trainer *trainer = &member->trainer;
    const struct replica *replica = &member->outer.replica;
    add_flat_group(trainer, "weights.safetensors", "", replica->params);
    if (replica_memory_of(&member->swarm.terms.shape).momentum > 0) {
        add_flat_group(trainer, "outer.safetensors", "momentum.", replica->momentum);
    }
    if (replica_memory_of(&member->swarm.terms.shape).feedback > 0) {
        add_flat_group(trainer, "outer.safetensors", "feedback.", replica->feedback);
    }
    trainer_add_view_group(trainer, "optimizer.safetensors", "exp_avg.", VIEW_MOMENT1);
    trainer_add_view_group(trainer, "optimizer.safetensors", "exp_avg_sq.", VIEW_MOMENT2);
}

/* ---- save ---- */

/* Returns the value that identifies the swarm in a snapshot: the first eight bytes of the
 * manifest's hash, because values in a snapshot have 64 bits. */
static uint64_t swarm_hash_value(const struct manifest *manifest) {
    uint64_t value;
    memcpy(&value, manifest->hash.bytes, sizeof value);
    return value;
}

enum { POSITION_VALUES = 4 }; /* number of values in every member's snapshot */

/* Whether the products of the betas do not follow from the number of updates. */
static bool has_changing_betas(const struct member_run *member) {
    return member->trainer.session.settings.swarm_member_betas == MEMBER_AUTO;
}

enum status outer_state_save_rank_part(struct member_run *member,
                                       const struct training_position *position,
                                       struct fault *fault) {
    struct snapshot_value values[POSITION_VALUES + DECAY_PRODUCT_VALUES] = {
        {.name = "swarm", .value = swarm_hash_value(&member->swarm.manifest)},
        {.name = "round", .value = position->round},
        {.name = "commits", .value = position->commits},
        {.name = "updates", .value = (uint64_t)position->updates},
    };
    int count = POSITION_VALUES;
    if (has_changing_betas(member)) {
        decay_products_save(&position->products, &values[count]);
        count += DECAY_PRODUCT_VALUES;
    }
    int64_t step = (int64_t)position->commits * member->trainer.session.settings.swarm_inner_steps;
    return trainer_write_snapshot(&member->trainer, step, values, count, fault);
}

enum status outer_state_save(struct member_run *member, struct fault *fault) {
    struct training_position *position = &member->position;
    char moment[NAME_BYTES];
    if (position->saved_round == position->round) {
        return OK;
    }
    const struct lockstep_command command = {.kind = COMMAND_SAVE, .position = *position};
    int64_t begin_ns = clock_monotonic_ns();
    TRY(lockstep_execute(member, &command, fault));
    position->saved_round = position->round;
    position->saved_commits = position->commits;
    snprintf(moment, sizeof moment, "round %u", position->round);
    trainer_log_snapshot(&member->trainer, moment, clock_seconds_since(begin_ns));
    return member_store_discard_before(&member->outer.store, position->round, fault);
}

/* ---- begin ---- */

/* Sets the bias corrections for moments that are zero. */
static void reset_bias_corrections(struct member_run *member) {
    member->position.updates = 0;
    member->position.products = decay_products_of(member->trainer.session.settings.betas, 0);
}

enum status inner_reset_moments(struct member_run *member, struct fault *fault) {
    reset_bias_corrections(member);
    return lockstep_execute_kind(member, COMMAND_RESET_MOMENTS, fault);
}

enum status inner_reset_weights(struct member_run *member, struct fault *fault) {
    replica_reset_inner(&member->outer.replica);
    return inner_finish_weights_reset(member, fault);
}

enum status inner_finish_weights_reset(struct member_run *member, struct fault *fault) {
    struct training_position *position = &member->position;
    assignment_clear_trained(&member->inner.assignment);
    position->encoded_round = 0;
    position->inner_steps = 0;
    position->loss_sum = 0;
    position->loss_tokens = 0;
    return lockstep_execute_kind(member, COMMAND_SCATTER, fault);
}

/* Rejects initial weights that differ from those of the genesis. */
static enum status reject_initial_weights(const struct member_run *member, struct fault *fault) {
    char local[HASH_HEX_BYTES];
    char swarm[HASH_HEX_BYTES];
    hash_hex(&member->outer.replica.root, local);
    hash_hex(&member->swarm.manifest.genesis_root, swarm);
    return fault_set(
        fault, STATUS_INPUT, member->trainer.session.settings.model,
        "set model to the folder of the weights that the swarm was started with, or leave it out",
        "its weights have the root %.16s, but the swarm was started from the root %.16s", local,
        swarm);
}

/* Loads the initial weights. A member that lacks them receives the state from other members after
 * the first commit. */
static enum status load_first_weights(struct member_run *member, struct fault *fault) {
    struct session *session = &member->trainer.session;
    struct replica *replica = &member->outer.replica;
    bool is_absent =
        session->settings.init_kind == INIT_FROM_WEIGHTS && session->model_folder[0] == '\0';
    if (!is_absent) {
        TRY(lockstep_execute_kind(member, COMMAND_WEIGHTS, fault));
    }
    TRY(lockstep_execute_kind(member, COMMAND_GATHER, fault));
    replica_init_state(replica);
    TRY(program_failure(&session->bound, fault));
    if (is_absent) {
        log_line(LOG_INFO,
                 "the swarm was started from the weights of a folder, and no folder was given "
                 "(model=FOLDER), so other members send them");
        return OK;
    }
    return hash_equal(&replica->root, &member->swarm.manifest.genesis_root)
               ? OK
               : reject_initial_weights(member, fault);
}

static bool find_snapshot_values(const struct manifest *manifest, const struct snapshot *snapshot,
                                 struct number_pair betas, struct training_position *position) {
    uint64_t swarm;
    uint64_t round;
    uint64_t commits;
    uint64_t updates;
    if (!snapshot_find_value(snapshot, "swarm", &swarm) || swarm != swarm_hash_value(manifest) ||
        !snapshot_find_value(snapshot, "round", &round) || round > UINT32_MAX ||
        !snapshot_find_value(snapshot, "commits", &commits) || commits > UINT32_MAX ||
        !snapshot_find_value(snapshot, "updates", &updates) || updates > INT64_MAX) {
        return false;
    }
    *position = (struct training_position){.round = (uint32_t)round,
                                           .commits = (uint32_t)commits,
                                           .updates = (int64_t)updates,
                                           .products = decay_products_of(betas, (int64_t)updates),
                                           .saved_round = (uint32_t)round,
                                           .saved_commits = (uint32_t)commits};
    return true;
}

static enum status resume_from_snapshot(struct member_run *member, const struct snapshot *snapshot,
                                        struct fault *fault) {
    const struct manifest *manifest = &member->swarm.manifest;
    const struct number_pair betas = member->trainer.session.settings.betas;
    if (!find_snapshot_values(manifest, snapshot, betas, &member->position)) {
        return fault_set(fault, STATUS_INPUT, snapshot->path,
                         "set XDG_STATE_HOME to a different folder, or remove this snapshot",
                         "the snapshot belongs to a different swarm than %s", manifest->name);
    }
    struct training_position *position = &member->position;
    if (has_changing_betas(member) &&
        !decay_products_load(snapshot, position->updates, &position->products)) {
        return fault_set(fault, STATUS_INPUT, snapshot->path,
                         "remove this snapshot; other members send the state",
                         "the products of the betas in snapshot.json are missing or invalid");
    }
    const struct lockstep_command command = {.kind = COMMAND_LOAD, .step = snapshot->step};
    TRY(lockstep_execute(member, &command, fault));
    replica_refresh_hashes(&member->outer.replica);
    log_line(LOG_INFO, "resuming from %s at round %u", snapshot->path, member->position.round);
    return OK;
}

void inner_clear_sent_feedback(struct member_run *member, const struct entry *entry) {
    struct identity own;
    memcpy(own.bytes, member->swarm.keys.public_keys.sign, KEY_BYTES);
    replica_clear_sent_feedback(&member->outer.replica, entry, &own);
}

/* Applies the results of one entry if they produce the root of the entry. If the files belong to a
 * different ledger, the replay ends. If this member contributed to the round, its error feedback is
 * lost, because the contribution is not stored. */
static bool replay_entry(struct member_run *member, const struct entry *entry) {
    struct outer_state *outer = &member->outer;
    struct replica *replica = &outer->replica;
    struct fault fault;
    if (member_store_read_results(&outer->store, entry->round, replica, outer->reports, &fault) !=
        OK) {
        log_line(LOG_WARNING, "%s: %s; later rounds will be fetched from other members",
                 fault.subject, fault.reason);
        return false;
    }
    struct hash root = replica_root_after(replica, entry->round, entry->seat_count);
    if (!hash_equal(&root, &entry->root)) {
        log_line(
            LOG_WARNING,
            "round %u: the stored results do not produce the committed root; the state will be "
            "fetched from other members",
            entry->round);
        return false;
    }
    (void)replica_apply(replica, entry, -1);
    inner_clear_sent_feedback(member, entry);
    member->position.round = entry->round;
    member->position.commits = entry->commits;
    return true;
}

/* Applies the rounds that were committed after the snapshot, up to the first round whose results
 * are not stored. */
static enum status replay_stored_rounds(struct member_run *member, struct fault *fault) {
    struct entry_journal *journal = &member->outer.store.journal;
    struct entry *entry = member->outer.entry;
    int64_t offset = 0;
    bool found = true;
    bool follows = true;
    while (found && follows) {
        TRY(entry_journal_next(journal, &offset, entry, &found, fault));
        if (found && entry->round > member->position.round) {
            follows = entry->kind == ENTRY_COMMIT && replay_entry(member, entry);
        }
    }
    return OK;
}

/* Finds stored results of the round after `applied_round`, whose commit this member has not
 * received. */
static void find_stored_results(struct outer_state *outer, uint32_t applied_round) {
    struct fault ignored;
    uint32_t round = outer->store.newest;
    if (round > applied_round && member_store_read_results(&outer->store, round, &outer->replica,
                                                           outer->reports, &ignored) == OK) {
        outer->stored_round = round;
    }
}

enum status outer_state_load(struct member_run *member, struct fault *fault) {
    struct session *session = &member->trainer.session;
    struct snapshot snapshot;
    bool found = false;
    reset_bias_corrections(member);
    TRY(snapshot_find_newest(session->settings.snapshot_folder, &session->region, &snapshot, &found,
                             fault));
    TRY(found ? resume_from_snapshot(member, &snapshot, fault) : load_first_weights(member, fault));
    TRY(replay_stored_rounds(member, fault));
    find_stored_results(&member->outer, member->position.round);
    TRY(inner_reset_weights(member, fault));
    return program_failure(&session->bound, fault);
}
