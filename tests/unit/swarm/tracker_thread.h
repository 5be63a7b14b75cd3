/* tracker_thread: a tracker that runs in a thread, with an allow-list of three voters: the members
 * 1 to 3 of scripted_keys. */
#ifndef SKEP_TESTS_UNIT_SWARM_TRACKER_THREAD_H
#define SKEP_TESTS_UNIT_SWARM_TRACKER_THREAD_H

#include "runtime/swarm/tracker/tracker.h"

#include "runtime/swarm/client/client.h"
#include "scripted_member.h"

#include <pthread.h>

enum { TRACKER_VOTERS = 3, TRACKER_MEMBERS_MIN = 2 };

struct tracker_thread {
    struct key_pairs keys;
    struct tracker_contact contact;
    struct hash manifest, root; /* hash of the manifest, root of the first state */
    struct region region;
    struct tracker_loop *loop;
    char folder[64], roster_path[128], store_path[128];
    int stop_pipe[2];
    pthread_t thread;
};

/* tracker_thread_open: `list` is the head of the allow-list, "members:\n" or "open: true\n".
 * tracker_thread_close: stop it, and remove its files. */
void tracker_thread_open(struct tracker_thread *tracker, const char *list);
void tracker_thread_close(struct tracker_thread *tracker);

#endif
