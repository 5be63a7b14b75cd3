/* Ranks as threads. */
#include "tests/contract/world.h"
#include "tests/support/inproc.h"

#include <stdlib.h>

struct inproc_rank {
    struct member member;
    struct inproc_hub *hub;
    struct region region;
    member_body *body;
    void *context;
    pthread_t thread;
};

static void *rank_main(void *argument) {
    struct inproc_rank *self = argument;
    struct member *member = &self->member;
    struct inproc_args args = {.hub = self->hub,
                               .rank = member->rank,
                               .groups = member->groups.groups,
                               .group_count = LAYOUT_GROUPS};
    inproc_open_communicator(&args, &self->region, &member->communicator);
    inproc_register(&member->communicator, SPACE_DEVICE, member->memory[SPACE_DEVICE],
                    member->bytes);
    inproc_register(&member->communicator, SPACE_HOST, member->memory[SPACE_HOST], member->bytes);
    self->body(member, self->context);
    communicator_close(&member->communicator);
    member->outcome->ended = true;
    return NULL;
}

void world_run_inproc(const struct layout *layout, uint64_t bytes, member_body *body, void *context,
                      struct outcome *outcomes) {
    static struct inproc_hub hub;
    static struct inproc_rank ranks[WORLD_MAX];
    inproc_hub_init(&hub, layout->world);
    for (int r = 0; r < layout->world; r++) {
        ranks[r] = (struct inproc_rank){.hub = &hub, .body = body, .context = context};
        struct member *member = &ranks[r].member;
        *member =
            (struct member){.rank = r, .layout = layout, .bytes = bytes, .outcome = &outcomes[r]};
        layout_groups_of(layout, r, &member->groups);
        member->memory[SPACE_DEVICE] = calloc(1, bytes);
        member->memory[SPACE_HOST] = calloc(1, bytes);
        int failed = pthread_create(&ranks[r].thread, NULL, rank_main, &ranks[r]);
        ASSERT(failed == 0);
    }
    for (int r = 0; r < layout->world; r++) {
        pthread_join(ranks[r].thread, NULL);
    }
    for (int r = 0; r < layout->world; r++) {
        free(ranks[r].member.memory[SPACE_DEVICE]);
        free(ranks[r].member.memory[SPACE_HOST]);
        region_finish(&ranks[r].region);
    }
    inproc_hub_finish(&hub);
}
