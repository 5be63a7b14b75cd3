#include "tests/contract/world.h"

#include "tests/contract/processes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

void outcome_fail(struct outcome *outcome, const char *format, ...) {
    if (outcome->failure[0] == '\0') {
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(outcome->failure, sizeof outcome->failure, format, arguments);
        va_end(arguments);
    }
}

void member_push(struct member *member, enum space space, uint64_t bytes) {
    if (member->push != NULL) {
        member->push(member, space, bytes);
    }
}

void member_pull(struct member *member, enum space space, uint64_t bytes) {
    if (member->pull != NULL) {
        member->pull(member, space, bytes);
    }
}

/* ---- ranks as processes ---- */

struct job {
    const struct implementation *implementation;
    const struct layout *layout;
    uint64_t bytes;
    member_body *body;
    void *context;
};

static void run_rank(struct processes *processes, int rank, void *context) {
    static struct member member;
    const struct job *job = context;
    member = (struct member){.rank = rank,
                             .layout = job->layout,
                             .bytes = job->bytes,
                             .outcome = &processes->board->outcomes[rank]};
    layout_groups_of(job->layout, rank, &member.groups);
    job->implementation->run_member(processes, &member, job->body, job->context);
}

static void run_processes(struct job *job, struct outcome *outcomes) {
    struct processes processes;
    int world = job->layout->world;
    processes_start(&processes, world, run_rank, job);
    processes_wait(&processes);
    memcpy(outcomes, processes.board->outcomes, (size_t)world * sizeof *outcomes);
    processes_finish(&processes);
}

void world_run_outcomes(const struct implementation *implementation, const struct layout *layout,
                        uint64_t bytes, member_body *body, void *context,
                        struct outcome *outcomes) {
    struct job job = {implementation, layout, bytes, body, context};
    if (implementation->run_member != NULL) {
        run_processes(&job, outcomes);
    } else {
        implementation->run_threads(layout, bytes, body, context, outcomes);
    }
}

void world_run(const struct implementation *implementation, const struct layout *layout,
               uint64_t bytes, member_body *body, void *context) {
    struct outcome outcomes[WORLD_MAX] = {{0}};
    if (layout->world > implementation->world_most) {
        return;
    }
    world_run_outcomes(implementation, layout, bytes, body, context, outcomes);
    int failures = 0;
    for (int rank = 0; rank < layout->world; rank++) {
        if (!outcomes[rank].ended || outcomes[rank].failure[0] != '\0') {
            print_error("%s, %s, rank %d: %s\n", implementation->name, layout->name, rank,
                        outcomes[rank].failure[0] != '\0' ? outcomes[rank].failure
                                                          : "did not come to its end");
            failures++;
        }
    }
    assert_int_equal(failures, 0);
}
