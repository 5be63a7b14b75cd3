/* corpus_encode: encodes groups of batches on the threads of a pool, while one thread reads the
 * next group. The written files depend on the order of the batches only. */
#include "base/clock.h"
#include "base/log.h"
#include "runtime/corpus/corpus_run.h"
#include "transport/site/stop.h"

#include <string.h>

/* minimum time between two saves of the progress, in nanoseconds */
static const int64_t PROGRESS_NS = 10 * NS_PER_SECOND;

/* ---- encoding ---- */

static void hash_batch_text(struct encoded_batch *encoded) {
    struct hash_state state;
    const struct batch *batch = &encoded->batch;
    hash_begin(&state);
    hash_add(&state, batch->text, batch->length);
    for (int i = 0; i < batch->piece_count; i++) {
        const struct piece *piece = &batch->pieces[i];
        const uint64_t words[] = {piece->length, (uint64_t)piece->starts_document |
                                                     (uint64_t)piece->ends_document << 1 |
                                                     (uint64_t)piece->is_validation << 2};
        hash_add(&state, words, sizeof words);
    }
    encoded->hash = hash_end(&state);
}

/* Encodes one piece. `list` is in the encoder's memory, where the document token that may follow
 * has no room. */
static enum status encode_piece(const struct corpus_run *run, struct tokenizer_encoder *encoder,
                                const struct batch *batch, int index, struct token_list *list,
                                struct fault *fault) {
    const struct piece *piece = &batch->pieces[index];
    const struct tokenizer_options options = {.adds_special_tokens = true,
                                              .is_literal = run->options->is_literal,
                                              .is_continued = !piece->starts_document,
                                              .has_more = !piece->ends_document};
    return tokenizer_encode(encoder, batch->text + piece->begin, piece->length, &options, list,
                            fault);
}

static bool has_document_token(const struct corpus_run *run, const struct piece *piece) {
    return piece->ends_document && run->options->document_token != TOKENIZER_NO_ID;
}

/* Encodes a batch into its own memory. */
static void encode_batch(const struct corpus_run *run, struct tokenizer_encoder *encoder,
                         struct encoded_batch *encoded) {
    const struct batch *batch = &encoded->batch;
    size_t count = 0;
    encoded->status = OK;
    encoded->is_encoded = batch->length <= BATCH_BYTES;
    for (int i = 0; i < batch->piece_count && encoded->is_encoded; i++) {
        struct token_list list;
        encoded->status = encode_piece(run, encoder, batch, i, &list, &encoded->fault);
        if (encoded->status != OK) {
            return;
        }
        const bool ends = has_document_token(run, &batch->pieces[i]);
        if (list.count + ends > BATCH_IDS_MAX - count) {
            encoded->is_encoded = false;
            return;
        }
        memcpy(encoded->ids + count, list.ids, list.count * sizeof *list.ids);
        count += list.count;
        if (ends) {
            encoded->ids[count++] = run->options->document_token;
        }
        encoded->piece_ids[i] = list.count + ends;
    }
}

/* Reads the next group of batches into `group`, the one that is not encoded. */
static void read_group(struct corpus_run *run, struct group *group) {
    group->count = 0;
    run->read_status = OK;
    while (group->count < run->group_size && run->read_status == OK) {
        struct encoded_batch *encoded = &group->batches[group->count];
        run->read_status = document_reader_next(&run->reader, &encoded->batch, &run->read_fault);
        if (run->read_status != OK || encoded->batch.piece_count == 0) {
            return;
        }
        encoded->number = run->next_batch++;
        group->count++;
    }
}

static enum status stopped_fault(const struct corpus_run *run, struct fault *fault) {
    return fault_set(fault, STATUS_STOPPED, run->options->folder,
                     "run the same command to continue", "stopped by request");
}

/* Executes one item of the pool's work: item 0 reads the next group, each other item encodes a
 * batch of the current group. */
static void run_pool_item(void *context, int64_t item, int thread) {
    struct corpus_run *run = context;
    if (item == 0) {
        read_group(run, &run->groups[1 - run->current]);
        return;
    }
    struct encoded_batch *encoded = &run->groups[run->current].batches[item - 1];
    hash_batch_text(encoded);
    encoded->is_encoded = false;
    encoded->status = OK;
    if (stop_requested()) {
        encoded->status = stopped_fault(run, &encoded->fault);
    } else if (encoded->number >= run->resumed.batches) {
        encode_batch(run, run->encoders[thread], encoded);
    }
}

/* ---- writing ---- */

static enum status write_ids(struct corpus_run *run, const struct piece *piece, const int32_t *ids,
                             size_t count, bool ends_document, struct fault *fault) {
    const struct shard_source source = {.text_bytes = piece->length,
                                        .ends_document = ends_document};
    struct shard_writer *writer =
        &run->writers[piece->is_validation ? CORPUS_VALIDATION : CORPUS_TRAIN];
    return shard_writer_add(writer, ids, count, &source, fault);
}

