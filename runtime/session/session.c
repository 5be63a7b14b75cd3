
#include "runtime/session/session.h"

#include "base/file.h"
#include "base/log.h"
#include "base/text.h"
#include "runtime/data/data.h"
#include "runtime/data/text_tokens.h"
#include "runtime/model/families/families.h"
#include "runtime/session/batch.h"
#include "runtime/settings/model_config.h"
#include "targets/probe/detect.h"

#include <glob.h>
#include <stdio.h>

enum {
    STAGING_BYTES = 1 << 20, /* size of the staging buffer between host and device memory */
    /* maximum number of prompt tokens that one prefill segment processes */
    PREFILL_TOKENS = 64,
    SHOWN_RUN_FILES = 4, /* maximum number of run files that a message lists */
};

/* Binding this many bytes takes about a second, so the bind of a program that needs more is
 * logged. */
static const uint64_t SLOW_BIND_BYTES = (uint64_t)1 << 30;

static bool has_suffix(const char *what, const char *suffix) {
    const char *dot = strrchr(what, '.');
    return dot != NULL && strcmp(dot, suffix) == 0;
}

/* Returns the text that describes where one rank's share of a capacity or speed comes from;
 * `source` describes the value of the whole machine. */
static const char *describe_share_source(const char *source, int ranks, struct region *region) {
    return region_format(region, "%.200s, shared by the arenas of %d ranks", source, ranks);
}

static void divide_space(struct target_space *space, int ranks, struct region *region) {
    size_t count = (size_t)space->declared_use_count;
    struct target_declared_use *declared = region_alloc(region, count + 1, sizeof *declared);
    for (size_t i = 0; i < count; i++) {
        declared[i] = space->declared[i];
        declared[i].bytes = (declared[i].bytes + (uint64_t)ranks - 1) / (uint64_t)ranks;
    }
    space->declared = declared;
    space->capacity_bytes /= (uint64_t)ranks;
    space->capacity_source = describe_share_source(space->capacity_source, ranks, region);
}

/* Returns the part of the target that one rank uses: an equal share of the machine's memory,
 * declared use, threads and speed. */
static const struct target *rank_share_of_target(const struct target *machine, int ranks,
                                                 struct region *region) {
    struct target *share = region_alloc(region, 1, sizeof *share);
    *share = *machine;
    share->threads = machine->threads / ranks > 1 ? machine->threads / ranks : 1;
    for (int i = 0; i < SPACE_COUNT; i++) {
        if (share->spaces[i].capacity_bytes > 0) {
            divide_space(&share->spaces[i], ranks, region);
        }
    }
    struct target_figure *const figures[] = {&share->f32_flops, &share->bf16_flops,
                                             &share->memory_bandwidth};
    for (size_t i = 0; i < ARRAY_COUNT(figures); i++) {
        figures[i]->value /= ranks;
        figures[i]->source = describe_share_source(figures[i]->source, ranks, region);
    }
    return share;
}

/* Returns the number of communicators that a rank joins: one for its shard group, one for its
 * replica group and one for the whole site. Without replicas, the shard group is the whole site. */
static int communicator_count(const struct session *session) {
    const struct sharding *sharding = &session->sharding_settings.sharding;
    bool both = sharding->shard > 1 && sharding->replicate > 1;
    return session_rank_count(session) == 1 ? 0 : both ? 3 : 1;
}

int session_local_rank_count(const struct session *session) {
    return session->local_ranks > 0 ? session->local_ranks : session_rank_count(session);
}

static enum status check_gpu_is_usable(const struct session *session, struct fault *fault) {
    const char *wanted = session->settings.target;
    struct fault why;
    if (session->rejects_faulty_gpu && target_is_automatic(wanted) &&
        target_find_unused_gpu(&why) == UNUSED_GPU_FAULTY) {
        char remedy[sizeof why.remedy + 64];
        snprintf(remedy, sizeof remedy, "%s%starget=cpu lends the CPU only", why.remedy,
                 why.remedy[0] != '\0' ? "; " : "");
        return fault_set(fault, STATUS_INPUT, why.subject, remedy, "%s", why.reason);
    }
    if (session_is_rank0(session)) {
        target_warn_of_unused_gpu(wanted);
    }
    return OK;
}

