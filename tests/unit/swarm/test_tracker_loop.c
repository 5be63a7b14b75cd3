/* test_tracker_loop: the tracker's process with scripted members: lets in, runs rounds, answers,
 * and loses nothing when it is killed at any of its places. */
#include "runtime/swarm/tracker/tracker.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "runtime/swarm/client/client.h"
#include "runtime/swarm/ledger/ledger.h"
#include "runtime/swarm/ledger/ledger_file.h"
#include "runtime/swarm/tracker/allow_list.h"
#include "runtime/swarm/wire/wire_service.h"
#include "scripted_member.h"
#include "transport/identity/address.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum {
    MEMBERS = 2,
    PATIENCE_MS = 8000,
    PAUSE_MS = 5000,
    ASK_MS = 3000,
    WAIT_MS = 5,
    NO_PLACE = -1
};

static const char MANIFEST[] = "format: 1\nname: scripted\n";
static char program[4096], folder[64], store_path[128], roster_path[128], address[64];
static struct scripted_member members[MEMBERS + 1];
static struct key_pairs tracker_keys;
static struct hash manifest_hash, genesis_root;
static struct fault fault;
static pid_t tracker;
static int stop_pipe[2] = {-1, -1};

static int64_t now_ms(void) {
    return clock_monotonic_ns() / 1000000;
}

/* ---- the tracker's process: this program again ---- */

struct doom {
    const char *place;
    int count;
};

static void die_there(void *context, const char *place) {
    struct doom *doom = context;
    if (strcmp(place, doom->place) == 0 && --doom->count == 0) {
        kill(getpid(), SIGKILL);
    }
}

static int track(char **words) {
    struct region region = {0};
    struct tracker_loop *loop = NULL;
    const char *home = words[0];
    struct doom doom = {.place = words[2], .count = words[3][0] - '0'};
    log_init(0);
    strcpy(folder, home);
    strcpy(address, words[1]);
    struct text text = text_over(store_path, sizeof store_path);
    text_add(&text, "%s/tracker.db", folder);
    text = text_over(roster_path, sizeof roster_path);
    text_add(&text, "%s/roster.yaml", folder);
    scripted_keys(0, &tracker_keys);
    const struct tracker_loop_options options = {
        .keys = &tracker_keys,
        .name = "scripted",
        .listen = address,
        .store_path = store_path,
        .allow_list_path = roster_path,
        .manifest = (const uint8_t *)MANIFEST,
        .manifest_bytes = sizeof MANIFEST - 1,
        .manifest_hash = hash_of(MANIFEST, sizeof MANIFEST - 1),
        .genesis_root = hash_of("root", 4),
        .settings = {.slice_count = SCRIPTED_SLICES,
                     .slice_elements = 10,
                     .parameter_count = 10 * SCRIPTED_SLICES - 3,
                     .seat_samples = 4,
                     .sample_tokens = 4,
                     .members_min = MEMBERS,
                     .shrink_after_ms = 3000,
                     .training = {1, 2},
                     .times = {1, 1, 1, 1, 1}},
        .members_max = 4,
        .queued_frames = 8,
        .stop_fd = STDIN_FILENO,
        .on_crash_point = doom.place[0] == '\0' ? NULL : die_there,
        .crash_point_context = &doom,
    };
    enum status status = tracker_loop_open(&options, &region, &loop, &fault);
    size_t bytes = region.bytes_total;
    if (status == OK) {
        status = tracker_loop_run(loop, &fault);
        tracker_loop_close(loop);
    }
    if (status != OK) {
        fault_print(&fault, STDERR_FILENO);
    }
    bool has_grown = region.bytes_total != bytes;
    region_finish(&region);
    return status != OK || has_grown;
}

/* ---- the test's end ---- */

static void start_tracker(const char *place, int count) {
    char digit[2] = {(char)('0' + count), '\0'};
    char *words[] = {program, "track", folder, address, (char *)place, digit, NULL};
    assert_int_equal(pipe(stop_pipe), 0);
    tracker = fork();
    if (tracker == 0) {
        dup2(stop_pipe[0], STDIN_FILENO);
        close(stop_pipe[0]);
        close(stop_pipe[1]);
        setenv("SKEP_LOG", "error", 1);
        execv(program, words);
        _exit(127);
    }
    close(stop_pipe[0]);
}

static void stop_tracker(void) {
    int ended = -1;
    close(stop_pipe[1]);
    assert_int_equal(waitpid(tracker, &ended, 0), tracker);
    assert_true(WIFEXITED(ended) && WEXITSTATUS(ended) == 0);
}

