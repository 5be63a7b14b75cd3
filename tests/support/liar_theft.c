/* liar_theft: a member that requests the whole contribution of another one, to declare it as its
 * own: in the same round, if it arrives while the tracker still accepts declarations, or in a later
 * one. The network thread takes the slices, and the compute thread uses them. */
#include "base/clock.h"
#include "base/log.h"
#include "runtime/swarm/member/slice_store.h"
#include "runtime/swarm/protocol/seats.h"
#include "tests/support/liar.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

WRAPPED(slice_store_compute_values);

enum {
    REQUEST_MS = 20,   /* between requests for missing slices */
    REQUESTS_MAX = 32, /* at once */
    /* How long it waits after its training for the contribution to the same round, at most. */
    WAIT_STEPS = 10,
    WAIT_STEP_NS = 10000000,
};

/* Slices of a contribution. */
struct loot {
    uint32_t round; /* 0: none */
    uint32_t taken; /* number of slices that have arrived */
    uint8_t *bytes; /* [slices.bytes] */
};

static struct {
    pthread_mutex_t lock;
    struct loot loots[2]; /* that of the newest round, and the newest whole one before */
    uint32_t newest;      /* index of the first of these */
    bool *is_taken;       /* [slice_count]: of the newest round */
    uint32_t slice_count; /* 0 until the first slice arrives */
    struct identity victim;
    int64_t requested_ms; /* when slices were requested last */
    bool is_late;         /* the tracker ends the training of the newest round */
} theft = {.lock = PTHREAD_MUTEX_INITIALIZER};

static bool is_chosen(void) {
    return lie_chosen()->takes_contributions;
}

/* ---- network thread ---- */

static bool is_whole(const struct loot *loot) {
    return loot->round > 0 && loot->taken > 0 && loot->taken == theft.slice_count;
}

/* A seat after its own one; others take turns. */
static void begin_round(const struct entry *open, const struct identity *own) {
    uint32_t seat = open->round % open->seat_count;
    if (memcmp(&open->seats[seat].id, own, sizeof *own) == 0) {
        seat = (seat + 1) % open->seat_count;
    }
    theft.victim = open->seats[seat].id;
    theft.newest = is_whole(&theft.loots[theft.newest]) ? 1 - theft.newest : theft.newest;
    theft.loots[theft.newest].round = open->round;
    theft.loots[theft.newest].taken = 0;
    theft.is_late = false;
    if (theft.is_taken != NULL) {
        memset(theft.is_taken, 0, theft.slice_count * sizeof *theft.is_taken);
    }
}

static void request_slices(uint32_t slice_count, const struct identity *own,
                           struct actions *actions) {
    for (uint32_t slice = 0, sent = 0;
         slice < slice_count && sent < REQUESTS_MAX && actions->count < actions->capacity;
         slice++) {
        if (theft.is_taken != NULL && theft.is_taken[slice]) {
            continue;
        }
        struct action *request = actions_add(actions, ACTION_SEND);
        request->to = theft.victim;
        request->message = (struct message){.kind = MESSAGE_FETCH_CONTRIBUTION,
                                            .from = *own,
                                            .round = theft.loots[theft.newest].round,
                                            .slice = slice};
        sent++;
    }
}

/* Whether the tracker waits no longer for training, or for any declaration. */
static bool ends_training(const struct message *message) {
    return message->kind == MESSAGE_TABLE ||
           (message->kind == MESSAGE_POLL && message->poll.ends_training == 1);
}

void liar_theft_on_event(const struct event *event, uint32_t slice_count,
                         const struct identity *own, struct actions *actions) {
    if (!is_chosen()) {
        return;
    }
    pthread_mutex_lock(&theft.lock);
    const bool is_entry = event->kind == EVENT_MESSAGE && event->message->kind == MESSAGE_ENTRY;
    theft.is_late |= event->kind == EVENT_MESSAGE && ends_training(event->message) &&
                     event->message->round == theft.loots[theft.newest].round;
    if (is_entry && event->message->entry->kind == ENTRY_OPEN &&
        event->message->entry->round > theft.loots[theft.newest].round) {
        begin_round(event->message->entry, own);
    }
    if (theft.loots[theft.newest].round > 0 &&
        clock_monotonic_ms() >= theft.requested_ms + REQUEST_MS) {
        theft.requested_ms = clock_monotonic_ms();
        request_slices(slice_count, own, actions);
    }
    pthread_mutex_unlock(&theft.lock);
}

