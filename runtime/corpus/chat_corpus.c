#include "runtime/corpus/chat_corpus.h"

#include "base/bytes.h"
#include "base/log.h"
#include "runtime/corpus/chat_batch.h"
#include "runtime/corpus/corpus_folder.h"
#include "runtime/corpus/corpus_progress.h"
#include "runtime/corpus/corpus_summary.h"
#include "runtime/corpus/row_packer.h"
#include "runtime/corpus/shard_writer.h"
#include "runtime/corpus/validation_split.h"
#include "targets/os/pool.h"
#include "transport/site/stop.h"

#include <stdio.h>
#include <string.h>

enum {
    /* batches of a group for each thread; with fewer, threads idle longer at a group's end */
    BATCHES_PER_THREAD = 4,
    GROUP_BATCHES_MAX = 32, /* maximum batches of a group, unless there are more threads */
};

struct chat_group {
    struct chat_batch *batches; /* [group_size] */
    int count;                  /* number of batches; 0: the inputs have ended */
};

struct chat_part {
    struct row_packer packer;
    struct shard_writer writer;
    struct chat_part_report report;
    /* position that the progress file has; the mask saved at it must remain */
    struct shard_position saved;
};

struct chat_corpus_run {
    const struct chat_corpus_options *options;
    const struct input_list *inputs;
    struct corpus_folder *folder;
    struct region *region;
    struct pool pool;
    struct chat_encoder *encoders; /* [threads] */
    struct chat_reader reader;
    struct chat_group groups[2]; /* one group is encoded while the other is read */
    int group_size;
    int current;             /* index of the group that is encoded */
    enum status read_status; /* result of reading the group that is not encoded */
    struct fault read_fault;
    struct chat_part parts[CORPUS_PARTS];
    int32_t *row; /* [row_tokens] */
    int32_t padding;
    uint64_t shown_bytes;
    /* progress of an interrupted call; batches 0: it has written nothing */
    struct corpus_progress resumed;
    /* progress of this call: the written rows, and the batches read */
    struct corpus_progress progress;
    bool needs_save;  /* rows have been written that are not in the progress file */
    bool has_changed; /* the inputs differ from those of the interrupted call */
};

static enum status stopped_fault(const struct chat_corpus_run *run, struct fault *fault) {
    return fault_set(fault, STATUS_STOPPED, run->options->folder,
                     "run the same command to continue", "stopped by request");
}

static enum corpus_part part_of(const struct chat_corpus_run *run, uint64_t number) {
    return validation_split_has(number, run->options->validation_ppm) ? CORPUS_VALIDATION
                                                                      : CORPUS_TRAIN;
}

/* ---- rows ---- */

/* Packs the collected conversations of a part into rows, and writes these rows. */
static enum status write_rows(struct chat_corpus_run *run, struct chat_part *part,
                              struct fault *fault) {
    struct row_packer *packer = &part->packer;
    row_packer_pack(packer);
    for (int i = 0; i < packer->row_count; i++) {
        const int64_t filled = row_packer_fill(packer, i, run->padding, run->row);
        uint64_t conversations = 0;
        for (int64_t t = 0; t < filled; t++) {
            conversations += (run->row[t] & PACKED_START) != 0;
            part->report.trained += (run->row[t] & PACKED_TRAINED) != 0;
        }
        part->report.tokens += (uint64_t)filled;
        part->report.conversations += conversations;
        TRY(shard_writer_add_row(&part->writer, run->row, conversations, fault));
    }
    part->report.rows += (uint64_t)packer->row_count;
    row_packer_clear(packer);
    return OK;
}

static void remove_mask_unless_saved(struct chat_part *part,
                                     const struct shard_position *position) {
    if (position->total.tokens != part->saved.total.tokens) {
        shard_writer_remove_mask(&part->writer, position);
    }
}

/* Packs the collected conversations of a part, those before number `number`, and makes their rows
 * durable. The progress is saved when the batch is complete. */
static enum status flush_part(struct chat_corpus_run *run, enum corpus_part index, uint64_t number,
                              struct fault *fault) {
    struct chat_part *part = &run->parts[index];
    struct corpus_progress *progress = &run->progress;
    TRY(write_rows(run, part, fault));
    TRY(shard_writer_sync(&part->writer, fault));
    /* removes the mask of an earlier pack of this batch */
    remove_mask_unless_saved(part, &progress->parts[index]);
    TRY(shard_writer_save_mask(&part->writer, fault));
    progress->parts[index] = part->writer.position;
    progress->chats[index] = (struct chat_progress){.next_number = number, .report = part->report};
    run->needs_save = true;
    return OK;
}

