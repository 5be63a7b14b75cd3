#include "runtime/session/session.h"

#include "runtime/model/families/families.h"
#include "runtime/session/batch.h"
#include "runtime/settings/model_config.h"
#include "runtime/swarm/client/swarm_fetch.h"
#include "runtime/swarm_setup/swarm_memory.h"
#include "targets/probe/detect.h"

#include <stdio.h>
#include <string.h>

enum { STAGING_BYTES = 1 << 20, PREFILL_TOKENS = 64 };

static bool ends_in(const char *what, const char *suffix) {
    const char *dot = strrchr(what, '.');
    return dot != NULL && strcmp(dot, suffix) == 0;
}

static const char *shared_by(const char *source, int ranks, struct region *region) {
    char text[2 * NAME_BYTES];
    snprintf(text, sizeof text, "%.200s, shared by %d ranks", source, ranks);
    return region_text(region, text);
}

static void share_space(struct target_space *space, int ranks, struct region *region) {
    size_t count = (size_t)space->declared_count;
    struct target_declared *declared = region_alloc(region, count + 1, sizeof *declared);
    for (size_t i = 0; i < count; i++) {
        declared[i] = space->declared[i];
        declared[i].bytes = (declared[i].bytes + (uint64_t)ranks - 1) / (uint64_t)ranks;
    }
    space->declared = declared;
    space->capacity_bytes /= (uint64_t)ranks;
    space->capacity_source = shared_by(space->capacity_source, ranks, region);
}

/* Ranks of one machine have equal parts of its memory, of what others take of it, of its threads
 * and of its speed. */
static const struct target *share_of(const struct target *machine, int ranks,
                                     struct region *region) {
    struct target *share = region_alloc(region, 1, sizeof *share);
    *share = *machine;
    share->threads = machine->threads / ranks > 1 ? machine->threads / ranks : 1;
    for (int i = 0; i < SPACE_COUNT; i++) {
        if (share->spaces[i].capacity_bytes > 0) {
            share_space(&share->spaces[i], ranks, region);
        }
    }
    struct target_figure *const figures[] = {&share->f32_flops, &share->bf16_flops,
                                             &share->memory_bandwidth};
    for (size_t i = 0; i < ARRAY_COUNT(figures); i++) {
        figures[i]->value /= ranks;
        figures[i]->source = shared_by(figures[i]->source, ranks, region);
    }
    return share;
}

/* Of which a rank is a member, with others: that of its shard, that of its replicas and the whole
 * site; without replicas the first and the last are the same. */
static int groups_of(const struct session *session) {
    const struct sharding *sharding = &session->spread.sharding;
    bool both = sharding->shard > 1 && sharding->replicate > 1;
    return session->ranks <= 1 ? 0 : both ? 3 : 1;
}

/* On this machine, which they share. */
static int sharing_ranks(const struct session *session) {
    return session->local_ranks > 0 ? session->local_ranks : session->ranks;
}

static enum status read_target(struct session *session, struct fault *fault) {
    const struct run *run = &session->run;
    struct region *region = &session->region;
    enum status status = target_open(run->target, region, &session->target, fault);
    if (status != OK) {
        return status;
    }
    session->target = target_with_groups(session->target, groups_of(session), region);
    struct target *own = region_alloc(region, 1, sizeof *own);
    if (run->limit_device > 0 && target_lower_capacity(session->target, run->limit_device, region,
                                                       &session->target, &session->misfit) != OK) {
        *own = *session->target;
        own->spaces[SPACE_DEVICE].capacity_bytes = run->limit_device;
        own->spaces[SPACE_DEVICE].capacity_source = "limits.device";
        session->target = own;
    }
    if (sharing_ranks(session) > 1 && session->target->kind == TARGET_CPU) {
        session->target = share_of(session->target, sharing_ranks(session), region);
    }
    if (run->threads > 0) {
        own = region_alloc(region, 1, sizeof *own);
        *own = *session->target;
        own->threads = (int)run->threads;
        session->target = own;
    }
    return OK;
}

/* What run and model make of each other, and of the machine. */
static enum status settle(struct session *session, struct fault *fault) {
    struct region *region = &session->region;
    struct run *run = &session->run;
    run->longest_document = session->longest_document;
    run->ranks = session->ranks;
    enum status status = settings_check_model(run, &session->blueprint, region, fault);
    if (status == OK) {
        status = sharding_settings_read(run, &session->blueprint, region, &session->spread, fault);
    }
    return status == OK ? read_target(session, fault) : status;
}

