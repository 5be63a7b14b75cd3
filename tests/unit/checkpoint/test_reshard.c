/* What any number of ranks saved is byte for byte what one rank saves, and any other number of
 * ranks loads it, each reading its own ranges and nothing else. */
#include "tests/unit/checkpoint/disk_double.h"
#include "tests/unit/checkpoint/sharded_fixture.h"
#include "tests/unit/checkpoint/site_fixture.h"

#include "base/file.h"
#include "runtime/checkpoint/folder.h"
#include "runtime/checkpoint/weights.h"
#include "runtime/model/families/families.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

enum {
    FILE_BYTES_MAX = 1 << 18,
    HOST_BYTES_MAX = 64 << 20,
    TABLE_BYTES_MAX = 1 << 20,
    SHARD_BYTES = 1 << 13
};

static const int WORLDS[] = {1, 2, 3, 4, 8};

/* One job of a rank, in its own copy of the state. */
struct reshard_work {
    struct sharded_fixture *sharded;
    const char *path;   /* of what is loaded */
    int64_t step;       /* of what is saved */
    enum dtype dtype;   /* of what is exported */
    int64_t head_bytes; /* of all files that are loaded */
};

static void run_all(int world,
                    enum status (*run)(void *, const struct checkpoint_ranks *, struct fault *),
                    struct reshard_work *work) {
    const struct site_work site = {world, run, work, SITE_ANY, 0};
    static struct site_outcome outcomes[SITE_RANKS_MAX];
    site_run(&site, outcomes);
    site_assert_same(&site, outcomes, OK);
}

static enum status save(void *context, const struct checkpoint_ranks *site, struct fault *fault) {
    struct reshard_work *work = context;
    struct sharded_fixture *sharded = work->sharded;
    struct snapshot_writer writer;
    sharded_take_shards(sharded, site->rank, site->world);
    const struct snapshot_args args = {.folder = sharded->folder,
                                       .keep = SITE_RANKS_MAX,
                                       .groups = sharded->groups,
                                       .group_count = SHARDED_GROUPS,
                                       .ranks = *site,
                                       .config_text = sharded->config,
                                       .config_length = strlen(sharded->config),
                                       .model_folder = "",
                                       .keys = "seed: 7\n"};
    const struct snapshot_state state = {.step = work->step};
    enum status status = snapshot_writer_init(&args, &sharded->region, &writer, fault);
    process_seal();
    return status == OK ? snapshot_save(&writer, &state, &sharded->staging, fault) : status;
}

/* Bytes read and memory taken are held against what the rank's ranges need. */
static void check_frugal(const struct reshard_work *work, int64_t wanted_bytes) {
    ASSERT(disk_read_bytes() == wanted_bytes + work->head_bytes);
    ASSERT(disk_allocated_bytes() < TABLE_BYTES_MAX);
}

static enum status load(void *context, const struct checkpoint_ranks *site, struct fault *fault) {
    struct reshard_work *work = context;
    struct sharded_fixture *sharded = work->sharded;
    struct snapshot snapshot;
    sharded_take_shards(sharded, site->rank, site->world);
    sharded_clear(sharded);
    enum status status = snapshot_read(work->path, &sharded->region, &snapshot, fault);
    if (status != OK) {
        return status;
    }
    disk_begin(DISK_PASS, 0, true);
    status = snapshot_load(&snapshot, sharded->groups, SHARDED_GROUPS, fault);
    check_frugal(work, sharded_piece_bytes(sharded, 0, 4) + sharded_piece_bytes(sharded, 1, 4) +
                           sharded_piece_bytes(sharded, 2, 2));
    ASSERT(status != OK || sharded_holds(sharded, SHARDED_GROUPS));
    return status;
}

static size_t read_file(const char *folder, const char *name, char bytes[static FILE_BYTES_MAX]) {
    char path[PATH_BYTES];
    size_t length = 0;
    struct fault fault;
    path_join(folder, name, path, sizeof path);
    assert_int_equal(file_read_text(path, bytes, FILE_BYTES_MAX, &length, &fault), OK);
    return length;
}

static void assert_same_file(const char *folder, const char *other, const char *name) {
    static char bytes[2][FILE_BYTES_MAX];
    size_t length = read_file(folder, name, bytes[0]);
    assert_int_equal(read_file(other, name, bytes[1]), length);
    assert_memory_equal(bytes[0], bytes[1], length);
}

static int64_t head_bytes(const char *folder, const char *name) {
    char path[PATH_BYTES];
    struct region region = {0};
    struct safetensors file;
    struct fault fault;
    path_join(folder, name, path, sizeof path);
    assert_int_equal(safetensors_open(path, &region, &file, &fault), OK);
    int64_t bytes = file.data_at;
    safetensors_close(&file);
    region_finish(&region);
    return bytes;
}

