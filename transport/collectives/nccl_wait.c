/* nccl_wait: waits by polling the stream, NCCL's errors and the abort flag. NCCL's own waits would
 * not end when a rank is lost. */
#include "base/clock.h"
#include "transport/collectives/nccl_state.h"
#include "transport/site/site.h"

#include <poll.h>
#include <time.h>

enum { POLLS_BEFORE_SLEEP = 200 }; /* polls of a wait before nccl_pause begins to sleep */

/* A silent rank is detected at the first heartbeat after SITE_SILENCE_MS. Rank 0 then waits until
 * the other ranks have read the message, and each rank aborts its calls. Half a second is reserved
 * for delayed threads. */
_Static_assert(SITE_SILENCE_MS + SITE_HEARTBEAT_MS + SITE_LAST_MESSAGE_MS + NCCL_ABORT_MS + 500 <=
                   SITE_END_MS,
               "all ranks end within SITE_END_MS");

/* The first polls do not sleep, because short segments end during them. During long ones,
 * polling without sleep would waste a core. */
void nccl_pause(unsigned polls) {
    static const struct timespec SLEEP = {.tv_nsec = 50000};
    if (polls > POLLS_BEFORE_SLEEP) {
        (void)ppoll(NULL, 0, &SLEEP, NULL);
    }
}

static enum status store_failure(struct nccl *nccl, const struct fault *cause) {
    if (!nccl->has_failed) {
        nccl->has_failed = true;
        nccl->failure = *cause;
    }
    return nccl->failure.status;
}

static enum status fail_as_aborted(struct nccl *nccl) {
    struct fault fault;
    (void)fault_set(&fault, STATUS_LOST, "NCCL", NULL,
                    "a rank was lost, so running collectives were aborted");
    return store_failure(nccl, &fault);
}

static enum status fail_as_timeout(struct nccl *nccl, const char *action) {
    struct fault fault;
    (void)fault_set(&fault, STATUS_FAILED, "NCCL",
                    "restart with NCCL_DEBUG=INFO, which logs the connection that NCCL waits for",
                    "cannot %s: no result within %d s", action,
                    (int)(nccl->operation_timeout_ms / 1000));
    return store_failure(nccl, &fault);
}

static enum status set_nccl_fault(struct nccl *nccl, const struct ncclComm *comm, unsigned result,
                                  const char *action) {
    struct fault fault;
    const char *detail = nccl->library.ncclGetLastError((struct ncclComm *)(uintptr_t)comm);
    bool has_detail = detail != NULL && detail[0] != '\0';
    (void)fault_set(&fault, STATUS_FAILED, "NCCL",
                    "restart the run, which resumes from its last snapshot; with NCCL_DEBUG=WARN, "
                    "NCCL logs details",
                    "cannot %s: %s%s%s", action, nccl->library.ncclGetErrorString(result),
                    has_detail ? ": " : "", has_detail ? detail : "");
    return store_failure(nccl, &fault);
}

enum status nccl_await_operation(struct nccl *nccl, struct ncclComm *comm, const char *action) {
    int64_t deadline_ns = clock_monotonic_ns() + nccl->operation_timeout_ms * NS_PER_MS;
    for (unsigned polls = 0;; polls++) {
        unsigned state = NCCL_SUCCESS;
        unsigned result = nccl->library.ncclCommGetAsyncError(comm, &state);
        result = result == NCCL_SUCCESS ? state : result;
        if (result == NCCL_SUCCESS) {
            return OK;
        }
        if (result != NCCL_IN_PROGRESS) {
            return set_nccl_fault(nccl, comm, result, action);
        }
        if (atomic_load(&nccl->is_aborted)) {
            return fail_as_aborted(nccl);
        }
        if (clock_monotonic_ns() > deadline_ns) {
            return fail_as_timeout(nccl, action);
        }
        nccl_pause(polls);
    }
}

enum status nccl_check(struct nccl *nccl, struct ncclComm *comm, unsigned result,
                       const char *action) {
    if (result == NCCL_IN_PROGRESS) {
        return nccl_await_operation(nccl, comm, action);
    }
    return result == NCCL_SUCCESS ? OK : set_nccl_fault(nccl, comm, result, action);
}

static bool has_open_comm(const struct nccl *nccl) {
    bool joined = false;
    for (int i = 0; i < nccl->comm_count; i++) {
        joined = joined || nccl->comms[i].comm != NULL;
    }
    return joined;
}

