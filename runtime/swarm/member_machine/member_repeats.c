#include "runtime/swarm/member_machine/member_repeats.h"

#include "base/bytes.h"

#include <string.h>

enum {
    BUCKET_ROWS = 16,                  /* number of rows in a bucket */
    ROUND_BITS = INT32_MAX,            /* bits of repeat_row.round */
    EXTRA_BUCKETS = SWARM_MEMBERS_MAX, /* number of buckets in addition to one for each slice */
};

static size_t rows_bytes(size_t slice_count) {
    return (slice_count + EXTRA_BUCKETS) * BUCKET_ROWS * sizeof(struct repeat_row);
}

size_t repetitions_memory_bytes(size_t slice_count) {
    return carve_padded_bytes(rows_bytes(slice_count));
}

void repetitions_bind(struct member_repeats *repeats, char **memory, size_t slice_count) {
    repeats->rows = carve(memory, rows_bytes(slice_count));
    repeats->bucket_count = (uint32_t)slice_count + EXTRA_BUCKETS;
    repeats->period = 1;
}

void repetitions_begin_exchange(struct member_repeats *repeats, uint64_t contributions) {
    const uint64_t rows = (uint64_t)repeats->bucket_count * BUCKET_ROWS;
    repeats->period = (uint32_t)(1 + contributions * REPEAT_ROUNDS / rows);
}

/* Parts of a hash, used as independent numbers. */
struct hash_words {
    uint64_t bucket; /* selects the bucket of a contribution */
    uint64_t drawn;  /* decides whether the contribution is remembered */
    uint64_t kept;   /* is stored in the row of the contribution */
};

static struct hash_words read_words(const struct hash *hash) {
    struct hash_words words;
    _Static_assert(sizeof words <= HASH_BYTES, "the words are parts of a hash");
    memcpy(&words, hash->bytes, sizeof words);
    return words;
}

static struct repeat_row *find_bucket(const struct member_repeats *repeats,
                                      const struct hash_words *words) {
    ASSERT(repeats->bucket_count > 0);
    return repeats->rows + words->bucket % repeats->bucket_count * BUCKET_ROWS;
}

static uint32_t short_identity(const struct identity *id) {
    uint32_t number;
    memcpy(&number, id->bytes, sizeof number);
    return number;
}

/* Remembers a contribution in the first row of its bucket, and moves the others down. A
 * contribution that an owner requests again in the same round has a row already. */
void repetitions_add(struct member_repeats *repeats, uint32_t round, const struct identity *from,
                     const struct hash *hash) {
    const struct hash_words words = read_words(hash);
    const struct repeat_row row = {
        .hash = words.kept, .round = round & ROUND_BITS, .from = short_identity(from)};
    struct repeat_row *bucket = find_bucket(repeats, &words);
    bool is_known = words.drawn % repeats->period != 0;
    ASSERT(round > 0);
    for (uint32_t i = 0; i < BUCKET_ROWS; i++) {
        is_known = is_known || memcmp(&bucket[i], &row, sizeof row) == 0;
    }
    if (!is_known) {
        memmove(bucket + 1, bucket, (BUCKET_ROWS - 1) * sizeof *bucket);
        bucket[0] = row;
    }
}

static bool is_committed(const struct member_repeats *repeats, uint32_t round) {
    bool is_found = false;
    for (uint32_t i = 0; i < REPEAT_ROUNDS; i++) {
        is_found |= repeats->committed[i] == round;
    }
    return is_found;
}

bool repetitions_contain(const struct member_repeats *repeats, uint32_t round,
                         const struct identity *from, const struct hash *hash) {
    const struct hash_words words = read_words(hash);
    const struct repeat_row *bucket = find_bucket(repeats, &words);
    bool is_found = false;
    for (uint32_t i = 0; i < BUCKET_ROWS; i++) {
        const struct repeat_row *row = &bucket[i];
        is_found |= row->round > 0 && row->round < round && row->hash == words.kept &&
                    (row->from != short_identity(from) ||
                     (!row->is_unused && is_committed(repeats, row->round)));
    }
    return is_found;
}

/* Marks the contributions of a seat as unused, because the commit of the round has none of them. */
static void mark_unused(struct member_repeats *repeats, const struct entry *commit, uint32_t seat) {
    const uint32_t from = short_identity(&commit->seats[seat].id);
    for (uint32_t i = 0; i < repeats->bucket_count * BUCKET_ROWS; i++) {
        struct repeat_row *row = &repeats->rows[i];
        row->is_unused |= row->round == commit->round && row->from == from;
    }
}

void repetitions_on_state(struct member_repeats *repeats, const struct entry *entry) {
    /* after a rollback, members train on the same samples again */
    if (entry->kind == ENTRY_ROLLBACK) {
        memset(repeats->rows, 0,
               (size_t)repeats->bucket_count * BUCKET_ROWS * sizeof *repeats->rows);
        memset(repeats->committed, 0, sizeof repeats->committed);
        return;
    }
    repeats->committed[repeats->next] = entry->round;
    repeats->next = (repeats->next + 1) % REPEAT_ROUNDS;
    for (uint32_t seat = 0; seat < entry->seat_count; seat++) {
        if (entry_lacks_contribution(entry, seat)) {
            mark_unused(repeats, entry, seat);
        }
    }
}
