#include "runtime/corpus/shard_writer.h"

#include "base/bytes.h"
#include "base/file.h"
#include "runtime/corpus/row_packer.h"
#include "transport/site/stop.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void shard_writer_init(struct shard_writer *writer, const char *folder, const char *name,
                       const struct shard_header *header, int64_t shard_tokens) {
    ASSERT(shard_tokens > 0 && shard_tokens <= SHARD_TOKENS_MAX);
    *writer = (struct shard_writer){
        .folder = folder, .name = name, .header = *header, .shard_tokens = shard_tokens, .fd = -1};
}

static void set_path(struct shard_writer *writer) {
    char name[NAME_BYTES];
    snprintf(name, sizeof name, "%s_%06lld.bin", writer->name, (long long)writer->position.shard);
    path_join(writer->folder, name, writer->path, sizeof writer->path);
}

/* Returns the offset in the file at which the buffer is to be written. */
static int64_t file_offset(const struct shard_writer *writer) {
    return SHARD_HEADER_BYTES +
           (int64_t)(writer->position.in_shard.tokens * (uint64_t)writer->header.width) -
           (int64_t)writer->buffered_bytes;
}

/* Creates the next file, with a header of zeros, which no reader accepts. Tokens are written after
 * the header. */
static enum status open_shard(struct shard_writer *writer, struct fault *fault) {
    static const uint8_t NO_HEADER[SHARD_HEADER_BYTES];
    if (writer->position.shard == SHARDS_MAX) {
        return fault_set(fault, STATUS_INPUT, writer->folder, "raise --shard-tokens",
                         "needs more than %d files", SHARDS_MAX);
    }
    set_path(writer);
    TRY(file_open_write(writer->path, &writer->fd, fault));
    return file_write_at(writer->fd, writer->path, NO_HEADER, sizeof NO_HEADER, 0, fault);
}

static enum status flush_buffer(struct shard_writer *writer, struct fault *fault) {
    if (writer->buffered_bytes > 0) {
        TRY(file_write_at(writer->fd, writer->path, writer->buffer, writer->buffered_bytes,
                          file_offset(writer), fault));
        writer->buffered_bytes = 0;
    }
    return OK;
}

/* Writes the mask's bits after the tokens of the file, and clears the bits for the next file. */
static enum status write_mask(struct shard_writer *writer, struct fault *fault) {
    const int64_t tokens = (int64_t)writer->position.in_shard.tokens;
    const size_t bytes = (size_t)shard_bits_bytes(tokens);
    const int64_t offset = SHARD_HEADER_BYTES + tokens * writer->header.width;
    uint8_t *const lists[] = {writer->trained_bits, writer->start_bits};
    for (size_t i = 0; i < ARRAY_COUNT(lists); i++) {
        TRY(file_write_at(writer->fd, writer->path, lists[i], bytes, offset + (int64_t)(i * bytes),
                          fault));
        memset(lists[i], 0, bytes);
    }
    return OK;
}

/* Completes a file by writing its header. This comes last, so that the file is not a token file
 * before. */
static enum status complete_shard(struct shard_writer *writer, struct fault *fault) {
    uint8_t bytes[SHARD_HEADER_BYTES];
    struct shard_header header = writer->header;
    TRY(flush_buffer(writer, fault));
    if (writer->header.has_mask) {
        TRY(write_mask(writer, fault));
    }
    TRY(file_sync(writer->fd, writer->path, fault));
    header.token_count = (int64_t)writer->position.in_shard.tokens;
    header.document_count = writer->position.in_shard.documents;
    header.text_bytes = writer->position.in_shard.text_bytes;
    shard_header_write(&header, bytes);
    TRY(file_write_at(writer->fd, writer->path, bytes, sizeof bytes, 0, fault));
    const int fd = writer->fd;
    writer->fd = -1;
    TRY(file_close_synced(fd, writer->path, fault));
    writer->position.shard++;
    writer->position.in_shard = (struct shard_counts){0};
    return OK;
}

