/* recheck_round: one committed round computed again from what its members recorded, apart from the
 * code that members run: loops of its own, and the codec's layout as written a second time for the
 * tests (codec_reference).
 *
 *     recheck_round CODEC COUNT CONTRIBUTION... [--step RATE MOMENTUM P V NEXT_P NEXT_V]
 *     recheck_round sparse COUNT KEEP BITS REFERENCE SEAT:CONTRIBUTION... [--step RATE P NEXT_P]
 *
 * Every array is COUNT fp32 in a file, as PATH@OFFSET. P, V are the outer parameters and momentum
 * before the round, NEXT_P, NEXT_V those after it. Standard input has a line for each slice, in
 * order: BEGIN END HASH N {CONTRIBUTION WEIGHT CLIP} x N, contributions counted from 0 and in
 * roster order. REFERENCE is the reference norm of the round. What does not agree is printed; the
 * last line is "root HEX" of the state computed here (with --step), and "recheck: N wrong". Exit 1
 * when anything is. */
#include "base/check.h"
#include "runtime/swarm/ledger/merkle.h"
#include "tests/kernels/codec_reference.h"
#include "tests/support/recheck.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    LEAF_ELEMENTS_HERE = LEAF_BYTES / 8, /* parameters of a leaf; as many of momentum */
    STEP_WORDS = 7,                      /* --step and what follows it */
};

struct recheck {
    enum codec codec;
    int64_t count;
    int contribution_count;
    const float *contributions[RECHECK_CONTRIBUTIONS_MAX];
    float *mean; /* [count]: as decoded from the re-encoded sum */
    uint8_t *encoded;
    int64_t wrong;
};

_Noreturn void recheck_give_up(const char *what, const char *name) {
    fprintf(stderr, "recheck_round: %s: %s\n", name, what);
    exit(2);
}

const float *recheck_map(const char *place, int64_t count) {
    const char *mark = strrchr(place, '@');
    char path[4096];
    if (mark == NULL || (size_t)(mark - place) >= sizeof path) {
        recheck_give_up("not PATH@OFFSET", place);
    }
    memcpy(path, place, (size_t)(mark - place));
    path[mark - place] = '\0';
    int64_t offset = strtoll(mark + 1, NULL, 10);
    struct stat known;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &known) != 0 || known.st_size < offset + count * 4) {
        recheck_give_up("no such array", place);
    }
    uint8_t *bytes = mmap(NULL, (size_t)known.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (bytes == MAP_FAILED || offset % 4 != 0) {
        recheck_give_up("cannot be mapped", place);
    }
    close(fd);
    return (const float *)(const void *)(bytes + offset);
}

void *recheck_allocate(int64_t bytes) {
    void *memory = malloc((size_t)bytes);
    ASSERT(memory != NULL);
    return memory;
}

bool recheck_read_line(int64_t element_count, int contribution_count, struct recheck_line *line) {
    if (scanf("%" SCNd64 " %" SCNd64 " %64s %d", &line->begin, &line->end, line->hash,
              &line->count) != 4) {
        return false;
    }
    if (line->begin < 0 || line->end > element_count || line->begin >= line->end ||
        line->count < 0 || line->count > RECHECK_CONTRIBUTIONS_MAX) {
        recheck_give_up("a slice out of bounds", "standard input");
    }
    for (int i = 0; i < line->count; i++) {
        if (scanf("%d %" SCNu64 " %lf", &line->contributions[i], &line->weights[i],
                  &line->clips[i]) != 3 ||
            line->contributions[i] < 0 || line->contributions[i] >= contribution_count) {
            recheck_give_up("a contribution that is not there", "standard input");
        }
    }
    return true;
}

/* The sum in roster order: each product rounds, then each sum. */
static void sum(const struct recheck *recheck, const struct recheck_line *line) {
    float *mean = recheck->mean + line->begin;
    int64_t count = line->end - line->begin;
    double total = 0;
    for (int i = 0; i < line->count; i++) {
        total += (double)line->weights[i];
    }
    memset(mean, 0, sizeof *mean * (size_t)count);
    for (int i = 0; i < line->count && total > 0; i++) {
        float share = (float)((double)line->weights[i] / total) * (float)line->clips[i];
        const float *values = recheck->contributions[line->contributions[i]] + line->begin;
        for (int64_t k = 0; k < count; k++) {
            float term = share * values[k];
            mean[k] = mean[k] + term;
        }
    }
}

