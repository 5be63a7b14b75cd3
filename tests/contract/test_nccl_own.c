/* Tests of transport/nccl beyond the contract: calls as part of a graph, also on a GPU of this
 * machine; sums by rings and what NCCL refuses, on the emulated device alone. */
#include "kernels/cuda/launch/table.h"
#include "tests/contract/reference.h"
#include "tests/contract/world_nccl.h"
#include "transport/collectives/nccl.h"

#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

enum { BYTES = 1 << 16, ELEMENTS = 1000, LAUNCHES = 5 };

static const struct layout THREE = {"3 shards", 3, 3};

static void plan_nccl(const char *wish) {
    setenv("SKEP_EMULATED_NCCL", wish, 1);
}

static void run_all(member_body *body, void *context) {
    world_run(&IMPLEMENTATIONS[0], &THREE, BYTES, body, context);
}

static struct collective_call sum_of(uint64_t elements) {
    return (struct collective_call){.kind = COLLECTIVE_ALL_REDUCE,
                                    .group = GROUP_WORLD,
                                    .wire = DTYPE_F32,
                                    .slot_bytes = elements * sizeof(float)};
}

static float element_address(const unsigned char *memory, uint64_t index) {
    float value;
    memcpy(&value, memory + index * sizeof value, sizeof value);
    return value;
}

/* Near the exact sum, and, for some elements, not it: else this would not be the rings' order. */
static void check_ring_sum(struct member *member, void *context) {
    (void)context;
    struct model model;
    struct collective_call call = sum_of(ELEMENTS);
    uint64_t used = 3 * call.slot_bytes;
    int other_bits = 0;
    model_init(&model, member->bytes);
    reference_fill(member->memory[SPACE_DEVICE], used, 7, member->rank);
    member_push(member, SPACE_DEVICE, used);
    collective_run(&member->communicator, &call);
    member_pull(member, SPACE_DEVICE, used);
    model_fill(&model, &member->groups.groups[GROUP_WORLD], used, 7);
    model_call(&model, &member->groups.groups[GROUP_WORLD], &call, used);
    for (uint64_t i = 0; i < 3 * ELEMENTS; i++) {
        float found = element_address(member->memory[SPACE_DEVICE], i);
        float exact = element_address(model.after, i);
        double most = 0;
        for (int rank = 0; rank < 3; rank++) {
            most += fabs((double)element_address(model.before[rank], i));
        }
        other_bits += memcmp(&found, &exact, sizeof found) != 0;
        if (fabs((double)found - (double)exact) > 1e-6 * most) {
            outcome_fail(member->outcome, "element %llu is %.9g, the sum %.9g",
                         (unsigned long long)i, (double)found, (double)exact);
        }
    }
    if (other_bits == 0) {
        outcome_fail(member->outcome, "every bit is that of the exact sum");
    }
    model_finish(&model);
}

static void sums_by_rings_are_near_and_of_another_order(void **state) {
    (void)state;
    plan_nccl("");
    world_nccl_in_rings = true;
    run_all(check_ring_sum, NULL);
    world_nccl_in_rings = false;
}

