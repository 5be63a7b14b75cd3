#include "transport/site/site.h"

#include "base/text.h"
#include "transport/site/site_state.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

const char SITE_RESTART[] = "restart the run, it goes on from its last snapshot";

void site_close(int *fd) {
    if (*fd >= 0) {
        close(*fd);
        *fd = -1;
    }
}

static enum status fault_about(int rank, enum status status, const char *reason,
                               struct fault *fault) {
    char place[32];
    struct text text = text_over(place, sizeof place);
    text_add(&text, "rank %d", rank);
    return fault_set(fault, status, place, SITE_RESTART, "%s", reason);
}

enum status site_fault_lost(const struct site_peer *peer, struct fault *fault) {
    char reason[160];
    struct text text = text_over(reason, sizeof reason);
    text_add(&text, "is gone (process %lld on %s ended without saying why)",
             (long long)peer->name.pid, peer->name.host);
    return fault_about(peer->rank, STATUS_LOST, reason, fault);
}

static void site_init(struct site *site, const struct launch_info *place, struct region *region) {
    bool alone = place->world == 1;
    site->place = *place;
    site->name.pid = getpid();
    (void)gethostname(site->name.host, sizeof site->name.host - 1);
    site->statuses = region_alloc(region, (size_t)place->world, sizeof *site->statuses);
    site->peer_count = alone ? 0 : place->rank == 0 ? place->world - 1 : 1;
    site->peers = region_alloc(region, (size_t)site->peer_count + 1, sizeof *site->peers);
    site->watch.polls =
        region_alloc(region, (size_t)site->peer_count + 1, sizeof *site->watch.polls);
    site->watch.wake_fd = -1;
    for (int i = 0; i < site->peer_count; i++) {
        site->peers[i].rank = place->rank == 0 ? i + 1 : 0;
        site->peers[i].exchange_fd = -1;
        site->peers[i].health_fd = -1;
    }
}

static void close_exchanges(struct site *site) {
    for (int i = 0; i < site->peer_count; i++) {
        site_close(&site->peers[i].exchange_fd);
    }
}

enum status site_open(const struct launch_info *place, struct region *region, struct site **site,
                      struct fault *fault) {
    ASSERT(place->world >= 1 && place->world <= RANKS_MAX);
    ASSERT(place->rank >= 0 && place->rank < place->world);
    struct site *opened = region_alloc(region, 1, sizeof *opened);
    site_init(opened, place, region);
    enum status status = OK;
    if (place->world > 1) {
        status = place->rank == 0 ? site_gather(opened, region, fault) : site_join(opened, fault);
    }
    if (status != OK) {
        site_end(opened, SITE_LEAVES);
        close_exchanges(opened);
        return status;
    }
    *site = opened;
    return OK;
}

/* A broken connection says that somebody is lost, but the watching knows who and why. */
static enum status explain(struct site *site, const struct site_peer *peer, struct fault *fault) {
    if (site->watch.running) {
        return site_await_verdict(site, peer, fault);
    }
    return site_fault_lost(peer, fault);
}

/* From here on the connections may hold half a message. */
static enum status give_up(struct site *site, const struct fault *trouble) {
    site->broken = true;
    site->trouble = *trouble;
    for (int i = 0; i < site->peer_count; i++) {
        if (site->peers[i].exchange_fd >= 0) {
            (void)shutdown(site->peers[i].exchange_fd, SHUT_RDWR);
        }
    }
    return trouble->status;
}

static bool is_like(const struct wire_progress *part, const struct wire_progress *wanted) {
    return part->magic == WIRE_MAGIC && part->bytes == wanted->bytes &&
           part->sequence == wanted->sequence;
}

static enum status fault_problem(int rank, int problem, struct fault *fault) {
    static const char *const REASONS[] = {
        [WIRE_LEFT] = "has left, this exchange needs all ranks",
        [WIRE_LOST] = "is gone",
        [SITE_MISMATCHED] = "makes another exchange than rank 0: it runs something else",
    };
    bool known = problem > WIRE_NONE && problem <= SITE_MISMATCHED;
    enum status status = problem == WIRE_LOST ? STATUS_LOST : STATUS_FAILED;
    return fault_about(rank, status, REASONS[known ? problem : SITE_MISMATCHED], fault);
}