/* Returns the number of tokens of a conversation that are written; 0: the conversation is left out.
 * The first token of a row is not predicted, so this token does not count as trained. */
static int32_t length_to_keep(const struct chat_corpus_run *run, const bool *is_trained, int count,
                              struct chat_part_report *report) {
    const int64_t row_tokens = run->options->row_tokens;
    const bool is_long = count > row_tokens;
    const bool is_dropped = is_long && !run->options->cuts_long;
    const int32_t length = (int32_t)min_i64(count, row_tokens);
    bool has_trained = false;
    for (int32_t i = 1; i < length && !has_trained; i++) {
        has_trained = is_trained[i];
    }
    report->long_count += is_dropped || (is_long && has_trained);
    report->untrained_count += !is_dropped && !has_trained;
    return is_dropped || !has_trained ? 0 : length;
}

static enum status add_conversation(struct chat_corpus_run *run, const struct chat_batch *batch,
                                    int index, struct fault *fault) {
    const uint64_t number = batch->first_number + (uint64_t)index;
    const enum corpus_part part_index = part_of(run, number);
    struct chat_part *part = &run->parts[part_index];
    const struct chat_line *line = &batch->lines[index];
    if (line->first_id < 0) {
        return OK; /* the conversation is in the files already */
    }
    const int32_t *ids = batch->ids + line->first_id;
    const bool *is_trained = batch->is_trained + line->first_id;
    struct chat_part_report counted = {.rows = 0};
    const int32_t length = length_to_keep(run, is_trained, line->id_count, &counted);
    if (length > 0 && !row_packer_can_add(&part->packer, length)) {
        TRY(flush_part(run, part_index, number, fault));
    }
    part->report.long_count += counted.long_count;
    part->report.untrained_count += counted.untrained_count;
    if (length > 0) {
        row_packer_add(&part->packer, ids, is_trained, length, run->region);
    }
    return OK;
}

/* ---- batches ---- */

static bool is_missing(const void *context, uint64_t number) {
    const struct chat_corpus_run *run = context;
    return number >= run->resumed.chats[part_of(run, number)].next_number;
}

/* Reads the next group of batches into `group`, the one that is not encoded. */
static void read_group(struct chat_corpus_run *run, struct chat_group *group) {
    group->count = 0;
    run->read_status = OK;
    while (group->count < run->group_size && run->read_status == OK) {
        struct chat_batch *batch = &group->batches[group->count];
        run->read_status = chat_reader_next(&run->reader, batch, &run->read_fault);
        if (run->read_status != OK || batch->line_count == 0) {
            return;
        }
        group->count++;
    }
}

/* Executes one item of the pool's work: item 0 reads the next group, each other item encodes a
 * batch of the current group. */
static void run_pool_item(void *context, int64_t item, int thread) {
    struct chat_corpus_run *run = context;
    if (item == 0) {
        read_group(run, &run->groups[1 - run->current]);
        return;
    }
    struct chat_batch *batch = &run->groups[run->current].batches[item - 1];
    if (stop_requested()) {
        batch->status = stopped_fault(run, &batch->fault);
        return;
    }
    chat_batch_encode(batch, &run->encoders[thread], is_missing, run);
}

static enum status save_progress(struct chat_corpus_run *run, struct fault *fault) {
    TRY(corpus_progress_write(run->folder->unfinished_path, &run->progress, fault));
    for (int i = 0; i < CORPUS_PARTS; i++) {
        struct chat_part *part = &run->parts[i];
        const struct shard_position earlier = part->saved;
        part->saved = run->progress.parts[i];
        remove_mask_unless_saved(part, &earlier);
    }
    run->needs_save = false;
    return OK;
}

/* Called when the text of the interrupted call has been read again: compares the hash of that text,
 * sets has_changed if it differs, and opens the files at the position where that call stopped. */
