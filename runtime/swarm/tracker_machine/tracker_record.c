/* tracker_record: the durable record, and the write that makes the next one durable. */
#include "runtime/swarm/tracker_machine/tracker_state.h"

void tracker_load_record(struct tracker *tracker, char **memory,
                         const struct tracker_record *from) {
    struct tracker_record *record = &tracker->record;
    size_t slice_count = tracker->settings.slice_count;
    ASSERT(from->member_count <= SWARM_MEMBERS_MAX && from->commit.slice_count <= slice_count);
    *record = *from;
    record->commit.slices = carve(memory, slice_count * sizeof(struct entry_slice));
    /* Slices of the head are read only if it is a COMMIT, which is then record->commit. */
    record->head.slices = record->commit.slices;
    record->table.slices = carve(memory, slice_count * sizeof(struct slice_plan));
    tracker->writer.spare_plans = carve(memory, slice_count * sizeof(struct slice_plan));
    memcpy(record->commit.slices, from->commit.slices,
           from->commit.slice_count * sizeof(struct entry_slice));
    memcpy(record->table.slices, from->table.slices, slice_count * sizeof(struct slice_plan));
    table_mark_all_new(&record->table, tracker->settings.slice_count);
    if (record->table.version > 0) {
        record->table.reference_norm =
            norms_find_reference(record->table.members, record->head.seat_count,
                                 entry_voting_seats(&record->head), record->head.reference_norm);
    }
}

bool writer_can_write(const struct tracker_writer *writer) {
    return writer->parts == 0 && !writer->is_fenced && !writer->is_backing_off;
}

void writer_clear_backoff(struct tracker_writer *writer) {
    ASSERT(writer->parts == 0 || !writer->is_backing_off);
    writer->is_backing_off = false;
}

/* Copies the record to writer.next, where the caller changes it before it is written. */
void tracker_begin_draft(struct tracker *tracker) {
    ASSERT(writer_can_write(&tracker->writer));
    tracker->writer.next = tracker->record;
    for (uint32_t row = 0; row < tracker->record.member_count; row++) {
        tracker->writer.next.members[row].misses = tracker->strikes[row].misses;
        tracker->writer.next.members[row].opposed = tracker->strikes[row].opposed;
        tracker->writer.next.members[row].share = tracker_slow_share(tracker, row);
        tracker_save_speed(tracker, row, &tracker->writer.next.speeds[row]);
    }
}

void tracker_begin_draft_with_plans(struct tracker *tracker) {
    struct tracker_writer *writer = &tracker->writer;
    tracker_begin_draft(tracker);
    ASSERT(writer->spare_plans != tracker->record.table.slices);
    writer->next.table.slices = writer->spare_plans;
    memcpy(writer->spare_plans, tracker->record.table.slices,
           tracker->settings.slice_count * sizeof *writer->spare_plans);
}

void tracker_draft_session(struct tracker *tracker, uint32_t row, const struct identity *id) {
    tracker_begin_draft(tracker);
    struct tracker_record *next = &tracker->writer.next;
    ASSERT(row < SWARM_MEMBERS_MAX && row <= next->member_count);
    if (memcmp(&next->members[row].id, id, sizeof *id) != 0) { /* the row had another member */
        next->members[row].misses = 0;
        next->members[row].opposed = 0;
        next->members[row].share = 0;
        next->speeds[row] = (struct record_speed){0};
    }
    next->members[row].id = *id;
    next->members[row].session = next->next_session++;
    next->member_count = row == next->member_count ? row + 1 : next->member_count;
    tracker->writer.pending_row = row + 1;
}

void tracker_queue_delegation(struct tracker *tracker, const struct delegation *delegation) {
    ASSERT(delegation->serial > tracker->writer.documents.delegation.serial);
    tracker->writer.documents.delegation = *delegation;
}

void tracker_queue_roster_epoch(struct tracker *tracker, const struct roster_epoch *roster) {
    ASSERT(roster->serial > tracker->writer.documents.roster.serial);
    tracker->writer.documents.roster = *roster;
    tracker_restore_roster_epoch(tracker, roster);
}

/* Adds the operator's documents that wait for an entry of this kind. Every entry that the tracker
 * signs, so all but a COMMIT, can have a delegation; only an OPEN can have a roster epoch. */
static void draft_documents(const struct tracker_writer *writer, struct entry *entry) {
    memset(&entry->documents, 0, sizeof entry->documents);
    if (entry->kind != ENTRY_COMMIT) {
        entry->documents.delegation = writer->documents.delegation;
    }
    if (entry->kind == ENTRY_OPEN) {
        entry->documents.roster = writer->documents.roster;
    }
}

/* Clears the waiting documents that a durable entry has, unless newer ones wait by now. */
static void clear_written_documents(struct tracker_writer *writer,
                                    const struct entry_documents *written) {
    struct entry_documents *waiting = &writer->documents;
    if (written->delegation.serial != 0 &&
        waiting->delegation.serial == written->delegation.serial) {
        memset(&waiting->delegation, 0, sizeof waiting->delegation);
    }
    if (written->roster.serial != 0 && waiting->roster.serial == written->roster.serial) {
        memset(&waiting->roster, 0, sizeof waiting->roster);
    }
}