static int begin(void **state) {
    (void)state;
    strcpy(folder, "/tmp/skep-loop-XXXXXX");
    assert_non_null(mkdtemp(folder));
    struct text text = text_over(store_path, sizeof store_path);
    text_add(&text, "%s/tracker.db", folder);
    text = text_over(roster_path, sizeof roster_path);
    text_add(&text, "%s/roster.yaml", folder);
    text = text_over(address, sizeof address);
    text_add(&text, "tcp://127.0.0.1:%u", local_free_port());
    scripted_keys(0, &tracker_keys);
    manifest_hash = hash_of(MANIFEST, sizeof MANIFEST - 1);
    genesis_root = hash_of("root", 4);
    return 0;
}

static int end(void **state) {
    (void)state;
    char command[128];
    struct text text = text_over(command, sizeof command);
    text_add(&text, "rm -r %s", folder);
    return system(command);
}

static void let_in(int count) {
    for (int i = 1; i <= count; i++) {
        struct key_pairs keys;
        char key[KEYS_TEXT_BYTES];
        scripted_keys((uint8_t)i, &keys);
        public_keys_write(&keys.public_keys, key);
        assert_int_equal(allow_list_add(roster_path, key, NULL, &fault), OK);
    }
}

static void open_members(int count) {
    for (int i = 0; i < count; i++) {
        scripted_open(&members[i], (uint8_t)(i + 1), &tracker_keys.public_keys, address,
                      &manifest_hash, &genesis_root);
    }
}

static void close_members(int count) {
    for (int i = 0; i < count; i++) {
        assert_null(members[i].wrong);
        scripted_close(&members[i]);
    }
}

/* Runs three members until all have the table of a round, in which none has a result. */
static void run_to_idle_round(void) {
    const int64_t until_ms = now_ms() + PATIENCE_MS;
    bool have_all = false;
    for (int i = 0; i <= MEMBERS; i++) {
        members[i].idle_seats = MEMBERS + 1;
    }
    while (!have_all && now_ms() < until_ms) {
        have_all = true;
        for (int i = 0; i <= MEMBERS; i++) {
            scripted_run(&members[i], WAIT_MS);
            have_all &= members[i].has_table && members[i].open.seat_count == MEMBERS + 1;
        }
    }
    assert_true(have_all);
}

/* Runs the members until both have so many commits. */
static void run_to(uint32_t commits) {
    const int64_t until_ms = now_ms() + PATIENCE_MS;
    while (members[0].commits < commits || members[1].commits < commits) {
        for (int i = 0; i < MEMBERS; i++) {
            scripted_run(&members[i], WAIT_MS);
        }
        if (now_ms() >= until_ms) {
            fail_msg("%u and %u of %u commits", members[0].commits, members[1].commits, commits);
        }
    }
}

/* One chain, of which every signature is right, and with at least so many commits. */
static void verify_ledger(uint32_t commits) {
    static struct entry entry;
    static struct entry_slice slices[SCRIPTED_SLICES];
    struct region region = {0};
    struct ledger_store store;
    static struct ledger_chain chain;
    memset(&chain, 0, sizeof chain);
    chain.has_tracker = true;
    memcpy(chain.tracker_key, tracker_keys.public_keys.sign, KEY_BYTES);
    assert_int_equal(ledger_store_open(store_path, &region, &store, &fault), OK);
    for (uint64_t number = 0; number < store.entry_count; number++) {
        assert_int_equal(ledger_store_read(&store, number, slices, SCRIPTED_SLICES, &entry, &fault),
                         OK);
        const char *wrong = ledger_append(&chain, &entry);
        if (wrong != NULL) {
            fail_msg("entry %llu %s", (unsigned long long)number, wrong);
        }
    }
    assert_true(chain.commits >= commits);
    for (int i = 0; i < MEMBERS; i++) {
        assert_true(members[i].commits <= chain.commits);
    }
    ledger_store_close(&store);
    region_finish(&region);
}

static void two_members_are_led_through_rounds(void **state) {
    (void)state;
    let_in(MEMBERS);
    start_tracker("", 0);
    open_members(MEMBERS);
    run_to(3);
    assert_int_equal(members[0].roster_count, MEMBERS);
    assert_int_equal(members[0].timing.heartbeat_ms, 100);
    assert_true(members[0].session > 0 && members[0].session != members[1].session);
    stop_tracker();
    verify_ledger(3);
    close_members(MEMBERS);
}

/* The table changes because a member is lost. One of the others has the table before it, and the
 * other one, to which the tracker sends second, has none. */
