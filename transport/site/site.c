/* site: opens and leaves a site, and exchanges data between its ranks. */
#include "transport/site/site.h"

#include "base/text.h"
#include "transport/site/site_state.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

const char SITE_RESTART[] = "restart the run; it resumes from its last snapshot";

void site_close_fd(int *fd) {
    if (*fd >= 0) {
        close(*fd);
        *fd = -1;
    }
}

static enum status set_rank_fault(int rank, enum status status, const char *reason,
                                  struct fault *fault) {
    char subject[32];
    struct text text = text_over(subject, sizeof subject);
    text_add(&text, "rank %d", rank);
    return fault_set(fault, status, subject, SITE_RESTART, "%s", reason);
}

enum status site_set_lost_fault(const struct site_peer *peer, struct fault *fault) {
    char reason[160];
    struct text text = text_over(reason, sizeof reason);
    text_add(&text, "was lost (process %lld on %s ended without a message)",
             (long long)peer->process.pid, peer->process.host_name);
    return set_rank_fault(peer->rank, STATUS_LOST, reason, fault);
}

static void site_init(struct site *site, const struct launch_info *launch, struct region *region) {
    bool alone = launch->world == 1;
    site->launch = *launch;
    site->process.pid = getpid();
    (void)gethostname(site->process.host_name, sizeof site->process.host_name - 1);
    site->outcomes = region_alloc(region, (size_t)launch->world, sizeof *site->outcomes);
    site->peer_count = alone ? 0 : launch->rank == 0 ? launch->world - 1 : 1;
    site->peers = region_alloc(region, (size_t)site->peer_count + 1, sizeof *site->peers);
    site->watch.polls =
        region_alloc(region, (size_t)site->peer_count + 1, sizeof *site->watch.polls);
    site->watch.wake_fd = -1;
    for (int i = 0; i < site->peer_count; i++) {
        site->peers[i].rank = launch->rank == 0 ? i + 1 : 0;
        site->peers[i].exchange_fd = -1;
        site->peers[i].health_fd = -1;
    }
}

static void close_exchanges(struct site *site) {
    for (int i = 0; i < site->peer_count; i++) {
        site_close_fd(&site->peers[i].exchange_fd);
    }
}

enum status site_open(const struct launch_info *launch, struct region *region, struct site **site,
                      struct fault *fault) {
    ASSERT(launch->world >= 1 && launch->world <= RANKS_MAX);
    ASSERT(launch->rank >= 0 && launch->rank < launch->world);
    struct site *opened = region_alloc(region, 1, sizeof *opened);
    site_init(opened, launch, region);
    enum status status = OK;
    if (launch->world > 1) {
        status =
            launch->rank == 0 ? site_accept_ranks(opened, region, fault) : site_join(opened, fault);
    }
    if (status != OK) {
        site_stop_watch(opened, DEPARTURE_LEAVE);
        close_exchanges(opened);
        return status;
    }
    *site = opened;
    return OK;
}

/* Sets the fault of a broken connection, with the lost rank that the heartbeat thread reports.
 * If that thread does not run, the peer counts as lost. */
static enum status set_disconnection_fault(struct site *site, const struct site_peer *peer,
                                           struct fault *fault) {
    if (site->watch.is_running) {
        return site_await_verdict(site, peer, fault);
    }
    return site_set_lost_fault(peer, fault);
}

/* Make every further exchange fail: the connections may contain a part of a message. */
static enum status fail_all_later_exchanges(struct site *site, const struct fault *failure) {
    site->is_broken = true;
    site->failure = *failure;
    for (int i = 0; i < site->peer_count; i++) {
        if (site->peers[i].exchange_fd >= 0) {
            (void)shutdown(site->peers[i].exchange_fd, SHUT_RDWR);
        }
    }
    return failure->status;
}

static bool is_same_exchange(const struct site_exchange_header *part,
                             const struct site_exchange_header *expected) {
    return part->magic == SITE_MAGIC && part->bytes == expected->bytes &&
           part->sequence == expected->sequence;
}