/* Completes a file, and checks for a stop request, because the tokens of one call may fill
 * thousands of files. */
static enum status complete_full_shard(struct shard_writer *writer, struct fault *fault) {
    TRY(complete_shard(writer, fault));
    return stop_requested() ? fault_set(fault, STATUS_STOPPED, writer->folder,
                                        "run the same command to continue", "stopped by request")
                            : OK;
}

/* Appends `count` tokens to the buffer, which must have room for them. */
static void encode_tokens(struct shard_writer *writer, const int32_t *ids, size_t count) {
    uint8_t *to = writer->buffer + writer->buffered_bytes;
    if (writer->header.width == 2) {
        for (size_t i = 0; i < count; i++) {
            to[2 * i] = (uint8_t)(ids[i] & 0xff);
            to[2 * i + 1] = (uint8_t)(ids[i] >> 8 & 0xff);
        }
    } else {
        for (size_t i = 0; i < count; i++) {
            for (int byte = 0; byte < 4; byte++) {
                to[4 * i + (size_t)byte] = (uint8_t)(ids[i] >> 8 * byte & 0xff);
            }
        }
    }
    writer->buffered_bytes += count * (size_t)writer->header.width;
    writer->position.in_shard.tokens += count;
    writer->position.total.tokens += count;
}

/* Adds the text and the document from which tokens are to the counts. */
static void count_source(struct shard_writer *writer, uint64_t text_bytes, bool ends_document) {
    struct shard_position *position = &writer->position;
    position->in_shard.text_bytes += text_bytes;
    position->total.text_bytes += text_bytes;
    position->in_shard.documents += ends_document;
    position->total.documents += ends_document;
}

enum status shard_writer_add(struct shard_writer *writer, const int32_t *ids, size_t count,
                             const struct shard_source *source, struct fault *fault) {
    size_t done = 0;
    while (done < count) {
        if (writer->fd < 0) {
            TRY(open_shard(writer, fault));
        }
        const uint64_t room_in_shard =
            (uint64_t)writer->shard_tokens - writer->position.in_shard.tokens;
        const size_t room =
            (SHARD_BUFFER_BYTES - writer->buffered_bytes) / (size_t)writer->header.width;
        const size_t some = min_u64(min_u64(room, room_in_shard), count - done);
        const uint64_t bytes =
            source->text_bytes * (done + some) / count - source->text_bytes * done / count;
        encode_tokens(writer, ids + done, some);
        done += some;
        count_source(writer, bytes, source->ends_document && done == count);
        if (writer->position.in_shard.tokens == (uint64_t)writer->shard_tokens) {
            TRY(complete_full_shard(writer, fault));
        } else if (writer->buffered_bytes == SHARD_BUFFER_BYTES) {
            TRY(flush_buffer(writer, fault));
        }
    }
    return OK;
}

void shard_writer_init_mask(struct shard_writer *writer, struct region *region) {
    const size_t bytes = (size_t)shard_bits_bytes(writer->shard_tokens);
    ASSERT(writer->header.has_mask && writer->shard_tokens % writer->header.row_tokens == 0);
    writer->trained_bits = region_alloc(region, bytes, 1);
    writer->start_bits = region_alloc(region, bytes, 1);
}

enum status shard_writer_add_row(struct shard_writer *writer, int32_t *row, uint64_t documents,
                                 struct fault *fault) {
    const size_t count = (size_t)writer->header.row_tokens;
    const size_t first = (size_t)writer->position.in_shard.tokens;
    const struct shard_source source = {.text_bytes = 0};
    for (size_t i = 0; i < count; i++) {
        const uint8_t bit = (uint8_t)(1u << (first + i) % 8);
        writer->trained_bits[(first + i) / 8] |= (row[i] & PACKED_TRAINED) != 0 ? bit : 0;
        writer->start_bits[(first + i) / 8] |= (row[i] & PACKED_START) != 0 ? bit : 0;
        row[i] &= PACKED_ID;
    }
    writer->position.in_shard.documents += documents;
    writer->position.total.documents += documents;
    return shard_writer_add(writer, row, count, &source, fault);
}

