#include "runtime/swarm/ledger/training_share.h"

struct training_share training_share_of(const struct entry *commit, uint64_t sample_tokens) {
    struct training_share share = {0};
    for (uint32_t seat = 0; commit->kind == ENTRY_COMMIT && seat < commit->seat_count; seat++) {
        const struct entry_seat *row = &commit->seats[seat];
        if (commit->members[seat].tokens == 0) {
            continue; /* a member that declared nothing was lost during the round */
        }
        share.tokens += commit->members[seat].tokens;
        for (uint32_t r = 0; r < row->range_count; r++) {
            share.planned += (row->ranges[r].end - row->ranges[r].begin) * sample_tokens;
        }
    }
    return share;
}

bool training_share_is_low(const struct training_share *share) {
    return share->tokens < share->planned / 2;
}
