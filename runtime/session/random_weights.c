#include "runtime/session/random_weights.h"

#include "base/bytes.h"
#include "base/log.h"

enum {
    /* elements that are drawn at a time if all pieces are in host memory, so that progress is
     * reported often */
    HOST_CHUNK_ELEMENTS = 1 << 22,
    CONSTANT_BLOCK_ELEMENTS = 1024,
    STAGED_ALIGN = 64 /* alignment in bytes of each piece's values in the staging buffer */
};

/* Consecutive elements of a parameter, and the pieces that contain all of them. */
struct drawn_range {
    int64_t first, end;
    const struct tensor_piece *pieces[RANDOM_NORMALS_OUTPUTS_MAX];
    int piece_count;
};

/* Returns the longest range that begins at element `first` and that each piece contains as a whole
 * or not at all. */
static struct drawn_range range_from(const struct tensor_piece *pieces, int piece_count,
                                     int64_t first) {
    struct drawn_range range = {.first = first, .end = INT64_MAX};
    for (int i = 0; i < piece_count; i++) {
        int64_t begin = pieces[i].first;
        int64_t end = begin + piece_range_elements(&pieces[i]);
        if (begin > first) {
            range.end = min_i64(range.end, begin);
        } else if (end > first) {
            range.end = min_i64(range.end, end);
            range.pieces[range.piece_count++] = &pieces[i];
        }
    }
    return range;
}

/* Returns the number of elements that are drawn at a time: as many as the staging buffer can hold
 * for the pieces in device memory, or HOST_CHUNK_ELEMENTS if there are none. */
static int64_t chunk_elements(const struct drawn_range *range, const struct staging *staging) {
    int64_t element_bytes = 0;
    for (int i = 0; i < range->piece_count; i++) {
        if (range->pieces[i]->device_memory != NULL) {
            element_bytes += dtype_bytes(range->pieces[i]->dtype);
        }
    }
    return element_bytes == 0
               ? HOST_CHUNK_ELEMENTS
               : (int64_t)staging->bytes / element_bytes / STAGED_ALIGN * STAGED_ALIGN;
}

static char *piece_address(const struct tensor_piece *piece, int64_t element) {
    return (char *)piece->memory + (element - piece->first) * dtype_bytes(piece->dtype);
}

static void fill_constant(const struct param *param, const struct random_normals_args *args) {
    float values[CONSTANT_BLOCK_ELEMENTS];
    /* any seed, because constant initial values do not depend on the seed */
    const uint64_t seed = 0;
    for (int64_t done = 0; done < args->count; done += CONSTANT_BLOCK_ELEMENTS) {
        int64_t block = min_i64(args->count - done, CONSTANT_BLOCK_ELEMENTS);
        param_init_fill(param, seed, args->first + done, block, values);
        for (int i = 0; i < args->output_count; i++) {
            enum dtype dtype = args->outputs[i].dtype;
            convert_from_f32(dtype, values, block,
                             (char *)args->outputs[i].values + done * dtype_bytes(dtype));
        }
    }
}

/* Draws elements [first, first + count) of a range, into the pieces in host memory and into the
 * staging buffer for those in device memory, then copies the staged values to device memory. */
static enum status draw_chunk(const struct random_weights *weights, const struct param *param,
                              const struct drawn_range *range, int64_t first, int64_t count,
                              struct fault *fault) {
    char *staged = weights->staging.memory;
    struct random_normals_args args = {.first = first,
                                       .count = count,
                                       .deviation = param->init_std,
                                       .output_count = range->piece_count};
    for (int i = 0; i < range->piece_count; i++) {
        const struct tensor_piece *piece = range->pieces[i];
        bool is_host = piece->device_memory == NULL;
        args.outputs[i] = (struct random_normals_output){
            piece->dtype, is_host ? piece_address(piece, first) : staged};
        staged += is_host ? 0 : round_up(count * dtype_bytes(piece->dtype), STAGED_ALIGN);
    }
    if (param->init == INIT_NORMAL) {
        args.key = param_init_key(param, weights->seed);
        random_normals_run(weights->compute, &args);
    } else {
        fill_constant(param, &args);
    }
    for (int i = 0; i < range->piece_count; i++) {
        const struct tensor_piece *piece = range->pieces[i];
        if (piece->device_memory != NULL) {
            TRY(device_write(piece->device_memory, piece_address(piece, first),
                             args.outputs[i].values, (size_t)(count * dtype_bytes(piece->dtype)),
                             fault));
        }
    }
    return OK;
}

static enum status draw_range(const struct random_weights *weights, const struct param *param,
                              const struct drawn_range *range, struct fault *fault) {
    int64_t chunk_max = chunk_elements(range, &weights->staging);
    for (int64_t first = range->first; first < range->end; first += chunk_max) {
        int64_t count = min_i64(range->end - first, chunk_max);
        TRY(draw_chunk(weights, param, range, first, count, fault));
        activity_advance((uint64_t)(count * range->piece_count));
    }
    return OK;
}

enum status random_weights_draw(const struct random_weights *weights, const struct param *param,
                                const struct tensor_piece *pieces, int piece_count,
                                struct fault *fault) {
    ASSERT(piece_count >= 1 && piece_count <= RANDOM_NORMALS_OUTPUTS_MAX);
    ASSERT(weights->staging.bytes >= STAGING_BYTES_MIN);
    struct drawn_range range = range_from(pieces, piece_count, 0);
    while (range.end < INT64_MAX) {
        if (range.piece_count > 0) {
            TRY(draw_range(weights, param, &range, fault));
        }
        range = range_from(pieces, piece_count, range.end);
    }
    return OK;
}