enum status shard_writer_sync(struct shard_writer *writer, struct fault *fault) {
    if (writer->fd < 0) {
        return OK;
    }
    TRY(flush_buffer(writer, fault));
    return file_sync(writer->fd, writer->path, fault);
}

enum status shard_writer_resume(struct shard_writer *writer, const struct shard_position *position,
                                struct fault *fault) {
    static const uint8_t NO_HEADER[SHARD_HEADER_BYTES];
    int64_t bytes;
    writer->position = *position;
    if (position->in_shard.tokens == 0) {
        return OK; /* the file is not created before its first token */
    }
    set_path(writer);
    TRY(file_open_append(writer->path, &writer->fd, &bytes, fault));
    const int64_t expected = file_offset(writer);
    if (bytes < expected) {
        return fault_set(fault, STATUS_INPUT, writer->path, "remove the folder and start again",
                         "has %lld bytes; the interrupted call had written %lld", (long long)bytes,
                         (long long)expected);
    }
    if (ftruncate(writer->fd, expected) != 0) {
        return fault_set_errno(fault, STATUS_FAILED, writer->path, "cannot truncate", errno);
    }
    return file_write_at(writer->fd, writer->path, NO_HEADER, sizeof NO_HEADER, 0, fault);
}

enum status shard_writer_end(struct shard_writer *writer, struct fault *fault) {
    return writer->fd >= 0 ? complete_shard(writer, fault) : OK;
}

void shard_writer_close(struct shard_writer *writer) {
    if (writer->fd >= 0) {
        close(writer->fd);
        writer->fd = -1;
    }
}

/* ---- the mask of a file that is not complete ---- */

static void set_mask_path(const struct shard_writer *writer, const struct shard_position *position,
                          char path[static PATH_BYTES]) {
    char name[NAME_BYTES];
    snprintf(name, sizeof name, "%s_%06lld_%llu.mask", writer->name, (long long)position->shard,
             (unsigned long long)position->in_shard.tokens);
    path_join(writer->folder, name, path, PATH_BYTES);
}

enum status shard_writer_save_mask(const struct shard_writer *writer, struct fault *fault) {
    const int64_t tokens = (int64_t)writer->position.in_shard.tokens;
    const size_t bytes = (size_t)shard_bits_bytes(tokens);
    const uint8_t *const lists[] = {writer->trained_bits, writer->start_bits};
    char path[PATH_BYTES];
    enum status status = OK;
    int fd = -1;
    if (tokens == 0) {
        return OK;
    }
    set_mask_path(writer, &writer->position, path);
    TRY(file_open_write(path, &fd, fault));
    for (size_t i = 0; i < ARRAY_COUNT(lists) && status == OK; i++) {
        status = file_write_at(fd, path, lists[i], bytes, (int64_t)(i * bytes), fault);
    }
    return file_close_written(fd, path, status, fault);
}

enum status shard_writer_load_mask(struct shard_writer *writer, struct fault *fault) {
    const int64_t tokens = (int64_t)writer->position.in_shard.tokens;
    const size_t bytes = (size_t)shard_bits_bytes(tokens);
    uint8_t *const lists[] = {writer->trained_bits, writer->start_bits};
    char path[PATH_BYTES];
    int64_t ignored;
    enum status status = OK;
    int fd = -1;
    if (tokens == 0) {
        return OK;
    }
    set_mask_path(writer, &writer->position, path);
    TRY(file_open_read(path, &fd, &ignored, fault));
    for (size_t i = 0; i < ARRAY_COUNT(lists) && status == OK; i++) {
        status = file_read_at(fd, path, lists[i], bytes, (int64_t)(i * bytes), fault);
    }
    close(fd);
    return status;
}

void shard_writer_remove_mask(const struct shard_writer *writer,
                              const struct shard_position *position) {
    char path[PATH_BYTES];
    if (position->in_shard.tokens > 0) {
        set_mask_path(writer, position, path);
        unlink(path);
    }
}