static enum status read_target(struct session *session, struct fault *fault) {
    const struct settings *settings = &session->settings;
    struct region *region = &session->region;
    TRY(check_gpu_is_usable(session, fault));
    TRY(target_open(settings->target, region, &session->target, fault));
    session->target = target_with_groups(session->target, communicator_count(session), region);
    struct target *own = region_alloc(region, 1, sizeof *own);
    if (settings->limit_device > 0 &&
        target_lower_capacity(session->target, settings->limit_device, region, &session->target,
                              &session->misfit) != OK) {
        *own = *session->target;
        own->spaces[SPACE_DEVICE].capacity_bytes = settings->limit_device;
        own->spaces[SPACE_DEVICE].capacity_source = "limits.device";
        session->target = own;
    }
    if (session_local_rank_count(session) > 1 && session->target->kind == TARGET_CPU) {
        session->target =
            rank_share_of_target(session->target, session_local_rank_count(session), region);
    }
    if (settings->threads > 0) {
        own = region_alloc(region, 1, sizeof *own);
        *own = *session->target;
        own->threads = (int)settings->threads;
        session->target = own;
    }
    return OK;
}

enum status session_build(struct session *session, struct fault *fault) {
    struct region *region = &session->region;
    struct settings *settings = &session->settings;
    settings->longest_document_tokens = session->longest_document;
    settings->ranks = session->ranks;
    TRY(settings_check_model(settings, &session->blueprint, region, fault));
    TRY(sharding_settings_read(settings, &session->blueprint, region, &session->sharding_settings,
                               fault));
    return read_target(session, fault);
}

/* Lists the YAML files in the folder where the run file was expected. */
static enum status no_run_file_fault(const char *what, struct fault *fault) {
    char folder[PATH_BYTES], pattern[2 * PATH_BYTES];
    char bytes[sizeof fault->remedy];
    struct text remedy = text_over(bytes, sizeof bytes);
    glob_t found = {0};
    if (strlen(what) < PATH_BYTES) {
        file_parent_folder(what, folder, sizeof folder);
        bool is_here = strcmp(folder, ".") == 0;
        path_join(is_here ? "" : folder, "*.y*ml", pattern, sizeof pattern);
        if (glob(pattern, 0, NULL, &found) == 0) {
            text_add(&remedy, "there %s ", found.gl_pathc == 1 ? "is" : "are");
        }
    }
    for (size_t i = 0; i < found.gl_pathc && i < SHOWN_RUN_FILES; i++) {
        text_add(&remedy, "%s%.60s", i > 0 ? ", " : "", found.gl_pathv[i]);
    }
    globfree(&found);
    return fault_set(fault, STATUS_INPUT, what, bytes,
                     "cannot open the model: No such file or directory");
}

enum status session_read(struct session *session, const char *what, const char *const *overrides,
                         int override_count, struct fault *fault) {
    struct region *region = &session->region;
    struct settings *settings = &session->settings;
    bool file = has_suffix(what, ".yaml") || has_suffix(what, ".yml");
    if (file && !file_exists(what)) {
        return no_run_file_fault(what, fault);
    }
    TRY(settings_open(file ? what : NULL, overrides, override_count, region, settings, fault));
    if (!file) {
        settings->model = what;
    }
    if (settings->model == NULL) {
        return fault_set(fault, STATUS_INPUT, settings->run_file,
                         "add a line to the run file, for example model: ./my-model",
                         "the key \"model\" is missing");
    }
    TRY(blueprint_open(settings->model, region, &session->blueprint, session->model_folder, fault));
    return session_build(session, fault);
}

/* Opens the files if the settings list any. Returns whether they are open. */
static bool open_data(const struct session *session, const struct path_list *files,
                      struct region *region, struct token_data *data, struct fault *problem) {
    /* Text is not opened here, because its tokens exist only after `skep train` has made them. */
    return files->count > 0 && !data_is_text(&session->settings, files) &&
           data_open_run(&session->settings, files, session->blueprint.vocab, region, data,
                         problem) == OK;
}

double session_count_data_passes(struct session *session, struct fault *problem) {
    struct token_data data = {0};
    struct settings *settings = &session->settings;
    double passes = 0;
    problem->status = OK;
    if (open_data(session, &settings->train_files, &session->region, &data, problem)) {
        if (data_resolve_epochs(settings, &data, problem) == OK) {
            passes = data_pass_count(settings, &data);
        }
        data_close(&data);
    }
    if (problem->status == OK &&
        open_data(session, &settings->validation_files, &session->region, &data, problem)) {
        data_close(&data);
    }
    return passes;
}

enum status session_read_config(struct session *session, const char **text, size_t *length,
                                struct fault *fault) {
    if (session->config_text != NULL) {
        *text = session->config_text;
        *length = strlen(*text);
        return OK;
    }
    return model_config_read(session->settings.model, session->model_folder, &session->region, text,
                             length, fault);
}

