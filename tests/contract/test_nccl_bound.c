/* How long the ends of transport/nccl take, on a clock that moves only while it waits: with ranks
 * that never come, a device that never ends its work and an NCCL that never gets done. */
#include "base/check.h"
#include "transport/collectives/nccl.h"
#include "transport/collectives/nccl_library.h"

#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

static const int64_t MS = 1000000;
static const int64_t NEVER_NS = INT64_MAX;
static const int64_t LOOK_MS = 1; /* more than between two looks */

/* What is out there, and what was asked of it. */
static struct {
    int64_t now_ns;
    int64_t lost_ns;  /* communicator_abort is called at the first look behind it */
    int64_t error_ns; /* NCCL says that the other rank is gone */
    int64_t drain_ns; /* the device ends its work so long after NCCL ended its kernels */
    int64_t aborted_ns;
    int64_t end_ms; /* what communicator_abort took */
    bool leaving;   /* and it never gets done */
    int finalized, destroyed, aborted;
} scene;

static struct communicator communicator;
static struct region region;
static struct fault fault;

int64_t __wrap_clock_monotonic_ns(void);
int __wrap_ppoll(struct pollfd *polls, nfds_t count, const struct timespec *wait,
                 const sigset_t *signals);
MUST_CHECK enum status __wrap_nccl_library_find(struct nccl_library *library, struct fault *told);

int64_t __wrap_clock_monotonic_ns(void) {
    return scene.now_ns;
}

int __wrap_ppoll(struct pollfd *polls, nfds_t count, const struct timespec *wait,
                 const sigset_t *signals) {
    (void)polls, (void)count, (void)signals;
    scene.now_ns += wait->tv_sec * 1000 * MS + wait->tv_nsec;
    return 0;
}

/* ---- NCCL ---- */

static char one_comm; /* its address is all that is used of it */

static unsigned get_version(int *version) {
    *version = NCCL_VERSION_MIN;
    return NCCL_SUCCESS;
}

static unsigned get_id(struct nccl_id *id) {
    memset(id, 0, sizeof *id);
    return NCCL_SUCCESS;
}

static unsigned init_rank(struct ncclComm **comm, int size, struct nccl_id id, int index,
                          struct nccl_config *config) {
    (void)size, (void)id, (void)index, (void)config;
    *comm = (struct ncclComm *)(void *)&one_comm;
    return NCCL_SUCCESS;
}

static unsigned async_error(struct ncclComm *comm, unsigned *error) {
    (void)comm;
    *error = scene.leaving                    ? (unsigned)NCCL_IN_PROGRESS
             : scene.now_ns >= scene.error_ns ? (unsigned)NCCL_REMOTE_ERROR
                                              : (unsigned)NCCL_SUCCESS;
    return NCCL_SUCCESS;
}

static unsigned finalize(struct ncclComm *comm) {
    (void)comm;
    scene.finalized++;
    scene.leaving = true;
    return NCCL_IN_PROGRESS;
}

static unsigned destroy(struct ncclComm *comm) {
    (void)comm;
    scene.destroyed++;
    return NCCL_SUCCESS;
}

static unsigned group(void) {
    return NCCL_SUCCESS;
}

static unsigned end_comm(struct ncclComm *comm) {
    (void)comm;
    scene.aborted++;
    scene.aborted_ns = scene.now_ns;
    return NCCL_SUCCESS;
}

static const char *error_text(unsigned result) {
    (void)result;
    return "an error";
}

static const char *last_error(struct ncclComm *comm) {
    (void)comm;
    return "";
}

enum status __wrap_nccl_library_find(struct nccl_library *library, struct fault *told) {
    (void)told;
    *library = (struct nccl_library){.ncclGetVersion = get_version,
                                     .ncclGetUniqueId = get_id,
                                     .ncclCommInitRankConfig = init_rank,
                                     .ncclCommGetAsyncError = async_error,
                                     .ncclCommFinalize = finalize,
                                     .ncclCommDestroy = destroy,
                                     .ncclCommAbort = end_comm,
                                     .ncclGroupStart = group,
                                     .ncclGroupEnd = group,
                                     .ncclGetErrorString = error_text,
                                     .ncclGetLastError = last_error};
    return OK;
}

/* ---- the device ---- */

static CUresult priorities(int *least, int *greatest) {
    *least = *greatest = 0;
    return CUDA_SUCCESS;
}

static CUresult make_stream(CUstream *stream, unsigned flags, int priority) {
    (void)flags, (void)priority;
    *stream = (CUstream)(void *)&scene;
    return CUDA_SUCCESS;
}

static CUresult destroy_stream(CUstream stream) {
    (void)stream;
    return CUDA_SUCCESS;
}

/* The other thread's call comes from here, while this one is seen to be in a wait: nothing answers
 * it, as when this thread hangs in a library. */
