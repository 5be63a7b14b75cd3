/* Listings: the instructions of whole programs, held against files (SKEP_GOLDEN_WRITE=1 makes them
 * anew: read the difference before it is committed). */
#include "runtime/model/families/families.h"
#include "runtime/program/print.h"
#include "targets/probe/detect.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char CONFIG[] =
    "{\"model_type\": \"llama\", \"num_attention_heads\": 4, \"num_key_value_heads\": 2, "
    "\"head_dim\": 8, \"hidden_size\": 32, \"intermediate_size\": 64, \"num_hidden_layers\": 2, "
    "\"vocab_size\": 61, \"max_position_embeddings\": 32, \"rms_norm_eps\": 1e-5, "
    "\"tie_word_embeddings\": false}";

enum { LAYERS = 2, UNITS = LAYERS + 2, LINE_BYTES = 4096 };

struct listing {
    const char *name;
    int zero, shard, replicate, prefetch;
    enum dtype compute, reduce;
    unsigned offload;
    const char *target; /* NULL: cpu */
    enum wire_sum wire_sum;
};

static const struct listing LISTINGS[] = {
    {"one_rank", 0, 1, 1, 0, DTYPE_F32, DTYPE_F32, 0, NULL, WIRE_SUM_EXACT},
    {"one_rank_offload", 0, 1, 1, 0, DTYPE_F32, DTYPE_F32, OFFLOAD_ACTIVATIONS | OFFLOAD_OPTIMIZER,
     NULL, WIRE_SUM_EXACT},
    {"one_rank_gpu", 0, 1, 1, 0, DTYPE_BF16, DTYPE_F32, 0, "rtx3060-12g", WIRE_SUM_EXACT},
    {"one_rank_gpu_offload", 0, 1, 1, 0, DTYPE_BF16, DTYPE_F32,
     OFFLOAD_ACTIVATIONS | OFFLOAD_OPTIMIZER, "rtx3060-12g", WIRE_SUM_EXACT},
    {"zero3_two_by_two_gpu", 3, 2, 2, 1, DTYPE_BF16, DTYPE_F32, 0, "rtx3060-12g", WIRE_SUM_EXACT},
    {"zero3_two_by_two_gpu_ring", 3, 2, 2, 1, DTYPE_BF16, DTYPE_F32, 0, "rtx3060-12g",
     WIRE_SUM_RING},
    {"zero0_three_ranks", 0, 3, 1, 1, DTYPE_F32, DTYPE_F32, 0, NULL, WIRE_SUM_EXACT},
    {"zero2_two_ranks_bf16", 2, 2, 1, 1, DTYPE_BF16, DTYPE_BF16, 0, NULL, WIRE_SUM_EXACT},
    {"zero3_two_by_two", 3, 2, 2, 1, DTYPE_F32, DTYPE_F32, 0, NULL, WIRE_SUM_EXACT},
    {"zero3_two_ranks_offload", 3, 2, 1, 1, DTYPE_BF16, DTYPE_F32, OFFLOAD_OPTIMIZER, NULL,
     WIRE_SUM_EXACT},
};

static void expect_ok(const struct listing *listing, enum status status,
                      const struct fault *fault) {
    if (status != OK) {
        fail_msg("%s: %s: %s", listing->name, fault->subject, fault->reason);
    }
}

static void compile(const struct listing *listing, struct region *region, struct program *program) {
    static enum recompute kinds[LAYERS];
    static struct unit_strategy strategies[UNITS];
    static struct sharding sharding;
    struct fault fault;
    const struct target *target;
    struct blueprint *blueprint = region_alloc(region, 1, sizeof *blueprint);
    expect_ok(listing,
              blueprint_read(CONFIG, strlen(CONFIG), "config.json", region, blueprint, &fault),
              &fault);
    const char *wanted = listing->target == NULL ? "cpu" : listing->target;
    expect_ok(listing, target_open(wanted, region, &target, &fault), &fault);
    for (int unit = 0; unit < UNITS; unit++) {
        strategies[unit] = (struct unit_strategy){.zero = listing->zero};
    }
    sharding = (struct sharding){.shard = listing->shard,
                                 .replicate = listing->replicate,
                                 .units = strategies,
                                 .prefetch = listing->prefetch,
                                 .reduce = listing->reduce,
                                 .wire_sum = listing->wire_sum};
    struct schedule_options options = {.sequence = 8,
                                       .microbatch = 2,
                                       .accumulation = 2,
                                       .train = true,
                                       .compute = listing->compute,
                                       .recompute = kinds,
                                       .offload = listing->offload,
                                       .clip_norm = 1,
                                       .epsilon = 0.125F,
                                       .staging_bytes = 4096,
                                       .sharding = sharding};
    expect_ok(listing, program_compile(blueprint, target, &options, region, program, &fault),
              &fault);
}

static FILE *open_listing(const struct listing *listing, const char *mode) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s.txt", GOLDEN, listing->name);
    return fopen(path, mode);
}

static void write_line(void *context, const char *line, size_t length) {
    fwrite(line, 1, length, context);
}

struct comparison {
    const struct listing *listing;
    FILE *file;
    int line;
};

static void compare_line(void *context, const char *line, size_t length) {
    struct comparison *comparison = context;
    char wanted[LINE_BYTES] = "";
    comparison->line++;
    const char *read = fgets(wanted, sizeof wanted, comparison->file);
    if (read == NULL || strlen(wanted) != length || memcmp(wanted, line, length) != 0) {
        fail_msg("%s.txt:%d: the file has\n%sthe program has\n%.*s", comparison->listing->name,
                 comparison->line, wanted, (int)length, line);
    }
}

static void programs_are_listed_as_in_their_files(void **state) {
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(LISTINGS); i++) {
        struct region region = {0};
        static struct program program;
        char beyond[LINE_BYTES];
        compile(&LISTINGS[i], &region, &program);
        struct comparison comparison = {.listing = &LISTINGS[i],
                                        .file = open_listing(&LISTINGS[i], "r")};
        assert_non_null(comparison.file);
        program_print_instructions(&program, compare_line, &comparison);
        assert_null(fgets(beyond, sizeof beyond, comparison.file));
        fclose(comparison.file);
        region_finish(&region);
    }
}

static int write_listings(void) {
    for (size_t i = 0; i < ARRAY_COUNT(LISTINGS); i++) {
        struct region region = {0};
        static struct program program;
        compile(&LISTINGS[i], &region, &program);
        FILE *file = open_listing(&LISTINGS[i], "w");
        if (file == NULL) {
            return EXIT_FAILURE;
        }
        program_print_instructions(&program, write_line, file);
        fclose(file);
        region_finish(&region);
    }
    return EXIT_SUCCESS;
}

int main(void) {
    if (getenv("SKEP_GOLDEN_WRITE") != NULL) {
        return write_listings();
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(programs_are_listed_as_in_their_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
