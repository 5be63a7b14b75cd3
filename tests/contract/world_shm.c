/* Ranks as processes over shared memory. */
#include "tests/contract/processes.h"

#include <string.h>

struct shm_job {
    const struct layout *layout;
    uint64_t bytes;
    member_body *body;
    void *context;
};

static void run_rank(struct processes *processes, int rank, void *context) {
    static struct member member;
    const struct shm_job *job = context;
    member = (struct member){.rank = rank,
                             .layout = job->layout,
                             .bytes = job->bytes,
                             .outcome = &processes->board->outcomes[rank]};
    layout_groups_of(job->layout, rank, &member.groups);
    run_shm_member(processes, &member, job->body, job->context);
}

void world_run_shm(const struct layout *layout, uint64_t bytes, member_body *body, void *context,
                   struct outcome *outcomes) {
    struct processes processes;
    struct shm_job job = {layout, bytes, body, context};
    processes_start(&processes, layout->world, run_rank, &job);
    processes_wait(&processes);
    memcpy(outcomes, processes.board->outcomes, (size_t)layout->world * sizeof *outcomes);
    processes_finish(&processes);
}
