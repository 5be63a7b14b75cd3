/* connect: a session as one rank of several: what it asks the others, and its arenas among theirs.
 */
#include "runtime/train/session.h"
#include "transport/shm.h"

int session_ranks(const struct session *session) {
    return session->site == NULL ? 1 : site_where(session->site)->world;
}

bool session_leads(const struct session *session) {
    return session->site == NULL || site_where(session->site)->rank == 0;
}

/* A device that failed is this rank's outcome, whatever it was about to agree to. */
enum status session_agree(const struct session *session, enum status mine, struct fault *fault) {
    if (mine == OK && session->bound.program != NULL) {
        mine = program_failure(&session->bound, fault);
    }
    return session->site == NULL ? mine : site_agree(session->site, mine, fault);
}

static enum status agree_of(void *context, enum status mine, struct fault *fault) {
    return session_agree(context, mine, fault);
}

struct checkpoint_site session_checkpoint_site(struct session *session) {
    return (struct checkpoint_site){.rank = session->bound.ranks.of[AXIS_WORLD],
                                    .world = session_ranks(session),
                                    .agree = agree_of,
                                    .context = session};
}

/* This rank's group along each axis: ranks `apart` from each other, from `first` on. */
static void list_groups(const struct rank_indices *ranks, struct region *region,
                        struct collective_group groups[static AXIS_COUNT]) {
    int shard = ranks->size[AXIS_SHARD];
    const int first[AXIS_COUNT] = {ranks->of[AXIS_REPLICATE] * shard, ranks->of[AXIS_SHARD], 0};
    const int apart[AXIS_COUNT] = {1, shard, 1};
    for (int axis = 0; axis < AXIS_COUNT; axis++) {
        int size = ranks->size[axis];
        int *members = region_alloc(region, (size_t)size, sizeof *members);
        for (int i = 0; i < size; i++) {
            members[i] = first[axis] + i * apart[axis];
        }
        groups[axis] =
            (struct collective_group){.ranks = members, .size = size, .index = ranks->of[axis]};
    }
}

static enum status register_arenas(struct session *session, struct fault *fault) {
    const struct bound_program *bound = &session->bound;
    enum status status = OK;
    for (int space = 0; space < SPACE_COUNT && status == OK; space++) {
        if (bound->shared[space]) {
            status =
                shm_register(&session->communicator, (enum space)space, bound->fd[space],
                             bound->base[space], session->program.plan.peak_bytes[space], fault);
        }
    }
    return status;
}

enum status session_connect(struct session *session, struct fault *fault) {
    struct collective_group groups[AXIS_COUNT];
    if (session->site == NULL) {
        return OK;
    }
    list_groups(&session->bound.ranks, &session->region, groups);
    enum status status = shm_open_site(session->site, groups, AXIS_COUNT, &session->region,
                                       &session->communicator, fault);
    if (status == OK) {
        status = register_arenas(session, fault);
    }
    if (status == OK) {
        program_connect(&session->bound, &session->communicator);
    }
    return status;
}