/* Rank 0: every part into its place of `all`. On failure *culprit is whose part it is. */
static enum site_problem collect(struct site *site, const struct wire_progress *wanted,
                                 uint8_t *all, struct site_peer **culprit) {
    for (int i = 0; i < site->peer_count; i++) {
        struct site_peer *peer = &site->peers[i];
        struct wire_progress part;
        *culprit = peer;
        if (!site_receive(peer->exchange_fd, &part, sizeof part)) {
            return atomic_load(&peer->left) ? WIRE_LEFT : WIRE_LOST;
        }
        if (!is_like(&part, wanted)) {
            return SITE_MISMATCHED;
        }
        if (!site_receive(peer->exchange_fd, all + (size_t)peer->rank * wanted->bytes,
                          wanted->bytes)) {
            return WIRE_LOST;
        }
    }
    return WIRE_NONE;
}

static enum status exchange_at_center(struct site *site, struct wire_progress *part, uint8_t *all,
                                      struct fault *fault) {
    struct site_peer *culprit = NULL;
    struct fault trouble;
    enum status status = OK;
    part->problem = (int32_t)collect(site, part, all, &culprit);
    if (part->problem == WIRE_LOST) {
        status = explain(site, culprit, &trouble);
        part->problem = status == STATUS_FAILED ? WIRE_LEFT : WIRE_LOST;
    } else if (part->problem != WIRE_NONE) {
        status = fault_problem(culprit->rank, part->problem, &trouble);
    }
    part->rank = status != OK ? culprit->rank : 0;
    size_t bytes = status == OK ? (size_t)part->bytes * (size_t)site->place.world : 0;
    for (int i = 0; i < site->peer_count; i++) {
        struct site_peer *peer = &site->peers[i];
        if ((!site_send(peer->exchange_fd, part, sizeof *part, bytes > 0 ? MSG_MORE : 0) ||
             !site_send(peer->exchange_fd, all, bytes, 0)) &&
            status == OK) {
            status = explain(site, peer, &trouble);
            part->problem = status == STATUS_FAILED ? WIRE_LEFT : WIRE_LOST;
            part->rank = peer->rank;
            bytes = 0;
        }
    }
    if (status != OK) {
        *fault = trouble;
        return give_up(site, &trouble);
    }
    return OK;
}

static enum status exchange_with_center(struct site *site, const struct wire_progress *part,
                                        const void *mine, uint8_t *all, struct fault *fault) {
    struct site_peer *rank_0 = &site->peers[0];
    struct wire_progress answer;
    struct fault trouble;
    enum status status = OK;
    /* rank 0 may have answered that another rank is lost before it heard this one */
    (void)(site_send(rank_0->exchange_fd, part, sizeof *part, part->bytes > 0 ? MSG_MORE : 0) &&
           site_send(rank_0->exchange_fd, mine, part->bytes, 0));
    if (!site_receive(rank_0->exchange_fd, &answer, sizeof answer)) {
        status = explain(site, rank_0, &trouble);
    } else if (answer.problem != WIRE_NONE || !is_like(&answer, part)) {
        status = fault_problem(answer.rank, answer.problem, &trouble);
    } else if (!site_receive(rank_0->exchange_fd, all,
                             (size_t)part->bytes * (size_t)site->place.world)) {
        status = explain(site, rank_0, &trouble);
    }
    if (status == STATUS_LOST && site->watch.running) {
        status = site_await_verdict(site, rank_0, &trouble);
    }
    if (status != OK) {
        *fault = trouble;
        return give_up(site, &trouble);
    }
    return OK;
}

