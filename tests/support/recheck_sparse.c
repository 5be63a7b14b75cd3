/* recheck_sparse: a round with a sparse codec, computed again from the decoded contributions: the
 * list of each slice byte by byte, with the tree that each member declared, and the step. */
#include "tests/support/recheck.h"

#include "base/check.h"
#include "runtime/swarm/ledger/contribution.h"
#include "tests/kernels/sparse_reference.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEP_WORDS = 4, LEVELS_MAX = 16, HEADER_WORDS = 4 };

/* A member's contribution, as it declared it. */
struct declared {
    uint32_t seat;
    const float *values; /* [count] */
    uint8_t *encoded;
    double *norms;      /* [slice_count] */
    struct hash *nodes; /* the tree over the slices */
};

static struct {
    struct sparse_shape shape;
    int64_t count;
    double value_limit;
    int declared_count;
    struct declared declared[RECHECK_CONTRIBUTIONS_MAX];
    struct recheck_line *lines; /* [slice_count] */
    uint32_t slice_count;
    float *mean, *shares; /* [count] */
    int64_t wrong;
} recheck;

static int64_t encoded_offset(int64_t element) {
    return (int64_t)sparse_bytes(recheck.shape, element);
}

/* ---- declarations ---- */

/* The squares of a block, by level: the number of values times the square, from the smallest. */
static double find_block_energy(const float *values, int64_t count) {
    double levels[LEVELS_MAX];
    int counts[LEVELS_MAX], level_count = 0;
    double energy = 0;
    for (int64_t i = 0; i < count; i++) {
        const double size = fabs((double)values[i]);
        int at = 0;
        while (at < level_count && levels[at] < size) {
            at++;
        }
        if (size == 0) {
            continue;
        }
        if (at == level_count || levels[at] != size) {
            ASSERT(level_count < LEVELS_MAX);
            memmove(levels + at + 1, levels + at, (size_t)(level_count - at) * sizeof *levels);
            memmove(counts + at + 1, counts + at, (size_t)(level_count - at) * sizeof *counts);
            levels[at] = size;
            counts[at] = 0;
            level_count++;
        }
        counts[at]++;
    }
    for (int i = 0; i < level_count; i++) {
        energy += counts[i] * (levels[i] * levels[i]);
    }
    return energy;
}

static double find_norm(const float *values, int64_t count) {
    double energy = 0;
    for (int64_t at = 0; at < count; at += SPARSE_BLOCK) {
        energy +=
            find_block_energy(values + at, count - at < SPARSE_BLOCK ? count - at : SPARSE_BLOCK);
    }
    return sqrt(energy);
}

static void declare(struct declared *declared) {
    double *decoded = recheck_allocate(recheck.count * 8);
    const uint32_t slices = recheck.slice_count;
    declared->encoded = recheck_allocate(encoded_offset(recheck.count));
    declared->norms = recheck_allocate(slices * 8);
    declared->nodes = recheck_allocate((int64_t)(merkle_list_node_count(slices) * HASH_BYTES));
    (void)sparse_reference_encode(recheck.shape, recheck.count, declared->values, declared->encoded,
                                  decoded);
    for (int64_t i = 0; i < recheck.count; i++) {
        if (decoded[i] != (double)declared->values[i]) {
            printf("seat %u: element %" PRId64 " cannot be sent\n", declared->seat, i);
            recheck.wrong++;
            break;
        }
    }
    for (uint32_t s = 0; s < slices; s++) {
        const struct recheck_line *line = &recheck.lines[s];
        const int64_t from = encoded_offset(line->begin);
        const struct hash hash =
            hash_of(declared->encoded + from, (size_t)(encoded_offset(line->end) - from));
        declared->norms[s] = find_norm(declared->values + line->begin, line->end - line->begin);
        declared->nodes[s] = contribution_leaf(&hash, declared->norms[s]);
    }
    merkle_list_build(declared->nodes, slices);
    free(decoded);
}

