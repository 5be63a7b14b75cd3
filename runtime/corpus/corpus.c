/* corpus: prepares a run over a corpus and ends it. */
#include "runtime/corpus/corpus.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "base/log.h"
#include "runtime/corpus/corpus_run.h"
#include "runtime/corpus/corpus_summary.h"
#include "runtime/corpus/validation_split.h"
#include "targets/os/mapping.h"
#include "transport/site/stop.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

enum {
    /* batches of a group for each thread; with fewer, threads idle longer at a group's end */
    BATCHES_PER_THREAD = 8,
    GROUP_BATCHES_MAX = 64, /* maximum batches of a group, unless there are more threads */
    FEW_FILES = 100,        /* with fewer text files than this, validation gets sections of files */
};

/* ---- preparing ---- */

static size_t find_text_division(const void *tokenizer, const char *text, size_t length,
                                 size_t limit) {
    return tokenizer_split_position(tokenizer, text, length, limit);
}

/* Returns a hash of everything that determines the content of the files except the text, which has
 * a hash of its own. */
static struct hash hash_arguments(const struct corpus_options *options,
                                  const struct input_list *inputs) {
    const struct tokenizer_info *info = tokenizer_info(options->tokenizer);
    const int64_t words[] = {TOKENIZER_ALGORITHM,    options->document_token,
                             options->is_stdin_json, options->is_strict,
                             options->is_literal,    (int64_t)options->validation_ppm,
                             options->shard_tokens,  BATCH_BYTES,
                             inputs->count};
    struct hash_state state;
    hash_begin(&state);
    hash_add(&state, info->hash.bytes, HASH_BYTES);
    hash_add(&state, words, sizeof words);
    hash_add(&state, options->field, strlen(options->field) + 1);
    for (int i = 0; i < inputs->count; i++) {
        hash_add(&state, inputs->inputs[i].path, strlen(inputs->inputs[i].path) + 1);
        hash_add(&state, &inputs->inputs[i].bytes, sizeof inputs->inputs[i].bytes);
    }
    return hash_end(&state);
}

/* Whether text files are divided into sections. They are if the inputs are few files, which would
 * be too few documents to choose validation from. */
static bool divides_files(const struct corpus_options *options, const struct input_list *inputs) {
    return options->validation_ppm > 0 && inputs->count < FEW_FILES;
}

static enum status make_batch(struct corpus_run *run, struct encoded_batch *encoded,
                              struct fault *fault) {
    void *memory;
    const int error =
        mapping_map(-1, BATCH_IDS_MAX * sizeof *encoded->ids, PROT_READ | PROT_WRITE, &memory);
    if (error != 0) {
        return fault_set_errno(fault, STATUS_FIT, "host memory", "cannot map", error);
    }
    encoded->ids = memory;
    encoded->piece_ids = region_alloc(run->region, BATCH_PIECES_MAX, sizeof *encoded->piece_ids);
    return batch_init(&encoded->batch, run->region, fault);
}

static enum status make_groups(struct corpus_run *run, struct fault *fault) {
    const int threads = run->options->threads;
    run->group_size =
        (int)max_i64(threads, min_i64((int64_t)threads * BATCHES_PER_THREAD, GROUP_BATCHES_MAX));
    for (int i = 0; i < 2; i++) {
        struct group *group = &run->groups[i];
        group->batches = region_alloc(run->region, (size_t)run->group_size, sizeof *group->batches);
        for (int b = 0; b < run->group_size; b++) {
            TRY(make_batch(run, &group->batches[b], fault));
        }
    }
    return OK;
}

static void make_encoders(struct corpus_run *run) {
    const size_t threads = (size_t)run->options->threads;
    run->encoders = region_alloc(run->region, threads, sizeof *run->encoders);
    run->encoder_regions = region_alloc(run->region, threads, sizeof *run->encoder_regions);
    for (size_t i = 0; i < threads; i++) {
        run->encoders[i] =
            tokenizer_encoder_make(run->options->tokenizer, &run->encoder_regions[i]);
        tokenizer_encoder_watch_stop(run->encoders[i], stop_requested);
    }
}

static void init_writers(struct corpus_run *run) {
    const struct tokenizer_info *info = tokenizer_info(run->options->tokenizer);
    const struct shard_header header = {.width = info->id_count <= UINT16_MAX + 1 ? 2 : 4,
                                        .has_origin = true,
                                        .tokenizer_hash = info->hash,
                                        .tokenizer_version = TOKENIZER_ALGORITHM,
                                        .document_token = run->options->document_token};
    for (int part = 0; part < CORPUS_PARTS; part++) {
        shard_writer_init(&run->writers[part], run->folder->unfinished_path,
                          corpus_part_name((enum corpus_part)part), &header,
                          run->options->shard_tokens);
    }
}