static enum status resume_files(struct chat_corpus_run *run, struct fault *fault) {
    if (!hash_equal(&run->progress.text_hash, &run->resumed.text_hash)) {
        run->has_changed = true;
        return OK;
    }
    for (int i = 0; i < CORPUS_PARTS; i++) {
        struct chat_part *part = &run->parts[i];
        TRY(shard_writer_resume(&part->writer, &run->resumed.parts[i], fault));
        TRY(shard_writer_load_mask(&part->writer, fault));
    }
    return OK;
}

static enum status add_batch(struct chat_corpus_run *run, const struct chat_batch *batch,
                             struct fault *fault) {
    const struct hash both[2] = {run->progress.text_hash, batch->hash};
    if (batch->status == STATUS_STOPPED) {
        return stopped_fault(run, fault);
    }
    if (batch->status != OK) {
        *fault = batch->fault;
        return batch->status;
    }
    for (int i = 0; i < batch->line_count; i++) {
        TRY(add_conversation(run, batch, i, fault));
    }
    run->progress.text_hash = hash_of(both, sizeof both);
    run->progress.batches++;
    if (run->progress.batches == run->resumed.batches) {
        TRY(resume_files(run, fault));
    }
    return run->needs_save ? save_progress(run, fault) : OK;
}

static enum status add_group(struct chat_corpus_run *run, struct fault *fault) {
    const struct chat_group *group = &run->groups[run->current];
    for (int i = 0; i < group->count && !run->has_changed; i++) {
        TRY(add_batch(run, &group->batches[i], fault));
    }
    const uint64_t bytes = input_window_file_bytes(&run->reader.window);
    activity_advance(bytes - run->shown_bytes);
    run->shown_bytes = bytes;
    return stop_requested() ? stopped_fault(run, fault) : OK;
}

static enum status encode_all(struct chat_corpus_run *run, struct fault *fault) {
    read_group(run, &run->groups[run->current]);
    while (run->groups[run->current].count > 0 && !run->has_changed && run->read_status == OK) {
        pool_run(&run->pool, run_pool_item, run, run->groups[run->current].count + (int64_t)1);
        TRY(add_group(run, fault));
        run->current = 1 - run->current;
    }
    if (run->read_status != OK) {
        *fault = run->read_fault;
        return run->read_status;
    }
    run->has_changed = run->has_changed || run->progress.batches < run->resumed.batches;
    return OK;
}

/* ---- preparing ---- */

/* Returns a hash of everything that determines the content of the files except the text, which has
 * a hash of its own. */
static struct hash hash_arguments(const struct chat_corpus_options *options,
                                  const struct input_list *inputs) {
    const struct chat_options *chat = options->chat;
    const int64_t words[] = {
        TOKENIZER_ALGORITHM, options->row_tokens,   options->cuts_long,
        options->is_strict,  chat->is_thinking,     (int64_t)options->validation_ppm,
        chat->guard != NULL, options->shard_tokens, PACKER_ROWS,
        CHAT_BATCH_BYTES,    CHAT_BATCH_LINES_MAX,  inputs->count};
    const char *const texts[] = {chat_template_name(chat->chat), chat->date, chat->bos, chat->eos};
    struct hash_state state;
    hash_begin(&state);
    hash_add(&state, tokenizer_info(options->tokenizer)->hash.bytes, HASH_BYTES);
    hash_add(&state, words, sizeof words);
    for (size_t i = 0; i < ARRAY_COUNT(texts); i++) {
        hash_add(&state, texts[i], strlen(texts[i]) + 1);
    }
    for (int i = 0; i < inputs->count; i++) {
        hash_add(&state, inputs->inputs[i].path, strlen(inputs->inputs[i].path) + 1);
        hash_add(&state, &inputs->inputs[i].bytes, sizeof inputs->inputs[i].bytes);
    }
    return hash_end(&state);
}

/* Reads the progress of an interrupted call with the same arguments, or else clears the folder. */
static void resume_progress(struct chat_corpus_run *run, bool resumes) {
    struct corpus_progress found;
    run->progress.arguments_hash = hash_arguments(run->options, run->inputs);
    if (!resumes || !corpus_progress_read(run->folder->unfinished_path, &found) ||
        !hash_equal(&found.arguments_hash, &run->progress.arguments_hash) || found.batches == 0) {
        corpus_folder_clear(run->folder);
        return;
    }
    run->resumed = found;
    for (int i = 0; i < CORPUS_PARTS; i++) {
        run->progress.parts[i] = found.parts[i];
        run->progress.chats[i] = found.chats[i];
        run->parts[i].report = found.chats[i].report;
        run->parts[i].saved = found.parts[i];
    }
    log_line(LOG_INFO, "continuing an interrupted call: %llu tokens are in %s",
             (unsigned long long)(found.parts[0].total.tokens + found.parts[1].total.tokens),
             run->folder->unfinished_path);
}