/* ---- lists ---- */

static void add_number(struct hash_state *state, const void *number, size_t bytes) {
    hash_add(state, number, bytes); /* little-endian, as in memory */
}

static void add_head(struct hash_state *state, uint32_t slice, const struct recheck_line *line,
                     int index) {
    static const uint8_t ZEROS[CONTRIBUTION_PATH_MAX * HASH_BYTES];
    const struct declared *declared = &recheck.declared[line->contributions[index]];
    const float clip = (float)line->clips[index];
    struct slice_proof proof;
    contribution_prove(declared->nodes, declared->norms, recheck.slice_count, slice, &proof);
    const size_t unused = contribution_path_max(recheck.slice_count) - proof.path_count;
    add_number(state, &line->weights[index], 8);
    add_number(state, &declared->norms[slice], 8);
    add_number(state, &clip, 4);
    add_number(state, &proof.path_count, 4);
    hash_add(state, proof.path, proof.path_count * sizeof proof.path[0]);
    hash_add(state, ZEROS, unused * HASH_BYTES);
}

static void check_list(uint32_t slice) {
    const struct recheck_line *line = &recheck.lines[slice];
    const int64_t from = encoded_offset(line->begin);
    struct hash_state state;
    uint64_t seats = 0;
    char hex[HASH_HEX_BYTES];
    for (int i = 0; i < line->count; i++) {
        seats |= UINT64_C(1) << recheck.declared[line->contributions[i]].seat;
    }
    hash_begin(&state);
    add_number(&state, &seats, 8);
    add_number(&state, &recheck.value_limit, 8);
    for (int i = 0; i < line->count; i++) {
        add_head(&state, slice, line, i);
    }
    for (int i = 0; i < line->count; i++) {
        hash_add(&state, recheck.declared[line->contributions[i]].encoded + from,
                 (size_t)(encoded_offset(line->end) - from));
    }
    const struct hash hash = hash_end(&state);
    if (strcmp(hash_hex(&hash, hex), line->hash) != 0) {
        printf("slice [%" PRId64 ", %" PRId64 "): the list's hash is %s, the ledger has %s\n",
               line->begin, line->end, hex, line->hash);
        recheck.wrong++;
    }
}

/* ---- means ---- */

static void add_block(const float *values, int64_t begin, int64_t end, float share, float clip) {
    double peak = 0;
    for (int64_t i = begin; i < end; i++) {
        peak = fmax(peak, fabs((double)values[i]));
    }
    const bool is_limited = peak * (double)clip > recheck.value_limit;
    const float factor = share * (is_limited ? (float)(recheck.value_limit / peak) : clip);
    for (int64_t i = begin; i < end; i++) {
        const float product = factor * values[i];
        recheck.mean[i] = values[i] != 0 ? recheck.mean[i] + product : recheck.mean[i];
        recheck.shares[i] = values[i] != 0 ? recheck.shares[i] + share : recheck.shares[i];
    }
}

static void find_mean(const struct recheck_line *line) {
    double total = 0;
    for (int i = 0; i < line->count; i++) {
        total += (double)line->weights[i];
    }
    for (int i = 0; i < line->count && total > 0; i++) {
        const float share = (float)((double)line->weights[i] / total);
        const float *values = recheck.declared[line->contributions[i]].values;
        for (int64_t at = line->begin; at < line->end && line->weights[i] > 0; at += SPARSE_BLOCK) {
            const int64_t end = at + SPARSE_BLOCK < line->end ? at + SPARSE_BLOCK : line->end;
            add_block(values, at, end, share, (float)line->clips[i]);
        }
    }
    for (int64_t i = line->begin; i < line->end; i++) {
        recheck.mean[i] = recheck.shares[i] == 0 ? 0 : recheck.mean[i] / recheck.shares[i];
    }
}