/* Encodes and writes a batch whose ids did not fit into its memory, piece by piece. */
static enum status write_large_batch(struct corpus_run *run, const struct batch *batch,
                                     struct fault *fault) {
    for (int i = 0; i < batch->piece_count; i++) {
        const struct piece *piece = &batch->pieces[i];
        const bool has_token = has_document_token(run, piece);
        struct token_list list;
        TRY(encode_piece(run, run->encoders[0], batch, i, &list, fault));
        TRY(write_ids(run, piece, list.ids, list.count, piece->ends_document && !has_token, fault));
        if (has_token) {
            const struct piece end = {.is_validation = piece->is_validation};
            TRY(write_ids(run, &end, &run->options->document_token, 1, true, fault));
        }
    }
    return OK;
}

static enum status write_batch(struct corpus_run *run, const struct encoded_batch *encoded,
                               struct fault *fault) {
    const struct batch *batch = &encoded->batch;
    const int32_t *ids = encoded->ids;
    if (!encoded->is_encoded) {
        return write_large_batch(run, batch, fault);
    }
    for (int i = 0; i < batch->piece_count; i++) {
        TRY(write_ids(run, &batch->pieces[i], ids, encoded->piece_ids[i],
                      batch->pieces[i].ends_document, fault));
        ids += encoded->piece_ids[i];
    }
    return OK;
}

static struct hash chain_hash(const struct hash *earlier, const struct hash *batch) {
    const struct hash both[2] = {*earlier, *batch};
    return hash_of(both, sizeof both);
}

/* Compares the hash of the text that has been read again with that of the interrupted call, and
 * sets has_changed if they differ. Else opens the files at the position where that call stopped. */
static enum status resume_files(struct corpus_run *run, struct fault *fault) {
    if (!hash_equal(&run->progress.text_hash, &run->resumed.text_hash)) {
        run->has_changed = true;
        return OK;
    }
    for (int part = 0; part < CORPUS_PARTS; part++) {
        TRY(shard_writer_resume(&run->writers[part], &run->resumed.parts[part], fault));
        run->progress.parts[part] = run->resumed.parts[part];
    }
    return OK;
}

/* Writes a batch, unless an interrupted call has written it. The progress includes the batch only
 * when all of the batch is written, because a request to stop ends the writing between two
 * files. */
static enum status write_or_skip_batch(struct corpus_run *run, struct encoded_batch *encoded,
                                       struct fault *fault) {
    struct corpus_progress next = run->progress;
    if (encoded->status != OK) {
        *fault = encoded->fault;
        return encoded->status;
    }
    next.text_hash = chain_hash(&run->progress.text_hash, &encoded->hash);
    next.batches = encoded->number + 1;
    if (next.batches <= run->resumed.batches) {
        run->progress = next;
        return next.batches == run->resumed.batches ? resume_files(run, fault) : OK;
    }
    TRY(write_batch(run, encoded, fault));
    for (int part = 0; part < CORPUS_PARTS; part++) {
        next.parts[part] = run->writers[part].position;
    }
    run->progress = next;
    return OK;
}

static enum status save_progress(struct corpus_run *run, struct fault *fault) {
    if (run->progress.batches == 0 || run->progress.batches < run->resumed.batches) {
        return OK; /* there is no progress to save, or the file already has later progress */
    }
    for (int part = 0; part < CORPUS_PARTS; part++) {
        TRY(shard_writer_sync(&run->writers[part], fault));
    }
    run->progress_ns = clock_monotonic_ns();
    return corpus_progress_write(run->folder->unfinished_path, &run->progress, fault);
}

static void show_progress(struct corpus_run *run) {
    const uint64_t bytes = input_window_file_bytes(&run->reader.window);
    activity_advance(bytes - run->shown_bytes);
    run->shown_bytes = bytes;
}

/* Writes the current group, and saves the progress from time to time. */
static enum status write_group(struct corpus_run *run, struct fault *fault) {
    struct group *group = &run->groups[run->current];
    enum status status = OK;
    for (int i = 0; i < group->count && !run->has_changed && status == OK; i++) {
        status = write_or_skip_batch(run, &group->batches[i], fault);
    }
    show_progress(run);
    if (status == STATUS_STOPPED || (status == OK && stop_requested())) {
        TRY(save_progress(run, fault));
        return stopped_fault(run, fault);
    }
    TRY(status);
    return clock_monotonic_ns() - run->progress_ns >= PROGRESS_NS ? save_progress(run, fault) : OK;
}

enum status corpus_encode(struct corpus_run *run, struct fault *fault) {
    read_group(run, &run->groups[run->current]);
    while (run->groups[run->current].count > 0 && !run->has_changed && run->read_status == OK) {
        pool_run(&run->pool, run_pool_item, run, run->groups[run->current].count + (int64_t)1);
        TRY(write_group(run, fault));
        run->current = 1 - run->current;
    }
    if (run->read_status != OK) {
        *fault = run->read_fault;
        return run->read_status;
    }
    run->has_changed = run->has_changed || run->progress.batches < run->resumed.batches;
    return OK;
}
