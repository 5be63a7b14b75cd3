/* test_mistakes: thirty one-line mistakes in the state machines, each run in its own process until
 * an assertion or an oracle stops it. Most must be stopped by an assertion, before they do harm. */
#include "tests/sim/world.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MISTAKES = 30, ASSERTED_MIN = 20, SEEDS = 40 };

int planted_mistake; /* 1 .. MISTAKES: a block of mistakes.txt; 0: none */

static int run_seeds(struct world *world) {
    uint64_t seed = 0;
    while (seed < SEEDS && world_run(world, seed, MISTAKE_NONE) && world_run_pair(world, seed)) {
        seed++;
    }
    return seed == SEEDS ? 0 : 1;
}

/* The first line that a process wrote before its end. */
static void read_line(int fd, char *line, size_t capacity) {
    size_t length = 0;
    for (ssize_t count = 1; count > 0 && length < capacity - 1;) {
        count = read(fd, line + length, capacity - 1 - length);
        length += count > 0 ? (size_t)count : 0;
    }
    line[length] = 0;
    for (size_t i = 0; i < length; i++) {
        line[i] = line[i] == '\n' ? 0 : line[i];
    }
}

/* Gives whether an assertion stopped the mistake. */
static int try_mistake(struct world *world, int mistake) {
    int ends[2];
    char line[400];
    if (pipe(ends) != 0) {
        return 0;
    }
    pid_t child = fork();
    if (child == 0) {
        planted_mistake = mistake;
        dup2(ends[1], STDERR_FILENO);
        int is_seen = run_seeds(world);
        dprintf(STDERR_FILENO, "%s\n", is_seen ? world->failure : "no seed shows it");
        _exit(is_seen);
    }
    close(ends[1]);
    read_line(ends[0], line, sizeof(line));
    close(ends[0]);
    int status = 0;
    waitpid(child, &status, 0);
    int is_asserted = WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
    const char *seen = WIFSIGNALED(status) ? "crash" : status == 0 ? "unseen" : "oracle";
    printf("mistake %d: %s: %s\n", mistake, is_asserted ? "assertion" : seen, line);
    fflush(stdout);
    return is_asserted;
}

int main(void) {
    struct world *world = world_new();
    if (run_seeds(world) != 0) {
        printf("without a mistake: %s\n", world->failure);
        return 1;
    }
    int asserted = 0;
    for (int mistake = 1; mistake <= MISTAKES; mistake++) {
        asserted += try_mistake(world, mistake);
    }
    printf("%d of %d mistakes stopped by an assertion, at least %d must be\n", asserted, MISTAKES,
           ASSERTED_MIN);
    world_delete(world);
    return asserted >= ASSERTED_MIN ? 0 : 1;
}
