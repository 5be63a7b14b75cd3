#include "runtime/swarm/replica/result_file.h"

#include "base/bytes.h"
#include "base/check.h"
#include "base/file.h"
#include "runtime/swarm/replica/sparse_result.h"

#include <string.h>
#include <unistd.h>

static const char MARK[16] = "skep results 1\n";

/* The header of a result file, before its rows and their hash. Integers are little-endian in the
 * file, and on every supported processor. */
struct result_header {
    char mark[sizeof MARK]; /* name and version of the format */
    uint32_t round;         /* round of the results */
    uint32_t slice_count;   /* number of slices; the file has a row and a result for each */
};

struct result_row {        /* one result in a result file */
    uint32_t epoch;        /* epoch of the slice in which the result was made */
    uint32_t owner;        /* seat of the member that computed the result */
    uint64_t contributors; /* seats whose contributions are in the result */
    uint64_t bytes;        /* size of the result in bytes */
    struct hash hash;      /* hash of the result */
};

_Static_assert(sizeof(struct result_header) == 24 && sizeof(struct result_row) == 24 + HASH_BYTES,
               "the headers have no padding");

static int64_t row_offset(uint32_t slice) {
    return (int64_t)(sizeof(struct result_header) + slice * sizeof(struct result_row));
}

void result_files_init(const struct slices *slices, struct region *region,
                       struct result_files *files) {
    size_t bytes = (size_t)row_offset(slices->count) + HASH_BYTES;
    *files = (struct result_files){
        .slices = *slices, .header = region_alloc(region, bytes, 1), .header_bytes = bytes};
}

uint64_t result_files_bytes(const struct result_files *files) {
    return files->header_bytes + slices_results_bytes(&files->slices);
}

/* Returns the size of a result in memory. */
static uint64_t length_of_result(const struct slices *slices, uint32_t slice,
                                 const uint8_t *result) {
    return slices_are_sparse(slices)
               ? sparse_result_bytes(slices, slice,
                                     (uint32_t)__builtin_popcountll(sparse_result_seats(result)))
               : slices_range(slices, slice).bytes;
}

/* ---- write ---- */

static void write_header(const struct result_files *files, const struct entry *entry,
                         const uint8_t *results) {
    struct result_header header = {.round = entry->round, .slice_count = entry->slice_count};
    memcpy(header.mark, MARK, sizeof MARK);
    memcpy(files->header, &header, sizeof header);
    for (uint32_t s = 0; s < entry->slice_count; s++) {
        const struct entry_slice *slice = &entry->slices[s];
        const uint8_t *result = results + slices_range(&files->slices, s).result_offset;
        const struct result_row row = {slice->epoch, slice->owner, slice->contributors,
                                       length_of_result(&files->slices, s, result), slice->hash};
        memcpy(files->header + row_offset(s), &row, sizeof row);
    }
    const size_t hashed_bytes = files->header_bytes - HASH_BYTES;
    const struct hash hash = hash_of(files->header, hashed_bytes);
    memcpy(files->header + hashed_bytes, hash.bytes, HASH_BYTES);
}

static enum status write_file(const struct result_files *files, const uint8_t *results,
                              const char *path, struct fault *fault) {
    int fd;
    TRY(file_open_write(path, &fd, fault));
    enum status status = file_write_at(fd, path, files->header, files->header_bytes, 0, fault);
    int64_t offset = (int64_t)files->header_bytes;
    for (uint32_t s = 0; s < files->slices.count && status == OK; s++) {
        const uint8_t *result = results + slices_range(&files->slices, s).result_offset;
        const uint64_t length = length_of_result(&files->slices, s, result);
        status = file_write_at(fd, path, result, length, offset, fault);
        offset += (int64_t)length;
    }
    return file_close_written(fd, path, status, fault);
}