/* Reads the progress of an interrupted call with the same arguments, or else clears the folder. */
static void resume_progress(struct corpus_run *run, bool resumes) {
    struct corpus_progress found;
    run->progress.arguments_hash = hash_arguments(run->options, run->inputs);
    if (resumes && corpus_progress_read(run->folder->unfinished_path, &found) &&
        hash_equal(&found.arguments_hash, &run->progress.arguments_hash) && found.batches > 0) {
        run->resumed = found;
        log_line(LOG_INFO, "continuing an interrupted call: %llu tokens are in %s",
                 (unsigned long long)(found.parts[0].total.tokens + found.parts[1].total.tokens),
                 run->folder->unfinished_path);
    } else {
        corpus_folder_clear(run->folder);
    }
}

static enum status prepare_run(struct corpus_run *run, struct fault *fault) {
    const struct corpus_options *options = run->options;
    const struct reader_options reading = {.inputs = run->inputs,
                                           .field = options->field,
                                           .is_strict = options->is_strict,
                                           .validation_ppm = options->validation_ppm,
                                           .has_sections = divides_files(options, run->inputs),
                                           .find_division = find_text_division,
                                           .division_context = options->tokenizer};
    make_encoders(run);
    init_writers(run);
    TRY(make_groups(run, fault));
    return document_reader_init(&reading, &run->reader, fault);
}

static void release_run(struct corpus_run *run) {
    for (int part = 0; part < CORPUS_PARTS; part++) {
        shard_writer_close(&run->writers[part]);
    }
    for (int i = 0; i < 2 * run->group_size; i++) {
        struct group *group = &run->groups[i / run->group_size];
        struct encoded_batch *encoded =
            group->batches == NULL ? NULL : &group->batches[i % run->group_size];
        if (encoded != NULL && encoded->ids != NULL) {
            munmap(encoded->ids, BATCH_IDS_MAX * sizeof *encoded->ids);
            batch_finish(&encoded->batch);
        }
    }
    document_reader_finish(&run->reader);
    for (int i = 0; run->encoder_regions != NULL && i < run->options->threads; i++) {
        region_finish(&run->encoder_regions[i]);
    }
}

/* ---- the end ---- */

/* Returns the fault that no document is for validation. Of few text files, the share is one of
 * their sections. */
static enum status no_validation_fault(const struct corpus_run *run, struct fault *fault) {
    const uint64_t ppm = run->options->validation_ppm;
    const unsigned long long needed = validation_split_documents_min(ppm);
    const unsigned long long found = run->reader.unit;
    const bool has_sections =
        run->reader.options.has_sections && run->inputs->inputs[0].kind == INPUT_TEXT;
    char remedy[NAME_BYTES];
    if (has_sections) {
        snprintf(remedy, sizeof remedy, "raise the share, or use text of at least %llu KiB",
                 needed * (SECTION_BYTES >> 10));
        return fault_set(fault, STATUS_INPUT, "--validation", remedy,
                         "the text has %llu section%s of %d KiB, too few to keep %.4g %%", found,
                         found == 1 ? "" : "s", SECTION_BYTES >> 10, (double)ppm / 1e4);
    }
    snprintf(remedy, sizeof remedy, "raise the share, or use text of at least %llu documents",
             needed);
    return fault_set(fault, STATUS_INPUT, "--validation", remedy,
                     "the input has %llu document%s, too few to keep %.4g %%", found,
                     found == 1 ? "" : "s", (double)ppm / 1e4);
}

/* Returns the fault that all documents are for validation, and none for training. */
static enum status all_validation_fault(const struct corpus_run *run, struct fault *fault) {
    const unsigned long long found = run->reader.unit;
    const bool has_sections =
        run->reader.options.has_sections && run->inputs->inputs[0].kind == INPUT_TEXT;
    return fault_set(fault, STATUS_INPUT, "--validation",
                     "use more text, lower the share, or leave --validation out",
                     "keeps all of the text, %llu %s%s, and leaves none to train on", found,
                     has_sections ? "section" : "document", found == 1 ? "" : "s");
}

static enum status check_parts(const struct corpus_run *run, struct fault *fault) {
    const uint64_t ppm = run->options->validation_ppm;
    if (run->writers[CORPUS_TRAIN].position.total.tokens == 0 &&
        run->writers[CORPUS_VALIDATION].position.total.tokens > 0) {
        return all_validation_fault(run, fault);
    }
    if (run->writers[CORPUS_TRAIN].position.total.tokens == 0) {
        return fault_set(fault, STATUS_INPUT, run->inputs->inputs[0].path, "pass files with text",
                         "no text to train on");
    }
    return ppm > 0 && run->writers[CORPUS_VALIDATION].position.total.tokens == 0
               ? no_validation_fault(run, fault)
               : OK;
}

