/* model_fixture: model folders written tensor by tensor, with values that are exact in every type,
 * and the memory they are loaded into. */
#ifndef SKEP_TESTS_UNIT_CHECKPOINT_MODEL_FIXTURE_H
#define SKEP_TESTS_UNIT_CHECKPOINT_MODEL_FIXTURE_H

#include "runtime/checkpoint/weights.h"

enum { ENTRIES_MAX = 32, VALUES_MAX = 4096, STAGING = STAGING_BYTES_MIN };

/* A model folder under construction and the memory it is loaded into. */
struct fixture {
    char folder[64], target[96];
    char config[1024];
    struct region region;
    struct blueprint blueprint;
    struct safetensors_entry entries[ENTRIES_MAX];
    int entry_count;
    float poison; /* written in place of the last value when poison_at is set */
    int64_t poison_at;
    struct tensor_spec tensors[ENTRIES_MAX]; /* [blueprint.param_count] */
    struct tensor_piece pieces[ENTRIES_MAX];
    int piece_count;
    struct staging staging;
    struct fault fault;
};

/* A folder, a one-layer llama, and an entry of type `dtype` for each of its parameters. */
struct fixture *fixture_start(bool tied, enum safetensors_dtype dtype);
void fixture_finish(struct fixture *fixture);
void fixture_add_entry(struct fixture *fixture, const char *name, enum safetensors_dtype dtype,
                       int rank, int64_t rows, int64_t columns);
void fixture_write_text(const struct fixture *fixture, const char *name, const char *text);
/* Entries [first, end) as a file of the folder; all of them as model.safetensors. */
void fixture_write_entries(struct fixture *fixture, const char *name, int first, int end);
void fixture_write_single(struct fixture *fixture);
/* A piece for each parameter. */
void fixture_add_pieces(struct fixture *fixture, enum dtype dtype);
enum status fixture_load(struct fixture *fixture);
enum status fixture_load_from(struct fixture *fixture, const char *folder);
void fixture_clear(const struct fixture *fixture);
/* Every element of every piece is what was written. */
void fixture_assert_loaded(const struct fixture *fixture);
/* Loading fails with STATUS_INPUT and this in its reason. */
void fixture_assert_refused(struct fixture *fixture, const char *reason);

#endif
