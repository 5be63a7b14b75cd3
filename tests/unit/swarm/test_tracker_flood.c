/* test_tracker_flood: as many guest identities as a tracker admits have each been in an open swarm
 * for a moment. The next guest has to wait, and a voter that joins late does not. */
#include "base/clock.h"
#include "runtime/swarm/tracker/allow_list.h"
#include "runtime/swarm/tracker/tracker.h"
#include "runtime/swarm/tracker/tracker_loop_state.h"
#include "scripted_member.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum {
    FIRST_VOTER,
    GUEST,
    LATE_VOTER,
    MEMBERS,
    OPERATOR = 50, /* its key also names a voter that never joins */
    WITHIN_MS = 30000,
    WAIT_MS = 2,
};

static const char MANIFEST[] = "format: 1\nname: flooded\n";

static struct scripted_member members[MEMBERS];
static struct key_pairs tracker_keys, operator_keys;
static struct allow_list_authority authority;
static struct tracker_loop *loop;
static struct region region;
static struct fault fault;
static char folder[64], store_path[128], list_path[128], address[64];
static int stop_pipe[2];
static pthread_t thread;
static bool is_running;

static void name_member(uint8_t number) {
    struct key_pairs keys;
    char key[KEYS_TEXT_BYTES];
    scripted_keys(number, &keys);
    public_keys_write(&keys.public_keys, key);
    assert_int_equal(allow_list_add(list_path, key, NULL, &fault), OK);
}

static void write_list(void) {
    FILE *file = fopen(list_path, "w");
    assert_non_null(file);
    fputs("open: true\n", file);
    assert_int_equal(fclose(file), 0);
    name_member(FIRST_VOTER + 1);
    name_member(LATE_VOTER + 1);
    name_member(OPERATOR);
    assert_int_equal(allow_list_sign_file(list_path, &authority.swarm, &operator_keys, &fault), OK);
}

static int begin(void **state) {
    (void)state;
    strcpy(folder, "/tmp/skep-flood-XXXXXX");
    assert_non_null(mkdtemp(folder));
    snprintf(store_path, sizeof store_path, "%s/tracker.db", folder);
    snprintf(list_path, sizeof list_path, "%s/roster.yaml", folder);
    assert_int_equal(pipe(stop_pipe), 0);
    scripted_keys(0, &tracker_keys);
    scripted_keys(OPERATOR, &operator_keys);
    authority = (struct allow_list_authority){hash_of(MANIFEST, sizeof MANIFEST - 1),
                                              operator_keys.public_keys, "none"};
    write_list();
    return 0;
}

static void open_tracker(void) {
    const struct tracker_loop_options options = {
        .keys = &tracker_keys,
        .name = "flooded",
        .listen = "tcp://127.0.0.1:*",
        .store_path = store_path,
        .allow_list_path = list_path,
        .authority = &authority,
        .manifest = (const uint8_t *)MANIFEST,
        .manifest_bytes = sizeof MANIFEST - 1,
        .manifest_hash = authority.swarm,
        .genesis_root = hash_of("root", 4),
        .settings = {.slice_count = SCRIPTED_SLICES,
                     .slice_elements = 10,
                     .parameter_count = 10 * SCRIPTED_SLICES - 3,
                     .seat_samples = 4,
                     .sample_tokens = 4,
                     .members_min = 2,
                     .shrink_after_ms = 1000,
                     .training = {1, 2},
                     .times = {1, 1, 1, 1, 1}},
        .members_max = MEMBERS,
        .queued_frames = 8,
        .stop_fd = stop_pipe[0],
    };
    assert_int_equal(tracker_loop_open(&options, &region, &loop, &fault), OK);
    snprintf(address, sizeof address, "tcp://127.0.0.1:%u", tracker_loop_port(loop));
}

static void *run(void *context) {
    struct fault ended;
    (void)context;
    return tracker_loop_run(loop, &ended) == OK ? NULL : loop;
}

static int end(void **state) {
    char command[128];
    void *failed = NULL;
    (void)state;
    for (uint32_t i = 0; i < MEMBERS; i++) {
        scripted_close(&members[i]);
    }
    if (is_running) {
        assert_int_equal(write(stop_pipe[1], "", 1), 1);
        assert_int_equal(pthread_join(thread, &failed), 0);
        tracker_loop_close(loop);
    }
    region_finish(&region);
    snprintf(command, sizeof command, "rm -r %s", folder);
    return failed == NULL ? system(command) : -1;
}

static void open_member(uint32_t member) {
    const struct hash root = hash_of("root", 4);
    scripted_open(&members[member], (uint8_t)(member + 1), &tracker_keys.public_keys, address,
                  &authority.swarm, &root);
}

static void run_until(uint32_t count, bool (*is_done)(void)) {
    const int64_t until_ms = clock_monotonic_ms() + WITHIN_MS;
    while (!is_done()) {
        assert_true(clock_monotonic_ms() < until_ms);
        for (uint32_t i = 0; i < count; i++) {
            scripted_run(&members[i], WAIT_MS);
        }
    }
}

static bool first_is_admitted(void) {
    return members[FIRST_VOTER].is_admitted;
}

static bool guest_has_reason(void) {
    return members[GUEST].reason[0] != '\0';
}

static bool voters_have_committed(void) {
    return members[FIRST_VOTER].commits >= 1 && members[LATE_VOTER].commits >= 1;
}

static void a_flood_of_guests_keeps_no_voter_out(void **state) {
    (void)state;
    open_tracker();
    while (serving_permit_guest(&loop->serving_buckets, tracker_now_ms())) {
    }
    assert_int_equal(pthread_create(&thread, NULL, run, NULL), 0);
    is_running = true;
    open_member(FIRST_VOTER);
    run_until(1, first_is_admitted);
    open_member(GUEST);
    run_until(2, guest_has_reason);
    assert_non_null(strstr(members[GUEST].reason, "too many new guests have joined"));
    assert_non_null(strstr(members[GUEST].reason, "ask the operator to add its key"));
    open_member(LATE_VOTER);
    run_until(MEMBERS, voters_have_committed);
    assert_false(members[GUEST].is_admitted);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_flood_of_guests_keeps_no_voter_out, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
