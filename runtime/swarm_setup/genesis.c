#include "runtime/swarm_setup/genesis.h"

#include "base/log.h"
#include "runtime/checkpoint/weights.h"
#include "runtime/swarm/replica/replica.h"
#include "transport/site/stop.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "the floats of a leaf are hashed as they are in memory");

enum {
    RANDOM_LEAVES = 1,
    FOLDER_LEAVES = 64,         /* every piece reads the headers of the folder again */
    LOGGED_PARAMETERS = 1 << 26 /* takes a second or more */
};

/* The part of the parameters that is hashed next: elements [begin, begin + count) of the flat
 * space. */
struct genesis {
    const struct settings *settings;
    const struct blueprint *blueprint;
    const char *model_folder;
    struct fault *fault;
    struct staging staging;
    struct tensor_piece *pieces; /* [param_count] */
    float *values;
    int64_t begin, count;
    struct merkle_stream stream;
};

/* Lists the ranges of parameters in this part, in blueprint order, which is that of the flat space.
 * In `values` they follow each other. */
static int list_pieces(struct genesis *genesis) {
    int64_t param_begin = 0;
    int64_t end = genesis->begin + genesis->count;
    int listed = 0;
    for (int i = 0; i < genesis->blueprint->param_count && param_begin < end; i++) {
        const struct param *param = &genesis->blueprint->params[i];
        int64_t elements = param_elements(param);
        int64_t first = genesis->begin > param_begin ? genesis->begin - param_begin : 0;
        int64_t last = end - param_begin < elements ? end - param_begin : elements;
        if (first < last) {
            genesis->pieces[listed++] = (struct tensor_piece){
                .name = param->name,
                .dtype = DTYPE_F32,
                .rank = param->rank,
                .shape = {param->shape[0], param->shape[1]},
                .memory = genesis->values + (param_begin + first - genesis->begin),
                .first = first,
                .count = last - first};
        }
        param_begin += elements;
    }
    return listed;
}

static void fill_random(const struct genesis *genesis, int piece_count) {
    int piece = 0;
    for (int i = 0; i < genesis->blueprint->param_count && piece < piece_count; i++) {
        const struct param *param = &genesis->blueprint->params[i];
        if (param->name == genesis->pieces[piece].name) {
            param_init_fill(param, (uint64_t)genesis->settings->seed, genesis->pieces[piece].first,
                            genesis->pieces[piece].count, genesis->pieces[piece].memory);
            piece++;
        }
    }
}

static enum status fill(struct genesis *genesis) {
    int piece_count = list_pieces(genesis);
    if (genesis->settings->init_kind == INIT_RANDOM) {
        fill_random(genesis, piece_count);
        return OK;
    }
    struct weights_load_args args = {.folder = genesis->model_folder,
                                     .blueprint = genesis->blueprint,
                                     .pieces = genesis->pieces,
                                     .piece_count = piece_count,
                                     .staging = genesis->staging};
    return weights_load(&args, genesis->fault);
}

/* A leaf is a number of parameters, then the momentum of the same elements. */
static void add_leaves(struct genesis *genesis) {
    static const float zeros[LEAF_ELEMENTS];
    for (int64_t at = 0; at < genesis->count; at += LEAF_ELEMENTS) {
        int64_t left = genesis->count - at;
        size_t bytes = sizeof(float) * (size_t)(left < LEAF_ELEMENTS ? left : LEAF_ELEMENTS);
        merkle_add(&genesis->stream, genesis->values + at, bytes);
        merkle_add(&genesis->stream, zeros, bytes);
    }
}

static enum status add_all(struct genesis *genesis, int64_t stretch) {
    int64_t elements = blueprint_elements(genesis->blueprint);
    merkle_begin(&genesis->stream);
    for (int64_t begin = 0; begin < elements; begin += stretch) {
        genesis->begin = begin;
        genesis->count = elements - begin < stretch ? elements - begin : stretch;
        TRY(fill(genesis));
        add_leaves(genesis);
        if (stop_requested()) {
            return fault_set(genesis->fault, STATUS_STOPPED, "genesis", NULL, "asked to stop");
        }
    }
    return OK;
}

enum status genesis_root(const struct settings *settings, const struct blueprint *blueprint,
                         const char *model_folder, struct hash *root, struct fault *fault) {
    struct region scratch = {0};
    bool random = settings->init_kind == INIT_RANDOM;
    int64_t stretch = (random ? RANDOM_LEAVES : FOLDER_LEAVES) * (int64_t)LEAF_ELEMENTS;
    if (!random && model_folder[0] == '\0') {
        return fault_set(fault, STATUS_INPUT, settings->model,
                         "set init: random, or name a folder that holds safetensors",
                         "a bare config.json has no weights");
    }
    struct genesis *genesis = region_alloc(&scratch, 1, sizeof *genesis);
    *genesis = (struct genesis){
        .settings = settings, .blueprint = blueprint, .model_folder = model_folder, .fault = fault};
    genesis->values = region_alloc(&scratch, (size_t)stretch, sizeof *genesis->values);
    genesis->pieces =
        region_alloc(&scratch, (size_t)blueprint->param_count, sizeof *genesis->pieces);
    genesis->staging = (struct staging){.memory = region_alloc(&scratch, STAGING_BYTES_MIN, 1),
                                        .bytes = STAGING_BYTES_MIN};
    if (blueprint_elements(blueprint) >= LOGGED_PARAMETERS) {
        log_line(LOG_INFO, "computing the root of the first weights");
    }
    enum status status = add_all(genesis, stretch);
    if (status == OK) {
        *root = merkle_end(&genesis->stream);
    }
    region_finish(&scratch);
    return status;
}