static void check_slice(struct recheck *recheck, const struct recheck_line *line) {
    float *mean = recheck->mean + line->begin;
    int64_t count = line->end - line->begin;
    sum(recheck, line);
    codec_reference_encode(recheck->codec, count, mean, recheck->encoded, mean);
    struct hash hash = hash_of(recheck->encoded, codec_bytes(recheck->codec, count));
    char hex[HASH_HEX_BYTES];
    if (strcmp(hash_hex(&hash, hex), line->hash) != 0) {
        printf("slice [%" PRId64 ", %" PRId64 "): the sum's hash is %s, the ledger has %s\n",
               line->begin, line->end, hex, line->hash);
        recheck->wrong++;
    }
}

bool recheck_compare(const char *what, int64_t count, const float *own, const float *recorded) {
    for (int64_t k = 0; k < count; k++) {
        if (memcmp(&own[k], &recorded[k], sizeof own[k]) != 0) {
            printf("%s %" PRId64 ": %a here, %a recorded\n", what, k, (double)own[k],
                   (double)recorded[k]);
            return false;
        }
    }
    return true;
}

void recheck_print_root(int64_t count, const float *params, const float *momentum) {
    const int64_t longest = LEAF_ELEMENTS_HERE * (momentum == NULL ? 2 : 1);
    struct merkle_stream stream;
    merkle_begin(&stream);
    for (int64_t at = 0; at < count; at += longest) {
        int64_t left = count - at < longest ? count - at : longest;
        merkle_add(&stream, params + at, sizeof *params * (size_t)left);
        if (momentum != NULL) {
            merkle_add(&stream, momentum + at, sizeof *momentum * (size_t)left);
        }
    }
    struct hash root = merkle_end(&stream);
    char hex[HASH_HEX_BYTES];
    printf("root %s\n", hash_hex(&root, hex));
}

/* Nesterov's step as kernels/outer.h writes it down. */
static void check_step(struct recheck *recheck, char **words) {
    float rate = strtof(words[0], NULL), momentum = strtof(words[1], NULL);
    const float *params = recheck_map(words[2], recheck->count);
    const float *moments = recheck_map(words[3], recheck->count);
    float *next_params = recheck_allocate(recheck->count * 4),
          *next_moments = recheck_allocate(recheck->count * 4);
    for (int64_t k = 0; k < recheck->count; k++) {
        float kept = momentum * moments[k];
        next_moments[k] = kept + recheck->mean[k];
        float ahead = momentum * next_moments[k];
        float slope = recheck->mean[k] + ahead;
        float stride = rate * slope;
        next_params[k] = params[k] - stride;
    }
    const float *found_params = recheck_map(words[4], recheck->count);
    const float *found_moments = recheck_map(words[5], recheck->count);
    recheck->wrong += !recheck_compare("parameter", recheck->count, next_params, found_params);
    recheck->wrong += !recheck_compare("momentum", recheck->count, next_moments, found_moments);
    recheck_print_root(recheck->count, next_params, next_moments);
}

/* Gives the index of --step, or the end. */
static int open_arrays(struct recheck *recheck, int argument_count, char **arguments) {
    if (argument_count < 3 || !codec_parse(arguments[1], &recheck->codec)) {
        recheck_give_up("no codec", "usage");
    }
    recheck->count = strtoll(arguments[2], NULL, 10);
    if (recheck->count <= 0) {
        recheck_give_up("no parameters", "usage");
    }
    int at = 3;
    for (; at < argument_count && strcmp(arguments[at], "--step") != 0; at++) {
        if (recheck->contribution_count == RECHECK_CONTRIBUTIONS_MAX) {
            recheck_give_up("too many contributions", "usage");
        }
        recheck->contributions[recheck->contribution_count++] =
            recheck_map(arguments[at], recheck->count);
    }
    recheck->mean = recheck_allocate(recheck->count * 4);
    recheck->encoded = recheck_allocate((int64_t)codec_bytes(recheck->codec, recheck->count));
    return at;
}

static int print_wrong(int64_t wrong) {
    printf("recheck: %" PRId64 " wrong\n", wrong);
    return wrong == 0 ? 0 : 1;
}

int main(int argument_count, char **arguments) {
    static struct recheck recheck;
    if (argument_count > 1 && strcmp(arguments[1], "sparse") == 0) {
        return print_wrong(recheck_sparse(argument_count - 2, arguments + 2));
    }
    int step = open_arrays(&recheck, argument_count, arguments);
    struct recheck_line line;
    int64_t next = 0;
    while (recheck_read_line(recheck.count, recheck.contribution_count, &line)) {
        if (line.begin != next) {
            recheck_give_up("slices that do not follow one another", "standard input");
        }
        check_slice(&recheck, &line);
        next = line.end;
    }
    if (next != recheck.count) {
        recheck_give_up("slices that do not cover the space", "standard input");
    }
    if (step < argument_count) {
        if (argument_count - step != STEP_WORDS) {
            recheck_give_up("--step takes six words", "usage");
        }
        check_step(&recheck, arguments + step + 1);
    }
    return print_wrong(recheck.wrong);
}
