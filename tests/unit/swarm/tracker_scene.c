#include "tests/unit/swarm/tracker_scene.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

const struct hash SCENE_ZERO_ROOT = {{1, 9}};
static const struct hash ROOT = {{1}}; /* nothing here changes it */

struct scene scene;
static struct tracker_settings settings;

static void keep_record(const struct action *action, const struct hash *hash) {
    scene.written = *action->record;
    if (action->entry != NULL) {
        scene.written.head.hash = *hash;
    }
    if (action->entry != NULL && action->entry->kind == ENTRY_COMMIT) {
        scene.written.commit = scene.written.head;
    }
}

static void do_action(const struct action *action) {
    if (action->kind == ACTION_WRITE && scene.disk_is_full) {
        scene_take(&(struct event){.kind = EVENT_WRITTEN, .write_outcome = WRITE_FAILED});
        return;
    }
    if (action->kind == ACTION_WRITE) {
        struct event written = {.kind = EVENT_WRITTEN};
        written.hash.bytes[0] = ++scene.entries;
        keep_record(action, &written.hash);
        if (action->entry != NULL && action->entry->kind == ENTRY_SUSPEND) {
            scene.suspension = *action->entry;
        } else if (action->entry != NULL) {
            scene.head = *action->entry;
            scene.head.hash = written.hash;
        }
        scene_take(&written);
        return;
    }
    const struct message *message = &action->message;
    scene.proposal = message->kind == MESSAGE_PROPOSE ? message->number : scene.proposal;
    scene.recheck = message->kind == MESSAGE_PROPOSE ? message->ballot.recheck : scene.recheck;
    scene.poll = message->kind == MESSAGE_POLL ? message->poll.number : scene.poll;
    if (message->kind == MESSAGE_POLL && message->poll.ends_training == 1) {
        scene.told_to_declare |= 1U << (action->to.bytes[0] - 1);
    }
    if (message->kind == MESSAGE_TABLE) {
        scene.bases[action->to.bytes[0] - 1] = message->version;
        scene.table_version = message->table->version;
        memcpy(scene.table, message->table->slices, sizeof(scene.table));
        if (message->table->version == 1) {
            memcpy(scene.plans_first, scene.table, sizeof(scene.table));
        }
    } else if (message->kind == MESSAGE_GOODBYE) {
        scene.goodbyes |= UINT64_C(1) << (action->to.bytes[0] - 1);
    } else if (message->kind == MESSAGE_WELCOME) {
        scene.sessions[action->to.bytes[0] - 1] = message->session;
    }
}

void scene_take(const struct event *event) {
    scene.actions.count = 0;
    tracker_step(scene.tracker, event, scene.now_ms, &scene.actions);
    uint32_t count = scene.actions.count;
    for (uint32_t i = 0; i < count; i++) {
        struct action action = scene.rows[i];
        do_action(&action);
    }
}

void scene_say(uint32_t member, struct message message) {
    message.from.bytes[0] = (uint8_t)(member + 1);
    message.session = message.kind == MESSAGE_HELLO ? 0 : scene.sessions[member];
    scene_take(&(struct event){.kind = EVENT_MESSAGE, .message = &message});
}

void scene_report(uint32_t member, uint32_t round) {
    int is_fetching_state = (scene.adopting >> member & 1) != 0;
    struct message message = {.kind = MESSAGE_REPORT,
                              .number = ++scene.number,
                              .report.parts = REPORT_ALL,
                              .root = is_fetching_state ? (struct hash){{0}} : ROOT,
                              .round = round,
                              .version =
                                  (scene.lost_tables >> member & 1) != 0 ? 0 : scene.table_version,
                              .poll.number = scene.poll,
                              .links = {scene.unreachable[member], scene.awaited_ms[member]},
                              .measured = scene.measured[member],
                              .report.rows = scene.reports[member]};
    memcpy(message.stored, scene.stored[member], sizeof message.stored);
    scene_say(member, message);
}

void scene_declare(uint32_t member, struct training_amount trained, const struct hash *root) {
    scene_say(member, (struct message){.kind = MESSAGE_DECLARE,
                                       .round = scene.head.round,
                                       .trained = trained,
                                       .root = *root,
                                       .hash = scene.head.hash});
}

void scene_beat(uint32_t round, uint32_t silent) {
    scene.now_ms += 100;
    for (uint32_t m = 0; m < MEMBERS; m++) {
        if ((silent >> m & 1) == 0) {
            scene_report(m, round);
        }
    }
    scene_take(&(struct event){.kind = EVENT_TICK});
}

void scene_free(void) {
    free(scene.tracker);
    scene.tracker = NULL;
}

void scene_restart(void) {
    struct tracker *before = scene.tracker;
    scene.written.incarnation += 1;
    scene.tracker = aligned_alloc(64, tracker_memory_bytes(&settings));
    scene.tracker = tracker_init(scene.tracker, &settings, &scene.written, scene.now_ms);
    free(before);
}

void scene_begin(uint32_t commits_max, uint32_t members_min) {
    scene_free();
    memset(&scene, 0, sizeof(scene));
    scene.actions = (struct actions){scene.rows, 0, ACTIONS_MAX};
    scene.record.commit.slices = scene.slices;
    scene.record.table.slices = scene.plans;
    scene.record.next_session = 1;
    scene.record.commit.root = ROOT;
    scene.record.head.root = ROOT;
    settings = (struct tracker_settings){.slice_count = SLICES,
                                         .slice_elements = 100,
                                         .parameter_count = 100 * SLICES - 50,
                                         .seat_samples = TRAINED_SAMPLES,
                                         .sample_tokens = 1,
                                         .zero_root = SCENE_ZERO_ROOT,
                                         .members_min = members_min,
                                         .commits_max = commits_max,
                                         .rollback_after_ms = ROLLBACK_MS,
                                         .training = {30, 2},
                                         .times = {450, 2450, 2450, 450, 0}};
    scene.tracker = aligned_alloc(64, tracker_memory_bytes(&settings));
    scene.tracker = tracker_init(scene.tracker, &settings, &scene.record, 0);
    for (uint32_t m = 0; m < MEMBERS; m++) {
        scene.measured[m].upload_kib_s = TIMING_UNKNOWN;
        scene_say(m, (struct message){.kind = MESSAGE_HELLO, .number = 70 + m});
    }
}

void scene_start_anew(uint32_t member) {
    scene_say(member, (struct message){.kind = MESSAGE_HELLO, .number = ++scene.number + 100});
}

void scene_close(uint32_t member) {
    scene_take(&(struct event){.kind = EVENT_CLOSED, .peer = {{(uint8_t)(member + 1)}}});
}

void scene_open_and_declare(void) {
    uint32_t round = scene.head.round;
    for (int i = 0; i < 50 && (scene.head.kind != ENTRY_OPEN || scene.head.round == round); i++) {
        scene_beat(round, 0);
    }
    assert_int_equal(scene.head.kind, ENTRY_OPEN);
    assert_int_equal(scene.head.seat_count, MEMBERS);
    for (uint32_t m = 0; m < MEMBERS; m++) {
        scene_declare(m, (struct training_amount){8, 8, 0}, &SCENE_ZERO_ROOT);
    }
    scene_beat(scene.head.round, 0);
    assert_true(scene.table_version > 0);
}

void scene_end_round(void) {
    for (int i = 0; i < 1000 && scene.head.kind == ENTRY_OPEN; i++) {
        scene_beat(scene.head.round, 0);
    }
    assert_int_equal(scene.head.kind, ENTRY_ABORT);
}
