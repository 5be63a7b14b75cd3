/* sparse_check: validates received blocks before they are decoded. */
#include "kernels/cpu/sparse_block.h"
#include "kernels/items.h"

#include <stdio.h>

static const char REMEDY[] = "drop the message; its sender is faulty or malicious";
enum { SUBJECT_BYTES = 64 }; /* size of the subject of a fault */
/* bits of the smallest positive normal bf16; of infinity */
enum { NORMAL_BF16 = 0x0080, INFINITY_BF16 = 0x7f80 };

/* ---- unused bits ---- */

/* Whether all bits of a field from `first` on are 0. */
static bool are_bits_zero(const uint8_t *field, const uint8_t *end, int first) {
    const uint8_t *byte = field + first / 8;
    if (byte < end && *byte >> first % 8 != 0) {
        return false;
    }
    for (byte++; byte < end; byte++) {
        if (*byte != 0) {
            return false;
        }
    }
    return true;
}

/* ---- levels ---- */

/* Whether a level is a positive normal number. The comparison of bits rejects NaN and negative
 * numbers without special cases. */
static bool is_positive_normal(uint16_t bits) {
    return bits >= NORMAL_BF16 && bits < INFINITY_BF16;
}

/* The smallest and the largest magnitude code of the elements of a block. */
struct code_range {
    int smallest, largest;
};

static struct code_range find_code_range(const struct sparse_elements *elements, int last) {
    struct code_range range = {.smallest = last, .largest = 0};
    for (int i = 0; i < elements->count; i++) {
        int code = elements->codes[i] & last;
        range.smallest = code < range.smallest ? code : range.smallest;
        range.largest = code > range.largest ? code : range.largest;
    }
    return range;
}

/* Returns why the levels do not follow from the elements, or NULL. */
static const char *find_level_error(const struct sparse_layout *layout,
                                    const struct sparse_elements *elements,
                                    struct sparse_levels levels) {
    const int last = (1 << (layout->value_bits - 1)) - 1;
    const struct code_range range = find_code_range(elements, last);
    if (elements->count == 0) {
        return levels.low == 0 && levels.high == 0 ? NULL : "it has a level but no element";
    }
    if (!is_positive_normal(levels.high)) {
        return "its higher level is not a positive normal number";
    }
    if (last == 0) {
        return NULL;
    }
    if (levels.low == 0) {
        return range.smallest == last ? NULL
                                      : "its lower level is 0, but an element is below the "
                                        "higher one";
    }
    if (!is_positive_normal(levels.low) || levels.low >= levels.high) {
        return "its lower level is neither 0 nor a normal number below the higher one";
    }
    return range.smallest == 0 && range.largest == last ? NULL : "one of its levels has no element";
}

/* ---- blocks ---- */

/* Returns why a block is not an encoding of `length` elements, or NULL. */
static const char *find_error(const struct sparse_layout *layout, int length,
                              const uint8_t *bytes) {
    struct sparse_elements elements;
    if (!sparse_unpack(layout, bytes, length, &elements)) {
        return elements.count == layout->keep ? "it has more elements than the shape allows"
                                              : "an element is past its end";
    }
    if (!are_bits_zero(bytes + layout->values_at, bytes + layout->remainders_at,
                       elements.count * layout->value_bits) ||
        !are_bits_zero(bytes + layout->remainders_at, bytes + layout->quotients_at,
                       elements.count * layout->remainder_bits)) {
        return "bits that belong to no element are not 0";
    }
    return find_level_error(layout, &elements, sparse_load_levels(layout, bytes));
}

static enum status set_fault(const char *subject, const char *reason, struct fault *fault) {
    return fault_set(fault, STATUS_INPUT, subject, REMEDY, "%s", reason);
}

enum status sparse_check(struct sparse_shape shape, int64_t count, const uint8_t *bytes,
                         uint64_t size, struct fault *fault) {
    const struct sparse_layout layout = sparse_layout_of(shape);
    const uint64_t expected = sparse_bytes(shape, count);
    char subject[SUBJECT_BYTES];
    if (size != expected) {
        snprintf(subject, sizeof subject, "received %llu bytes for %lld elements; expected %llu",
                 (unsigned long long)size, (long long)count, (unsigned long long)expected);
        return set_fault("sparse", subject, fault);
    }
    for (int64_t block = 0; block < items_count(count, SPARSE_BLOCK); block++) {
        const char *error = find_error(&layout, (int)item_length(count, SPARSE_BLOCK, block),
                                       bytes + block * layout.bytes);
        if (error != NULL) {
            snprintf(subject, sizeof subject, "sparse block %lld", (long long)block);
            return set_fault(subject, error, fault);
        }
    }
    return OK;
}