enum status result_file_write(const struct result_files *files, const struct entry *entry,
                              const uint8_t *results, const char *path, const char *temporary_path,
                              struct fault *fault) {
    ASSERT(entry->slice_count == files->slices.count);
    write_header(files, entry, results);
    enum status status = write_file(files, results, temporary_path, fault);
    if (status == OK) {
        status = file_publish(temporary_path, path, fault);
    }
    if (status != OK) {
        (void)unlink(temporary_path);
    }
    return status;
}

/* ---- read ---- */

static struct result_row row_at(const struct result_files *files, uint32_t slice) {
    struct result_row row;
    memcpy(&row, files->header + row_offset(slice), sizeof row);
    return row;
}

static bool is_valid_length(const struct slices *slices, uint32_t slice, uint64_t bytes) {
    const struct slice_range range = slices_range(slices, slice);
    return slices_are_sparse(slices)
               ? bytes >= SPARSE_RESULT_HEADER_BYTES && bytes <= range.result_bytes
               : bytes == range.bytes;
}

static const char *read_header(const struct result_files *files, uint32_t round,
                               struct slice_report *reports) {
    const size_t hashed_bytes = files->header_bytes - HASH_BYTES;
    const struct hash hash = hash_of(files->header, hashed_bytes);
    struct result_header header;
    memcpy(&header, files->header, sizeof header);
    if (memcmp(header.mark, MARK, sizeof MARK) != 0 || header.round != round ||
        header.slice_count != files->slices.count) {
        return "is not a file with the results of this round of this swarm";
    }
    for (uint32_t s = 0; s < header.slice_count; s++) {
        struct result_row row;
        row = row_at(files, s);
        if (!is_valid_length(&files->slices, s, row.bytes)) {
            return "has a slice whose length differs from that of the swarm's slice";
        }
        reports[s] = (struct slice_report){.epoch = row.epoch,
                                           .has_result = 1,
                                           .contributors = row.contributors,
                                           .hash = row.hash};
    }
    return memcmp(files->header + hashed_bytes, hash.bytes, HASH_BYTES) == 0
               ? NULL
               : "is damaged: its header does not match the hash of the header";
}

static const char *check_results(const struct result_files *files, const uint8_t *results,
                                 const struct slice_report *reports) {
    for (uint32_t s = 0; s < files->slices.count; s++) {
        const uint8_t *result = results + slices_range(&files->slices, s).result_offset;
        const uint64_t bytes = row_at(files, s).bytes;
        struct hash hash = hash_of(result, bytes);
        if (!hash_equal(&hash, &reports[s].hash)) {
            return "is damaged: a result does not match the hash in the header";
        }
        if (slices_are_sparse(&files->slices) &&
            !sparse_result_is_valid(&files->slices, s, result, bytes)) {
            return "has a result that is not a list of contributions";
        }
    }
    return NULL;
}

/* Reads the results that the header lists, which end at the end of the file. */
static enum status read_results(const struct result_files *files, int fd, const char *path,
                                int64_t size, uint8_t *results, struct fault *fault) {
    int64_t offset = (int64_t)files->header_bytes;
    for (uint32_t s = 0; s < files->slices.count; s++) {
        offset += (int64_t)row_at(files, s).bytes;
    }
    if (offset != size) {
        return fault_set(fault, STATUS_INPUT, path, NULL,
                         "has a size other than that of the results in its header");
    }
    offset = (int64_t)files->header_bytes;
    for (uint32_t s = 0; s < files->slices.count; s++) {
        const uint64_t bytes = row_at(files, s).bytes;
        TRY(file_read_at(fd, path, results + slices_range(&files->slices, s).result_offset, bytes,
                         offset, fault));
        offset += (int64_t)bytes;
    }
    return OK;
}

