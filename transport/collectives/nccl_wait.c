/* nccl_wait: nothing is waited for but by looking again and again: at the stream, at NCCL's errors,
 * and whether somebody else said that it is over. */
#include "base/clock.h"
#include "transport/collectives/nccl_state.h"
#include "transport/site/site.h"

#include <poll.h>
#include <time.h>

static const int64_t MS = 1000000;

enum { LOOKS_BEFORE_SLEEP = 200 };

/* A rank that falls silent is noticed at the first beat after SITE_SILENCE_MS; rank 0 then waits
 * for the others to have read it, and each ends what is under way. Half a second is left for
 * threads that run late. */
_Static_assert(SITE_SILENCE_MS + SITE_HEARTBEAT_MS + SITE_LAST_MESSAGE_MS + NCCL_ABORT_MS + 500 <=
                   SITE_END_MS,
               "ranks end in time");

/* Short segments end within the first looks; in long ones a core has better to do. */
void nccl_pause(unsigned looks) {
    static const struct timespec SLEEP = {.tv_nsec = 50000};
    if (looks > LOOKS_BEFORE_SLEEP) {
        (void)ppoll(NULL, 0, &SLEEP, NULL);
    }
}

static enum status fail(struct nccl *nccl, const struct fault *trouble) {
    if (!nccl->failed) {
        nccl->failed = true;
        nccl->trouble = *trouble;
    }
    return nccl->trouble.status;
}

static enum status fail_ended(struct nccl *nccl) {
    struct fault fault;
    (void)fault_set(&fault, STATUS_LOST, "NCCL", NULL, "a rank is lost: what was under way ended");
    return fail(nccl, &fault);
}

static enum status fail_late(struct nccl *nccl, const char *action) {
    struct fault fault;
    (void)fault_set(&fault, STATUS_FAILED, "NCCL",
                    "start again with NCCL_DEBUG=INFO, it tells which link it waits for",
                    "cannot %s: it did not come to an end within %d s", action,
                    (int)(nccl->settle_ms / 1000));
    return fail(nccl, &fault);
}

static enum status fail_result(struct nccl *nccl, const struct ncclComm *comm, unsigned result,
                               const char *action) {
    struct fault fault;
    const char *detail = nccl->library.ncclGetLastError((struct ncclComm *)(uintptr_t)comm);
    bool told = detail != NULL && detail[0] != '\0';
    (void)fault_set(&fault, STATUS_FAILED, "NCCL",
                    "start again, it goes on from the last snapshot; with NCCL_DEBUG=WARN NCCL "
                    "says more",
                    "cannot %s: %s%s%s", action, nccl->library.ncclGetErrorString(result),
                    told ? ": " : "", told ? detail : "");
    return fail(nccl, &fault);
}

enum status nccl_settle(struct nccl *nccl, struct ncclComm *comm, const char *action) {
    int64_t deadline_ns = clock_monotonic_ns() + nccl->settle_ms * MS;
    for (unsigned looks = 0;; looks++) {
        unsigned state = NCCL_SUCCESS;
        unsigned result = nccl->library.ncclCommGetAsyncError(comm, &state);
        result = result == NCCL_SUCCESS ? state : result;
        if (result == NCCL_SUCCESS) {
            return OK;
        }
        if (result != NCCL_IN_PROGRESS) {
            return fail_result(nccl, comm, result, action);
        }
        if (atomic_load(&nccl->ended)) {
            return fail_ended(nccl);
        }
        if (clock_monotonic_ns() > deadline_ns) {
            return fail_late(nccl, action);
        }
        nccl_pause(looks);
    }
}

enum status nccl_check(struct nccl *nccl, struct ncclComm *comm, unsigned result,
                       const char *action) {
    if (result == NCCL_IN_PROGRESS) {
        return nccl_settle(nccl, comm, action);
    }
    return result == NCCL_SUCCESS ? OK : fail_result(nccl, comm, result, action);
}

static bool is_joined(const struct nccl *nccl) {
    bool joined = false;
    for (int i = 0; i < nccl->ring_count; i++) {
        joined = joined || nccl->rings[i].comm != NULL;
    }
    return joined;
}

