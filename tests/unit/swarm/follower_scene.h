/* follower_scene: a member that follows the ledger of a tracker, for tests of ledger_follower. */
#ifndef SKEP_TESTS_UNIT_SWARM_FOLLOWER_SCENE_H
#define SKEP_TESTS_UNIT_SWARM_FOLLOWER_SCENE_H

#include "entry_fixture.h"
#include "runtime/swarm/member/ledger_follower.h"

enum { MEMBERS = 2, SLICES = 3, ENTRIES = 6, EARLY = 3, RECORDS_BYTES = 1 << 16 };
enum { CHECKPOINT_AT = 4 };

extern struct follower_scene {
    struct entry_fixture fixture;
    struct member_loop_options options;
    struct replica replica;
    struct catch_up catch_up;
    struct idle_reason reason;
    struct ledger_follower follower;
    struct entry_slice slices[SLICES], follower_slices[2 * SLICES];
    struct entry_slice catch_up_slices[REPLAY_ROUNDS_MAX * SLICES];
    struct entry entry, early; /* the second round's OPEN */
    struct hash genesis;       /* root of the first state */
    uint8_t records[RECORDS_BYTES];
    size_t count;
    struct entry_slice past_slices[SLICES];
    struct entry_fixture past;
    struct entry past_entry;
    uint32_t past_count, given; /* entries in the member's own copy */
    uint32_t changed;           /* the entry of the copy with a changed root; 0: none */
    char place[16];
    uint32_t kept, kept_checkpoints; /* entries and checkpoints that were written to the copy */
    struct ledger_chain state;       /* a checkpoint of the tracker, before entry CHECKPOINT_AT */
    uint8_t state_bytes[LEDGER_CHAIN_BYTES_MAX + 1];
    size_t state_count;
} scene;

/* scene_begin: a member with an empty ledger, and the tracker's ledger; scene_end frees it.
 * scene_make_entry: entry `index` of that ledger, whose first OPEN has a roster epoch.
 * scene_give_past: the callback that gives the entries of the member's own copy.
 * scene_restore: an earlier start has stored the first entries of the ledger.
 * scene_answer_of: the tracker answers with entries [from, until) of a ledger of `entry_count`.
 * scene_answer: the same, of a ledger that ends there.
 * scene_answer_with_record: the tracker answers with the record of another entry. */
void scene_begin(void);
void scene_end(void);
void scene_make_entry(struct entry_fixture *fixture, uint32_t index, struct entry *entry);
enum status scene_give_past(void *context, const struct entry **entry, const char **place,
                            struct fault *fault);
enum status scene_restore(uint32_t past_count, struct fault *fault);
void scene_answer_of(uint32_t from, uint32_t until, uint32_t entry_count);
void scene_answer(uint32_t from, uint32_t until);
void scene_answer_with_record(uint32_t first, uint32_t other);

#endif
