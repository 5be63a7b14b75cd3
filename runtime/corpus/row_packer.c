#include "runtime/corpus/row_packer.h"

#include "base/bytes.h"
#include "base/check.h"

#include <stdlib.h>
#include <string.h>

/* The rows of a pack by their room: the number of tokens for which a row still has space. Rows with
 * the same room form a list, whose first row is first[room]. */
struct rooms {
    int32_t *first; /* [row_tokens + 1]: by room, the first row with that room; -1: none */
    int32_t *next;  /* [rows] the next row of the same list; -1: none */
    uint64_t *bits; /* bit r: at least one row has the room r */
    int64_t words;  /* number of 64-bit words of `bits` */
};

void row_packer_init(struct row_packer *packer, int64_t row_tokens, struct region *region) {
    ASSERT(row_tokens > 0 && row_tokens <= PACKER_ROW_TOKENS_MAX);
    const int64_t wanted = max_i64(row_tokens * PACKER_ROWS, PACKER_TOKENS_MIN);
    *packer = (struct row_packer){.row_tokens = row_tokens,
                                  .token_max = min_i64(wanted, PACKER_TOKENS_MAX)};
    packer->tokens = region_alloc(region, (size_t)packer->token_max, sizeof *packer->tokens);
}

bool row_packer_can_add(const struct row_packer *packer, int64_t length) {
    return length <= packer->token_max - packer->token_count;
}

void row_packer_add(struct row_packer *packer, const int32_t *ids, const bool *is_trained,
                    int32_t length, struct region *region) {
    ASSERT(length > 0 && length <= packer->row_tokens && row_packer_can_add(packer, length));
    if (packer->item_count == packer->item_capacity) {
        packer->items = region_grow(region, packer->items, packer->item_count,
                                    &packer->item_capacity, sizeof *packer->items);
    }
    packer->items[packer->item_count++] =
        (struct packer_item){.length = length, .offset = packer->token_count};
    int32_t *to = packer->tokens + packer->token_count;
    for (int32_t i = 0; i < length; i++) {
        to[i] = ids[i] | (is_trained[i] ? PACKED_TRAINED : 0) | (i == 0 ? PACKED_START : 0);
    }
    packer->token_count += length;
}

static int compare_lengths(const void *a, const void *b) {
    const struct packer_item *const *x = a, *const *y = b;
    if ((*x)->length != (*y)->length) {
        return (*x)->length > (*y)->length ? -1 : 1;
    }
    return (*x)->offset < (*y)->offset ? -1 : 1;
}

static int compare_rows(const void *a, const void *b) {
    const struct packer_item *x = a, *y = b;
    if (x->row != y->row) {
        return x->row < y->row ? -1 : 1;
    }
    return x->offset < y->offset ? -1 : 1;
}

/* Returns the smallest room of any row that is at least `length`; -1: no row has that much room. */
static int64_t find_room(const struct rooms *rooms, int64_t length) {
    int64_t word = length / 64;
    uint64_t bits = rooms->bits[word] & ~(uint64_t)0 << length % 64;
    while (bits == 0 && ++word < rooms->words) {
        bits = rooms->bits[word];
    }
    return bits == 0 ? -1 : word * 64 + __builtin_ctzll(bits);
}

static void add_row(struct rooms *rooms, int64_t room, int32_t row) {
    rooms->next[row] = rooms->first[room];
    rooms->first[room] = row;
    rooms->bits[room / 64] |= (uint64_t)1 << room % 64;
}

static int32_t take_row(struct rooms *rooms, int64_t room) {
    const int32_t row = rooms->first[room];
    rooms->first[room] = rooms->next[row];
    if (rooms->first[room] < 0) {
        rooms->bits[room / 64] &= ~((uint64_t)1 << room % 64);
    }
    return row;
}

void row_packer_pack(struct row_packer *packer) {
    struct region scratch = {0};
    const size_t count = (size_t)packer->item_count;
    struct packer_item **sorted = region_alloc(&scratch, count + 1, sizeof *sorted);
    struct rooms rooms = {.words = packer->row_tokens / 64 + 1};
    rooms.first = region_alloc(&scratch, (size_t)packer->row_tokens + 1, sizeof *rooms.first);
    rooms.next = region_alloc(&scratch, count + 1, sizeof *rooms.next);
    rooms.bits = region_alloc(&scratch, (size_t)rooms.words, sizeof *rooms.bits);
    memset(rooms.first, 0xff, ((size_t)packer->row_tokens + 1) * sizeof *rooms.first);
    for (size_t i = 0; i < count; i++) {
        sorted[i] = &packer->items[i];
    }
    if (count == 0) {
        packer->row_count = 0;
        region_finish(&scratch);
        return;
    }
    qsort(sorted, count, sizeof *sorted, compare_lengths);
    packer->row_count = 0;
    for (size_t i = 0; i < count; i++) {
        int64_t room = find_room(&rooms, sorted[i]->length);
        sorted[i]->row = room >= 0 ? take_row(&rooms, room) : packer->row_count++;
        room = (room >= 0 ? room : packer->row_tokens) - sorted[i]->length;
        add_row(&rooms, room, sorted[i]->row);
    }
    qsort(packer->items, count, sizeof *packer->items, compare_rows);
    region_finish(&scratch);
}

/* Returns the index of the first item of row `row_index`, in items sorted by row. */
static int find_first_item(const struct row_packer *packer, int row_index) {
    int low = 0, high = packer->item_count;
    while (low < high) {
        const int middle = low + (high - low) / 2;
        if (packer->items[middle].row < row_index) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

int64_t row_packer_fill(const struct row_packer *packer, int row_index, int32_t padding,
                        int32_t *row) {
    int64_t filled = 0;
    for (int i = find_first_item(packer, row_index);
         i < packer->item_count && packer->items[i].row == row_index; i++) {
        const struct packer_item *item = &packer->items[i];
        memcpy(row + filled, packer->tokens + item->offset, (size_t)item->length * sizeof *row);
        filled += item->length;
    }
    for (int64_t t = filled; t < packer->row_tokens; t++) {
        row[t] = padding | (t == filled ? PACKED_START : 0);
    }
    return filled;
}

void row_packer_clear(struct row_packer *packer) {
    packer->token_count = 0;
    packer->item_count = packer->row_count = 0;
}
