#include "runtime/swarm_setup/genesis.h"

#include "base/log.h"
#include "kernels/cpu/cpu.h"
#include "kernels/random_normals.h"
#include "runtime/checkpoint/weights.h"
#include "runtime/swarm/replica/replica.h"
#include "runtime/swarm_setup/swarm_setup.h"
#include "transport/site/stop.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "floats are hashed as they are in memory, which must be little-endian");

enum {
    /* number of leaves that are computed at a time if the parameters are random */
    LEAVES_PER_RANDOM_PART = 1,
    /* Number of leaves that are computed at a time if the parameters are loaded: more, because each
     * part reads the file headers again. */
    LEAVES_PER_LOADED_PART = 64
};

/* The computation of the root of the genesis, part by part. The current part is elements
 * [first_element, first_element + element_count) of the flat parameter space. */
struct genesis {
    const struct settings *settings;
    const struct blueprint *blueprint;
    const char *model_folder;    /* folder of the safetensors files; "" for none */
    struct fault *fault;         /* receives the fault of a failed step */
    struct staging staging;      /* buffer through which the tensors of a model's files are read */
    struct tensor_piece *pieces; /* [param_count]: ranges of parameters in the current part */
    float *values;               /* buffer for the parameters of the current part */
    int64_t first_element, element_count; /* position and size of the current part */
    struct merkle_stream stream;          /* hash tree of the state so far */
    struct kernel_table kernels;          /* kernels that draw random parameters on this machine */
    struct pool pool;                     /* a pool of one thread, which also hashes */
    struct compute compute;               /* kernels that execute on `pool` */
};

/* Lists the ranges of parameters in this part, in blueprint order, which is the order of the flat
 * space. In `values` the ranges are contiguous. */
static int list_pieces_of_part(struct genesis *genesis) {
    int64_t param_begin = 0;
    int64_t end = genesis->first_element + genesis->element_count;
    int listed = 0;
    for (int i = 0; i < genesis->blueprint->param_count && param_begin < end; i++) {
        const struct param *param = &genesis->blueprint->params[i];
        int64_t elements = param_elements(param);
        int64_t first =
            genesis->first_element > param_begin ? genesis->first_element - param_begin : 0;
        int64_t last = end - param_begin < elements ? end - param_begin : elements;
        if (first < last) {
            genesis->pieces[listed++] = (struct tensor_piece){
                .name = param->name,
                .dtype = DTYPE_F32,
                .rank = param->rank,
                .shape = {param->shape[0], param->shape[1]},
                .memory = genesis->values + (param_begin + first - genesis->first_element),
                .first = first,
                .count = last - first};
        }
        param_begin += elements;
    }
    return listed;
}

static void draw_piece(const struct genesis *genesis, const struct param *param,
                       const struct tensor_piece *piece) {
    uint64_t seed = (uint64_t)genesis->settings->seed;
    if (param->init != INIT_NORMAL) {
        param_init_fill(param, seed, piece->first, piece->count, piece->memory);
        return;
    }
    const struct random_normals_args args = {.key = param_init_key(param, seed),
                                             .first = piece->first,
                                             .count = piece->count,
                                             .deviation = param->init_std,
                                             .output_count = 1,
                                             .outputs = {{DTYPE_F32, piece->memory}}};
    random_normals_run(&genesis->compute, &args);
}

static void fill_part_with_random_values(const struct genesis *genesis, int piece_count) {
    int piece = 0;
    for (int i = 0; i < genesis->blueprint->param_count && piece < piece_count; i++) {
        const struct param *param = &genesis->blueprint->params[i];
        if (param->name == genesis->pieces[piece].name) {
            draw_piece(genesis, param, &genesis->pieces[piece]);
            piece++;
        }
    }
}