enum status result_file_read(const struct result_files *files, const char *path, uint32_t round,
                             uint8_t *results, struct slice_report *reports, struct fault *fault) {
    int fd;
    int64_t size;
    TRY(file_open_read(path, &fd, &size, fault));
    enum status status = OK;
    const char *error = NULL;
    if (size < (int64_t)files->header_bytes || size > (int64_t)result_files_bytes(files) ||
        (!slices_are_sparse(&files->slices) && size != (int64_t)result_files_bytes(files))) {
        error = "has a size other than that of a file with this swarm's results";
    } else {
        status = file_read_at(fd, path, files->header, files->header_bytes, 0, fault);
        error = status == OK ? read_header(files, round, reports) : NULL;
    }
    if (status == OK && error == NULL) {
        status = read_results(files, fd, path, size, results, fault);
        error = status == OK ? check_results(files, results, reports) : NULL;
    }
    close(fd);
    return error == NULL ? status : fault_set(fault, STATUS_INPUT, path, NULL, "%s", error);
}

/* ---- read one result ---- */

/* Reads the row of a slice, and finds the position of its result. */
static bool read_row(const struct slices *slices, int fd, const char *path, uint32_t slice,
                     struct result_row *row, int64_t *offset) {
    enum { ROWS = 64 }; /* number of rows that are read at a time */
    struct result_row rows[ROWS];
    struct fault fault;
    *offset = row_offset(slices->count) + HASH_BYTES;
    if (!slices_are_sparse(slices)) {
        *offset += (int64_t)slices_range(slices, slice).offset;
        return file_read_at(fd, path, row, sizeof *row, row_offset(slice), &fault) == OK &&
               is_valid_length(slices, slice, row->bytes);
    }
    for (uint32_t first = 0; first <= slice; first += ROWS) {
        const uint32_t left = slice + 1 - first;
        const uint32_t count = left < ROWS ? left : ROWS;
        if (file_read_at(fd, path, rows, count * sizeof *rows, row_offset(first), &fault) != OK) {
            return false;
        }
        for (uint32_t i = 0; i < count; i++) {
            *row = rows[i];
            if (!is_valid_length(slices, first + i, row->bytes)) {
                return false;
            }
            *offset += first + i < slice ? (int64_t)row->bytes : 0;
        }
    }
    return true;
}

bool result_file_read_slice(const struct slices *slices, const char *path, uint32_t round,
                            uint32_t slice, const struct hash *hash, uint8_t *bytes) {
    ASSERT(slice < slices->count);
    struct fault fault;
    struct result_header header;
    struct result_row row;
    int fd;
    int64_t size, offset;
    if (file_open_read(path, &fd, &size, &fault) != OK) {
        return false;
    }
    bool is_read = file_read_at(fd, path, &header, sizeof header, 0, &fault) == OK &&
                   header.round == round && header.slice_count == slices->count &&
                   read_row(slices, fd, path, slice, &row, &offset) &&
                   hash_equal(&row.hash, hash) &&
                   file_read_at(fd, path, bytes, row.bytes, offset, &fault) == OK;
    close(fd);
    return is_read;
}

size_t result_index_memory_bytes(uint32_t slice_count) {
    return (size_t)RESULT_ROUNDS * slice_count * sizeof(struct stored_result);
}

void result_index_init(struct result_index *index, void *memory, uint32_t slice_count) {
    memset(memory, 0, result_index_memory_bytes(slice_count));
    *index = (struct result_index){.slice_count = slice_count, .results = memory};
}

struct stored_result *result_index_clear_row(struct result_index *index, uint32_t round,
                                             uint32_t slice) {
    ASSERT(slice < index->slice_count);
    uint32_t row = round % RESULT_ROUNDS;
    struct stored_result *results = &index->results[(size_t)row * index->slice_count];
    if (index->rounds[row] != round) {
        index->rounds[row] = round;
        memset(results, 0, index->slice_count * sizeof(*results));
    }
    results[slice].is_stored = false;
    return &results[slice];
}

const struct stored_result *result_index_find(const struct result_index *index, uint32_t round,
                                              uint32_t slice, const struct hash *hash) {
    ASSERT(slice < index->slice_count);
    uint32_t row = round % RESULT_ROUNDS;
    const struct stored_result *stored = &index->results[(size_t)row * index->slice_count + slice];
    bool matches =
        index->rounds[row] == round && stored->is_stored && hash_equal(&stored->hash, hash);
    return matches ? stored : NULL;
}
