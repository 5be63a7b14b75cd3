/* member: memory, the round's entries, votes, and what each event lets the member do next. */
#include "runtime/swarm/protocol/member_state.h"

#include "base/check.h"

#include <string.h>

enum { DECLARED_AGAIN = 8 /* heartbeats */ };

static size_t aligned(size_t bytes) {
    return (bytes + 63) / 64 * 64;
}

static void *cut(char **memory, size_t count, size_t size) {
    void *start = *memory;
    *memory += aligned(count * size);
    return start;
}

size_t member_bytes(uint32_t slice_count) {
    size_t slices = slice_count;
    return aligned(sizeof(struct member)) + aligned(slices * sizeof(struct hash)) +
           aligned(slices * sizeof(struct slice_plan)) +
           aligned(SWARM_MEMBERS_MAX * slices * sizeof(struct hash)) +
           2 * aligned(slices * sizeof(uint64_t)) + 2 * aligned(slices) +
           aligned(slices * sizeof(struct slice_report)) +
           3 * aligned(slices * sizeof(struct entry_slice));
}

struct member *member_init(void *memory, const struct member_start *start) {
    ASSERT(start->slice_count > 0 && start->slice_count <= SWARM_SLICES_MAX);
    size_t slices = start->slice_count;
    memset(memory, 0, member_bytes(start->slice_count));
    struct member *member = memory;
    char *arrays = (char *)memory + aligned(sizeof(*member));
    member->hashes = cut(&arrays, slices, sizeof(*member->hashes));
    member->table.slices = cut(&arrays, slices, sizeof(*member->table.slices));
    member->table.hashes = cut(&arrays, SWARM_MEMBERS_MAX * slices, sizeof(struct hash));
    member->wanting = cut(&arrays, slices, sizeof(*member->wanting));
    member->holders = cut(&arrays, slices, sizeof(*member->holders));
    member->asked = cut(&arrays, slices, sizeof(*member->asked));
    member->turns = cut(&arrays, slices, sizeof(*member->turns));
    member->reports = cut(&arrays, slices, sizeof(*member->reports));
    member->open.slices = cut(&arrays, slices, sizeof(struct entry_slice));
    member->proposal.slices = cut(&arrays, slices, sizeof(struct entry_slice));
    member->commit.slices = cut(&arrays, slices, sizeof(struct entry_slice));
    member->id = start->id;
    member->number = start->number;
    member->slice_count = start->slice_count;
    member->root = start->root;
    member->durable = start->root;
    member->seat = NO_SEAT;
    member->measured.up_kib_s = TIMING_UNKNOWN;
    member_request_clear(member);
    member->reports_round = start->stored_round;
    if (start->stored_round > 0) {
        memcpy(member->reports, start->stored, slices * sizeof(*member->reports));
    }
    return member;
}

const struct hash *member_root(const struct member *member) {
    return &member->root;
}

void member_set_measured(struct member *member, const struct timing_measured *measured) {
    member->measured = *measured;
}

void member_set_unreachable(struct member *member, const struct identity *ids, uint32_t count) {
    ASSERT(count <= SWARM_MEMBERS_MAX);
    member->cut_count = count;
    for (uint32_t i = 0; i < count; i++) {
        member->cut[i] = ids[i];
    }
    member_request_skip_unreachable(member);
}

uint64_t member_unreachable_seats(const struct member *member, const struct entry *roster) {
    uint64_t seats = 0;
    for (uint32_t i = 0; i < member->cut_count; i++) {
        int seat = member_seat_of(roster, &member->cut[i]);
        seats |= seat == NO_SEAT ? 0 : UINT64_C(1) << seat;
    }
    return seats;
}

struct action *member_add_action(struct actions *actions, enum action_kind kind) {
    ASSERT(actions->count < actions->capacity);
    struct action *action = &actions->rows[actions->count++];
    memset(action, 0, sizeof(*action));
    action->kind = kind;
    return action;
}

void member_send(struct member *member, const struct identity *to, struct message message,
                 struct actions *actions) {
    struct action *action = member_add_action(actions, ACTION_SEND);
    message.session = member->session;
    message.from = member->id;
    action->to_tracker = to == NULL;
    if (to != NULL) {
        action->to = *to;
    }
    action->message = message;
}

struct action *member_start_job(struct member *member, enum action_kind kind,
                                struct actions *actions) {
    ASSERT(member->job == 0);
    member->job = ++member->job_newest;
    member->job_kind = kind;
    member->job_is_void = 0;
    struct action *action = member_add_action(actions, kind);
    action->job = member->job;
    return action;
}