static bool has_device_failed(const struct nccl *nccl) {
    CUresult result = nccl->args.device->driver.cuStreamQuery(nccl->stream);
    return result != CUDA_SUCCESS && result != CUDA_ERROR_NOT_READY;
}

/* All communicators are aborted together, because each abort waits for the graphs that contain
 * its calls, and these may wait in kernels of a different communicator. If the device has
 * failed, graphs cannot be destroyed and NCCL could wait forever, so the communicators are not
 * aborted and end with the process. */
void nccl_abort_calls(struct nccl *nccl) {
    if (!has_open_comm(nccl)) {
        return;
    }
    bool can_abort = !has_device_failed(nccl);
    if (can_abort) {
        (void)nccl->library.ncclGroupStart();
    }
    for (int i = 0; i < nccl->comm_count; i++) {
        if (can_abort && nccl->comms[i].comm != NULL) {
            (void)nccl->library.ncclCommAbort(nccl->comms[i].comm);
        }
        nccl->comms[i].comm = NULL;
    }
    if (can_abort) {
        (void)nccl->library.ncclGroupEnd();
    }
}

/* Sets a flag, and waits until the thread in nccl_wait has aborted the calls, because only that
 * thread may use NCCL's communicators. */
void nccl_request_abort(void *self) {
    struct nccl *nccl = self;
    int64_t deadline_ns = clock_monotonic_ns() + NCCL_ABORT_MS * NS_PER_MS;
    atomic_store(&nccl->is_aborted, true);
    for (unsigned polls = 0; atomic_load(&nccl->is_waiting) && clock_monotonic_ns() < deadline_ns;
         polls++) {
        nccl_pause(polls);
    }
}

/* Check for errors that NCCL detected asynchronously. */
static enum status check_comms(struct nccl *nccl) {
    for (int i = 0; i < nccl->comm_count && !nccl->has_failed; i++) {
        unsigned state = NCCL_SUCCESS;
        struct ncclComm *comm = nccl->comms[i].comm;
        unsigned result = nccl->library.ncclCommGetAsyncError(comm, &state);
        result = result == NCCL_SUCCESS ? state : result;
        if (result != NCCL_SUCCESS && result != NCCL_IN_PROGRESS) {
            return set_nccl_fault(nccl, comm, result, "finish the collectives of a segment");
        }
    }
    return nccl->has_failed ? nccl->failure.status : OK;
}

/* Wait for the stream after an abort. Kernels that wait for a peer end, and the rest of the graph
 * runs on undefined data. */
static CUresult drain_stream(struct nccl *nccl, CUstream stream) {
    const struct cuda_driver *driver = &nccl->args.device->driver;
    int64_t deadline_ns = clock_monotonic_ns() + NCCL_ABORT_MS * NS_PER_MS;
    CUresult result = driver->cuStreamQuery(stream);
    for (unsigned polls = 0; result == CUDA_ERROR_NOT_READY && clock_monotonic_ns() < deadline_ns;
         polls++) {
        nccl_pause(polls);
        result = driver->cuStreamQuery(stream);
    }
    return result;
}

static enum status await_stream(struct nccl *nccl, CUstream stream, CUresult *result) {
    const struct cuda_driver *driver = &nccl->args.device->driver;
    enum status status = nccl->has_failed ? nccl->failure.status : OK;
    *result = driver->cuStreamQuery(stream);
    for (unsigned polls = 0; *result == CUDA_ERROR_NOT_READY && status == OK; polls++) {
        status = atomic_load(&nccl->is_aborted) ? fail_as_aborted(nccl) : check_comms(nccl);
        if (status == OK) {
            nccl_pause(polls);
            *result = driver->cuStreamQuery(stream);
        }
    }
    return status;
}

enum status nccl_wait(struct communicator *communicator, CUstream stream, CUresult *result,
                      struct fault *fault) {
    struct nccl *nccl = communicator->self;
    atomic_store(&nccl->is_waiting, true);
    enum status status = await_stream(nccl, stream, result);
    if (status != OK) {
        if (nccl->args.release_graphs != NULL) {
            nccl->args.release_graphs(nccl->args.callback_context);
        }
        nccl_abort_calls(nccl);
        *result = drain_stream(nccl, stream);
    }
    atomic_store(&nccl->is_waiting, false);
    return status == OK ? OK : nccl_failure(communicator, fault);
}

enum status nccl_failure(const struct communicator *communicator, struct fault *fault) {
    const struct nccl *nccl = communicator->self;
    if (nccl->has_failed) {
        *fault = nccl->failure;
        return nccl->failure.status;
    }
    return OK;
}