static void any_world_loads_what_any_world_saved(void **state) {
    (void)state;
    struct sharded_fixture *sharded = sharded_start();
    static char alone[PATH_BYTES];
    snapshot_path(sharded->folder, SNAPSHOT_COMPLETE, 1, alone);
    for (size_t n = 0; n < ARRAY_COUNT(WORLDS); n++) {
        static char path[PATH_BYTES];
        struct reshard_work work = {.sharded = sharded, .step = WORLDS[n], .path = path};
        run_all(WORLDS[n], save, &work);
        snapshot_path(sharded->folder, SNAPSHOT_COMPLETE, work.step, path);
        assert_same_file(alone, path, "weights.safetensors");
        assert_same_file(alone, path, "optimizer.safetensors");
        assert_same_file(alone, path, "config.json");
        work.head_bytes =
            head_bytes(path, "weights.safetensors") + head_bytes(path, "optimizer.safetensors");
        for (size_t m = 0; m < ARRAY_COUNT(WORLDS); m++) {
            run_all(WORLDS[m], load, &work);
        }
    }
    sharded_finish(sharded);
}

static enum status export(void *context, const struct checkpoint_ranks *site, struct fault *fault) {
    static struct weights_save save; struct reshard_work *work = context;
    struct sharded_fixture *sharded = work->sharded;
    sharded_take_shards(sharded, site->rank, site->world);
    const struct weights_save_args args = {.folder = work->path,
                                           .model_folder = "",
                                           .config_text = sharded->config,
                                           .config_length = strlen(sharded->config),
                                           .set = sharded->groups[0].set,
                                           .dtype = work->dtype,
                                           .shard_bytes_max = SHARD_BYTES,
                                           .ranks = *site};
    enum status status = weights_save_plan(&args, &sharded->region, &save, fault);
    process_seal();
    return status == OK ? weights_save_run(&save, &sharded->staging, fault) : status;
}

static enum status import(void *context, const struct checkpoint_ranks *site, struct fault *fault) {
    struct reshard_work *work = context;
    struct sharded_fixture *sharded = work->sharded;
    sharded_take_shards(sharded, site->rank, site->world);
    sharded_clear(sharded);
    const struct weights_load_args args = {.folder = work->path,
                                           .blueprint = &sharded->blueprint,
                                           .pieces = sharded->groups[0].set.pieces,
                                           .piece_count = sharded->groups[0].set.piece_count,
                                           .staging = sharded->staging};
    disk_begin(DISK_PASS, 0, true);
    enum status status = weights_load(&args, fault);
    check_frugal(work, sharded_piece_bytes(sharded, 0, 4));
    ASSERT(status != OK || sharded_holds(sharded, 1));
    return status;
}

/* Every file of an export: the same as one rank's; gives the bytes that loading reads but for the
 * tensors' own. */
static int64_t compare_exports(const char *folder, const char *alone) {
    struct folder_walk walk;
    struct fault fault;
    int64_t bytes = 0;
    int files = 0;
    assert_int_equal(folder_walk_begin(folder, &walk, &fault), OK);
    for (; folder_walk_next(&walk); files++) {
        static char text[FILE_BYTES_MAX];
        const char *dot = strrchr(walk.name, '.');
        assert_same_file(alone, folder, walk.name);
        if (strcmp(dot, ".safetensors") == 0) {
            bytes += head_bytes(folder, walk.name);
        } else if (strcmp(walk.name, "config.json") != 0) {
            bytes += (int64_t)read_file(folder, walk.name, text);
        }
    }
    folder_walk_end(&walk);
    assert_true(files > 4); /* several of weights */
    return bytes;
}

static void any_world_loads_what_any_world_exported(void **state) {
    (void)state;
    struct sharded_fixture *sharded = sharded_start();
    for (enum dtype dtype = DTYPE_F32; dtype <= DTYPE_BF16; dtype++) {
        static char alone[PATH_BYTES];
        snprintf(alone, sizeof alone, "%s/1-%d", sharded->folder, (int)dtype);
        for (size_t n = 0; n < ARRAY_COUNT(WORLDS); n++) {
            static char path[PATH_BYTES];
            snprintf(path, sizeof path, "%s/%d-%d", sharded->folder, WORLDS[n], (int)dtype);
            struct reshard_work work = {.sharded = sharded, .path = path, .dtype = dtype};
            run_all(WORLDS[n], export, &work);
            work.head_bytes = compare_exports(path, alone);
            for (size_t m = 0; m < ARRAY_COUNT(WORLDS) && dtype == DTYPE_F32; m++) {
                run_all(WORLDS[m], import, &work);
            }
        }
    }
    sharded_finish(sharded);
}

/* The weight is on the last rank; the first rank returns the same fault. */
static void a_weight_that_is_not_finite_fails_the_export_of_all(void **state) {
    (void)state;
    static char path[PATH_BYTES];
    static struct site_outcome outcomes[SITE_RANKS_MAX];
    struct sharded_fixture *sharded = sharded_start();
    const struct tensor_piece *embedding = &sharded->whole[0][0];
    int64_t last = piece_tensor_elements(embedding) - 1;
    ((float *)embedding->memory)[last] = INFINITY;
    snprintf(path, sizeof path, "%s/model", sharded->folder);
    struct reshard_work work = {.sharded = sharded, .path = path, .dtype = DTYPE_BF16};
    const struct site_work site = {3, export, &work, SITE_ANY, 0};
    site_run(&site, outcomes);
    site_assert_same(&site, outcomes, STATUS_FAILED);
    assert_non_null(strstr(outcomes[0].fault.reason, "'model.embed_tokens.weight': element 739 "));
    assert_int_equal(last, 739);
    assert_int_equal(rmdir(sharded->folder), 0); /* neither the export nor what was begun of it */
    assert_int_equal(mkdir(sharded->folder, 0755), 0);
    sharded_finish(sharded);
}

