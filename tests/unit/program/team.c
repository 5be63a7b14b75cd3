#include "tests/unit/program/team.h"

#include "base/random.h"
#include "runtime/model/families/families.h"
#include "runtime/model/model.h"
#include "targets/probe/detect.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

enum { SEED = 11, LAYERS_HERE_MAX = 8, POSITIONS = 32, DELAY_NS_MAX = 40000 };

const char *team_title(const struct team_case *of) {
    static char title[256];
    snprintf(title, sizeof title,
             "shard %d replicate %d zero %d%s prefetch %d live %d keep %d at %s wire %s compute %s "
             "recompute %s offload %u%s%s disturbance %llu",
             of->shard, of->replicate, of->zero, of->mixed ? " mixed" : "", of->prefetch, of->live,
             of->keep_gathered, of->reduce_at == REDUCE_AT_STEP ? "step" : "microbatch",
             dtype_name(of->reduce), dtype_name(of->compute), recompute_name(of->recompute),
             of->offload, of->noisy ? " noisy" : "", of->separate ? " separate" : "",
             (unsigned long long)of->disturbance);
    return title;
}

static void expect(const struct team *team, enum status status, const struct fault *fault) {
    if (status != OK) {
        fail_msg("%s: %s: %s", team_title(&team->of), fault->subject, fault->reason);
    }
}

static struct schedule_options options_of(struct team *team) {
    enum recompute *recompute = region_alloc(&team->region, LAYERS_HERE_MAX, sizeof *recompute);
    for (int layer = 0; layer < LAYERS_HERE_MAX; layer++) {
        recompute[layer] = team->of.recompute;
    }
    return (struct schedule_options){
        .sequence = TEAM_TIME,
        .microbatch = team->of.microbatch,
        .accumulation = team->accumulation,
        .train = true,
        .evaluate = true,
        .compute = team->of.compute,
        .moments = team->of.noisy ? DTYPE_BF16 : DTYPE_F32,
        .rounding = team->of.noisy ? ROUNDING_STOCHASTIC : ROUNDING_NEAREST,
        .recompute = recompute,
        .offload = team->of.offload,
        .clip_norm = 1,
        .epsilon = 1e-8f,
        .staging_bytes = 1 << 16,
        .sharding = team->world > 1 ? team->sharding : (struct sharding){0}};
}

static void compile(struct team *team) {
    struct fault fault;
    const struct team_case *of = &team->of;
    expect(team,
           blueprint_read(of->config, strlen(of->config), "config.json", &team->region,
                          &team->blueprint, &fault),
           &fault);
    team->target = *target_detect(&team->region);
    team->target.threads = 1;
    team->target.unified = !of->separate;
    for (int unit = 0; unit < TEAM_UNITS_MAX; unit++) {
        team->strategies[unit] = (struct unit_strategy){
            .zero = of->mixed ? (of->zero + unit) % ZERO_STAGE_COUNT : of->zero,
            .keep_gathered = of->keep_gathered};
    }
    team->sharding = (struct sharding){.shard = of->shard,
                                       .replicate = of->replicate,
                                       .units = team->strategies,
                                       .prefetch = of->prefetch,
                                       .gathered_units_max = of->live,
                                       .reduce_at = of->reduce_at,
                                       .reduce = of->reduce};
    struct schedule_options options = options_of(team);
    expect(team,
           program_compile(&team->blueprint, &team->target, &options, &team->region, &team->program,
                           &fault),
           &fault);
    assert_true(team->program.schedule.units->unit_count <= TEAM_UNITS_MAX);
}

/* Rank r is cell [r / shard][r % shard] of the mesh. */
static struct rank_indices find_groups(struct team *team, int rank) {
    int shard = team->of.shard;
    const int sizes[AXIS_COUNT] = {shard, team->of.replicate, team->world};
    const int first[AXIS_COUNT] = {rank / shard * shard, rank % shard, 0};
    const int apart[AXIS_COUNT] = {1, shard, 1};
    const int index[AXIS_COUNT] = {rank % shard, rank / shard, rank};
    struct rank_indices ranks;
    for (int axis = 0; axis < AXIS_COUNT; axis++) {
        int *members = team->group_ranks[rank][axis];
        for (int i = 0; i < sizes[axis]; i++) {
            members[i] = first[axis] + i * apart[axis];
        }
        team->groups[rank][axis] =
            (struct collective_group){.ranks = members, .size = sizes[axis], .index = index[axis]};
        ranks.index[axis] = index[axis];
        ranks.size[axis] = sizes[axis];
    }
    return ranks;
}

static void connect(struct team *team, struct team_member *member) {
    const struct inproc_args args = {.hub = &team->hub,
                                     .rank = member->index,
                                     .groups = team->groups[member->index],
                                     .group_count = AXIS_COUNT};
    inproc_open_communicator(&args, &team->region, &member->communicator);
    for (int space = 0; space < SPACE_COUNT; space++) {
        if (member->bound.shared[space]) {
            inproc_register(&member->communicator, (enum space)space, member->bound.base[space],
                            team->program.plan.peak_bytes[space]);
        }
    }
    struct fault fault;
    expect(team, program_connect(&member->bound, &member->communicator, &fault), &fault);
}

