#include "runtime/train/trainer.h"

#include "base/log.h"
#include "build_config.h"
#include "runtime/data/text_tokens.h"
#include "runtime/session/rank_parts.h"
#include "runtime/session/ranks_check.h"
#include "transport/site/stop.h"

#include <math.h>
#include <stdio.h>

/* ---- before seal ---- */

enum status trainer_agree_on_stage(const struct trainer *trainer, enum status mine,
                                   struct fault *fault) {
    if (mine == OK && stop_requested()) {
        mine = fault_set(fault, STATUS_STOPPED, trainer->stop_subject, NULL,
                         "stopped, as requested by a signal");
    }
    return session_agree(&trainer->session, mine, fault);
}

enum status trainer_tokenise_text(struct trainer *trainer, struct fault *fault) {
    struct session *session = &trainer->session;
    const bool is_rank0 = session_is_rank0(session);
    for (int turn = 0; turn < 2; turn++) {
        const enum status mine =
            is_rank0 == (turn == 0)
                ? data_tokenise_text(&session->settings, &session->region, fault)
                : OK;
        TRY(trainer_agree_on_stage(trainer, mine, fault));
    }
    return OK;
}

enum status trainer_open_data(struct trainer *trainer, struct fault *fault) {
    struct session *session = &trainer->session;
    struct region *region = &session->region;
    const struct settings *settings = &session->settings;
    int64_t vocab = session->blueprint.vocab;
    TRY(data_open_run(settings, &settings->train_files, vocab, region, &trainer->train, fault));
    TRY(data_resolve_epochs(&session->settings, &trainer->train, fault));
    return settings->validation_files.count == 0
               ? OK
               : data_open_run(settings, &settings->validation_files, vocab, region,
                               &trainer->validation, fault);
}

enum status trainer_compare_ranks(struct trainer *trainer, const struct hash *data,
                                  struct fault *fault) {
    struct session *session = &trainer->session;
    TRY(ranks_check_equal(session, data, fault));
    if (session_rank_count(session) > 1) {
        log_line(LOG_INFO, "%d ranks (%s)", session_rank_count(session),
                 site_launch_info(session->site)->source);
    }
    return OK;
}

void trainer_add_group(struct trainer *trainer, const struct snapshot_group *saved,
                       const struct tensor_set *resident) {
    ASSERT(trainer->group_count < SNAPSHOT_GROUPS_MAX);
    int group = trainer->group_count++;
    trainer->groups_to_save[group] = *saved;
    trainer->groups_to_load[group] = *saved;
    trainer->groups_to_load[group].set = *resident;
}

void trainer_add_view_group(struct trainer *trainer, const char *file, const char *prefix,
                            enum param_view view) {
    struct session *session = &trainer->session;
    const struct snapshot_group saved = {
        .file = file, .prefix = prefix, .set = rank_parts_of_view(session, view, PART_SAVED)};
    const struct tensor_set resident = rank_parts_of_view(session, view, PART_STORED);
    trainer_add_group(trainer, &saved, &resident);
}

enum status trainer_prepare_output_texts(struct trainer *trainer, struct fault *fault) {
    struct session *session = &trainer->session;
    struct outputs *outputs = &trainer->outputs;
    TRY(session_read_config(session, &outputs->config_text, &outputs->config_length, fault));
    size_t bytes = settings_describe_bytes_max(&session->settings);
    struct text text = text_over(region_alloc(&session->region, bytes, 1), bytes);
    settings_describe(&session->settings, false, &text);
    ASSERT(!text.truncated);
    if (text.length >= SNAPSHOT_KEYS_BYTES_MAX) {
        return fault_set(fault, STATUS_INPUT, session->settings.run_file,
                         "list the files of data.train by a glob pattern, which is shorter",
                         "the settings take %zu bytes, but a snapshot has space for only %d",
                         text.length, SNAPSHOT_KEYS_BYTES_MAX);
    }
    outputs->keys = text.bytes;
    return OK;
}

enum status trainer_plan_export(struct trainer *trainer, struct fault *fault) {
    struct session *session = &trainer->session;
    struct outputs *outputs = &trainer->outputs;
    struct weights_save_args save = {.folder = session->settings.export_folder,
                                     .model_folder = session->model_folder,
                                     .config_text = outputs->config_text,
                                     .config_length = outputs->config_length,
                                     .set = trainer->groups_to_save[0].set,
                                     .dtype = (enum dtype)session->settings.export_dtype,
                                     .ranks = session_checkpoint_ranks(session)};
    return weights_save_plan(&save, &session->region, &outputs->export, fault);
}

enum status trainer_make_snapshot_writer(struct trainer *trainer, struct fault *fault) {
    struct session *session = &trainer->session;
    struct outputs *outputs = &trainer->outputs;
    struct snapshot_args args = {.folder = session->settings.snapshot_folder,
                                 .keep = (int)session->settings.snapshot_keep,
                                 .groups = trainer->groups_to_save,
                                 .group_count = trainer->group_count,
                                 .ranks = session_checkpoint_ranks(session),
                                 .config_text = outputs->config_text,
                                 .config_length = outputs->config_length,
                                 .model_folder = session->model_folder,
                                 .keys = outputs->keys,
                                 .plan_hash = session->program.hash};
    return snapshot_writer_init(&args, &session->region, &outputs->writer, fault);
}