static void check_step(char **words) {
    const float rate = strtof(words[0], NULL);
    const float *params = recheck_map(words[1], recheck.count);
    float *next = recheck_allocate(recheck.count * 4);
    for (int64_t i = 0; i < recheck.count; i++) {
        const float stride = rate * recheck.mean[i];
        next[i] = params[i] - stride;
    }
    recheck.wrong +=
        !recheck_compare("parameter", recheck.count, next, recheck_map(words[2], recheck.count));
    recheck_print_root(recheck.count, next, NULL);
}

/* ---- words ---- */

static void read_lines(void) {
    int64_t next = 0;
    for (uint32_t capacity = 0; next < recheck.count; recheck.slice_count++) {
        if (recheck.slice_count == capacity) {
            capacity = 2 * capacity + 16;
            recheck.lines = realloc(recheck.lines, capacity * sizeof *recheck.lines);
            ASSERT(recheck.lines != NULL);
        }
        struct recheck_line *line = &recheck.lines[recheck.slice_count];
        if (!recheck_read_line(recheck.count, recheck.declared_count, line) ||
            line->begin != next || line->begin % SPARSE_BLOCK != 0) {
            recheck_give_up("slices that do not cover the space", "standard input");
        }
        next = line->end;
    }
}

/* The values that `count` elements send: each block but the last sends as many as it may. */
static double count_sent(void) {
    const int64_t rest = recheck.count % SPARSE_BLOCK;
    return (double)(recheck.count / SPARSE_BLOCK * recheck.shape.keep +
                    (rest < recheck.shape.keep ? rest : recheck.shape.keep));
}

/* Reads the words up to --step; returns its index, or the number of words. */
static int open_contributions(int word_count, char **words) {
    int at = HEADER_WORDS;
    for (; at < word_count && strcmp(words[at], "--step") != 0; at++) {
        char *colon;
        struct declared *declared = &recheck.declared[recheck.declared_count++];
        if (recheck.declared_count > RECHECK_CONTRIBUTIONS_MAX) {
            recheck_give_up("too many contributions", "usage");
        }
        declared->seat = (uint32_t)strtoul(words[at], &colon, 10);
        if (*colon != ':' || declared->seat >= RECHECK_CONTRIBUTIONS_MAX) {
            recheck_give_up("not SEAT:PATH@OFFSET", words[at]);
        }
        declared->values = recheck_map(colon + 1, recheck.count);
    }
    return at;
}

int64_t recheck_sparse(int word_count, char **words) {
    if (word_count < HEADER_WORDS) {
        recheck_give_up("sparse COUNT KEEP BITS REFERENCE ...", "usage");
    }
    recheck.count = strtoll(words[0], NULL, 10);
    recheck.shape =
        (struct sparse_shape){(int)strtol(words[1], NULL, 10), (int)strtol(words[2], NULL, 10)};
    if (recheck.count <= 0 || !sparse_shape_is_valid(recheck.shape)) {
        recheck_give_up("no parameters, or no such codec", "usage");
    }
    recheck.value_limit = 8 * strtod(words[3], NULL) / sqrt(count_sent());
    const int step = open_contributions(word_count, words);
    read_lines();
    recheck.mean = calloc((size_t)recheck.count, sizeof *recheck.mean);
    recheck.shares = calloc((size_t)recheck.count, sizeof *recheck.shares);
    ASSERT(recheck.mean != NULL && recheck.shares != NULL);
    for (int i = 0; i < recheck.declared_count; i++) {
        declare(&recheck.declared[i]);
    }
    for (uint32_t slice = 0; slice < recheck.slice_count; slice++) {
        check_list(slice);
        find_mean(&recheck.lines[slice]);
    }
    if (step < word_count) {
        if (word_count - step != STEP_WORDS) {
            recheck_give_up("--step takes three words", "usage");
        }
        check_step(words + step + 1);
    }
    return recheck.wrong;
}