static void make_groups(struct chat_corpus_run *run) {
    const int threads = run->options->threads;
    run->group_size =
        (int)max_i64(threads, min_i64((int64_t)threads * BATCHES_PER_THREAD, GROUP_BATCHES_MAX));
    for (int i = 0; i < 2; i++) {
        struct chat_group *group = &run->groups[i];
        group->batches = region_alloc(run->region, (size_t)run->group_size, sizeof *group->batches);
        for (int b = 0; b < run->group_size; b++) {
            chat_batch_init(&group->batches[b]);
        }
    }
}

static enum status prepare_run(struct chat_corpus_run *run, struct fault *fault) {
    const struct chat_corpus_options *options = run->options;
    const struct tokenizer_info *info = tokenizer_info(options->tokenizer);
    const int64_t rows = max_i64(options->shard_tokens / options->row_tokens, 1);
    const struct shard_header header = {.width = info->id_count <= UINT16_MAX + 1 ? 2 : 4,
                                        .has_origin = true,
                                        .tokenizer_hash = info->hash,
                                        .tokenizer_version = TOKENIZER_ALGORITHM,
                                        .document_token = SHARD_NO_DOCUMENT_TOKEN,
                                        .has_mask = true,
                                        .row_tokens = options->row_tokens};
    for (int i = 0; i < CORPUS_PARTS; i++) {
        struct chat_part *part = &run->parts[i];
        shard_writer_init(&part->writer, run->folder->unfinished_path,
                          corpus_part_name((enum corpus_part)i), &header,
                          rows * options->row_tokens);
        shard_writer_init_mask(&part->writer, run->region);
        row_packer_init(&part->packer, options->row_tokens, run->region);
    }
    run->row = region_alloc(run->region, (size_t)options->row_tokens, sizeof *run->row);
    run->padding = info->pad_id >= 0        ? info->pad_id
                   : info->document_id >= 0 ? info->document_id
                                            : 0;
    run->encoders = region_alloc(run->region, (size_t)options->threads, sizeof *run->encoders);
    for (int i = 0; i < options->threads; i++) {
        chat_encoder_init(&run->encoders[i], options->tokenizer, options->chat);
    }
    make_groups(run);
    return chat_reader_init(run->inputs, options->is_strict, &run->reader, fault);
}

static void release_run(struct chat_corpus_run *run) {
    for (int i = 0; i < CORPUS_PARTS; i++) {
        shard_writer_close(&run->parts[i].writer);
    }
    for (int i = 0; i < 2 * run->group_size; i++) {
        struct chat_group *group = &run->groups[i / run->group_size];
        if (group->batches != NULL) {
            chat_batch_finish(&group->batches[i % run->group_size]);
        }
    }
    for (int i = 0; run->encoders != NULL && i < run->options->threads; i++) {
        chat_encoder_finish(&run->encoders[i]);
    }
    chat_reader_finish(&run->reader);
}

/* ---- the end ---- */

static enum status check_parts(const struct chat_corpus_run *run, struct fault *fault) {
    const struct chat_part_report *train = &run->parts[CORPUS_TRAIN].report;
    const struct chat_part_report *validation = &run->parts[CORPUS_VALIDATION].report;
    if (train->rows == 0 && validation->rows > 0) {
        return fault_set(fault, STATUS_INPUT, "--validation",
                         "use more conversations, lower the share, or leave --validation out",
                         "keeps all conversations that have an answer and fit in a row, %llu, and "
                         "leaves none to train on",
                         (unsigned long long)validation->conversations);
    }
    if (train->rows == 0) {
        return fault_set(fault, STATUS_INPUT, run->inputs->inputs[0].path,
                         "pass files with conversations, or raise --sequence (in a run, "
                         "batch.sequence)",
                         "no conversation to train on; %llu are longer than a row, %llu have no "
                         "answer%s",
                         (unsigned long long)train->long_count,
                         (unsigned long long)train->untrained_count,
                         run->options->cuts_long ? " before the cut" : "");
    }
    if (run->options->validation_ppm > 0 && validation->rows == 0) {
        return fault_set(fault, STATUS_INPUT, "--validation", "raise the share",
                         "%llu conversation%s too few for this share",
                         (unsigned long long)run->reader.conversations,
                         run->reader.conversations == 1 ? " is" : "s are");
    }
    return OK;
}