void trainer_allocate_memory_reports(struct trainer *trainer) {
    struct session *session = &trainer->session;
    size_t ranks = (size_t)session_rank_count(session);
    trainer->memories = region_alloc(&session->region, ranks, sizeof *trainer->memories);
}

/* ---- after seal ---- */

void trainer_seal(struct trainer *trainer) {
    progress_init(&trainer->progress, &trainer->session);
    metrics_write_start(&trainer->metrics, &trainer->session, SKEP_VERSION);
    program_forbid_allocation(&trainer->session.bound);
}

static bool is_power_of_ten(int64_t count) {
    while (count % 10 == 0 && count > 0) {
        count /= 10;
    }
    return count == 1;
}

enum status trainer_count_skipped_step(struct trainer *trainer, bool skipped, const char *step,
                                       const char *subject, const char *remedy,
                                       struct fault *fault) {
    trainer->skipped_in_row = skipped ? trainer->skipped_in_row + 1 : 0;
    trainer->skipped += skipped;
    bool is_logged = trainer->skipped_in_row == 1 || is_power_of_ten(trainer->skipped);
    if (skipped && is_logged && session_is_rank0(&trainer->session)) {
        log_line(LOG_WARNING,
                 "%s: the step is skipped, because a gradient is not finite (%lld %s so far)", step,
                 (long long)trainer->skipped, trainer->skipped == 1 ? "step" : "steps");
    }
    return trainer->skipped_in_row < SKIPPED_IN_ROW_MAX
               ? OK
               : fault_set(fault, STATUS_FAILED, subject, remedy,
                           "the run has diverged: %d steps in a row had gradients that were not "
                           "finite",
                           SKIPPED_IN_ROW_MAX);
}

enum status trainer_write_snapshot(struct trainer *trainer, int64_t step,
                                   const struct snapshot_value *values, int value_count,
                                   struct fault *fault) {
    struct session *session = &trainer->session;
    const struct snapshot_state state = {.step = step,
                                         .seed = (uint64_t)session->settings.seed,
                                         .values = values,
                                         .value_count = value_count};
    struct staging staging = session_staging(session);
    program_execute_segment(&session->bound, SEGMENT_SNAPSHOT);
    return snapshot_save(&trainer->outputs.writer, &state, &staging, fault);
}

void trainer_log_snapshot(struct trainer *trainer, const char *moment, double seconds) {
    progress_show_line(&trainer->progress, "%s  snapshot in %s, %.2f s", moment,
                       trainer->session.settings.snapshot_folder, seconds);
}

enum status trainer_evaluate(struct trainer *trainer, struct step_limits *limits,
                             struct evaluation_result *result, struct fault *fault) {
    const struct step_source source = {.data = &trainer->validation, .limits = limits};
    return evaluate_data(&trainer->session, &source, settings_eval_rows(&trainer->session.settings),
                         result, fault);
}

void trainer_log_evaluation(struct trainer *trainer, int64_t step, double loss) {
    metrics_write_evaluation(&trainer->metrics, step, loss);
    progress_show_line(&trainer->progress, "step %lld  validation loss %.4f  perplexity %.2f",
                       (long long)step, nan_without_sign(loss), nan_without_sign(exp(loss)));
}

enum status trainer_export(struct trainer *trainer, struct fault *fault) {
    struct staging staging = session_staging(&trainer->session);
    return weights_save_run(&trainer->outputs.export, &staging, fault);
}

enum status trainer_collect_memory_use(struct trainer *trainer, struct fault *fault) {
    struct session *session = &trainer->session;
    const struct rank_memory own = metrics_own_memory(session);
    trainer->memories[0] = own;
    return session->site == NULL
               ? OK
               : site_exchange(session->site, &own, sizeof own, trainer->memories, fault);
}

/* ---- end ---- */

enum status trainer_conclude(struct trainer *trainer, const struct trainer_callbacks *callbacks,
                             void *owner, bool finished, bool evaluates, struct fault *fault) {
    TRY(callbacks->save(owner, fault));
    if (evaluates) {
        TRY(callbacks->evaluate(owner, fault));
    }
    if (finished) {
        TRY(callbacks->export_model(owner, fault));
        progress_show_line(&trainer->progress, "model written to %s",
                           trainer->outputs.export.folder);
    }
    return OK;
}

void trainer_end_metrics(struct trainer *trainer, bool finished) {
    metrics_write_memory(&trainer->metrics, &trainer->session, trainer->memories);
    metrics_write_end(&trainer->metrics, finished);
}

void trainer_close_files(struct trainer *trainer) {
    metrics_close(&trainer->metrics);
    data_close(&trainer->train);
    data_close(&trainer->validation);
}