static void disturb(void *context, uint32_t index) {
    uint32_t words[4];
    random_block(*(const uint64_t *)context, index, words);
    struct timespec time = {.tv_nsec = words[1] % DELAY_NS_MAX};
    while (words[0] % 4 == 0 && nanosleep(&time, &time) != 0 && errno == EINTR) {
    }
}

static void fill_rope(const struct bound_program *bound) {
    const struct schedule *schedule = &bound->program->schedule;
    if (schedule->host.rope_table == EXTENT_NONE) {
        return;
    }
    float frequencies[128];
    int64_t half = bound->program->schedule.blueprint->head_dim / 2;
    float *table = program_extent_address(bound, schedule->host.rope_table);
    int64_t count = (int64_t)(schedule->extents[schedule->host.rope_table].bytes / sizeof(float));
    blueprint_rope_frequencies(bound->program->schedule.blueprint, frequencies);
    for (int64_t i = 0; i < count; i++) {
        float angle = (float)(i / half / 2) * frequencies[i % half];
        table[i] = i / half % 2 == 0 ? cosf(angle) : sinf(angle);
    }
}

static void fill_params(struct team *team, const struct bound_program *bound) {
    static const enum param_view VIEWS[] = {VIEW_PARAMS, VIEW_MASTER};
    for (int i = 0; i < team->blueprint.param_count; i++) {
        const struct param *param = &team->blueprint.params[i];
        int64_t count = param_elements(param);
        float *values = region_alloc(&team->region, (size_t)count, sizeof *values);
        param_init_fill(param, SEED, 0, count, values);
        for (int64_t k = 0; k < count; k++) {
            values[k] +=
                0.1f * random_normal(random_key(SEED, "jitter"), (uint64_t)(i * 100000 + k));
        }
        for (size_t v = 0; v < ARRAY_COUNT(VIEWS); v++) {
            struct param_part part = program_param_part(bound, i, VIEWS[v]);
            for (int64_t k = 0; k < part.count; k++) {
                if (part.dtype == DTYPE_F32) {
                    ((float *)part.address)[k] = values[part.first + k];
                } else {
                    ((uint16_t *)part.address)[k] = bf16_from_f32(values[part.first + k]);
                }
            }
        }
    }
}

void team_init(struct team *team, const struct team_case *of) {
    struct fault fault;
    memset(team, 0, sizeof *team);
    team->of = *of;
    team->world = of->shard * of->replicate;
    int64_t at_a_time = team->world * of->microbatch;
    team->accumulation = (TEAM_ROWS + at_a_time - 1) / at_a_time;
    compile(team);
    inproc_hub_init(&team->hub, team->world);
    for (int rank = 0; rank < team->world; rank++) {
        struct team_member *member = &team->members[rank];
        struct rank_indices ranks = find_groups(team, rank);
        member->team = team;
        member->index = rank;
        member->disturbance = of->disturbance + (uint64_t)rank;
        expect(team, program_bind(&team->program, &ranks, &team->region, &member->bound, &fault),
               &fault);
        member->bound.hook = of->disturbance != 0 ? disturb : NULL;
        member->bound.hook_context = &member->disturbance;
        connect(team, member);
        fill_rope(&member->bound);
        fill_params(team, &member->bound);
    }
}

/* ---- training ---- */

/* Label of a token of the step's row; -100 for about a fifth, and for rows past the last. */
static int32_t label_at(const struct team *team, int step, int64_t row, int t) {
    uint32_t words[4];
    random_block(random_key(SEED, "labels"), (uint64_t)((step * TEAM_ROWS + row) * TEAM_TIME + t),
                 words);
    bool ignored = row >= TEAM_ROWS || words[2] % 5 == 0;
    return ignored ? -100 : (int32_t)(words[1] % (uint32_t)team->blueprint.vocab);
}

static int64_t first_row(const struct team_member *member, int64_t k) {
    const struct team *team = member->team;
    return (k * team->world + member->index) * team->of.microbatch;
}

static int64_t valid_tokens(const struct team_member *member, int step) {
    const struct team *team = member->team;
    int64_t valid = 0;
    for (int64_t k = 0; k < team->accumulation; k++) {
        for (int64_t i = 0; i < team->of.microbatch * TEAM_TIME; i++) {
            int64_t row = first_row(member, k) + i / TEAM_TIME;
            valid += label_at(team, step, row, (int)(i % TEAM_TIME)) != -100;
        }
    }
    return valid;
}

