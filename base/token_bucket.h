/* token_bucket: limits an amount per time, such as bytes a second, and allows short bursts.
 *
 *     rate ──► |======      | burst      an empty bucket fills within burst / rate
 *                 └──► taken             more than is left cannot be taken
 *
 * The caller passes the limit with each call, and may change it between calls. A zero-initialised
 * bucket is full. */
#ifndef SKEP_BASE_TOKEN_BUCKET_H
#define SKEP_BASE_TOKEN_BUCKET_H

#include "base/check.h"

#include <stdbool.h>
#include <stdint.h>

struct token_limit {
    double rate;  /* tokens added a second */
    double burst; /* maximum number of tokens in the bucket */
};

struct token_bucket {
    double missing_tokens; /* tokens missing from a full bucket */
    int64_t filled_ms;     /* time of the last call that added tokens */
};

/* token_bucket_fill: add the tokens that accrued since the last call. */
static inline void token_bucket_fill(struct token_bucket *bucket, struct token_limit limit,
                                     int64_t now_ms) {
    ASSERT(limit.rate >= 0 && limit.burst > 0 && now_ms >= bucket->filled_ms);
    bucket->missing_tokens -= limit.rate * (double)(now_ms - bucket->filled_ms) / 1000;
    bucket->missing_tokens = bucket->missing_tokens < 0 ? 0 : bucket->missing_tokens;
    bucket->filled_ms = now_ms;
}

/* token_bucket_take: take `amount` tokens if the bucket has that many and return true; otherwise
 * take none and return false.
 * limits  now_ms never decreases; amount <= limit.burst, or the function always returns false */
static inline bool token_bucket_take(struct token_bucket *bucket, struct token_limit limit,
                                     double amount, int64_t now_ms) {
    token_bucket_fill(bucket, limit, now_ms);
    const bool is_enough = bucket->missing_tokens + amount <= limit.burst;
    bucket->missing_tokens += is_enough ? amount : 0;
    return is_enough;
}

/* token_bucket_spend: subtract tokens that were used without token_bucket_take. The number of
 * tokens in the bucket may become negative. */
static inline void token_bucket_spend(struct token_bucket *bucket, struct token_limit limit,
                                      double amount, int64_t now_ms) {
    token_bucket_fill(bucket, limit, now_ms);
    bucket->missing_tokens += amount;
}

/* token_bucket_has: whether at least one token is left. */
static inline bool token_bucket_has(struct token_bucket *bucket, struct token_limit limit,
                                    int64_t now_ms) {
    token_bucket_fill(bucket, limit, now_ms);
    return bucket->missing_tokens + 1 <= limit.burst;
}

#endif
