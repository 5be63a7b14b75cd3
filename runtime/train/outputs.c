#include "runtime/train/outputs.h"

static enum status describe_keys(struct session *session, struct outputs *outputs,
                                 struct fault *fault) {
    size_t bytes = settings_describe_bytes_max(&session->settings);
    struct text text = text_over(region_alloc(&session->region, bytes, 1), bytes);
    settings_describe(&session->settings, false, &text);
    ASSERT(!text.truncated);
    if (text.length >= SNAPSHOT_KEYS_BYTES_MAX) {
        return fault_set(fault, STATUS_INPUT, session->settings.run_file,
                         "name the files of data.train by a pattern",
                         "the settings take %zu bytes, a snapshot has space for %d", text.length,
                         SNAPSHOT_KEYS_BYTES_MAX);
    }
    outputs->keys = text.bytes;
    return OK;
}

enum status outputs_describe(struct session *session, struct outputs *outputs,
                             struct fault *fault) {
    TRY(session_config(session, &outputs->config_text, &outputs->config_length, fault));
    return describe_keys(session, outputs, fault);
}

enum status outputs_plan_export(struct session *session, const struct tensor_set *set,
                                struct outputs *outputs, struct fault *fault) {
    struct weights_save_args save = {.folder = session->settings.export_folder,
                                     .model_folder = session->model_folder,
                                     .config_text = outputs->config_text,
                                     .config_length = outputs->config_length,
                                     .set = *set,
                                     .dtype = (enum dtype)session->settings.params_dtype,
                                     .ranks = session_checkpoint_site(session)};
    return weights_save_plan(&save, &session->region, &outputs->export, fault);
}

enum status outputs_make_writer(struct session *session, const struct snapshot_group *groups,
                                int group_count, struct outputs *outputs, struct fault *fault) {
    struct snapshot_args args = {.folder = session->settings.snapshot_folder,
                                 .keep = (int)session->settings.snapshot_keep,
                                 .groups = groups,
                                 .group_count = group_count,
                                 .ranks = session_checkpoint_site(session),
                                 .config_text = outputs->config_text,
                                 .config_length = outputs->config_length,
                                 .model_folder = session->model_folder,
                                 .keys = outputs->keys,
                                 .plan_hash = session->program.hash};
    return snapshot_writer_init(&args, &session->region, &outputs->writer, fault);
}
