/* member_exchange: contributions, sums and results of slices, sent, kept, served and fetched. */
#include "runtime/swarm/member_state.h"

#include <string.h>

static int is_zero(const struct hash *hash) {
    static const struct hash zero;
    return hash_equal(hash, &zero);
}

static uint64_t seat_bit(int seat) {
    return seat == NO_SEAT ? 0 : UINT64_C(1) << seat;
}

static int contributes(const struct member *member) {
    return member->seat != NO_SEAT && member->has_trained &&
           (member->table.declared & seat_bit(member->seat)) != 0 &&
           member->table.members[member->seat].weight > 0;
}

static void send_contribution(struct member *member, uint32_t slice, struct actions *actions) {
    const struct slice_plan *plan = &member->table.slices[slice];
    struct message message = {.kind = MESSAGE_CONTRIBUTION,
                              .round = member->round,
                              .slice = slice,
                              .epoch = plan->epoch,
                              .hash = member->hashes[slice]};
    member_say(member, &member->open.seats[plan->owner].id, message, actions);
}

void member_take_table(struct member *member, const struct round_table *table,
                       struct actions *actions) {
    struct round_table *mine = &member->table;
    int is_first = mine->version == 0;
    mine->round = table->round;
    mine->version = table->version;
    mine->declared = table->declared;
    memcpy(mine->members, table->members, sizeof(mine->members));
    memcpy(mine->hashes, table->hashes,
           (size_t)SWARM_MEMBERS_MAX * member->slice_count * sizeof(struct hash));
    member->has_proposal = 0;
    member->has_vote = 0;
    if (member->job_kind != ACTION_APPLY && member->job_kind != ACTION_ADOPT) {
        member->job = 0; /* a sum or a root of what no longer stands */
    }
    for (uint32_t s = 0; s < member->slice_count; s++) {
        struct slice_report *report = &member->reports[s];
        if (is_first || report->epoch != table->slices[s].epoch) {
            *report = (struct slice_report){.epoch = table->slices[s].epoch};
        }
        mine->slices[s] = table->slices[s];
        if (!contributes(member)) {
            continue;
        }
        if ((int)mine->slices[s].owner == member->seat) {
            report->received |= seat_bit(member->seat);
        } else if (member->sent[s] != mine->slices[s].epoch + 1) {
            member->sent[s] = mine->slices[s].epoch + 1;
            send_contribution(member, s, actions);
        }
    }
}

static int seat_of(const struct member *member, const struct identity *id) {
    for (uint32_t seat = 0; seat < member->open.seat_count; seat++) {
        if (memcmp(&member->open.seats[seat].id, id, sizeof(*id)) == 0) {
            return (int)seat;
        }
    }
    return NO_SEAT;
}

void member_take_contribution(struct member *member, const struct message *message,
                              struct actions *actions) {
    if (member->table.version == 0 || message->round != member->round ||
        message->slice >= member->slice_count) {
        return;
    }
    const struct slice_plan *plan = &member->table.slices[message->slice];
    struct slice_report *report = &member->reports[message->slice];
    int seat = seat_of(member, &message->from);
    if (seat == NO_SEAT || (int)plan->owner != member->seat || message->epoch != plan->epoch ||
        report->held || (member->table.declared & seat_bit(seat)) == 0 ||
        member->table.members[seat].weight == 0 || (report->received & seat_bit(seat)) != 0) {
        return;
    }
    const struct hash *declared =
        &member->table.hashes[(size_t)seat * member->slice_count + message->slice];
    if (!hash_equal(&message->hash, declared)) {
        return; /* torn, copied, replayed or unlike what others get */
    }
    report->received |= seat_bit(seat);
    member_act(actions, ACTION_KEEP);
}

void member_take_result(struct member *member, const struct message *message,
                        struct actions *actions) {
    if (message->slice >= member->slice_count || message->round != member->reports_round) {
        return;
    }
    struct slice_report *report = &member->reports[message->slice];
    const struct entry *wanted = member_wanted(member);
    uint64_t contributors = message->contributors;
    if (report->held) {
        return;
    }
    if (wanted != NULL) {
        const struct entry_slice *line = &wanted->slices[message->slice];
        if (!hash_equal(&line->hash, &message->hash)) {
            return;
        }
        contributors = line->contributors;
    } else if (member->table.version == 0 || message->epoch != report->epoch ||
               (int)member->table.slices[message->slice].owner == member->seat) {
        return;
    }
    report->held = 1;
    report->hash = message->hash;
    report->contributors = contributors;
    member_act(actions, ACTION_KEEP);
}