static enum status set_exchange_fault(int rank, int problem, struct fault *fault) {
    static const char *const REASONS[] = {
        [SITE_PEER_LEFT] = "has left, but this exchange needs all ranks",
        [SITE_PEER_LOST] = "was lost",
        [SITE_MISMATCHED] = "started a different exchange than rank 0: it runs a different program",
    };
    bool known = problem > SITE_NO_PROBLEM && problem <= SITE_MISMATCHED;
    enum status status = problem == SITE_PEER_LOST ? STATUS_LOST : STATUS_FAILED;
    return set_rank_fault(rank, status, REASONS[known ? problem : SITE_MISMATCHED], fault);
}

/* Rank 0: receive the data of all ranks into `all`. On failure *culprit is the peer that caused the
 * problem. */
static enum site_problem collect_exchange(struct site *site,
                                          const struct site_exchange_header *expected, uint8_t *all,
                                          struct site_peer **culprit) {
    for (int i = 0; i < site->peer_count; i++) {
        struct site_peer *peer = &site->peers[i];
        struct site_exchange_header part;
        *culprit = peer;
        if (!site_receive(peer->exchange_fd, &part, sizeof part)) {
            return atomic_load(&peer->has_left) ? SITE_PEER_LEFT : SITE_PEER_LOST;
        }
        if (!is_same_exchange(&part, expected)) {
            return SITE_MISMATCHED;
        }
        if (!site_receive(peer->exchange_fd, all + (size_t)peer->rank * expected->bytes,
                          expected->bytes)) {
            return SITE_PEER_LOST;
        }
    }
    return SITE_NO_PROBLEM;
}

static enum status exchange_as_rank_0(struct site *site, struct site_exchange_header *part,
                                      uint8_t *all, struct fault *fault) {
    struct site_peer *culprit = NULL;
    struct fault failure;
    enum status status = OK;
    part->problem = (int32_t)collect_exchange(site, part, all, &culprit);
    if (part->problem == SITE_PEER_LOST) {
        status = set_disconnection_fault(site, culprit, &failure);
        part->problem = status == STATUS_FAILED ? SITE_PEER_LEFT : SITE_PEER_LOST;
    } else if (part->problem != SITE_NO_PROBLEM) {
        status = set_exchange_fault(culprit->rank, part->problem, &failure);
    }
    part->rank = status != OK ? culprit->rank : 0;
    size_t bytes = status == OK ? (size_t)part->bytes * (size_t)site->launch.world : 0;
    for (int i = 0; i < site->peer_count; i++) {
        struct site_peer *peer = &site->peers[i];
        if ((!site_send(peer->exchange_fd, part, sizeof *part, bytes > 0 ? MSG_MORE : 0) ||
             !site_send(peer->exchange_fd, all, bytes, 0)) &&
            status == OK) {
            status = set_disconnection_fault(site, peer, &failure);
            part->problem = status == STATUS_FAILED ? SITE_PEER_LEFT : SITE_PEER_LOST;
            part->rank = peer->rank;
            bytes = 0;
        }
    }
    if (status != OK) {
        *fault = failure;
        return fail_all_later_exchanges(site, &failure);
    }
    return OK;
}

static enum status exchange_via_rank_0(struct site *site, const struct site_exchange_header *part,
                                       const void *mine, uint8_t *all, struct fault *fault) {
    struct site_peer *rank_0 = &site->peers[0];
    struct site_exchange_header answer;
    struct fault failure;
    enum status status = OK;
    /* Ignore a failed send: rank 0 may have already answered that another rank was lost. */
    (void)(site_send(rank_0->exchange_fd, part, sizeof *part, part->bytes > 0 ? MSG_MORE : 0) &&
           site_send(rank_0->exchange_fd, mine, part->bytes, 0));
    if (!site_receive(rank_0->exchange_fd, &answer, sizeof answer)) {
        status = set_disconnection_fault(site, rank_0, &failure);
    } else if (answer.problem != SITE_NO_PROBLEM || !is_same_exchange(&answer, part)) {
        status = set_exchange_fault(answer.rank, answer.problem, &failure);
    } else if (!site_receive(rank_0->exchange_fd, all,
                             (size_t)part->bytes * (size_t)site->launch.world)) {
        status = set_disconnection_fault(site, rank_0, &failure);
    }
    if (status == STATUS_LOST && site->watch.is_running) {
        status = site_await_verdict(site, rank_0, &failure);
    }
    if (status != OK) {
        *fault = failure;
        return fail_all_later_exchanges(site, &failure);
    }
    return OK;
}