static enum status read_manifest(struct session *session, const char *what,
                                 const char *const *overrides, int override_count,
                                 struct fault *fault) {
    struct region *region = &session->region;
    struct manifest *manifest = region_alloc(region, 1, sizeof *manifest);
    struct swarm_member_source source = {.manifest = manifest,
                                         .place = what,
                                         .overrides = overrides,
                                         .override_count = override_count};
    enum status status = is_join_string(what)
                             ? manifest_fetch(what, region, manifest, &source.place, fault)
                             : manifest_read_file(what, region, manifest, fault);
    return status == OK ? session_read_swarm(session, &source, fault) : status;
}

enum status session_read(struct session *session, const char *what, const char *const *overrides,
                         int override_count, struct fault *fault) {
    struct region *region = &session->region;
    struct run *run = &session->run;
    bool file = ends_in(what, ".yaml") || ends_in(what, ".yml");
    if (ends_in(what, ".skep") || is_join_string(what)) {
        return read_manifest(session, what, overrides, override_count, fault);
    }
    enum status status =
        settings_open(file ? what : NULL, overrides, override_count, region, run, fault);
    if (status != OK) {
        return status;
    }
    if (!file) {
        run->model = what;
    }
    if (run->model == NULL) {
        return fault_set(fault, STATUS_INPUT, run->place, "add a line such as model: ./my-model",
                         "the key \"model\" is missing");
    }
    status = blueprint_open(run->model, region, &session->blueprint, session->model_folder, fault);
    return status == OK ? settle(session, fault) : status;
}

/* A member's own folder has the weights that a swarm began with; its structure is the manifest's.
 */
static enum status find_weights(struct session *session, struct fault *fault) {
    const struct run *run = &session->run;
    struct blueprint found;
    char folder[PATH_BYTES];
    enum status status = blueprint_open(run->model, &session->region, &found, folder, fault);
    if (status != OK) {
        return status;
    }
    int64_t here = blueprint_elements(&found);
    int64_t there = blueprint_elements(&session->blueprint);
    if (here != there) {
        return fault_set(fault, STATUS_INPUT, settings_location(run, "model"),
                         "name the model that the swarm began with, or none",
                         "model %.200s has %lld parameters, the swarm's has %lld", run->model,
                         (long long)here, (long long)there);
    }
    memcpy(session->model_folder, folder, sizeof folder);
    return OK;
}

/* The masters of several GPUs would have to be gathered into pinned memory, which no collective
 * reaches. */
static enum status check_ranks(const struct session *session, struct fault *fault) {
    if (session->ranks <= 1 || session->target->kind == TARGET_CPU) {
        return OK;
    }
    char place[NAME_BYTES];
    snprintf(place, sizeof place, "target %.100s", session->target->name);
    return fault_set(fault, STATUS_INPUT, place,
                     "start one member for each GPU, each with its own identity and state folder",
                     "a member of several ranks computes on processors, not on GPUs");
}

/* What a member keeps lies once on its machine, with rank 0, though all ranks have one plan: a
 * rank's part of the machine is those bytes and an equal part of the rest. */
static void charge_once(struct session *session, uint64_t bytes) {
    uint64_t ranks = (uint64_t)sharing_ranks(session);
    if (ranks <= 1) {
        return;
    }
    struct region *region = &session->region;
    struct target *own = region_alloc(region, 1, sizeof *own);
    *own = *session->target;
    struct target_space *device = &own->spaces[SPACE_DEVICE];
    char source[2 * NAME_BYTES];
    snprintf(source, sizeof source, "%.200s, but for what rank 0 alone keeps of the swarm",
             device->capacity_source);
    device->capacity_bytes += bytes / ranks * (ranks - 1);
    device->capacity_source = region_text(region, source);
    session->target = own;
}

static void keep_swarm(struct session *session) {
    struct resident_extent *lines = region_alloc(&session->region, SWARM_LINES, sizeof *lines);
    const struct swarm_member_kind kind = {.is_site = session->ranks > 1,
                                           .records = session->run.swarm_record != NULL};
    swarm_memory_extents(&session->swarm, session->target, kind, lines);
    uint64_t shared = target_declared_bytes(session->target, SPACE_DEVICE);
    session->target = swarm_memory_declared(&session->swarm, session->target, &session->region);
    session->kept = lines;
    session->kept_count = SWARM_LINES;
    uint64_t once = target_declared_bytes(session->target, SPACE_DEVICE) - shared;
    for (int i = 0; i < SWARM_LINES; i++) {
        once += lines[i].bytes;
    }
    charge_once(session, once);
}

