/* member_scene: a tracker and three members, each with a replica, a network thread and a compute
 * thread; and a check of the ledger that is independent of the code of members. */
#ifndef SKEP_TESTS_UNIT_SWARM_MEMBER_SCENE_H
#define SKEP_TESTS_UNIT_SWARM_MEMBER_SCENE_H

#include "runtime/swarm/member/mailbox.h"

#include "kernels/cpu/cpu.h"
#include "tests/unit/swarm/replica_fixture.h"
#include "tests/unit/swarm/tiny_tracker.h"

enum { SCENE_SITES = 3, SCENE_SEEN_MAX = 256, SCENE_WAIT_S = 20 };

struct scene;

struct site {
    struct scene *scene;
    uint32_t number;
    struct key_pairs keys;
    struct fixture_replica replica;
    struct pool pool;
    struct kernel_table table;
    struct compute compute;
    struct region region;
    void *tables;
    struct member_loop *loop;
    pthread_t thread;
    bool runs;
    /* Under the scene's lock: */
    bool is_over, has_left;
    struct hash root; /* of its state */
    uint32_t adopted, applied;
    uint32_t seen_count; /* entries of the ledger */
    struct hash seen[SCENE_SEEN_MAX];
};

struct scene {
    struct tiny_tracker tracker;
    struct site sites[SCENE_SITES];
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint32_t contributed[SCENE_SITES]; /* commits that name the site, as site 0 saw them */
};

/* scene_begin, scene_end: set a test up and take it down; the tracker runs, no site does. */
int scene_begin(void **state);
int scene_end(void **state);

/* site_start: join with the state that the site has. site_stop: end at once, as if the process had
 * been killed. scene_stop: stop all sites, and check the ledger entries that they received. */
void site_start(struct site *site);
void site_stop(struct site *site);
void scene_stop(struct scene *scene);

/* Wait at most SCENE_WAIT_S until the site has applied or adopted this many states, contributed to
 * this many further commits, or left. */
void site_wait_applied(struct scene *scene, uint32_t site, uint32_t count);
void site_wait_adopted(struct scene *scene, uint32_t site, uint32_t count);
void site_wait_contributes(struct scene *scene, uint32_t site, uint32_t more);
void site_wait_left(struct scene *scene, uint32_t site);
uint32_t site_applied(struct scene *scene, uint32_t site);

/* What the ledger shows; bit i: site i. */
struct scene_found {
    uint32_t commits;
    uint64_t contributed, contributed_last; /* in any round; in the last one */
    uint64_t stands;                        /* with a state whose root is in the ledger */
};

/* scene_check: compute every committed root again from the contributions.
 * limits  no site runs */
struct scene_found scene_check(struct scene *scene);

#endif
