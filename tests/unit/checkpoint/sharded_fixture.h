/* sharded_fixture: the training state of a small model whose every element follows from its
 * index, and the part of it on each rank of a world of any size. */
#ifndef SKEP_TESTS_UNIT_CHECKPOINT_SHARDED_FIXTURE_H
#define SKEP_TESTS_UNIT_CHECKPOINT_SHARDED_FIXTURE_H

#include "runtime/checkpoint/snapshot.h"
#include "runtime/model/model.h"

enum { SHARDED_GROUPS = 3, SHARDED_PARAMS_MAX = 32, SHARDED_STAGING = STAGING_BYTES_MIN };

struct sharded_fixture {
    char folder[96]; /* new and empty */
    const char *config;
    struct region region;
    struct blueprint blueprint;
    struct tensor_spec tensors[SHARDED_GROUPS][SHARDED_PARAMS_MAX];
    struct tensor_piece whole[SHARDED_GROUPS][SHARDED_PARAMS_MAX];
    struct snapshot_group groups[SHARDED_GROUPS]; /* of whole tensors */
    struct staging staging;
    struct fault fault;
};

/* Two layers and a tied head, sizes that no world divides, the state set. */
struct sharded_fixture *sharded_start(void);
void sharded_finish(struct sharded_fixture *sharded);

/* Leaves to the groups what rank `rank` of `world` holds of each unit. */
void sharded_take_shards(struct sharded_fixture *sharded, int rank, int world);

/* Bytes of what the group's pieces hold, if each element takes `width` bytes. */
int64_t sharded_piece_bytes(const struct sharded_fixture *sharded, int group, int64_t width);

/* Fills the whole state with bytes that are no element's. */
void sharded_clear(struct sharded_fixture *sharded);

/* sharded_holds: what the first `group_count` groups' pieces cover is as it was set, and everything
 * else as sharded_clear left it. */
bool sharded_holds(const struct sharded_fixture *sharded, int group_count);

#endif