void member_serve(struct member *member, const struct message *message, struct actions *actions) {
    struct message reply = {.round = message->round, .slice = message->slice};
    if (message->kind == MESSAGE_FETCH_STATE) {
        reply.kind = MESSAGE_STATE;
        reply.root = message->root;
        if (hash_equal(&message->root, &member->root)) {
            member_say(member, &message->from, reply, actions);
        }
        return;
    }
    if (message->slice >= member->slice_count) {
        return;
    }
    int is_present = member->table.version > 0 && message->round == member->round;
    if (message->kind == MESSAGE_FETCH_CONTRIBUTION) {
        const struct slice_plan *plan = &member->table.slices[message->slice];
        if (is_present && contributes(member) && plan->epoch == message->epoch &&
            seat_of(member, &message->from) == (int)plan->owner) {
            send_contribution(member, message->slice, actions);
        }
        return;
    }
    const struct slice_report *report = &member->reports[message->slice];
    reply.kind = MESSAGE_RESULT;
    reply.epoch = message->epoch;
    reply.hash = message->hash; /* of any round: sent if its bytes are still kept */
    if (is_zero(&message->hash)) {
        if (!is_present || !report->held || report->epoch != message->epoch) {
            return;
        }
        reply.hash = report->hash;
        reply.contributors = report->contributors;
    }
    member_say(member, &message->from, reply, actions);
}

/* The seat to ask for a result: its owner first, then the others in turn. */
static const struct identity *holder_to_ask(const struct member *member, const struct entry *entry,
                                            uint32_t owner) {
    const struct identity *id = &entry->seats[(owner + member->attempt) % entry->seat_count].id;
    return memcmp(id, &member->id, sizeof(*id)) != 0 ? id : NULL;
}

/* Slices in turn, so that one which nobody has does not keep the others waiting. */
static uint32_t next_slice(struct member *member) {
    uint32_t slice = member->next_fetch;
    member->next_fetch = (slice + 1) % member->slice_count;
    return slice;
}

static void fetch_entry(struct member *member, const struct entry *entry, struct actions *actions) {
    if (member->is_astray && entry == &member->commit) {
        struct message message = {.kind = MESSAGE_FETCH_STATE, .root = entry->root};
        const struct identity *to = holder_to_ask(member, entry, 0);
        if (to != NULL) {
            member_say(member, to, message, actions);
        }
        return;
    }
    for (uint32_t i = 0; i < member->slice_count && actions->count < SWARM_FETCHES_MAX; i++) {
        uint32_t s = next_slice(member);
        const struct entry_slice *line = &entry->slices[s];
        const struct identity *to = holder_to_ask(member, entry, line->owner);
        if (!member->reports[s].held && to != NULL) {
            struct message message = {.kind = MESSAGE_FETCH_RESULT,
                                      .round = entry->round,
                                      .slice = s,
                                      .epoch = line->epoch,
                                      .hash = line->hash};
            member_say(member, to, message, actions);
        }
    }
}

static void fetch_slice(struct member *member, uint32_t slice, struct actions *actions) {
    const struct slice_plan *plan = &member->table.slices[slice];
    const struct slice_report *report = &member->reports[slice];
    struct message message = {.round = member->round, .slice = slice, .epoch = plan->epoch};
    if ((int)plan->owner != member->seat) {
        const struct identity *to = holder_to_ask(member, &member->open, plan->owner);
        message.kind = MESSAGE_FETCH_RESULT;
        if (to != NULL) {
            member_say(member, to, message, actions);
        }
        return;
    }
    message.kind = MESSAGE_FETCH_CONTRIBUTION;
    uint64_t missing = plan->expected & ~report->received;
    for (uint32_t seat = 0; seat < member->open.seat_count; seat++) {
        if ((missing >> seat & 1) != 0) {
            member_say(member, &member->open.seats[seat].id, message, actions);
        }
    }
}

void member_fetch(struct member *member, struct actions *actions) {
    const struct entry *wanted = member_wanted(member);
    member->attempt += 1;
    if (wanted != NULL) {
        fetch_entry(member, wanted, actions);
        return;
    }
    uint32_t looked_at = member->table.version > 0 ? member->slice_count : 0;
    for (uint32_t i = 0; i < looked_at && actions->count < SWARM_FETCHES_MAX; i++) {
        uint32_t s = next_slice(member);
        if (!member->reports[s].held) {
            fetch_slice(member, s, actions);
        }
    }
}

void member_sum_next(struct member *member, struct actions *actions) {
    for (uint32_t s = 0; s < member->slice_count; s++) {
        const struct slice_plan *plan = &member->table.slices[s];
        const struct slice_report *report = &member->reports[s];
        if ((int)plan->owner != member->seat || report->held ||
            (plan->expected & ~report->received) != 0) {
            continue;
        }
        struct action *sum = member_begin(member, ACTION_SUM, actions);
        member->job_slice = s;
        member->job_contributors = report->received;
        sum->round = member->round;
        sum->slice = s;
        sum->epoch = plan->epoch;
        sum->contributors = report->received;
        sum->table = &member->table;
        sum->entry = &member->open;
        return;
    }
}

void member_summed(struct member *member, const struct hash *hash, struct actions *actions) {
    struct slice_report *report = &member->reports[member->job_slice];
    report->held = 1;
    report->hash = *hash;
    report->contributors = member->job_contributors;
    struct message message = {.kind = MESSAGE_RESULT,
                              .round = member->round,
                              .slice = member->job_slice,
                              .epoch = report->epoch,
                              .contributors = report->contributors,
                              .hash = *hash};
    for (uint32_t seat = 0; seat < member->open.seat_count; seat++) {
        if ((int)seat != member->seat) {
            member_say(member, &member->open.seats[seat].id, message, actions);
        }
    }
    member_report(member, actions);
}