static void *allocate(size_t bytes) {
    void *memory = calloc(1, bytes);
    ASSERT(memory != NULL);
    return memory;
}

static void take(const struct slices *slices, uint32_t slice, const uint8_t *bytes) {
    const struct slice_range range = slices_range(slices, slice);
    struct loot *loot = &theft.loots[theft.newest];
    if (theft.is_taken == NULL) {
        theft.slice_count = slices->count;
        theft.is_taken = allocate(slices->count * sizeof *theft.is_taken);
        theft.loots[0].bytes = allocate(slices->bytes);
        theft.loots[1].bytes = allocate(slices->bytes);
    }
    if (!theft.is_taken[slice]) {
        theft.is_taken[slice] = true;
        loot->taken++;
        memcpy(loot->bytes + range.offset, bytes, range.bytes);
    }
}

void __wrap_slice_store_compute_values(struct slice_store *store, const struct message *message,
                                       struct message_values *values) {
    const struct slices *slices = &store->options->replica->shape.slices;
    __real_slice_store_compute_values(store, message, values);
    if (!is_chosen() || message->kind != MESSAGE_CONTRIBUTION) {
        return;
    }
    pthread_mutex_lock(&theft.lock);
    if (message->round == theft.loots[theft.newest].round &&
        memcmp(&message->from, &theft.victim, sizeof theft.victim) == 0) {
        take(slices, message->slice, store->incoming);
    }
    pthread_mutex_unlock(&theft.lock);
}

/* ---- compute thread ---- */

/* Copies a whole contribution, from slice `first` on. Returns whether there is one. */
static bool copy_loot(struct replica *replica, bool is_of_round, uint32_t first) {
    const struct slices *slices = &replica->shape.slices;
    const uint64_t offset = slices_range(slices, first).offset;
    pthread_mutex_lock(&theft.lock);
    const struct loot *loot = &theft.loots[is_of_round ? theft.newest : 1 - theft.newest];
    const bool has_any = is_whole(loot);
    if (has_any) {
        memcpy(replica->contribution + offset, loot->bytes + offset, slices->bytes - offset);
    }
    pthread_mutex_unlock(&theft.lock);
    return has_any;
}

/* Another member's contribution to an earlier round. The first slice is its own, so that the copy
 * has another root. */
void lie_copy(struct replica *replica) {
    (void)copy_loot(replica, false, replica->shape.slices.count > 1 ? 1 : 0);
}

static uint32_t newest_round(void) {
    pthread_mutex_lock(&theft.lock);
    const uint32_t round = theft.loots[theft.newest].round;
    pthread_mutex_unlock(&theft.lock);
    return round;
}

static bool is_too_late(void) {
    pthread_mutex_lock(&theft.lock);
    const bool is_late = theft.is_late;
    pthread_mutex_unlock(&theft.lock);
    return is_late;
}

/* Another member's contribution to an earlier round; or to the same one, if it comes before the
 * tracker gives up on this member's declaration. */
void lie_late_copy(struct replica *replica) {
    bool has_any = !copy_loot(replica, false, 0);
    const bool can_wait = !has_any;
    for (int step = 0; step < WAIT_STEPS && !has_any && !is_too_late(); step++) {
        nanosleep(&(struct timespec){.tv_nsec = WAIT_STEP_NS}, NULL);
        has_any = copy_loot(replica, true, 0);
    }
    if (can_wait && has_any) {
        log_line(LOG_INFO, "liar: copies the contribution of another member to round %u",
                 newest_round());
    }
}