static void members_with_different_tables_get_what_each_of_them_lacks(void **state) {
    (void)state;
    let_in(MEMBERS + 1);
    start_tracker("", 0);
    open_members(MEMBERS + 1);
    run_to_idle_round();
    const uint32_t commits = members[0].commits;
    struct scripted_member *second = &members[members[0].session < members[1].session];
    second->version = 0;
    second->version_min = 2;
    members[0].idle_seats = 0;
    members[1].idle_seats = 0;
    scripted_close(&members[MEMBERS]);
    run_to(commits + 1);
    stop_tracker();
    verify_ledger(commits + 1);
    close_members(MEMBERS);
}

static void an_unknown_key_is_told_no_path_and_let_in_once_added(void **state) {
    (void)state;
    char key[KEYS_TEXT_BYTES];
    const int64_t until_ms = now_ms() + PATIENCE_MS;
    let_in(1);
    start_tracker("", 0);
    open_members(MEMBERS);
    public_keys_write(&members[1].keys.public_keys, key);
    while (members[1].reason[0] == '\0' && now_ms() < until_ms) {
        scripted_run(&members[1], WAIT_MS);
    }
    assert_string_equal(members[1].reason, WIRE_NOT_LISTED);
    assert_false(members[1].is_admitted);
    assert_int_equal(allow_list_add(roster_path, key, "late", &fault), OK);
    run_to(1);
    assert_string_equal(members[1].reason, "");
    stop_tracker();
    close_members(MEMBERS);
}

static struct tracker_client *open_asker(uint8_t number, struct region *region,
                                         struct key_pairs *keys, struct tracker_contact *contact) {
    struct tracker_client *asker = NULL;
    scripted_keys(number, keys);
    contact->keys = tracker_keys.public_keys;
    strcpy(contact->address, address);
    assert_int_equal(tracker_client_open(keys, contact, NULL, region, &asker, &fault), OK);
    return asker;
}

static void questions_are_answered_as_far_as_they_may_be(void **state) {
    (void)state;
    const struct tracker_query_args manifest = {
        .request = WIRE_MANIFEST_REQUEST, .first_entry = 0, .timeout_ms = ASK_MS};
    const struct tracker_query_args status = {
        .request = WIRE_STATUS_REQUEST, .first_entry = 0, .timeout_ms = ASK_MS};
    const struct tracker_query_args ledger = {
        .request = WIRE_LEDGER_REQUEST, .first_entry = 1, .timeout_ms = ASK_MS};
    struct tracker_answer answer;
    struct region region = {0};
    struct key_pairs keys[2];
    struct tracker_contact joins[2];
    let_in(1);
    start_tracker("", 0);
    struct tracker_client *guest = open_asker(9, &region, &keys[0], &joins[0]);
    assert_int_equal(tracker_query(guest, &manifest, &answer, &fault), OK);
    assert_int_equal(answer.count, sizeof MANIFEST - 1);
    assert_memory_equal(answer.bytes, MANIFEST, sizeof MANIFEST - 1);
    assert_int_equal(tracker_query(guest, &status, &answer, &fault), STATUS_INPUT);
    assert_non_null(strstr(fault.reason, "allow-list"));
    assert_int_equal(tracker_query(guest, &ledger, &answer, &fault), STATUS_INPUT);
    struct tracker_client *member = open_asker(1, &region, &keys[1], &joins[1]);
    assert_int_equal(tracker_query(member, &status, &answer, &fault), OK);
    assert_non_null(strstr((const char *)answer.bytes, "\"name\": \"scripted\""));
    assert_int_equal(tracker_query(member, &ledger, &answer, &fault), OK);
    struct wire_ledger_page page;
    assert_null(wire_read_ledger_page(answer.bytes, answer.count, &page));
    assert_int_equal(page.first, 1);
    assert_int_equal(page.entry_count, 1);
    assert_int_equal(page.count, 0);
    tracker_client_close(guest);
    tracker_client_close(member);
    stop_tracker();
    region_finish(&region);
}

/* On its own channel the question would end the member's connection. */
static void a_question_of_a_member_s_identity_leaves_the_member_where_it_is(void **state) {
    (void)state;
    const struct tracker_query_args status = {
        .request = WIRE_STATUS_REQUEST, .first_entry = 0, .timeout_ms = ASK_MS};
    struct tracker_answer answer;
    struct region region = {0};
    struct key_pairs keys;
    struct tracker_contact join;
    let_in(MEMBERS);
    start_tracker("", 0);
    open_members(MEMBERS);
    run_to(1);
    uint32_t session = members[0].session;
    struct tracker_client *asker = open_asker(1, &region, &keys, &join);
    assert_int_equal(tracker_query(asker, &status, &answer, &fault), OK);
    run_to(3);
    assert_int_equal(members[0].opened, 1);
    assert_int_equal(members[0].session, session);
    tracker_client_close(asker);
    stop_tracker();
    close_members(MEMBERS);
    region_finish(&region);
}