/* An adoption ends at once; whatever else is under way still reads what it was given. */
void member_abandon_job(struct member *member) {
    if (member->job_kind == ACTION_ADOPT) {
        member->job = 0;
    }
    member->job_is_void = 1;
}

const struct entry *member_roster(const struct member *member) {
    const struct entry *wanted = member_target_entry(member);
    return wanted != NULL ? wanted : &member->open;
}

int member_is_self(const struct member *member, const struct identity *id) {
    return memcmp(id, &member->id, sizeof(*id)) == 0;
}

int member_seat_of(const struct entry *roster, const struct identity *id) {
    for (uint32_t seat = 0; seat < roster->seat_count; seat++) {
        if (memcmp(&roster->seats[seat].id, id, sizeof(*id)) == 0) {
            return (int)seat;
        }
    }
    return NO_SEAT;
}

const struct entry *member_target_entry(const struct member *member) {
    return member->has_commit ? &member->commit : member->has_proposal ? &member->proposal : NULL;
}

void member_report(struct member *member, struct actions *actions) {
    struct message message = {
        .kind = MESSAGE_REPORT,
        .number = ++member->report_number,
        .round = member->round,
        .root = member->root,
        .hash = member->durable,
        .version = member->table.version,
        .ask = member->ask,
        .cut = member->round > 0 ? member_unreachable_seats(member, &member->open) : 0,
        .measured = member->measured,
        .reports = member->reports};
    member_send(member, NULL, message, actions);
}

static int owes_declaration(const struct member *member) {
    return member->round > 0 && member->has_trained && member->table.version == 0;
}

/* Again after twice as long each time: it is long. A tracker that needs it sooner asks. */
static void say_declaration(struct member *member, struct actions *actions) {
    member->declared_before = 0;
    struct message message = {.kind = MESSAGE_DECLARE,
                              .round = member->round,
                              .tokens = member->tokens,
                              .hashes = member->hashes};
    member_send(member, NULL, message, actions);
}

static void say_vote(struct member *member, struct actions *actions) {
    struct message message = {.kind = MESSAGE_VOTE,
                              .round = member->round,
                              .number = member->proposal_number,
                              .root = member->vote_root,
                              .hash = member->vote_hash,
                              .signature = member->vote_signature};
    member_send(member, NULL, message, actions);
}

static void tick(struct member *member, struct actions *actions) {
    if (member->session == 0) {
        struct message hello = {.kind = MESSAGE_HELLO, .number = member->number};
        hello.root = member->root;
        member_send(member, NULL, hello, actions);
        return;
    }
    if (member->is_leaving) {
        member_send(member, NULL, (struct message){.kind = MESSAGE_LEAVE}, actions);
    }
    if (owes_declaration(member) && ++member->declared_before >= member->declared_again) {
        member->declared_again += member->declared_again;
        say_declaration(member, actions);
    }
    if (member->has_vote) {
        say_vote(member, actions);
    }
    member_report(member, actions);
    member_request_tick(member);
    member->is_held_back = 0;
}

/* Sessions rise, so an older welcome is one that came late. */
static void take_welcome(struct member *member, const struct message *message) {
    if (message->session <= member->session) {
        return;
    }
    if (member->session > 0) {
        member_end_round(member);
    }
    member->session = message->number == member->number ? message->session : 0;
}

static void hear_tracker(struct member *member, const struct message *message,
                         struct actions *actions) {
    int is_applying = member->job != 0 && member->job_kind == ACTION_APPLY;
    if (message->incarnation < member->incarnation || is_applying) {
        return; /* a tracker of the past; or it says it again when the root stands */
    }
    member->incarnation = message->incarnation;
    if (message->kind == MESSAGE_WELCOME) {
        take_welcome(member, message);
        return;
    }
    if (message->session != member->session) {
        return;
    }
    if (message->kind == MESSAGE_ENTRY) {
        member_handle_entry(member, message, actions);
    } else if (message->kind == MESSAGE_PROPOSE) {
        member_handle_proposal(member, message);
    } else if (message->kind == MESSAGE_TABLE) {
        if (message->round == member->round && message->table->version > member->table.version &&
            !member->has_commit) {
            member_handle_table(member, message->table);
        }
    } else if (message->kind == MESSAGE_GOODBYE) {
        member_add_action(actions, ACTION_LEFT);
    } else if (message->kind == MESSAGE_POLL && message->ask > member->ask) {
        member->ask = message->ask;
        member_report(member, actions);
        if (owes_declaration(member)) {
            say_declaration(member, actions);
        }
    }
}