static enum status complete_files(struct chat_corpus_run *run, struct chat_corpus_report *report,
                                  struct fault *fault) {
    const struct replaced_bytes *replaced = &run->reader.window.replaced;
    *report = (struct chat_corpus_report){.replacements = replaced->count,
                                          .replaced_path = replaced->path,
                                          .replaced_offset = replaced->offset,
                                          .skipped_count = run->inputs->skipped_count,
                                          .skipped_path = run->inputs->skipped_path};
    for (int i = 0; i < CORPUS_PARTS; i++) {
        struct chat_part *part = &run->parts[i];
        TRY(write_rows(run, part, fault));
        TRY(shard_writer_end(&part->writer, fault));
        part->report.shards = part->writer.position.shard;
        report->parts[i] = part->report;
    }
    TRY(check_parts(run, fault));
    for (int i = 0; i < CORPUS_PARTS; i++) {
        shard_writer_remove_mask(&run->parts[i].writer, &run->progress.parts[i]);
    }
    TRY(chat_summary_write(run->folder->unfinished_path, run->options, report, fault));
    return corpus_folder_publish(run->folder, fault);
}

/* Encodes all inputs and completes the files. If run->has_changed is true afterwards, the files are
 * not complete, because the inputs differ from those of the interrupted call. */
static enum status run_once(struct chat_corpus_run *run, bool resumes,
                            struct chat_corpus_report *report, struct fault *fault) {
    TRY(prepare_run(run, fault));
    resume_progress(run, resumes);
    TRY(pool_init(&run->pool, run->options->threads, fault));
    activity_begin("tokenising", run->inputs->bytes_total);
    enum status status = encode_all(run, fault);
    activity_end(status != OK);
    pool_finish(&run->pool);
    return status == OK && !run->has_changed ? complete_files(run, report, fault) : status;
}

/* The arguments of chat_corpus_write. */
struct chat_corpus_call {
    const struct chat_corpus_options *options;
    const struct input_list *inputs;
    struct chat_corpus_report *report;
};

static enum status attempt_chats(void *context, struct corpus_folder *folder, bool resumes,
                                 bool *has_changed, struct fault *fault) {
    const struct chat_corpus_call *call = context;
    struct region scratch = {0};
    struct chat_corpus_run *run = region_alloc(&scratch, 1, sizeof *run);
    run->options = call->options;
    run->inputs = call->inputs;
    run->folder = folder;
    run->region = &scratch;
    run->parts[CORPUS_TRAIN].writer.fd = run->parts[CORPUS_VALIDATION].writer.fd = -1;
    const enum status status = run_once(run, resumes, call->report, fault);
    *has_changed = status == OK && run->has_changed;
    release_run(run);
    region_finish(&scratch);
    return status;
}

static enum status check_inputs(const struct input_list *inputs, struct fault *fault) {
    for (int i = 0; i < inputs->count; i++) {
        if (inputs->inputs[i].kind != INPUT_JSON_LINES) {
            return fault_set(fault, STATUS_INPUT, inputs->inputs[i].path,
                             "pass files whose names end in .jsonl or .ndjson",
                             "is text; conversations are JSON lines");
        }
    }
    return OK;
}

enum status chat_corpus_write(const struct chat_corpus_options *options, struct region *region,
                              struct chat_corpus_report *report, struct fault *fault) {
    struct input_list inputs;
    ASSERT(options->threads > 0 && options->threads <= THREADS_MAX);
    TRY(input_list_expand(options->paths, options->path_count, INPUT_JSON_LINES, region, &inputs,
                          fault));
    TRY(check_inputs(&inputs, fault));
    const struct corpus_folder_options where = {
        .path = options->folder, .waits = options->waits, .has_stdin = inputs.has_stdin};
    struct chat_corpus_call call = {.options = options, .inputs = &inputs, .report = report};
    return corpus_folder_write(&where, attempt_chats, &call, fault);
}