static void the_last_start_of_an_identity_is_the_member(void **state) {
    (void)state;
    struct scripted_member *later = &members[MEMBERS];
    const int64_t until_ms = now_ms() + PATIENCE_MS;
    let_in(MEMBERS);
    start_tracker("", 0);
    open_members(MEMBERS);
    run_to(1);
    scripted_open(later, 1, &tracker_keys.public_keys, address, &manifest_hash, &genesis_root);
    later->start_number = 77;
    while (!members[0].is_replaced && now_ms() < until_ms) {
        for (int i = 0; i <= MEMBERS; i++) {
            scripted_run(&members[i], WAIT_MS);
        }
    }
    assert_true(members[0].is_replaced);
    assert_false(later->is_replaced);
    scripted_close(&members[0]);
    while (later->commits < members[1].commits + 1 && now_ms() < until_ms) {
        scripted_run(&members[1], WAIT_MS);
        scripted_run(later, WAIT_MS);
    }
    assert_true(later->is_admitted && !later->is_replaced && later->commits > 0);
    stop_tracker();
    scripted_close(&members[1]);
    scripted_close(later);
}

/* Killed at a place, started again, and on: nothing that was committed is lost, the round goes on.
 */
static void kill_at(const char *place, int count, uint32_t *commits) {
    int ended = 0;
    const int64_t until_ms = now_ms() + PATIENCE_MS;
    start_tracker(place, count);
    while (waitpid(tracker, &ended, WNOHANG) == 0) {
        for (int i = 0; i < MEMBERS; i++) {
            scripted_run(&members[i], WAIT_MS);
        }
        if (now_ms() >= until_ms) {
            kill(tracker, SIGKILL);
            fail_msg("\"%s\" was never reached", place);
        }
    }
    assert_true(WIFSIGNALED(ended) && WTERMSIG(ended) == SIGKILL);
    close(stop_pipe[1]);
    uint32_t before =
        members[0].commits > members[1].commits ? members[0].commits : members[1].commits;
    const int64_t started_ms = now_ms();
    start_tracker("", 0);
    run_to(before + 1);
    assert_true(now_ms() - started_ms <= PAUSE_MS);
    stop_tracker();
    verify_ledger(before + 1);
    *commits = before + 1;
}

static void a_tracker_killed_in_a_round_goes_on(void **state) {
    (void)state;
    static const char *const PLACES[] = {"after write open",   "before write table",
                                         "after write table",  "before send propose",
                                         "after write commit", "after send roster"};
    uint32_t commits = 0;
    let_in(MEMBERS);
    open_members(MEMBERS);
    for (size_t i = 0; i < ARRAY_COUNT(PLACES); i++) {
        kill_at(PLACES[i], 1, &commits);
    }
    assert_true(commits >= ARRAY_COUNT(PLACES));
    close_members(MEMBERS);
}

/* Places that a swarm without accidents never comes to. */
static bool is_of_accidents(const char *place) {
    return strstr(place, "abort") != NULL || strstr(place, "ask") != NULL ||
           strstr(place, "goodbye") != NULL;
}

static void a_tracker_killed_at_any_place_goes_on(void **state) {
    (void)state;
    if (getenv("SKEP_LONG") == NULL) {
        skip();
    }
    for (const char *const *place = tracker_crash_points(); *place != NULL; place++) {
        uint32_t commits = 0;
        for (int count = 1; count <= 2 && !is_of_accidents(*place); count++) {
            begin(NULL);
            let_in(MEMBERS);
            open_members(MEMBERS);
            kill_at(*place, count, &commits);
            close_members(MEMBERS);
            end(NULL);
        }
    }
}

int main(int argc, char **argv) {
    if (argc == 6 && strcmp(argv[1], "track") == 0) {
        return track(argv + 2);
    }
    assert_true(readlink("/proc/self/exe", program, sizeof program - 1) > 0);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(two_members_are_led_through_rounds, begin, end),
        cmocka_unit_test_setup_teardown(members_with_different_tables_get_what_each_of_them_lacks,
                                        begin, end),
        cmocka_unit_test_setup_teardown(an_unknown_key_is_told_no_path_and_let_in_once_added, begin,
                                        end),
        cmocka_unit_test_setup_teardown(questions_are_answered_as_far_as_they_may_be, begin, end),
        cmocka_unit_test_setup_teardown(
            a_question_of_a_member_s_identity_leaves_the_member_where_it_is, begin, end),
        cmocka_unit_test_setup_teardown(the_last_start_of_an_identity_is_the_member, begin, end),
        cmocka_unit_test_setup_teardown(a_tracker_killed_in_a_round_goes_on, begin, end),
        cmocka_unit_test(a_tracker_killed_at_any_place_goes_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