enum status session_read_swarm(struct session *session, const struct swarm_member_source *source,
                               struct fault *fault) {
    const char *config = source->manifest->config_text;
    struct run *run = &session->run;
    char place[PATH_BYTES];
    snprintf(place, sizeof place, "%.4000s:config", source->place);
    enum status status = swarm_settings_read(source, &session->region, run, fault);
    if (status == OK) {
        status = blueprint_read(config, strlen(config), place, &session->region,
                                &session->blueprint, fault);
    }
    if (status == OK && run->model != NULL) {
        status = find_weights(session, fault);
    }
    if (status != OK) {
        return status;
    }
    if (run->model == NULL) {
        run->model = region_text(&session->region, source->place);
    }
    status = settle(session, fault);
    if (status == OK) {
        status = check_ranks(session, fault);
    }
    if (status == OK) {
        status = swarm_terms_of(source->manifest, run, &session->blueprint, &session->swarm, fault);
    }
    if (status == OK) {
        keep_swarm(session);
    }
    return status;
}

enum status session_config(struct session *session, const char **text, size_t *length,
                           struct fault *fault) {
    if (session->swarm.manifest != NULL) {
        *text = session->swarm.manifest->config_text;
        *length = strlen(*text);
        return OK;
    }
    return model_config_read(session->run.model, session->model_folder, &session->region, text,
                             length, fault);
}

struct schedule_options session_options(const struct session *session, enum purpose purpose) {
    const struct run *run = &session->run;
    bool train = purpose == PURPOSE_TRAIN || purpose == PURPOSE_COMPARE;
    bool generate = purpose == PURPOSE_TRAIN || purpose == PURPOSE_GENERATE;
    int64_t rows = run->batch_tokens / run->sequence;
    int64_t rows_at_once = run->microbatch * (session->ranks > 1 ? session->ranks : 1);
    return (struct schedule_options){
        .sequence = run->sequence,
        .microbatch = run->microbatch,
        .accumulation = (rows + rows_at_once - 1) / rows_at_once,
        .context = generate ? run->context : 0,
        .prefill = run->context < PREFILL_TOKENS ? run->context : PREFILL_TOKENS,
        .train = train,
        .evaluate = purpose != PURPOSE_GENERATE,
        .logits = purpose == PURPOSE_LOGITS || purpose == PURPOSE_COMPARE,
        .compute = (enum dtype)run->compute,
        .moments = (enum dtype)run->moments,
        .rounding = (enum rounding)run->rounding,
        .recompute = run->layer_recompute,
        .offload = train ? run->offload_kinds : 0,
        .clip_norm = (float)run->clip_norm,
        .beta1 = (float)run->betas.first,
        .beta2 = (float)run->betas.second,
        .epsilon = (float)run->epsilon,
        .weight_decay = (float)run->weight_decay,
        .staging_bytes = STAGING_BYTES,
        .sharding = session->ranks > 1 ? session->spread.sharding : (struct sharding){0},
        .units = &session->spread.units,
        .kept = session->kept,
        .kept_count = train ? session->kept_count : 0,
    };
}

enum status session_compile(struct session *session, enum purpose purpose, struct fault *fault) {
    struct schedule_options options = session_options(session, purpose);
    return program_compile(&session->blueprint, session->target, &options, &session->region,
                           &session->program, fault);
}

/* Rank r of the world is cell [r / shard][r % shard] of the mesh [replicate, shard]. */
static struct rank_indices session_indices(const struct session *session) {
    int shard = session->ranks > 1 ? session->spread.sharding.shard : 1;
    int rank = session->site != NULL ? site_launch_info(session->site)->rank : 0;
    struct rank_indices ranks;
    ranks.of[AXIS_SHARD] = rank % shard;
    ranks.of[AXIS_REPLICATE] = rank / shard;
    ranks.of[AXIS_WORLD] = rank;
    ranks.size[AXIS_SHARD] = shard;
    ranks.size[AXIS_REPLICATE] = session_ranks(session) / shard;
    ranks.size[AXIS_WORLD] = session_ranks(session);
    return ranks;
}

enum status session_bind(struct session *session, struct fault *fault) {
    enum status status = session->misfit.status;
    if (status != OK) {
        *fault = session->misfit;
        return status;
    }
    status = program_fits(&session->program, fault);
    if (status == OK) {
        struct rank_indices ranks = session_indices(session);
        status = program_bind(&session->program, &ranks, &session->region, &session->bound, fault);
    }
    if (status == OK && !program_waits(&session->bound)) {
        session_load_constants(session);
    }
    return status;
}

void session_load_constants(struct session *session) {
    batch_fill_rope_table(session);
    program_run(&session->bound, SEGMENT_LOAD);
}

void session_finish(struct session *session) {
    bool bound = session->bound.program != NULL;
    if (bound) {
        process_unseal();
    }
    if (bound) {
        program_disconnect(&session->bound);
    }
    if (session->communicator.methods != NULL) {
        communicator_close(&session->communicator);
    }
    if (bound) {
        program_release(&session->bound);
    }
    region_finish(&session->region);
}
