#include "runtime/tokenizer/vocabulary.h"

#include "base/check.h"

#include <string.h>

enum { SLOTS_MIN = 16 }; /* smallest hash table */

uint64_t text_hash(const char *text, size_t count) {
    uint64_t hash = count * 0x9e3779b97f4a7c15u;
    for (size_t at = 0; at < count; at += sizeof hash) {
        uint64_t word = 0;
        memcpy(&word, text + at, count - at < sizeof word ? count - at : sizeof word);
        hash = (hash ^ word) * 0xff51afd7ed558ccdu;
        hash ^= hash >> 32;
    }
    return hash;
}

/* Returns the number of slots of a hash table: at least twice the number of entries, so that
 * searches end soon. */
static uint64_t slot_count(size_t entries) {
    uint64_t slots = SLOTS_MIN;
    while (slots < 2 * entries) {
        slots *= 2;
    }
    return slots;
}

/* Returns the hash slot of a text: the slot of its token, or an empty one. */
static uint32_t find_slot(const struct vocabulary *vocabulary, const char *text, size_t count) {
    uint32_t slot = (uint32_t)text_hash(text, count) & vocabulary->slot_mask;
    for (;;) {
        int32_t id = vocabulary->slots[slot];
        if (id == VOCABULARY_ABSENT) {
            return slot;
        }
        const struct vocabulary_span *span = &vocabulary->spans[id];
        if (span->count == count && memcmp(vocabulary->texts + span->at, text, count) == 0) {
            return slot;
        }
        slot = (slot + 1) & vocabulary->slot_mask;
    }
}

int32_t vocabulary_find(const struct vocabulary *vocabulary, const char *text, size_t count) {
    return vocabulary->slots[find_slot(vocabulary, text, count)];
}

const char *vocabulary_text(const struct vocabulary *vocabulary, int32_t id, size_t *count) {
    if (id < 0 || id >= vocabulary->id_count ||
        vocabulary->spans[id].count == VOCABULARY_NO_TOKEN) {
        return NULL;
    }
    *count = vocabulary->spans[id].count;
    return vocabulary->texts + vocabulary->spans[id].at;
}

int64_t vocabulary_make(const struct vocabulary_entry *entries, size_t count, struct region *region,
                        struct vocabulary *vocabulary) {
    size_t text_bytes = 0;
    int32_t id_count = 0;
    uint32_t longest = 0;
    for (size_t i = 0; i < count; i++) {
        text_bytes += entries[i].count;
        id_count = entries[i].id >= id_count ? entries[i].id + 1 : id_count;
        longest = entries[i].count > longest ? entries[i].count : longest;
    }
    char *texts = region_alloc(region, text_bytes, 1);
    struct vocabulary_span *spans = region_alloc(region, (size_t)id_count, sizeof *spans);
    uint64_t slots_count = slot_count(count);
    int32_t *slots = region_alloc(region, slots_count, sizeof *slots);
    memset(slots, 0xff, slots_count * sizeof *slots); /* VOCABULARY_ABSENT */
    memset(spans, 0xff, (size_t)id_count * sizeof *spans);
    *vocabulary = (struct vocabulary){.texts = texts,
                                      .spans = spans,
                                      .slots = slots,
                                      .slot_mask = (uint32_t)(slots_count - 1),
                                      .id_count = id_count,
                                      .token_count = (int32_t)count,
                                      .text_bytes_max = longest};
    uint32_t filled = 0;
    for (size_t i = 0; i < count; i++) {
        const struct vocabulary_entry *entry = &entries[i];
        uint32_t slot = find_slot(vocabulary, entry->text, entry->count);
        if (slots[slot] != VOCABULARY_ABSENT || spans[entry->id].count != VOCABULARY_NO_TOKEN) {
            return (int64_t)i;
        }
        memcpy(texts + filled, entry->text, entry->count);
        spans[entry->id] = (struct vocabulary_span){filled, entry->count};
        slots[slot] = entry->id;
        filled += entry->count;
    }
    return -1;
}

struct merge_table merge_table_make(const struct merge *merges, size_t count,
                                    struct region *region) {
    uint64_t slots_count = slot_count(count);
    struct merge_slot *slots = region_alloc(region, slots_count, sizeof *slots);
    for (uint64_t i = 0; i < slots_count; i++) {
        slots[i].rank = VOCABULARY_NO_MERGE;
    }
    struct merge_table table = {.slots = slots, .mask = slots_count - 1};
    for (size_t i = 0; i < count; i++) {
        const struct merge *merge = &merges[i];
        slots[merge_find(&table, merge->left, merge->right) - slots] =
            (struct merge_slot){.pair = merge_pair(merge->left, merge->right),
                                .rank = (uint32_t)i,
                                .merged = merge->merged};
    }
    return table;
}
