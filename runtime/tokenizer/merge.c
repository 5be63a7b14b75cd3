/* The merges of a word: always the one with the lowest rank, and of equal ranks the leftmost. */
#include "base/check.h"
#include "runtime/tokenizer/bpe.h"

#include <string.h>

/* Merges a short word: each merge is found by a search over all pairs. Returns the number of
 * symbols that are left. */
static size_t merge_short(const struct merge_table *table, int32_t *symbols, size_t count) {
    uint32_t ranks[MERGE_SHORT_MAX];
    int32_t merged[MERGE_SHORT_MAX];
    for (size_t i = 0; i + 1 < count; i++) {
        const struct merge_slot *slot = merge_find(table, symbols[i], symbols[i + 1]);
        ranks[i] = slot->rank;
        merged[i] = slot->merged;
    }
    while (count > 1) {
        size_t best = 0;
        for (size_t i = 1; i + 1 < count; i++) {
            best = ranks[i] < ranks[best] ? i : best;
        }
        if (ranks[best] == VOCABULARY_NO_MERGE) {
            break;
        }
        symbols[best] = merged[best];
        count--;
        for (size_t i = best + 1; i < count; i++) {
            symbols[i] = symbols[i + 1];
            ranks[i] = ranks[i + 1];
            merged[i] = merged[i + 1];
        }
        if (best + 1 < count) {
            const struct merge_slot *slot = merge_find(table, symbols[best], symbols[best + 1]);
            ranks[best] = slot->rank;
            merged[best] = slot->merged;
        }
        if (best > 0) {
            const struct merge_slot *slot = merge_find(table, symbols[best - 1], symbols[best]);
            ranks[best - 1] = slot->rank;
            merged[best - 1] = slot->merged;
        }
    }
    return count;
}

/* A long word: a list of symbols, and a heap of the pairs that merge. An entry of
 * the heap is outdated if the pair at its position now has another rank, because different pairs of
 * symbols have different ranks. */
struct long_word {
    const struct merge_table *table;
    /* [count]: id of a symbol, and the positions of its neighbours; -1: none */
    int32_t *ids, *previous, *next;
    int32_t *merged; /* [count]: id that the pair beginning at the symbol becomes */
    uint32_t *ranks; /* [count]: rank of the pair beginning at the symbol, or VOCABULARY_NO_MERGE */
    uint64_t *heap;  /* [heap_count]: heap of rank << 32 | position, with the smallest at index 0 */
    size_t heap_count;
    tokenizer_stop *stops; /* asks whether to end early; NULL: never */
    size_t steps;          /* number of pairs that were added or taken from the heap */
};

/* number of steps of a long word between two calls of `stops`: milliseconds */
enum { STOP_STEPS = 1 << 13 };

static bool is_stopped(struct long_word *word) {
    word->steps++;
    return word->steps % STOP_STEPS == 0 && word->stops != NULL && word->stops();
}

static void heap_push(struct long_word *word, uint64_t item) {
    size_t at = word->heap_count++;
    while (at > 0 && word->heap[(at - 1) / 2] > item) {
        word->heap[at] = word->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    word->heap[at] = item;
}

static uint64_t heap_pop(struct long_word *word) {
    uint64_t top = word->heap[0];
    uint64_t last = word->heap[--word->heap_count];
    size_t at = 0;
    for (size_t child = 1; child < word->heap_count; child = 2 * at + 1) {
        child += child + 1 < word->heap_count && word->heap[child + 1] < word->heap[child];
        if (word->heap[child] >= last) {
            break;
        }
        word->heap[at] = word->heap[child];
        at = child;
    }
    word->heap[at] = last;
    return top;
}

/* Looks up the pair that begins at `at`, and puts it into the heap. */
static void add_pair(struct long_word *word, int32_t at) {
    int32_t right = word->next[at];
    word->ranks[at] = VOCABULARY_NO_MERGE;
    if (right >= 0) {
        const struct merge_slot *slot = merge_find(word->table, word->ids[at], word->ids[right]);
        word->ranks[at] = slot->rank;
        word->merged[at] = slot->merged;
        if (slot->rank != VOCABULARY_NO_MERGE) {
            heap_push(word, (uint64_t)slot->rank << 32 | (uint32_t)at);
        }
    }
}

static void merge_pair_at(struct long_word *word, int32_t at) {
    int32_t right = word->next[at];
    word->ids[at] = word->merged[at];
    word->next[at] = word->next[right];
    /* makes the heap entries of pairs with symbol `right` outdated */
    word->ranks[right] = VOCABULARY_NO_MERGE;
    if (word->next[right] >= 0) {
        word->previous[word->next[right]] = at;
    }
    add_pair(word, at);
    if (word->previous[at] >= 0) {
        add_pair(word, word->previous[at]);
    }
}

static size_t merge_long(const struct merge_table *table, int32_t *symbols, size_t count,
                         uint64_t *heap, tokenizer_stop *stops) {
    struct long_word word = {.table = table,
                             .ids = symbols,
                             .previous = symbols + count,
                             .next = symbols + 2 * count,
                             .merged = symbols + 3 * count,
                             .ranks = (uint32_t *)symbols + 4 * count,
                             .heap = heap,
                             .stops = stops};
    for (size_t i = 0; i < count; i++) {
        word.previous[i] = (int32_t)i - 1;
        word.next[i] = i + 1 < count ? (int32_t)i + 1 : -1;
    }
    for (size_t i = 0; i < count; i++) {
        if (is_stopped(&word)) {
            return MERGE_STOPPED;
        }
        add_pair(&word, (int32_t)i);
    }
    while (word.heap_count > 0) {
        if (is_stopped(&word)) {
            return MERGE_STOPPED;
        }
        uint64_t item = heap_pop(&word);
        int32_t at = (int32_t)(uint32_t)item;
        if (word.ranks[at] == item >> 32) {
            merge_pair_at(&word, at);
        }
    }
    size_t kept = 0;
    for (int32_t at = 0; at >= 0; at = word.next[at]) {
        symbols[kept++] = word.ids[at];
    }
    return kept;
}

size_t merge_all(const struct merge_table *table, int32_t *symbols, size_t count, uint64_t *heap,
                 tokenizer_stop *stops) {
    return count > MERGE_SHORT_MAX ? merge_long(table, symbols, count, heap, stops)
                                   : merge_short(table, symbols, count);
}
