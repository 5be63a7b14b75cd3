/* join_state: what a member finds when it starts, and what it leaves behind: snapshots of the outer
 * state with what is the member's own beside it. */
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "runtime/inner_training/join_order.h"
#include "runtime/inner_training/join_parts.h"
#include "runtime/session/parts.h"
#include "runtime/session/resume.h"
#include "runtime/swarm_setup/genesis.h"

#include <string.h>

/* ---- what snapshots hold ---- */

/* The flat space as tensors under the parameters' names; NULL: rank 0 has them. */
static struct tensor_set flat_set(struct session *session, float *flat) {
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

static void add_outer(struct member_run *joining, const char *file, const char *prefix,
                      float *flat) {
    struct snapshot_group group = {
        .file = file, .prefix = prefix, .set = flat_set(&joining->session, flat)};
    ASSERT(joining->group_count < SNAPSHOT_GROUPS_MAX);
    joining->groups[joining->group_count] = group;
    joining->held[joining->group_count++] = group;
}

static void add_moment(struct member_run *joining, const char *prefix, enum param_view view) {
    struct snapshot_group group = {.file = "optimizer.safetensors", .prefix = prefix};
    ASSERT(joining->group_count < SNAPSHOT_GROUPS_MAX);
    group.set = rank_parts_of_copy(&joining->session, view, PART_SAVED);
    joining->groups[joining->group_count] = group;
    group.set = rank_parts_of_copy(&joining->session, view, PART_STORED);
    joining->held[joining->group_count++] = group;
}

void outer_state_plan(struct member_run *joining) {
    const struct replica *replica = &joining->replica;
    add_outer(joining, "weights.safetensors", "", replica->params);
    add_outer(joining, "outer.safetensors", "momentum.", replica->momentum);
    if (replica_memory_of(&joining->session.swarm.shape).feedback > 0) {
        add_outer(joining, "outer.safetensors", "feedback.", replica->feedback);
    }
    add_moment(joining, "exp_avg.", VIEW_MOMENT1);
    add_moment(joining, "exp_avg_sq.", VIEW_MOMENT2);
}

/* ---- save ---- */

/* A snapshot's numbers are 64 bits wide: the first eight bytes of a hash name a swarm well enough.
 */
static uint64_t swarm_value(const struct member_run *joining) {
    uint64_t value;
    memcpy(&value, joining->manifest.hash.bytes, sizeof value);
    return value;
}

enum status outer_state_write(struct member_run *joining, const struct training_position *at,
                              struct fault *fault) {
    const struct run *run = &joining->session.run;
    const struct snapshot_value values[] = {
        {.name = "swarm", .value = swarm_value(joining)},
        {.name = "round", .value = at->round},
        {.name = "commits", .value = at->commits},
        {.name = "updates", .value = (uint64_t)at->updates},
    };
    struct snapshot_state state = {.step = (int64_t)at->commits * run->swarm_inner_steps,
                                   .seed = (uint64_t)run->seed,
                                   .values = values,
                                   .value_count = ARRAY_COUNT(values)};
    struct staging staging = session_staging(&joining->session);
    program_run(&joining->session.bound, SEGMENT_SNAPSHOT);
    return snapshot_save(&joining->outputs.writer, &state, &staging, fault);
}

enum status outer_state_save(struct member_run *joining, struct fault *fault) {
    struct training_position *at = &joining->at;
    if (at->saved_round == at->round) {
        return OK;
    }
    const struct lockstep_command order = {.kind = COMMAND_SAVE, .at = *at};
    int64_t begin_ns = clock_monotonic_ns();
    enum status status = lockstep_do(joining, &order, fault);
    if (status == OK) {
        at->saved_round = at->round;
        at->saved_commits = at->commits;
        progress_line(&joining->progress, "round %u  snapshot in %s, %.2f s", at->round,
                      joining->session.run.snapshot_folder,
                      (double)(clock_monotonic_ns() - begin_ns) * 1e-9);
        status = member_store_discard_before(&joining->store, at->round, fault);
    }
    return status;
}

/* ---- begin ---- */

enum status inner_reset(struct member_run *joining, struct fault *fault) {
    replica_reset_inner(&joining->replica);
    return inner_reset_done(joining, fault);
}

enum status inner_reset_done(struct member_run *joining, struct fault *fault) {
    assignment_clear_trained(&joining->share);
    joining->at.encoded_round = 0;
    joining->at.inner_steps = 0;
    joining->at.loss_sum = 0;
    joining->at.loss_tokens = 0;
    return lockstep_do_plain(joining, COMMAND_SCATTER, fault);
}

static enum status refuse_genesis(const struct member_run *joining, struct fault *fault) {
    char here[HASH_HEX_BYTES];
    char there[HASH_HEX_BYTES];
    hash_hex(&joining->replica.root, here);
    hash_hex(&joining->manifest.genesis, there);
    return fault_set(fault, STATUS_INPUT, joining->session.run.model,
                     "name the folder of the weights that the swarm began with, or none",
                     "its weights have the root %.16s, the swarm began from %.16s", here, there);
}

/* Weights that this member does not have come from the others, as soon as there is a round. */
static enum status first_weights(struct member_run *joining, struct fault *fault) {
    struct session *session = &joining->session;
    bool absent = session->run.init == INIT_FROM_WEIGHTS && session->model_folder[0] == '\0';
    enum status status = absent ? OK : lockstep_do_plain(joining, COMMAND_WEIGHTS, fault);
    if (status == OK) {
        status = lockstep_do_plain(joining, COMMAND_GATHER, fault);
    }
    if (status != OK) {
        return status;
    }
    replica_begin(&joining->replica);
    status = program_failure(&session->bound, fault);
    if (status != OK) {
        return status;
    }
    if (absent) {
        log_line(LOG_INFO, "the first weights are a folder's that was not named (model=FOLDER): "
                           "they come from other members");
        return OK;
    }
    return hash_equal(&joining->replica.root, &joining->manifest.genesis)
               ? OK
               : refuse_genesis(joining, fault);
}

static bool find_values(const struct member_run *joining, const struct snapshot *snapshot,
                        struct training_position *at) {
    uint64_t swarm;
    uint64_t round;
    uint64_t commits;
    uint64_t updates;
    if (!snapshot_find_value(snapshot, "swarm", &swarm) || swarm != swarm_value(joining) ||
        !snapshot_find_value(snapshot, "round", &round) || round > UINT32_MAX ||
        !snapshot_find_value(snapshot, "commits", &commits) || commits > UINT32_MAX ||
        !snapshot_find_value(snapshot, "updates", &updates) || updates > INT64_MAX) {
        return false;
    }
    *at = (struct training_position){.round = (uint32_t)round,
                                     .commits = (uint32_t)commits,
                                     .updates = (int64_t)updates,
                                     .saved_round = (uint32_t)round,
                                     .saved_commits = (uint32_t)commits};
    return true;
}

static enum status take_up(struct member_run *joining, const struct snapshot *snapshot,
                           struct fault *fault) {
    if (!find_values(joining, snapshot, &joining->at)) {
        return fault_set(fault, STATUS_INPUT, snapshot->path,
                         "set XDG_STATE_HOME to another folder, or remove this one",
                         "the snapshot is of another swarm than %s", joining->manifest.name);
    }
    const struct lockstep_command order = {.kind = COMMAND_LOAD, .step = snapshot->step};
    enum status status = lockstep_do(joining, &order, fault);
    if (status == OK) {
        replica_refresh(&joining->replica);
        log_line(LOG_INFO, "going on from %s, round %u", snapshot->path, joining->at.round);
    }
    return status;
}

void inner_forget_sent(struct member_run *joining, const struct entry *entry) {
    struct identity own;
    memcpy(own.bytes, joining->keys.public_keys.sign, KEY_BYTES);
    replica_clear_sent_feedback(&joining->replica, entry, &own);
}

/* Nothing is applied that does not lead to the entry's root: a file of another history ends the
 * replay, and the rest comes from other members. Feedback of a round in which this member had a
 * part is lost with the contribution that it belongs to. */
static bool replay_one(struct member_run *joining, const struct entry *entry) {
    struct replica *replica = &joining->replica;
    struct fault fault;
    if (member_store_fetch(&joining->store, entry->round, replica, joining->reports, &fault) !=
        OK) {
        log_line(LOG_WARNING, "%s: %s; later rounds come from other members", fault.place,
                 fault.reason);
        return false;
    }
    struct hash root = replica_root_after(replica, entry->round);
    if (!hash_equal(&root, &entry->root)) {
        log_line(LOG_WARNING,
                 "round %u: the results at hand do not lead to its root; it comes "
                 "from other members",
                 entry->round);
        return false;
    }
    (void)replica_apply(replica, entry, -1);
    inner_forget_sent(joining, entry);
    joining->at.round = entry->round;
    joining->at.commits = entry->commits;
    return true;
}

static enum status replay(struct member_run *joining, struct fault *fault) {
    int64_t offset = 0;
    bool found = true;
    bool follows = true;
    enum status status = OK;
    while (status == OK && found && follows) {
        status =
            entry_journal_next(&joining->store.journal, &offset, joining->entry, &found, fault);
        if (status == OK && found && joining->entry->round > joining->at.round) {
            follows = joining->entry->kind == ENTRY_COMMIT && replay_one(joining, joining->entry);
        }
    }
    return status;
}

/* The last results that were stored and not committed, as far as this member knows. */
static void find_stored(struct member_run *joining) {
    struct fault fault;
    uint32_t round = joining->store.newest;
    if (round > joining->at.round && member_store_fetch(&joining->store, round, &joining->replica,
                                                        joining->reports, &fault) == OK) {
        joining->stored_round = round;
    }
}

enum status outer_state_load(struct member_run *joining, struct fault *fault) {
    struct session *session = &joining->session;
    struct snapshot snapshot;
    bool found = false;
    enum status status = snapshot_find_newest(session->run.snapshot_folder, &session->region,
                                              &snapshot, &found, fault);
    if (status == OK) {
        status = found ? take_up(joining, &snapshot, fault) : first_weights(joining, fault);
    }
    if (status == OK) {
        status = replay(joining, fault);
    }
    if (status == OK) {
        find_stored(joining);
        status = inner_reset(joining, fault);
    }
    return status == OK ? program_failure(&session->bound, fault) : status;
}