/* The sum as a graph, and a stream to launch it on. */
static CUgraphExec capture_sum(struct member *member, CUstream *stream) {
    const struct cuda_driver *driver = world_nccl_driver();
    struct collective_call call = sum_of(ELEMENTS);
    CUgraph graph;
    CUgraphExec executable;
    CUresult result = driver->cuStreamCreate(stream, CU_STREAM_NON_BLOCKING);
    ASSERT(result == CUDA_SUCCESS);
    result = driver->cuStreamBeginCapture(*stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    ASSERT(result == CUDA_SUCCESS);
    nccl_enqueue(&member->communicator, &call, *stream);
    result = driver->cuStreamEndCapture(*stream, &graph);
    ASSERT(result == CUDA_SUCCESS);
    result = driver->cuGraphInstantiateWithFlags(&executable, graph, 0);
    ASSERT(result == CUDA_SUCCESS);
    (void)driver->cuGraphDestroy(graph);
    return executable;
}

/* A graph of a gather and a sum: each launch sums what the last one left. */
static void check_graph(struct member *member, void *context) {
    (void)context;
    const struct cuda_driver *driver = world_nccl_driver();
    uint64_t used = 3 * sum_of(ELEMENTS).slot_bytes;
    CUstream stream;
    CUresult result;
    for (uint64_t i = 0; i < 3 * ELEMENTS; i++) {
        float one = 1;
        memcpy(member->memory[SPACE_DEVICE] + i * sizeof one, &one, sizeof one);
    }
    member_push(member, SPACE_DEVICE, used);
    CUgraphExec executable = capture_sum(member, &stream);
    for (int i = 0; i < LAUNCHES; i++) {
        struct fault fault;
        result = driver->cuGraphLaunch(executable, stream);
        ASSERT(result == CUDA_SUCCESS);
        enum status status = nccl_wait(&member->communicator, stream, &result, &fault);
        ASSERT(status == OK && result == CUDA_SUCCESS);
    }
    member_pull(member, SPACE_DEVICE, used);
    for (uint64_t i = 0; i < 3 * ELEMENTS; i++) {
        float found = element_address(member->memory[SPACE_DEVICE], i);
        if (found != 243) { /* 3 to the power of LAUNCHES */
            outcome_fail(member->outcome, "element %llu is %g", (unsigned long long)i,
                         (double)found);
        }
    }
    (void)driver->cuGraphExecDestroy(executable);
}

static void a_captured_call_is_made_by_each_launch(void **state) {
    (void)state;
    plan_nccl("");
    run_all(check_graph, NULL);
}

static void *abort_calls(void *communicator) {
    /* Only makes it likely that the graph is under way by now; what must hold, holds either way. */
    nanosleep(&(struct timespec){.tv_nsec = 30000000}, NULL);
    communicator_abort(communicator);
    return NULL;
}

/* Rank 0 launches nothing, so that nobody else's graph can end by itself. */
static void check_lost(struct member *member, void *context) {
    (void)context;
    const struct cuda_driver *driver = world_nccl_driver();
    struct fault fault;
    CUstream stream;
    pthread_t thread;
    CUgraphExec executable = capture_sum(member, &stream);
    if (member->rank == 0) {
        (void)driver->cuGraphExecDestroy(executable);
        return;
    }
    world_nccl_keep(executable);
    CUresult result = driver->cuGraphLaunch(executable, stream);
    ASSERT(result == CUDA_SUCCESS);
    int failed = pthread_create(&thread, NULL, abort_calls, &member->communicator);
    ASSERT(failed == 0);
    enum status status = nccl_wait(&member->communicator, stream, &result, &fault);
    pthread_join(thread, NULL);
    if (status != STATUS_LOST || result != CUDA_SUCCESS) {
        outcome_fail(member->outcome, "status %d, the stream's work %d", (int)status, (int)result);
    }
}

static void a_graph_that_waits_for_a_lost_rank_is_ended(void **state) {
    (void)state;
    plan_nccl("");
    run_all(check_lost, NULL);
}

static void memory_that_is_not_registered_is_copied(void **state) {
    (void)state;
    plan_nccl("refuse_memory");
    run_all(check_graph, NULL);
}

static void a_group_that_joins_slowly_is_waited_for(void **state) {
    (void)state;
    plan_nccl("slow");
    run_all(check_graph, NULL);
}

static void check_error(struct member *member, void *context) {
    (void)context;
    struct fault fault;
    struct collective_call call = sum_of(ELEMENTS);
    for (int i = 0; i < 3; i++) {
        collective_run(&member->communicator, &call);
    }
    if (nccl_failure(&member->communicator, &fault) != STATUS_FAILED ||
        strstr(fault.reason, "remote process exited") == NULL ||
        strstr(fault.reason, "injected: a link broke") == NULL) {
        outcome_fail(member->outcome, "not told: %s", fault.reason);
    }
}

static void an_error_of_a_link_ends_the_wait_in_its_own_words(void **state) {
    (void)state;
    plan_nccl("error_at=3");
    run_all(check_error, NULL);
}

/* Ranks that somebody told of a loss, rank 0 not yet: it takes leave, of nobody. */
static void end_but_for_rank_0(struct member *member, void *context) {
    (void)context;
    struct collective_call call = sum_of(ELEMENTS);
    collective_run(&member->communicator, &call);
    if (member->rank != 0) {
        communicator_abort(&member->communicator);
    }
}

static void a_rank_takes_leave_of_ranks_that_are_gone_for_a_while_only(void **state) {
    (void)state;
    plan_nccl("");
    run_all(end_but_for_rank_0, NULL);
}

static void end_all(struct member *member, void *context) {
    (void)context;
    struct collective_call call = sum_of(ELEMENTS);
    collective_run(&member->communicator, &call);
    communicator_abort(&member->communicator);
}

/* It would never come back from it. */
static void no_leave_is_taken_after_an_abort(void **state) {
    (void)state;
    plan_nccl("finalize_waits");
    run_all(end_all, NULL);
}

static void never_runs(struct member *member, void *context) {
    (void)context;
    outcome_fail(member->outcome, "opened all the same");
}

static void expect_refusal(const char *wish, const char *words) {
    struct outcome outcomes[WORLD_MAX] = {{0}};
    plan_nccl(wish);
    world_run_outcomes(&IMPLEMENTATIONS[0], &THREE, BYTES, never_runs, NULL, outcomes);
    for (int rank = 0; rank < THREE.world; rank++) {
        assert_false(outcomes[rank].ended);
        if (strstr(outcomes[rank].failure, words) == NULL) {
            fail_msg("rank %d says: %s", rank, outcomes[rank].failure);
        }
    }
}

static void a_machine_without_nccl_is_told_so(void **state) {
    (void)state;
    expect_refusal("absent", "libnccl.so.2: is not here");
}

static void a_group_that_cannot_be_joined_is_told_so(void **state) {
    (void)state;
    expect_refusal("refuse_joining", "cannot connect the ranks of a group: system error: injected");
}

int main(void) {
    const struct CMUnitTest on_every_device[] = {
        cmocka_unit_test(a_captured_call_is_made_by_each_launch),
        cmocka_unit_test(a_graph_that_waits_for_a_lost_rank_is_ended),
    };
    const struct CMUnitTest with_a_plan[] = {
        cmocka_unit_test(sums_by_rings_are_near_and_of_another_order),
        cmocka_unit_test(memory_that_is_not_registered_is_copied),
        cmocka_unit_test(a_group_that_joins_slowly_is_waited_for),
        cmocka_unit_test(an_error_of_a_link_ends_the_wait_in_its_own_words),
        cmocka_unit_test(a_rank_takes_leave_of_ranks_that_are_gone_for_a_while_only),
        cmocka_unit_test(no_leave_is_taken_after_an_abort),
        cmocka_unit_test(a_machine_without_nccl_is_told_so),
        cmocka_unit_test(a_group_that_cannot_be_joined_is_told_so),
    };
    if (!implementations_can_run()) {
        return 77; /* a test that was skipped */
    }
    int failed = cmocka_run_group_tests(on_every_device, NULL, NULL);
    return NCCL_IS_EMULATED ? failed + cmocka_run_group_tests(with_a_plan, NULL, NULL) : failed;
}
