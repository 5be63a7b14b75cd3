#include "runtime/swarm/member/serving_budget.h"

#include "base/bytes.h"
#include "runtime/swarm/wire/serving_limits.h"

#include <string.h>

void serving_budget_init(struct serving_budget *budget, const struct serving_sizes *sizes) {
    *budget = (struct serving_budget){.sizes = *sizes};
}

void serving_budget_on_round_open(struct serving_budget *budget, uint32_t round) {
    budget->round = round > budget->round ? round : budget->round;
}

static uint64_t slices_budget_bytes(const struct serving_sizes *sizes) {
    return SERVE_SLICES_TIMES_A_ROUND * sizes->round_bytes;
}

static uint64_t extra_slices_budget_bytes(const struct serving_sizes *sizes) {
    return SERVE_SLICES_EXTRA * sizes->slice_bytes;
}

static struct token_limit leaves_limit(const struct serving_sizes *sizes) {
    const double state = (double)sizes->state_bytes;
    const double rate = state / SERVE_DAY_S;
    return (struct token_limit){.rate = rate > SERVE_LEAVES_RATE_MIN ? rate : SERVE_LEAVES_RATE_MIN,
                                .burst = SERVE_STATES_BURST * state + SERVE_STATE_BYTES_EXTRA};
}

/* Returns the usage of a peer, updated to the newest round. */
static struct peer_usage *update_usage(struct serving_budget *budget,
                                       const struct served_peer *peer) {
    ASSERT(peer->row < SWARM_MEMBERS_MAX);
    struct peer_usage *usage = &budget->usages[peer->row];
    if (memcmp(&usage->id, &peer->id, sizeof usage->id) != 0) {
        *usage = (struct peer_usage){.id = peer->id, .round = budget->round};
    }
    if (usage->round < budget->round) {
        const uint64_t returned =
            (budget->round - usage->round) * slices_budget_bytes(&budget->sizes);
        usage->charged_result_bytes -= min_u64(returned, usage->charged_result_bytes);
        usage->charged_contribution_bytes = 0;
        usage->round = budget->round;
    }
    return usage;
}

bool serving_budget_has_bytes_left(struct serving_budget *budget, const struct served_peer *peer,
                                   enum served_kind kind, int64_t now_ms) {
    struct peer_usage *usage = update_usage(budget, peer);
    const struct serving_sizes *sizes = &budget->sizes;
    switch (kind) {
    case SERVED_CONTRIBUTIONS:
        return usage->charged_contribution_bytes <
               slices_budget_bytes(sizes) + extra_slices_budget_bytes(sizes);
    case SERVED_RESULTS:
        return usage->charged_result_bytes <
               SERVE_RESULT_ROUNDS * slices_budget_bytes(sizes) + extra_slices_budget_bytes(sizes);
    case SERVED_LEAVES:
        break;
    }
    return token_bucket_has(&usage->leaves, leaves_limit(sizes), now_ms);
}

void serving_budget_charge(struct serving_budget *budget, const struct served_peer *peer,
                           enum served_kind kind, uint64_t bytes, int64_t now_ms) {
    struct peer_usage *usage = update_usage(budget, peer);
    if (kind == SERVED_CONTRIBUTIONS) {
        usage->charged_contribution_bytes += bytes;
    } else if (kind == SERVED_RESULTS) {
        usage->charged_result_bytes += bytes;
    } else {
        token_bucket_spend(&usage->leaves, leaves_limit(&budget->sizes), (double)bytes, now_ms);
    }
}