static CUresult query_stream(CUstream stream) {
    (void)stream;
    if (scene.now_ns >= scene.lost_ns) {
        int64_t begin_ns = scene.now_ns;
        scene.lost_ns = NEVER_NS;
        communicator_abort(&communicator);
        scene.end_ms = (scene.now_ns - begin_ns) / MS;
    }
    bool done = scene.aborted > 0 && scene.drain_ns != NEVER_NS &&
                scene.now_ns >= scene.aborted_ns + scene.drain_ns;
    return done ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

static const struct cuda_device DEVICE = {.driver = {.cuCtxGetStreamPriorityRange = priorities,
                                                     .cuStreamCreateWithPriority = make_stream,
                                                     .cuStreamDestroy = destroy_stream,
                                                     .cuStreamQuery = query_stream}};

/* ---- two ranks, of which one is here ---- */

static enum status exchange(void *context, const void *mine, size_t bytes, void *all,
                            struct fault *told) {
    (void)context, (void)told;
    memcpy(all, mine, bytes);
    memcpy((char *)all + bytes, mine, bytes);
    return OK;
}

static int open_pair(void **state) {
    (void)state;
    const struct collective_group group = {.ranks = (int[]){0, 1}, .size = 2, .index = 0};
    const struct nccl_args args = {.rank = 0,
                                   .world = 2,
                                   .groups = &group,
                                   .group_count = 1,
                                   .exchange = exchange,
                                   .device = &DEVICE};
    memset(&scene, 0, sizeof scene);
    scene.now_ns = 1000 * MS;
    scene.lost_ns = scene.error_ns = scene.drain_ns = NEVER_NS;
    return nccl_open(&args, &region, &communicator, &fault) == OK ? 0 : -1;
}

static int close_region(void **state) {
    (void)state;
    region_finish(&region);
    region = (struct region){0};
    return 0;
}

static int64_t wait_ms(enum status *status) {
    CUresult result;
    int64_t begin_ns = scene.now_ns;
    *status = nccl_wait(&communicator, (CUstream)(void *)&scene, &result, &fault);
    return (scene.now_ns - begin_ns) / MS;
}

static void a_wait_ends_when_a_rank_is_lost_and_what_is_under_way_has_ended(void **state) {
    (void)state;
    enum status status;
    scene.lost_ns = scene.now_ns + 10000 * MS;
    scene.drain_ns = 40 * MS;
    int64_t waited_ms = wait_ms(&status);
    assert_int_equal(status, STATUS_LOST);
    assert_int_equal(scene.aborted, 1);
    /* the abort waits for this thread, which does not answer, and no longer than it may */
    assert_true(scene.end_ms >= NCCL_ABORT_MS && scene.end_ms <= NCCL_ABORT_MS + LOOK_MS);
    assert_true(waited_ms >= 10000 + scene.end_ms + 40);
    assert_true(waited_ms <= 10000 + scene.end_ms + 40 + 2 * LOOK_MS);
    communicator_close(&communicator);
    assert_int_equal(scene.finalized, 0);
}

static void a_device_that_never_ends_its_work_is_given_up(void **state) {
    (void)state;
    enum status status;
    scene.lost_ns = scene.now_ns;
    int64_t waited_ms = wait_ms(&status);
    assert_int_equal(status, STATUS_LOST);
    assert_true(waited_ms <= scene.end_ms + NCCL_ABORT_MS + 2 * LOOK_MS);
    communicator_close(&communicator);
    assert_int_equal(scene.finalized, 0);
    assert_int_equal(scene.aborted, 1);
}

static void an_error_that_nccl_notices_ends_the_wait_at_the_next_look(void **state) {
    (void)state;
    enum status status;
    scene.error_ns = scene.now_ns + 300 * MS;
    scene.drain_ns = 0;
    int64_t waited_ms = wait_ms(&status);
    assert_int_equal(status, STATUS_FAILED);
    assert_int_equal(scene.aborted, 1);
    assert_true(waited_ms >= 300 && waited_ms <= 300 + 2 * LOOK_MS);
    communicator_close(&communicator);
    assert_int_equal(scene.finalized, 0);
}

static void leave_is_taken_within_its_time_or_not_at_all(void **state) {
    (void)state;
    int64_t begin_ns = scene.now_ns;
    communicator_close(&communicator);
    int64_t took_ms = (scene.now_ns - begin_ns) / MS;
    assert_int_equal(scene.finalized, 1);
    assert_int_equal(scene.destroyed, 0);
    assert_int_equal(scene.aborted, 1);
    assert_true(took_ms >= NCCL_LEAVE_MS && took_ms <= NCCL_LEAVE_MS + LOOK_MS);
}

static void no_leave_is_taken_once_a_rank_is_lost(void **state) {
    (void)state;
    int64_t begin_ns = scene.now_ns;
    communicator_abort(&communicator);
    communicator_close(&communicator);
    assert_int_equal(scene.now_ns, begin_ns);
    assert_int_equal(scene.finalized, 0);
    assert_int_equal(scene.aborted, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            a_wait_ends_when_a_rank_is_lost_and_what_is_under_way_has_ended, open_pair,
            close_region),
        cmocka_unit_test_setup_teardown(a_device_that_never_ends_its_work_is_given_up, open_pair,
                                        close_region),
        cmocka_unit_test_setup_teardown(an_error_that_nccl_notices_ends_the_wait_at_the_next_look,
                                        open_pair, close_region),
        cmocka_unit_test_setup_teardown(leave_is_taken_within_its_time_or_not_at_all, open_pair,
                                        close_region),
        cmocka_unit_test_setup_teardown(no_leave_is_taken_once_a_rank_is_lost, open_pair,
                                        close_region),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
