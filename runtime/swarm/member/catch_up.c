#include "runtime/swarm/member/catch_up.h"

size_t catch_up_memory_bytes(uint32_t slice_count) {
    return (size_t)REPLAY_ROUNDS_MAX * slice_count * sizeof(struct entry_slice);
}

void catch_up_init(struct catch_up *catch_up, const struct slices *slices, void *memory) {
    *catch_up = (struct catch_up){.slices = slices};
    struct entry_slice *rows = memory;
    for (uint32_t i = 0; i < REPLAY_ROUNDS_MAX; i++) {
        catch_up->entries[i].slices = rows + (size_t)i * slices->count;
    }
}

static const struct entry *newest_entry(const struct catch_up *catch_up) {
    ASSERT(catch_up->count > 0 && catch_up->count <= REPLAY_ROUNDS_MAX);
    return &catch_up->entries[catch_up->count - 1];
}

void catch_up_add_entry(struct catch_up *catch_up, const struct entry *entry,
                        const struct hash *base, const struct hash *current) {
    ASSERT(entry_sets_state(entry->kind));
    const struct hash *tip = catch_up->count > 0 ? &newest_entry(catch_up)->root : current;
    if (entry->kind != ENTRY_COMMIT || entry->slice_count == 0) {
        catch_up->count = 0; /* a rollback, or a commit without its rows, cannot be replayed */
    } else if (catch_up->count == REPLAY_ROUNDS_MAX) {
        /* the list is full, and without the oldest commit the later ones cannot be applied */
        catch_up->count = 0;
    } else if (catch_up->count == 0 && hash_equal(base, &entry->root)) {
        return; /* the commit does not change the state, so the member has not missed anything */
    } else if (hash_equal(base, tip)) {
        ASSERT(catch_up->count == 0 || entry->round > newest_entry(catch_up)->round);
        catch_up->base = catch_up->count == 0 ? *base : catch_up->base;
        entry_copy(&catch_up->entries[catch_up->count++], entry);
    }
}

/* Whether replaying the missed commits transfers fewer bytes than a state fetch. */
static bool is_replay_smaller(const struct catch_up *catch_up) {
    const struct slices *slices = catch_up->slices;
    return catch_up->count * slices_results_bytes(slices) < replica_state_bytes(slices);
}

static const struct message *message_with_entry(struct catch_up *catch_up, uint32_t index) {
    ASSERT(catch_up->has_message);
    catch_up->message.entry = &catch_up->entries[index];
    catch_up->message.root = index == 0 ? catch_up->base : catch_up->entries[index - 1].root;
    return &catch_up->message;
}

const struct message *catch_up_replace_message(struct catch_up *catch_up,
                                               const struct message *message) {
    if (message->kind != MESSAGE_ENTRY || catch_up->count == 0 ||
        !hash_equal(&message->entry->hash, &newest_entry(catch_up)->hash)) {
        return message;
    }
    catch_up->message = *message;
    catch_up->has_message = true;
    return catch_up->count > 1 && is_replay_smaller(catch_up) ? message_with_entry(catch_up, 0)
                                                              : message;
}

/* Removes the commits up to the one that led to the current root. */
static void drop_applied_commits(struct catch_up *catch_up, const struct hash *current) {
    uint32_t applied = catch_up->count;
    for (uint32_t i = 0; i < catch_up->count; i++) {
        applied = hash_equal(&catch_up->entries[i].root, current) ? i + 1 : applied;
    }
    catch_up->base = *current;
    catch_up->count -= applied;
    for (uint32_t i = 0; i < catch_up->count; i++) {
        entry_copy(&catch_up->entries[i], &catch_up->entries[i + applied]);
    }
}

const struct message *catch_up_on_applied(struct catch_up *catch_up, const struct hash *current) {
    if (catch_up->count == 0 || hash_equal(current, &catch_up->base)) {
        return NULL;
    }
    drop_applied_commits(catch_up, current);
    return catch_up->count > 0 && catch_up->has_message ? message_with_entry(catch_up, 0) : NULL;
}

void catch_up_on_state_fetch(struct catch_up *catch_up, const struct entry *target) {
    uint32_t count = catch_up->count;
    bool has_newer = count > 1 && hash_equal(&target->hash, &catch_up->entries[0].hash);
    catch_up->next =
        has_newer && catch_up->has_message ? message_with_entry(catch_up, count - 1) : NULL;
    catch_up->count = 0; /* the state fetch brings this member to the newest state directly */
}

const struct message *catch_up_next_message(struct catch_up *catch_up) {
    const struct message *next = catch_up->next;
    catch_up->next = NULL;
    return next;
}

bool catch_up_verify_result(const struct catch_up *catch_up, struct message *message,
                            const uint8_t *bytes, size_t byte_count) {
    const struct entry *entry = &catch_up->entries[0];
    if (catch_up->count == 0 || message->kind != MESSAGE_RESULT || message->round != entry->round ||
        message->slice >= entry->slice_count) {
        return false;
    }
    const struct entry_slice *committed = &entry->slices[message->slice];
    struct hash hash = hash_of(bytes, byte_count);
    if (!hash_equal(&hash, &committed->hash)) {
        return false;
    }
    ASSERT(committed->owner < entry->seat_count);
    message->hash = hash;
    message->epoch = committed->epoch;
    message->contributors = committed->contributors;
    message->owner = entry->seats[committed->owner].id;
    return true;
}