enum status site_exchange(struct site *site, const void *mine, size_t bytes, void *all,
                          struct fault *fault) {
    ASSERT(bytes <= SITE_BLOB_BYTES_MAX);
    if (site->broken) {
        *fault = site->trouble;
        return fault->status;
    }
    struct wire_progress part = {
        .magic = WIRE_MAGIC, .bytes = (uint32_t)bytes, .sequence = site->sequence++};
    if (site->place.rank != 0) {
        return exchange_with_center(site, &part, mine, all, fault);
    }
    memmove(all, mine, bytes);
    return site->place.world == 1 ? OK : exchange_at_center(site, &part, all, fault);
}

/* What rank `root` knows, to all. Only when something has failed, so rank 0 may pass it on. */
static enum status spread(struct site *site, int root, struct site_verdict *verdict,
                          struct fault *fault) {
    struct site_peer *broken = NULL;
    int rank = site->place.rank;
    if (rank == 0 && root > 0) {
        struct site_peer *peer = &site->peers[root - 1];
        broken = site_receive(peer->exchange_fd, verdict, sizeof *verdict) ? NULL : peer;
    } else if (rank == root && root > 0) {
        /* rank 0's answer tells whether it has heard this */
        (void)site_send(site->peers[0].exchange_fd, verdict, sizeof *verdict, 0);
    }
    for (int i = 0; rank == 0 && broken == NULL && i < site->peer_count; i++) {
        struct site_peer *peer = &site->peers[i];
        broken = site_send(peer->exchange_fd, verdict, sizeof *verdict, 0) ? NULL : peer;
    }
    if (rank != 0 && !site_receive(site->peers[0].exchange_fd, verdict, sizeof *verdict)) {
        broken = &site->peers[0];
    }
    if (broken == NULL) {
        return OK;
    }
    struct fault trouble;
    (void)explain(site, broken, &trouble);
    *fault = trouble;
    return give_up(site, &trouble);
}

/* Of an agreed fault one rank has "file", the others "rank 2: file". */
static bool says_the_same(const struct fault *a, const struct fault *b) {
    return a->status == b->status && strcmp(a->reason, b->reason) == 0;
}

/* The agreed fault: "rank 2: place", with its reason and remedy. */
static enum status fault_agreed(int rank, const struct fault *found, struct fault *fault) {
    char place[sizeof fault->place];
    struct text text = text_over(place, sizeof place);
    text_add(&text, "rank %d: %s", rank, found->place);
    return fault_set(fault, found->status, place, found->remedy, "%s", found->reason);
}

enum status site_agree(struct site *site, enum status mine, struct fault *fault) {
    struct fault own = {.status = mine};
    if (mine != OK) {
        own = *fault;
        own.status = mine;
    }
    int32_t outcome = (int32_t)mine;
    enum status status = site_exchange(site, &outcome, sizeof outcome, site->statuses, fault);
    int root = 0;
    while (status == OK && root < site->place.world && site->statuses[root] == OK) {
        root++;
    }
    if (status != OK || root == site->place.world || site->place.world == 1) {
        return status != OK ? status : mine;
    }
    struct site_verdict verdict = site_verdict_of(site->place.rank, &own);
    status = spread(site, root, &verdict, fault);
    if (status != OK) {
        return status;
    }
    struct fault found;
    site_fault_of(&verdict, &found);
    if (says_the_same(&found, &own)) {
        *fault = own;
    } else {
        (void)fault_agreed(root, &found, fault);
    }
    site->agreed = *fault;
    return fault->status;
}

bool site_has_agreed(const struct site *site, const struct fault *fault) {
    return fault->status != OK && says_the_same(&site->agreed, fault);
}

static void close_off(struct site *site, const char *why) {
    close_exchanges(site);
    site->broken = site->place.world > 1;
    (void)fault_set(&site->trouble, STATUS_FAILED, "site", NULL, "%s", why);
}

void site_fail(struct site *site, const struct fault *fault) {
    site->watch.last_words = *fault;
    site_end(site, SITE_FAILS);
    close_off(site, "this rank has failed");
}

void site_leave(struct site *site) {
    if (site != NULL) {
        site_end(site, SITE_LEAVES);
        close_off(site, "this rank has left it");
    }
}

const struct launch_info *site_launch_info(const struct site *site) {
    return &site->place;
}