/* An embedding of 512 MiB, all hole and so all zero, of which each of 64 ranks loads its part. */
enum { HUGE_ROWS = 1 << 18, HUGE_COLUMNS = 512, HUGE_WORLD = 64 };

static const char HUGE_CONFIG[] =
    "{\"architectures\": [\"LlamaForCausalLM\"], \"model_type\": \"llama\",\n"
    " \"vocab_size\": 262144, \"hidden_size\": 512, \"intermediate_size\": 8,\n"
    " \"num_hidden_layers\": 1, \"num_attention_heads\": 2, \"num_key_value_heads\": 1,\n"
    " \"hidden_act\": \"silu\", \"max_position_embeddings\": 32, \"rms_norm_eps\": 1e-5,\n"
    " \"tie_word_embeddings\": true}\n";

static int64_t write_hole(const char *folder, const struct blueprint *blueprint,
                          struct region *region) {
    struct fault fault;
    char path[PATH_BYTES];
    int count = blueprint->param_count;
    struct safetensors_entry *entries = region_alloc(region, (size_t)count, sizeof *entries);
    for (int i = 0; i < count; i++) {
        const struct param *param = &blueprint->params[i];
        entries[i] = (struct safetensors_entry){.name = param->name,
                                                .dtype = ST_F32,
                                                .rank = param->rank,
                                                .shape = {param->shape[0], param->shape[1]}};
    }
    int64_t data_bytes = safetensors_lay_out(entries, count);
    const struct safetensors_header header = {.entries = entries, .count = count};
    size_t bytes = safetensors_header_bytes(&header);
    char *text = region_alloc(region, bytes + 1, 1);
    safetensors_render_header(&header, text, bytes + 1);
    assert_int_equal(folder_write_file(folder, "model.safetensors", text, bytes, &fault), OK);
    path_join(folder, "model.safetensors", path, sizeof path);
    assert_int_equal(truncate(path, (off_t)bytes + data_bytes), 0);
    return (int64_t)bytes;
}

static int64_t peak_bytes(void) {
    struct rusage usage;
    assert_int_equal(getrusage(RUSAGE_SELF, &usage), 0);
    return (int64_t)usage.ru_maxrss * 1024;
}

static void a_rank_streams_its_part_of_a_tensor_that_would_not_fit(void **state) {
    (void)state;
    char folder[] = "/tmp/skep-huge-XXXXXX";
    struct region region = {0};
    struct blueprint blueprint;
    struct fault fault;
    assert_non_null(mkdtemp(folder));
    assert_int_equal(blueprint_read(HUGE_CONFIG, strlen(HUGE_CONFIG), "config.json", &region,
                                    &blueprint, &fault),
                     OK);
    int64_t head = write_hole(folder, &blueprint, &region);
    const int64_t slot = (int64_t)HUGE_ROWS * HUGE_COLUMNS / HUGE_WORLD;
    const struct tensor_spec embedding = {
        "model.embed_tokens.weight", DTYPE_F32, 2, {HUGE_ROWS, HUGE_COLUMNS}};
    float *memory = region_alloc(&region, (size_t)slot, sizeof *memory);
    const struct staging staging = {region_alloc(&region, STAGING_BYTES_MIN, 1), STAGING_BYTES_MIN};
    for (int rank = 0; rank < HUGE_WORLD; rank += HUGE_WORLD - 1) {
        struct tensor_piece piece = piece_of_spec(&embedding, memory);
        piece.first = rank * slot;
        piece.count = slot;
        memset(memory, 0xff, (size_t)slot * sizeof *memory);
        const struct weights_load_args args = {.folder = folder,
                                               .blueprint = &blueprint,
                                               .pieces = &piece,
                                               .piece_count = 1,
                                               .staging = staging};
        int64_t before = peak_bytes();
        disk_begin(DISK_PASS, 0, true);
        assert_int_equal(weights_load(&args, &fault), OK);
        assert_int_equal(disk_read_bytes(), slot * 4 + head);
        assert_in_range(disk_allocated_bytes(), 0, TABLE_BYTES_MAX);
        assert_in_range(peak_bytes() - before, 0, HOST_BYTES_MAX);
        disk_end();
        assert_true(memory[0] == 0 && memory[slot / 2] == 0 && memory[slot - 1] == 0);
    }
    assert_int_equal(folder_remove(folder, &fault), OK);
    region_finish(&region);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_world_loads_what_any_world_saved),
        cmocka_unit_test(any_world_loads_what_any_world_exported),
        cmocka_unit_test(a_weight_that_is_not_finite_fails_the_export_of_all),
        cmocka_unit_test(a_rank_streams_its_part_of_a_tensor_that_would_not_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
