#include "tracker_thread.h"

#include "runtime/swarm/tracker/allow_list.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static const char MANIFEST[] = "format: 1\nname: scripted\n";

static void *run(void *context) {
    struct tracker_thread *tracker = context;
    struct fault fault;
    return tracker_loop_run(tracker->loop, &fault) == OK ? NULL : tracker;
}

static void write_list(const struct tracker_thread *tracker, const char *list) {
    FILE *file = fopen(tracker->roster_path, "w");
    assert_non_null(file);
    fputs(list, file);
    assert_int_equal(fclose(file), 0);
    for (uint8_t i = 1; i <= TRACKER_VOTERS; i++) {
        struct key_pairs keys;
        struct fault fault;
        char key[KEYS_TEXT_BYTES];
        scripted_keys(i, &keys);
        public_keys_write(&keys.public_keys, key);
        assert_int_equal(allow_list_add(tracker->roster_path, key, NULL, &fault), OK);
    }
}

void tracker_thread_open(struct tracker_thread *tracker, const char *list) {
    struct fault fault;
    *tracker = (struct tracker_thread){.folder = "/tmp/skep-tracker-XXXXXX"};
    assert_non_null(mkdtemp(tracker->folder));
    snprintf(tracker->store_path, sizeof tracker->store_path, "%s/tracker.db", tracker->folder);
    snprintf(tracker->roster_path, sizeof tracker->roster_path, "%s/roster.yaml", tracker->folder);
    assert_int_equal(pipe(tracker->stop_pipe), 0);
    scripted_keys(0, &tracker->keys);
    tracker->manifest = hash_of(MANIFEST, sizeof MANIFEST - 1);
    tracker->root = hash_of("root", 4);
    write_list(tracker, list);
    const struct tracker_loop_options options = {
        .keys = &tracker->keys,
        .name = "scripted",
        .listen = "tcp://127.0.0.1:*",
        .store_path = tracker->store_path,
        .allow_list_path = tracker->roster_path,
        .manifest = (const uint8_t *)MANIFEST,
        .manifest_bytes = sizeof MANIFEST - 1,
        .manifest_hash = tracker->manifest,
        .genesis_root = tracker->root,
        .settings = {.slice_count = SCRIPTED_SLICES,
                     .slice_elements = 10,
                     .parameter_count = 10 * SCRIPTED_SLICES - 3,
                     .seat_samples = 4,
                     .sample_tokens = 4,
                     .members_min = TRACKER_MEMBERS_MIN,
                     .shrink_after_ms = 1000,
                     .training = {1, 2},
                     .times = {1, 1, 1, 1, 1}},
        .members_max = 4,
        .queued_frames = 8,
        .stop_fd = tracker->stop_pipe[0],
    };
    assert_int_equal(tracker_loop_open(&options, &tracker->region, &tracker->loop, &fault), OK);
    tracker->contact.keys = tracker->keys.public_keys;
    snprintf(tracker->contact.address, sizeof tracker->contact.address, "tcp://127.0.0.1:%u",
             tracker_loop_port(tracker->loop));
    assert_int_equal(pthread_create(&tracker->thread, NULL, run, tracker), 0);
}

void tracker_thread_close(struct tracker_thread *tracker) {
    char command[128], byte = 0;
    void *failed = NULL;
    assert_int_equal(write(tracker->stop_pipe[1], &byte, 1), 1);
    assert_int_equal(pthread_join(tracker->thread, &failed), 0);
    assert_null(failed);
    tracker_loop_close(tracker->loop);
    region_finish(&tracker->region);
    close(tracker->stop_pipe[0]);
    close(tracker->stop_pipe[1]);
    snprintf(command, sizeof command, "rm -r %s", tracker->folder);
    assert_int_equal(system(command), 0);
}
