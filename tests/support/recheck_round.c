/* recheck_round: one committed round computed again from what its members recorded, apart from the
 * code that members run: loops of its own, and the codec's layout as written a second time for the
 * tests (codec_reference).
 *
 *     recheck_round CODEC COUNT CONTRIBUTION... [--step RATE MOMENTUM P V NEXT_P NEXT_V]
 *
 * Every array is COUNT fp32 in a file, as PATH@OFFSET. P, V are the outer parameters and momentum
 * before the round, NEXT_P, NEXT_V those after it. Standard input has a line for each slice, in
 * order: BEGIN END HASH N {CONTRIBUTION WEIGHT CLIP} x N, contributions counted from 0 and in
 * roster order. What does not agree is printed; the last line is "root HEX" of the state computed
 * here (with --step), and "recheck: N wrong". Exit 1 when anything is. */
#include "base/check.h"
#include "runtime/swarm/ledger/merkle.h"
#include "tests/kernels/codec_reference.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    CONTRIBUTIONS_MAX = 64,
    LEAF_ELEMENTS_HERE = LEAF_BYTES / 8, /* parameters of a leaf; as many of momentum */
    STEP_WORDS = 7,                      /* --step and what follows it */
};

struct recheck {
    enum codec codec;
    int64_t count;
    int contribution_count;
    const float *contributions[CONTRIBUTIONS_MAX];
    float *mean; /* [count]: as decoded from the re-encoded sum */
    uint8_t *encoded;
    int64_t wrong;
};

/* One line of input. */
struct slice_line {
    int64_t begin, end;
    char hash[HASH_HEX_BYTES];
    int count;
    int contributions[CONTRIBUTIONS_MAX];
    uint64_t weights[CONTRIBUTIONS_MAX];
    double clips[CONTRIBUTIONS_MAX];
};

static _Noreturn void give_up(const char *what, const char *name) {
    fprintf(stderr, "recheck_round: %s: %s\n", name, what);
    exit(2);
}

static const float *mapped(const char *place, int64_t count) {
    const char *mark = strrchr(place, '@');
    char path[4096];
    if (mark == NULL || (size_t)(mark - place) >= sizeof path) {
        give_up("not PATH@OFFSET", place);
    }
    memcpy(path, place, (size_t)(mark - place));
    path[mark - place] = '\0';
    int64_t offset = strtoll(mark + 1, NULL, 10);
    struct stat known;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &known) != 0 || known.st_size < offset + count * 4) {
        give_up("no such array", place);
    }
    uint8_t *bytes = mmap(NULL, (size_t)known.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (bytes == MAP_FAILED || offset % 4 != 0) {
        give_up("cannot be mapped", place);
    }
    close(fd);
    return (const float *)(const void *)(bytes + offset);
}

static void *room(int64_t bytes) {
    void *memory = malloc((size_t)bytes);
    ASSERT(memory != NULL);
    return memory;
}

static bool read_line(const struct recheck *recheck, struct slice_line *line) {
    if (scanf("%" SCNd64 " %" SCNd64 " %64s %d", &line->begin, &line->end, line->hash,
              &line->count) != 4) {
        return false;
    }
    if (line->begin < 0 || line->end > recheck->count || line->begin >= line->end ||
        line->count < 0 || line->count > CONTRIBUTIONS_MAX) {
        give_up("a slice out of bounds", "standard input");
    }
    for (int i = 0; i < line->count; i++) {
        if (scanf("%d %" SCNu64 " %lf", &line->contributions[i], &line->weights[i],
                  &line->clips[i]) != 3 ||
            line->contributions[i] < 0 || line->contributions[i] >= recheck->contribution_count) {
            give_up("a contribution that is not there", "standard input");
        }
    }
    return true;
}