static void fill_batch(const struct team_member *member, int step, int64_t k) {
    const struct team *team = member->team;
    const struct cpu_extents *host = &team->program.schedule.host;
    int32_t *ids = program_extent_address(&member->bound, host->ids);
    int32_t *labels = program_extent_address(&member->bound, host->labels);
    int32_t *positions = program_extent_address(&member->bound, host->positions);
    for (int64_t i = 0; i < team->of.microbatch * TEAM_TIME; i++) {
        int64_t row = first_row(member, k) + i / TEAM_TIME;
        int t = (int)(i % TEAM_TIME);
        uint32_t words[4];
        random_block(random_key(SEED, "ids"), (uint64_t)((step * TEAM_ROWS + row) * TEAM_TIME + t),
                     words);
        ids[i] = (int32_t)(words[0] % (uint32_t)team->blueprint.vocab);
        labels[i] = label_at(team, step, row, t);
        positions[i] = t;
    }
}

static void take_step(struct team_member *member, int step) {
    struct bound_program *bound = &member->bound;
    struct step_scalars *scalars = program_scalars(bound);
    memset(scalars, 0, sizeof *scalars);
    scalars->learning_rate = 1e-3f;
    scalars->beta1 = 0.9f;
    scalars->beta2 = 0.95f;
    scalars->weight_decay = 0.1f;
    scalars->bias_correction_1 = 1 - powf(0.9f, (float)(step + 1));
    scalars->bias_correction_2 = 1 - powf(0.95f, (float)(step + 1));
    scalars->noise = (uint32_t)step;
    scalars->valid_tokens = valid_tokens(member, step);
    scalars->loss_scale = 1.0f / (float)scalars->valid_tokens;
    program_execute_segment(bound, SEGMENT_BEGIN);
    for (int64_t k = 0; k < member->team->accumulation; k++) {
        fill_batch(member, step, k);
        program_execute_segment(bound, SEGMENT_MICROBATCH);
    }
    program_execute_segment(bound, SEGMENT_FINISH);
    member->loss[step] = scalars->loss_sum / (double)scalars->valid_tokens;
    member->norm[step] = scalars->gradient_norm;
}

static void *member_main(void *argument) {
    static const enum segment_kind OTHERS[] = {SEGMENT_EVALUATE, SEGMENT_SNAPSHOT};
    struct team_member *member = argument;
    program_execute_segment(&member->bound, SEGMENT_LOAD);
    for (int step = 0; step < TEAM_STEPS; step++) {
        take_step(member, step);
    }
    fill_batch(member, 0, 0);
    for (size_t i = 0; i < ARRAY_COUNT(OTHERS); i++) {
        program_execute_segment(&member->bound, OTHERS[i]);
    }
    return NULL;
}

void team_train(struct team *team) {
    pthread_t threads[TEAM_RANKS_MAX];
    for (int rank = 0; rank < team->world; rank++) {
        assert_int_equal(pthread_create(&threads[rank], NULL, member_main, &team->members[rank]),
                         0);
    }
    for (int rank = 0; rank < team->world; rank++) {
        pthread_join(threads[rank], NULL);
    }
}

/* ---- results ---- */

static void copy_part(const struct param_part *part, float *values) {
    for (int64_t k = 0; k < part->count; k++) {
        values[part->first + k] = part->dtype == DTYPE_F32
                                      ? ((const float *)part->address)[k]
                                      : bf16_to_f32(((const uint16_t *)part->address)[k]);
    }
}

void team_gather(const struct team *team, int index, enum param_view view, float *values) {
    int64_t elements = param_elements(&team->blueprint.params[index]);
    int64_t next = 0;
    for (int rank = 0; rank < team->of.shard && next < elements; rank++) {
        struct param_part part = program_param_part(&team->members[rank].bound, index, view);
        assert_true(part.count == 0 || part.first == next);
        copy_part(&part, values);
        next += part.count;
    }
    assert_int_equal(next, elements);
}

struct hash team_hash(const struct team *team) {
    static const enum param_view VIEWS[] = {VIEW_MASTER, VIEW_MOMENT1, VIEW_MOMENT2};
    static float values[1 << 16];
    struct hash_state state;
    hash_begin(&state);
    hash_add(&state, team->members[0].loss, sizeof team->members[0].loss);
    hash_add(&state, team->members[0].norm, sizeof team->members[0].norm);
    for (int i = 0; i < team->blueprint.param_count; i++) {
        size_t elements = (size_t)param_elements(&team->blueprint.params[i]);
        assert_true(elements <= ARRAY_COUNT(values));
        for (size_t v = 0; v < ARRAY_COUNT(VIEWS); v++) {
            team_gather(team, i, VIEWS[v], values);
            hash_add(&state, values, elements * sizeof *values);
        }
    }
    return hash_end(&state);
}

void team_finish(struct team *team) {
    for (int rank = 0; rank < team->world; rank++) {
        communicator_close(&team->members[rank].communicator);
        program_release(&team->members[rank].bound);
    }
    inproc_hub_finish(&team->hub);
    region_finish(&team->region);
}