static void hear(struct member *member, const struct message *message, struct actions *actions) {
    switch (message->kind) {
    case MESSAGE_CONTRIBUTION:
        member_handle_contribution(member, message, actions);
        break;
    case MESSAGE_RESULT:
        member_handle_result(member, message, actions);
        break;
    case MESSAGE_FETCH_CONTRIBUTION:
    case MESSAGE_FETCH_RESULT:
        member_handle_fetch(member, message, actions);
        break;
    default:
        hear_tracker(member, message, actions);
        break;
    }
}

static void take_training(struct member *member, const struct event *event,
                          struct actions *actions) {
    if (event->round != member->round || member->seat == NO_SEAT || member->has_trained) {
        return;
    }
    member->has_trained = 1;
    member->declared_again = DECLARED_AGAIN;
    member->trained_round = member->round;
    member->trained_seat = member->seat;
    member->tokens = event->tokens;
    memcpy(member->hashes, event->hashes, member->slice_count * sizeof(*member->hashes));
    say_declaration(member, actions);
}

static void take_root(struct member *member, const struct event *event, struct actions *actions) {
    const struct entry *entry = member_target_entry(member);
    if (!member->has_commit) {
        member->vote_root = event->root;
        member->vote_hash = event->hash;
        member->vote_signature = event->signature;
        member_start_job(member, ACTION_STORE, actions)->entry = entry;
    } else if (hash_equal(&event->root, &entry->root)) {
        struct action *apply = member_start_job(member, ACTION_APPLY, actions);
        apply->entry = entry;
        apply->seat = member->trained_round == entry->round ? member->trained_seat : NO_SEAT;
    } else {
        member->is_astray = 1;
    }
}

static void take_applied(struct member *member, const struct hash *root, struct actions *actions) {
    member->root = *root;
    member->durable = *root;
    member->committed_round = member->commit.round;
    member->has_commit = 0;
    member_end_round(member);
    member_report(member, actions);
}

static void end_job(struct member *member, const struct event *event, struct actions *actions) {
    if (event->job != member->job || member->job == 0) {
        return; /* of an adoption that no longer matters */
    }
    member->job = 0;
    member->is_held_back = event->written != WRITE_OK;
    if (member->job_is_void) {
        if (event->kind == EVENT_SUMMED) {
            member_sum_dropped(member);
        }
        return;
    }
    if (member->is_held_back) {
        return; /* the disk is full: tried again at the next heartbeat */
    }
    switch (event->kind) {
    case EVENT_SUMMED:
        member_summed(member, &event->hash, actions);
        break;
    case EVENT_ROOT_COMPUTED:
        take_root(member, event, actions);
        break;
    case EVENT_STORED:
        member->has_vote = 1;
        say_vote(member, actions);
        break;
    default:
        ASSERT(event->kind == EVENT_APPLIED);
        take_applied(member, &event->root, actions);
        break;
    }
}

int member_has_all_results(const struct member *member) {
    uint32_t held = 0;
    for (uint32_t s = 0; s < member->slice_count; s++) {
        held += member->reports[s].held;
    }
    return held == member->slice_count;
}

/* While it is adopted, no state stands here. */
static void adopt(struct member *member, struct actions *actions) {
    member_end_round(member);
    memset(&member->root, 0, sizeof(member->root));
    member_start_job(member, ACTION_ADOPT, actions)->entry = &member->commit;
}

static void advance(struct member *member, struct actions *actions) {
    const struct entry *wanted = member_target_entry(member);
    if (member->job != 0 || member->is_held_back) {
        return;
    }
    if (member->has_commit && member->is_astray) {
        adopt(member, actions);
    } else if (wanted != NULL) {
        int is_waiting = !member->has_commit && member->has_vote;
        if (!is_waiting && member_has_all_results(member)) {
            member_start_job(member, ACTION_ROOT, actions)->entry = wanted;
        }
    } else if (member->table.version > 0 && member->seat != NO_SEAT) {
        member_sum_next(member, actions);
    }
}

void member_step(struct member *member, const struct event *event, struct actions *actions) {
    switch (event->kind) {
    case EVENT_TICK:
        tick(member, actions);
        break;
    case EVENT_MESSAGE:
        hear(member, event->message, actions);
        break;
    case EVENT_TRAINED:
        take_training(member, event, actions);
        break;
    case EVENT_LEAVE:
        member->is_leaving = 1;
        break;
    case EVENT_CLOSED:
        member_request_peer_closed(member, &event->peer);
        break;
    default:
        end_job(member, event, actions);
        break;
    }
    advance(member, actions);
    member_request(member, actions);
}