static enum status load_part_values(struct genesis *genesis) {
    int piece_count = list_pieces_of_part(genesis);
    if (genesis->settings->init_kind == INIT_RANDOM) {
        fill_part_with_random_values(genesis, piece_count);
        return OK;
    }
    struct weights_load_args args = {.folder = genesis->model_folder,
                                     .blueprint = genesis->blueprint,
                                     .pieces = genesis->pieces,
                                     .piece_count = piece_count,
                                     .staging = genesis->staging};
    return weights_load(&args, genesis->fault);
}

/* Hashes the leaves of the current part. A leaf consists of up to LEAF_ELEMENTS parameters,
 * followed by the momentum of the same elements; with a sparse codec, of parameters only. */
static void hash_part(struct genesis *genesis) {
    /* Not const: 512 KiB of constant zeros would be part of the program's file. */
    static float zeros[LEAF_ELEMENTS];
    if (swarm_codec_is_sparse(genesis->settings)) {
        merkle_add(&genesis->stream, genesis->values,
                   sizeof(float) * (size_t)genesis->element_count);
        return;
    }
    for (int64_t at = 0; at < genesis->element_count; at += LEAF_ELEMENTS) {
        int64_t left = genesis->element_count - at;
        size_t bytes = sizeof(float) * (size_t)(left < LEAF_ELEMENTS ? left : LEAF_ELEMENTS);
        merkle_add(&genesis->stream, genesis->values + at, bytes);
        merkle_add(&genesis->stream, zeros, bytes);
    }
}

static enum status hash_all_parts(struct genesis *genesis, int64_t part_elements) {
    int64_t elements = blueprint_elements(genesis->blueprint);
    merkle_begin(&genesis->stream);
    for (int64_t begin = 0; begin < elements; begin += part_elements) {
        genesis->first_element = begin;
        genesis->element_count =
            elements - begin < part_elements ? elements - begin : part_elements;
        TRY(load_part_values(genesis));
        hash_part(genesis);
        activity_advance((uint64_t)genesis->element_count);
        if (stop_requested()) {
            return fault_set(genesis->fault, STATUS_STOPPED, "genesis", NULL, "stopped by request");
        }
    }
    return OK;
}

enum status genesis_root(const struct settings *settings, const struct blueprint *blueprint,
                         const char *model_folder, struct hash *root, struct fault *fault) {
    struct region scratch = {0};
    bool random = settings->init_kind == INIT_RANDOM;
    int64_t part_elements =
        (random ? LEAVES_PER_RANDOM_PART : LEAVES_PER_LOADED_PART) * (int64_t)LEAF_ELEMENTS;
    if (!random && model_folder[0] == '\0') {
        return fault_set(
            fault, STATUS_INPUT, settings->model,
            "set init to random, or set model to a folder that contains safetensors files",
            "only a config.json was given, which has no weights");
    }
    struct genesis *genesis = region_alloc(&scratch, 1, sizeof *genesis);
    *genesis = (struct genesis){
        .settings = settings, .blueprint = blueprint, .model_folder = model_folder, .fault = fault};
    genesis->values = region_alloc(&scratch, (size_t)part_elements, sizeof *genesis->values);
    genesis->pieces =
        region_alloc(&scratch, (size_t)blueprint->param_count, sizeof *genesis->pieces);
    genesis->staging = (struct staging){.memory = region_alloc(&scratch, STAGING_BYTES_MIN, 1),
                                        .bytes = STAGING_BYTES_MIN};
    kernel_table_init(&genesis->kernels, cpu_level_detect());
    genesis->compute = (struct compute){.table = &genesis->kernels, .pool = &genesis->pool};
    enum status status = pool_init(&genesis->pool, 1, fault);
    if (status == OK) {
        activity_begin("hashing the initial weights", (uint64_t)blueprint_elements(blueprint));
        status = hash_all_parts(genesis, part_elements);
        activity_end(false);
        pool_finish(&genesis->pool);
    }
    if (status == OK) {
        *root = merkle_end(&genesis->stream);
    }
    region_finish(&scratch);
    return status;
}