enum status site_exchange(struct site *site, const void *mine, size_t bytes, void *all,
                          struct fault *fault) {
    ASSERT(bytes <= SITE_BLOB_BYTES_MAX);
    if (site->is_broken) {
        *fault = site->failure;
        return fault->status;
    }
    struct site_exchange_header part = {
        .magic = SITE_MAGIC, .bytes = (uint32_t)bytes, .sequence = site->exchange_count++};
    if (site->launch.rank != 0) {
        return exchange_via_rank_0(site, &part, mine, all, fault);
    }
    memmove(all, mine, bytes);
    return site->launch.world == 1 ? OK : exchange_as_rank_0(site, &part, all, fault);
}

/* Send the verdict of rank `root` to all ranks, through rank 0. */
static enum status broadcast_verdict(struct site *site, int root, struct site_verdict *verdict,
                                     struct fault *fault) {
    struct site_peer *broken = NULL;
    int rank = site->launch.rank;
    if (rank == 0 && root > 0) {
        struct site_peer *peer = &site->peers[root - 1];
        broken = site_receive(peer->exchange_fd, verdict, sizeof *verdict) ? NULL : peer;
    } else if (rank == root && root > 0) {
        /* If this send fails, receiving the answer of rank 0 fails too. */
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
    struct fault failure;
    (void)set_disconnection_fault(site, broken, &failure);
    *fault = failure;
    return fail_all_later_exchanges(site, &failure);
}

/* The subjects may differ: one rank has "file", the others "rank 2: file". */
static bool is_same_fault(const struct fault *a, const struct fault *b) {
    return a->status == b->status && strcmp(a->reason, b->reason) == 0;
}

/* Set the fault of another rank: subject "rank 2: SUBJECT", with its reason and remedy. */
static enum status set_fault_from_rank(int rank, const struct fault *found, struct fault *fault) {
    char subject[sizeof fault->subject];
    struct text text = text_over(subject, sizeof subject);
    text_add(&text, "rank %d: %s", rank, found->subject);
    return fault_set(fault, found->status, subject, found->remedy, "%s", found->reason);
}

enum status site_agree(struct site *site, enum status mine, struct fault *fault) {
    struct fault own = {.status = mine};
    if (mine != OK) {
        own = *fault;
        own.status = mine;
    }
    int32_t outcome = (int32_t)mine;
    enum status status = site_exchange(site, &outcome, sizeof outcome, site->outcomes, fault);
    int root = 0;
    while (status == OK && root < site->launch.world && site->outcomes[root] == OK) {
        root++;
    }
    if (status != OK || root == site->launch.world || site->launch.world == 1) {
        return status != OK ? status : mine;
    }
    struct site_verdict verdict = site_make_verdict(site->launch.rank, &own);
    status = broadcast_verdict(site, root, &verdict, fault);
    if (status != OK) {
        return status;
    }
    struct fault found;
    site_read_verdict(&verdict, &found);
    if (is_same_fault(&found, &own)) {
        *fault = own;
    } else {
        (void)set_fault_from_rank(root, &found, fault);
    }
    site->agreed_fault = *fault;
    return fault->status;
}

bool site_has_agreed(const struct site *site, const struct fault *fault) {
    return fault->status != OK && is_same_fault(&site->agreed_fault, fault);
}

static void close_site(struct site *site, const char *why) {
    close_exchanges(site);
    site->is_broken = site->launch.world > 1;
    (void)fault_set(&site->failure, STATUS_FAILED, "site", NULL, "%s", why);
}

void site_report_failure(struct site *site, const struct fault *fault) {
    site->watch.failure_sent = *fault;
    site_stop_watch(site, DEPARTURE_FAIL);
    close_site(site, "this rank has failed");
}

void site_leave(struct site *site) {
    if (site != NULL) {
        site_stop_watch(site, DEPARTURE_LEAVE);
        close_site(site, "this rank has left");
    }
}

const struct launch_info *site_launch_info(const struct site *site) {
    return &site->launch;
}