/* Begins a draft whose head is the next entry, with the fields that every kind of entry has. */
struct entry *tracker_draft_entry(struct tracker *tracker, enum entry_kind kind) {
    ASSERT((tracker->record.head.kind == ENTRY_OPEN) ==
           (kind == ENTRY_COMMIT || kind == ENTRY_ABORT));
    tracker_begin_draft(tracker);
    struct entry *entry = &tracker->writer.next.head;
    entry->kind = kind;
    entry->incarnation = tracker->record.incarnation;
    entry->prev = tracker->record.head.hash;
    entry->commits = tracker->record.head.commits;
    entry->root = tracker->record.commit.root;
    memset(&entry->hash, 0, sizeof entry->hash);
    memset(&entry->manifest, 0, sizeof entry->manifest);
    memset(entry->members, 0, sizeof entry->members);
    memset(entry->signatures, 0, sizeof entry->signatures);
    entry->signature_count = 0;
    entry->slice_count = 0;
    entry->result_count = 0;
    entry->results = (struct hash){{0}};
    entry->chain = (struct hash){{0}};
    entry->train_ms = 0;
    entry->suspension = (struct entry_suspension){0};
    entry->order = (struct rollback_order){0};
    draft_documents(&tracker->writer, entry);
    leases_fill_entry(tracker, entry);
    return entry;
}

/* Asserts that a head follows the previous one: round numbers and commit counts never decrease. */
static void assert_head_follows(const struct entry *next, const struct entry *head) {
    ASSERT(hash_equal(&next->prev, &head->hash));
    ASSERT(next->round == head->round + (next->kind == ENTRY_OPEN));
    ASSERT(next->commits == head->commits + (next->kind == ENTRY_COMMIT));
    ASSERT(next->kind != ENTRY_COMMIT || next->signature_count >= entry_votes_needed(next));
    ASSERT(next->incarnation >= head->incarnation);
    ASSERT(next->seat_count > 0);
}

/* Requests the write of writer.next, in which `parts` of the record have changed. */
void tracker_write_draft(struct tracker *tracker, uint32_t parts, struct actions *actions) {
    struct tracker_writer *writer = &tracker->writer;
    const struct tracker_record *next = &writer->next;
    const struct tracker_record *record = &tracker->record;
    ASSERT(parts != 0 && writer_can_write(writer));
    ASSERT(((parts & RECORD_SESSIONS) != 0) == (writer->pending_row != 0));
    ASSERT(next->next_session == record->next_session + (writer->pending_row != 0));
    if ((parts & RECORD_HEAD) != 0) {
        assert_head_follows(&next->head, &record->head);
    } else if ((parts & RECORD_PLANS) != 0) {
        ASSERT(next->table.round == record->head.round);
        ASSERT(next->table.version == record->table.version + 1);
    }
    writer->parts = parts;
    struct action *action = actions_add(actions, ACTION_WRITE);
    action->record = next;
    action->parts = parts;
    action->entry = (parts & RECORD_HEAD) != 0 ? &next->head : NULL;
}

/* Adds hash and signature to the entry that was appended. A COMMIT or ROLLBACK also becomes the
 * record's field `commit`. */
static void complete_head(struct tracker *tracker, const struct event *event) {
    struct tracker_record *next = &tracker->writer.next;
    clear_written_documents(&tracker->writer, &next->head.documents);
    next->head.hash = event->hash;
    next->chain = event->chain;
    if (next->head.kind != ENTRY_COMMIT) {
        next->head.signature_count = 1;
        next->head.signatures[0].signature = event->signature;
    }
    if (next->head.kind == ENTRY_COMMIT || next->head.kind == ENTRY_ROLLBACK) {
        next->base_root = tracker->record.commit.root;
        next->commit = next->head;
        tracker_add_rollback_state(&tracker->rollback, &next->head);
    }
    if (next->head.kind == ENTRY_ROLLBACK) {
        repeats_clear(&tracker->repeats);
    }
    leases_apply_entry(&tracker->leases, &next->head);
    if (next->head.kind == ENTRY_COMMIT) {
        repeats_add_commit(&tracker->repeats, &tracker->record.table, &next->head);
        proposal_swap_slices(&tracker->proposal, tracker->record.commit.slices);
    }
}

uint32_t tracker_end_write(struct tracker *tracker, const struct event *event) {
    struct tracker_writer *writer = &tracker->writer;
    uint32_t parts = writer->parts;
    uint32_t pending_row = writer->pending_row;
    ASSERT(parts != 0 && !writer->is_backing_off);
    writer->parts = 0;
    writer->pending_row = 0;
    if (event->write_outcome != WRITE_OK) {
        writer->is_fenced = event->write_outcome == WRITE_FENCED;
        writer->is_backing_off = true;
        if (pending_row > 0) {
            tracker_reject_start(tracker, pending_row - 1);
        }
        return 0;
    }
    if ((parts & RECORD_HEAD) != 0) {
        complete_head(tracker, event);
    }
    struct slice_plan *plans = tracker->record.table.slices;
    tracker->record = writer->next;
    writer->spare_plans = tracker->record.table.slices == plans ? writer->spare_plans : plans;
    tracker_map_seats(tracker);
    if (pending_row > 0) {
        tracker_admit_member(tracker, pending_row - 1);
    }
    return parts;
}