/* The sum in roster order: each product rounds, then each sum. */
static void sum(const struct recheck *recheck, const struct slice_line *line) {
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

static void check_slice(struct recheck *recheck, const struct slice_line *line) {
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

static void compare(struct recheck *recheck, const char *what, const float *own,
                    const float *recorded) {
    for (int64_t k = 0; k < recheck->count; k++) {
        if (memcmp(&own[k], &recorded[k], sizeof own[k]) != 0) {
            printf("%s %" PRId64 ": %a here, %a recorded\n", what, k, (double)own[k],
                   (double)recorded[k]);
            recheck->wrong++;
            return;
        }
    }
}

static void print_root(int64_t count, const float *params, const float *momentum) {
    struct merkle_stream stream;
    merkle_begin(&stream);
    for (int64_t at = 0; at < count; at += LEAF_ELEMENTS_HERE) {
        int64_t left = count - at < LEAF_ELEMENTS_HERE ? count - at : LEAF_ELEMENTS_HERE;
        merkle_add(&stream, params + at, sizeof *params * (size_t)left);
        merkle_add(&stream, momentum + at, sizeof *momentum * (size_t)left);
    }
    struct hash root = merkle_end(&stream);
    char hex[HASH_HEX_BYTES];
    printf("root %s\n", hash_hex(&root, hex));
}

/* Nesterov's step as kernels/outer.h writes it down. */
static void check_step(struct recheck *recheck, char **words) {
    float rate = strtof(words[0], NULL), momentum = strtof(words[1], NULL);
    const float *params = mapped(words[2], recheck->count);
    const float *moments = mapped(words[3], recheck->count);
    float *next_params = room(recheck->count * 4), *next_moments = room(recheck->count * 4);
    for (int64_t k = 0; k < recheck->count; k++) {
        float kept = momentum * moments[k];
        next_moments[k] = kept + recheck->mean[k];
        float ahead = momentum * next_moments[k];
        float slope = recheck->mean[k] + ahead;
        float stride = rate * slope;
        next_params[k] = params[k] - stride;
    }
    compare(recheck, "parameter", next_params, mapped(words[4], recheck->count));
    compare(recheck, "momentum", next_moments, mapped(words[5], recheck->count));
    print_root(recheck->count, next_params, next_moments);
}

/* Gives the index of --step, or the end. */
static int open_arrays(struct recheck *recheck, int argument_count, char **arguments) {
    if (argument_count < 3 || !codec_parse(arguments[1], &recheck->codec)) {
        give_up("no codec", "usage");
    }
    recheck->count = strtoll(arguments[2], NULL, 10);
    if (recheck->count <= 0) {
        give_up("no parameters", "usage");
    }
    int at = 3;
    for (; at < argument_count && strcmp(arguments[at], "--step") != 0; at++) {
        if (recheck->contribution_count == CONTRIBUTIONS_MAX) {
            give_up("too many contributions", "usage");
        }
        recheck->contributions[recheck->contribution_count++] =
            mapped(arguments[at], recheck->count);
    }
    recheck->mean = room(recheck->count * 4);
    recheck->encoded = room((int64_t)codec_bytes(recheck->codec, recheck->count));
    return at;
}

int main(int argument_count, char **arguments) {
    static struct recheck recheck;
    int step = open_arrays(&recheck, argument_count, arguments);
    struct slice_line line;
    int64_t next = 0;
    while (read_line(&recheck, &line)) {
        if (line.begin != next) {
            give_up("slices that do not follow one another", "standard input");
        }
        check_slice(&recheck, &line);
        next = line.end;
    }
    if (next != recheck.count) {
        give_up("slices that do not cover the space", "standard input");
    }
    if (step < argument_count) {
        if (argument_count - step != STEP_WORDS) {
            give_up("--step takes six words", "usage");
        }
        check_step(&recheck, arguments + step + 1);
    }
    printf("recheck: %" PRId64 " wrong\n", recheck.wrong);
    return recheck.wrong == 0 ? 0 : 1;
}