static struct corpus_part_report report_part(const struct shard_writer *writer) {
    return (struct corpus_part_report){.shards = writer->position.shard,
                                       .tokens = writer->position.total.tokens,
                                       .documents = writer->position.total.documents,
                                       .text_bytes = writer->position.total.text_bytes};
}

static void fill_report(const struct corpus_run *run, struct corpus_report *report) {
    const struct document_reader *reader = &run->reader;
    *report = (struct corpus_report){.train = report_part(&run->writers[CORPUS_TRAIN]),
                                     .validation = report_part(&run->writers[CORPUS_VALIDATION]),
                                     .input_count = run->inputs->count,
                                     .skipped_count = run->inputs->skipped_count,
                                     .skipped_path = run->inputs->skipped_path,
                                     .empty_documents = reader->empty_documents,
                                     .replacements = reader->window.replaced.count,
                                     .replaced_path = reader->window.replaced.path,
                                     .replaced_offset = reader->window.replaced.offset};
}

static enum status complete_files(struct corpus_run *run, struct corpus_report *report,
                                  struct fault *fault) {
    TRY(check_parts(run, fault));
    for (int part = 0; part < CORPUS_PARTS; part++) {
        TRY(shard_writer_end(&run->writers[part], fault));
    }
    fill_report(run, report);
    TRY(corpus_summary_write(run->folder->unfinished_path, run->options, report, fault));
    return corpus_folder_publish(run->folder, fault);
}

/* Encodes all inputs and completes the files. If run->has_changed is true afterwards, the files are
 * not complete, because the inputs differ from those of the interrupted call. */
static enum status run_once(struct corpus_run *run, bool resumes, struct corpus_report *report,
                            struct fault *fault) {
    resume_progress(run, resumes);
    TRY(prepare_run(run, fault));
    TRY(pool_init(&run->pool, run->options->threads, fault));
    run->progress_ns = clock_monotonic_ns();
    activity_begin("tokenising", run->inputs->bytes_total);
    enum status status = corpus_encode(run, fault);
    activity_end(status != OK);
    pool_finish(&run->pool);
    if (status == OK && !run->has_changed) {
        status = complete_files(run, report, fault);
    }
    return status;
}

/* The arguments of corpus_write. */
struct corpus_call {
    const struct corpus_options *options;
    const struct input_list *inputs;
    struct corpus_report *report;
};

static enum status attempt_corpus(void *context, struct corpus_folder *folder, bool resumes,
                                  bool *has_changed, struct fault *fault) {
    const struct corpus_call *call = context;
    struct region scratch = {0};
    struct corpus_run *run = region_alloc(&scratch, 1, sizeof *run);
    run->options = call->options;
    run->inputs = call->inputs;
    run->folder = folder;
    run->region = &scratch;
    run->writers[CORPUS_TRAIN].fd = run->writers[CORPUS_VALIDATION].fd = -1;
    const enum status status = run_once(run, resumes, call->report, fault);
    *has_changed = status == OK && run->has_changed;
    release_run(run);
    region_finish(&scratch);
    return status;
}

/* Rejects --field if no input has JSON lines, because the option would have no effect. */
static enum status check_field(const struct corpus_options *options,
                               const struct input_list *inputs, struct fault *fault) {
    bool has_lines = false;
    for (int i = 0; i < inputs->count; i++) {
        has_lines = has_lines || inputs->inputs[i].kind == INPUT_JSON_LINES;
    }
    return has_lines || !options->is_stdin_json
               ? OK
               : fault_set(fault, STATUS_INPUT, "--field",
                           "leave it out, or pass files whose names end in .jsonl or .ndjson",
                           "is for JSON lines, but all of the input is text");
}

enum status corpus_write(const struct corpus_options *options, struct region *region,
                         struct corpus_report *report, struct fault *fault) {
    struct input_list inputs;
    const enum input_kind stdin_kind = options->is_stdin_json ? INPUT_JSON_LINES : INPUT_TEXT;
    ASSERT(options->threads > 0 && options->threads <= THREADS_MAX);
    TRY(input_list_expand(options->paths, options->path_count, stdin_kind, region, &inputs, fault));
    TRY(check_field(options, &inputs, fault));
    const struct corpus_folder_options where = {
        .path = options->folder, .waits = options->waits, .has_stdin = inputs.has_stdin};
    struct corpus_call call = {.options = options, .inputs = &inputs, .report = report};
    return corpus_folder_write(&where, attempt_corpus, &call, fault);
}