static bool has_device_failed(const struct nccl *nccl) {
    CUresult result = nccl->device->driver.cuStreamQuery(nccl->stream);
    return result != CUDA_SUCCESS && result != CUDA_ERROR_NOT_READY;
}

/* All at once: each ends after the graphs in which its calls are, and these may wait in another's
 * kernels. Graphs of a device that failed cannot be destroyed, so that NCCL might wait for them for
 * ever: its communicators end with the process. */
void nccl_abandon(struct nccl *nccl) {
    if (!is_joined(nccl)) {
        return;
    }
    bool ends = !has_device_failed(nccl);
    if (ends) {
        (void)nccl->library.ncclGroupStart();
    }
    for (int i = 0; i < nccl->ring_count; i++) {
        if (ends && nccl->rings[i].comm != NULL) {
            (void)nccl->library.ncclCommAbort(nccl->rings[i].comm);
        }
        nccl->rings[i].comm = NULL;
    }
    if (ends) {
        (void)nccl->library.ncclGroupEnd();
    }
}

/* The thread that waits ends what is under way, and no other: NCCL's communicators are its own. */
void nccl_end(void *self) {
    struct nccl *nccl = self;
    int64_t deadline_ns = clock_monotonic_ns() + NCCL_ABORT_MS * MS;
    atomic_store(&nccl->ended, true);
    for (unsigned looks = 0; atomic_load(&nccl->waiting) && clock_monotonic_ns() < deadline_ns;
         looks++) {
        nccl_pause(looks);
    }
}

/* What NCCL noticed by itself. */
static enum status look_at_rings(struct nccl *nccl) {
    for (int i = 0; i < nccl->ring_count && !nccl->failed; i++) {
        unsigned state = NCCL_SUCCESS;
        struct ncclComm *comm = nccl->rings[i].comm;
        unsigned result = nccl->library.ncclCommGetAsyncError(comm, &state);
        result = result == NCCL_SUCCESS ? state : result;
        if (result != NCCL_SUCCESS && result != NCCL_IN_PROGRESS) {
            return fail_result(nccl, comm, result, "finish the collectives of a segment");
        }
    }
    return nccl->failed ? nccl->trouble.status : OK;
}

/* Kernels that wait for a peer see that they are to end; the rest of the graph runs on what is
 * there. */
static CUresult drain(struct nccl *nccl, CUstream stream) {
    const struct cuda_driver *driver = &nccl->device->driver;
    int64_t deadline_ns = clock_monotonic_ns() + NCCL_ABORT_MS * MS;
    CUresult result = driver->cuStreamQuery(stream);
    for (unsigned looks = 0; result == CUDA_ERROR_NOT_READY && clock_monotonic_ns() < deadline_ns;
         looks++) {
        nccl_pause(looks);
        result = driver->cuStreamQuery(stream);
    }
    return result;
}

static enum status watch(struct nccl *nccl, CUstream stream, CUresult *result) {
    const struct cuda_driver *driver = &nccl->device->driver;
    enum status status = nccl->failed ? nccl->trouble.status : OK;
    *result = driver->cuStreamQuery(stream);
    for (unsigned looks = 0; *result == CUDA_ERROR_NOT_READY && status == OK; looks++) {
        status = atomic_load(&nccl->ended) ? fail_ended(nccl) : look_at_rings(nccl);
        if (status == OK) {
            nccl_pause(looks);
            *result = driver->cuStreamQuery(stream);
        }
    }
    return status;
}

enum status nccl_wait(struct communicator *communicator, CUstream stream, CUresult *result,
                      struct fault *fault) {
    struct nccl *nccl = communicator->self;
    atomic_store(&nccl->waiting, true);
    enum status status = watch(nccl, stream, result);
    if (status != OK) {
        if (nccl->forget != NULL) {
            nccl->forget(nccl->program);
        }
        nccl_abandon(nccl);
        *result = drain(nccl, stream);
    }
    atomic_store(&nccl->waiting, false);
    return status == OK ? OK : nccl_failure(communicator, fault);
}

enum status nccl_failure(const struct communicator *communicator, struct fault *fault) {
    const struct nccl *nccl = communicator->self;
    if (nccl->failed) {
        *fault = nccl->trouble;
        return nccl->trouble.status;
    }
    return OK;
}