struct schedule_options session_schedule_options(const struct session *session,
                                                 enum purpose purpose) {
    const struct settings *settings = &session->settings;
    bool train = purpose == PURPOSE_TRAIN || purpose == PURPOSE_COMPARE;
    bool generate = purpose == PURPOSE_TRAIN || purpose == PURPOSE_GENERATE;
    int64_t rows = settings->batch_tokens / settings->sequence_tokens;
    int64_t rows_at_once = settings->microbatch * session_rank_count(session);
    return (struct schedule_options){
        .sequence = settings->sequence_tokens,
        .microbatch = settings->microbatch,
        .accumulation = (rows + rows_at_once - 1) / rows_at_once,
        .context = generate ? settings->context_tokens : 0,
        .prefill =
            settings->context_tokens < PREFILL_TOKENS ? settings->context_tokens : PREFILL_TOKENS,
        .train = train,
        .evaluate = purpose != PURPOSE_GENERATE,
        .stores_logits = purpose == PURPOSE_LOGITS || purpose == PURPOSE_COMPARE,
        .compute = (enum dtype)settings->compute_dtype,
        .moments = (enum dtype)settings->moments_dtype,
        .rounding = (enum rounding)settings->rounding,
        .recompute = settings->layer_recompute,
        .offload = train ? settings->offload_kinds : 0,
        .clip_norm = (float)settings->clip_norm,
        .epsilon = (float)settings->epsilon,
        .staging_bytes = STAGING_BYTES,
        .sharding = session_rank_count(session) > 1 ? session->sharding_settings.sharding
                                                    : (struct sharding){0},
        .units = &session->sharding_settings.units,
        .resident = session->resident,
        .resident_count = train ? session->resident_count : 0,
    };
}

enum status session_compile(struct session *session, enum purpose purpose, struct fault *fault) {
    struct schedule_options options = session_schedule_options(session, purpose);
    return program_compile(&session->blueprint, session->target, &options, &session->region,
                           &session->program, fault);
}

/* Makes the mesh that `skep mesh replicate=R,shard=S` prints: rank r has the cell [r / S][r %
 * S]. */
static enum status make_mesh(struct session *session, struct fault *fault) {
    int ranks = session_rank_count(session);
    int shard = ranks > 1 ? session->sharding_settings.sharding.shard : 1;
    struct mesh_dim dims[MESH_DIMS] = {
        [MESH_REPLICATE] = {"replicate", ranks / shard}, [MESH_SHARD] = {"shard", shard}};
    return mesh_init(dims, MESH_DIMS, NULL, &session->region, &session->mesh, fault);
}

static struct rank_indices indices_in_mesh(const struct session *session) {
    const struct mesh *mesh = &session->mesh;
    int rank = session->site != NULL ? site_launch_info(session->site)->rank : 0;
    int coordinate[MESH_DIMS_MAX];
    mesh_get_coordinates(mesh, rank, coordinate);
    return (struct rank_indices){.index = {[AXIS_SHARD] = coordinate[MESH_SHARD],
                                           [AXIS_REPLICATE] = coordinate[MESH_REPLICATE],
                                           [AXIS_WORLD] = rank},
                                 .size = {[AXIS_SHARD] = mesh->dims[MESH_SHARD].size,
                                          [AXIS_REPLICATE] = mesh->dims[MESH_REPLICATE].size,
                                          [AXIS_WORLD] = mesh->ranks}};
}

/* Logs that the bind has begun if it will take long: mapping memory and preparing a GPU report no
 * progress. */
static enum status bind_program(struct session *session, const struct rank_indices *ranks,
                                struct fault *fault) {
    uint64_t bytes = 0;
    for (int space = 0; space < SPACE_COUNT; space++) {
        bytes += session->program.plan.peak_bytes[space];
    }
    const bool is_slow = bytes >= SLOW_BIND_BYTES;
    if (is_slow) {
        activity_begin("preparing memory and program", 0);
    }
    enum status status =
        program_bind(&session->program, ranks, &session->region, &session->bound, fault);
    if (is_slow) {
        activity_end(false);
    }
    return status;
}

enum status session_bind(struct session *session, struct fault *fault) {
    enum status status = session->misfit.status;
    if (status != OK) {
        *fault = session->misfit;
        return status;
    }
    TRY(program_check_fit(&session->program, fault));
    TRY(make_mesh(session, fault));
    const struct rank_indices ranks = indices_in_mesh(session);
    TRY(bind_program(session, &ranks, fault));
    if (!program_needs_rehearsal(&session->bound)) {
        session_load_constants(session);
    }
    return OK;
}

void session_load_constants(struct session *session) {
    batch_fill_rope_table(session);
    program_execute_segment(&session->bound, SEGMENT_LOAD);
}

void session_finish(struct session *session) {
    bool bound = session->bound.program != NULL;
    if (bound) {
        process_unseal();
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
