#include "runtime/train/session.h"

#include "runtime/train/batch.h"

#include <string.h>

enum { STAGING_BYTES = 1 << 20, PREFILL_TOKENS = 64 };

static bool is_run_file(const char *what) {
    const char *dot = strrchr(what, '.');
    return dot != NULL && (strcmp(dot, ".yaml") == 0 || strcmp(dot, ".yml") == 0);
}

static enum status read_target(struct session *session, struct fault *fault) {
    const struct run *run = &session->run;
    struct region *region = &session->region;
    enum status status = target_open(run->target, region, &session->target, fault);
    if (status != OK) {
        return status;
    }
    struct target *own = region_alloc(region, 1, sizeof *own);
    if (run->limit_device > 0 && target_lower_capacity(session->target, run->limit_device, region,
                                                       &session->target, &session->misfit) != OK) {
        *own = *session->target;
        own->spaces[SPACE_DEVICE].capacity_bytes = run->limit_device;
        own->spaces[SPACE_DEVICE].capacity_source = "limits.device";
        session->target = own;
    }
    if (run->threads > 0) {
        *own = *session->target;
        own->threads = (int)run->threads;
        session->target = own;
    }
    return OK;
}

enum status session_read(struct session *session, const char *what, const char *const *overrides,
                         int override_count, struct fault *fault) {
    struct region *region = &session->region;
    struct run *run = &session->run;
    bool file = is_run_file(what);
    enum status status =
        run_open(file ? what : NULL, overrides, override_count, region, run, fault);
    if (status != OK) {
        return status;
    }
    if (!file) {
        run->model = what;
    }
    run->longest_document = session->longest_document;
    if (run->model == NULL) {
        return fault_set(fault, STATUS_INPUT, run->place, "add a line such as model: ./my-model",
                         "the key \"model\" is missing");
    }
    status = blueprint_open(run->model, region, &session->blueprint, session->model_folder, fault);
    if (status == OK) {
        status = run_check_model(run, &session->blueprint, region, fault);
    }
    return status == OK ? read_target(session, fault) : status;
}

struct schedule_options session_options(const struct session *session, enum purpose purpose) {
    const struct run *run = &session->run;
    bool train = purpose == PURPOSE_TRAIN || purpose == PURPOSE_COMPARE;
    bool generate = purpose == PURPOSE_TRAIN || purpose == PURPOSE_GENERATE;
    int64_t rows = run->batch_tokens / run->sequence;
    return (struct schedule_options){
        .sequence = run->sequence,
        .microbatch = run->microbatch,
        .accumulation = (rows + run->microbatch - 1) / run->microbatch,
        .context = generate ? run->context : 0,
        .prefill = run->context < PREFILL_TOKENS ? run->context : PREFILL_TOKENS,
        .train = train,
        .evaluate = purpose != PURPOSE_GENERATE,
        .logits = purpose == PURPOSE_LOGITS || purpose == PURPOSE_COMPARE,
        .compute = (enum dtype)run->compute,
        .moments = (enum dtype)run->moments,
        .recompute = run->layer_recompute,
        .clip_norm = (float)run->clip_norm,
        .beta1 = (float)run->betas.first,
        .beta2 = (float)run->betas.second,
        .epsilon = (float)run->epsilon,
        .weight_decay = (float)run->weight_decay,
        .staging_bytes = STAGING_BYTES,
    };
}

enum status session_compile(struct session *session, enum purpose purpose, struct fault *fault) {
    struct schedule_options options = session_options(session, purpose);
    return program_compile(&session->blueprint, session->target, &options, &session->region,
                           &session->program, fault);
}

enum status session_bind(struct session *session, struct fault *fault) {
    enum status status = session->misfit.status;
    if (status != OK) {
        *fault = session->misfit;
        return status;
    }
    status = program_fits(&session->program, fault);
    if (status == OK) {
        status = program_bind(&session->program, NULL, &session->region, &session->bound, fault);
    }
    if (status == OK) {
        batch_fill_rope_table(session);
        program_run(&session->bound, SEGMENT_LOAD);
    }
    return status;
}

void session_finish(struct session *session) {
    if (session->bound.program != NULL) {
        process_unseal();
        program_release(&session->bound);
    }
    region_finish(&session->region);
}
