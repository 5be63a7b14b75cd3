/* step_times: time whole training steps of a random model on random tokens. It reads no data and
 * writes no snapshots, so it can measure models that the disk could not hold.
 *
 *   step_times MODEL [key=value...]
 *
 * Prints one line of JSON when it is ready: {"parameters": N, "target": "...", "device": "...",
 * "planned_bytes": N, "declared_bytes": N, "taken_bytes": N}, in device memory (host memory on a
 * cpu target). "taken_bytes" is the memory that all processes use, as the driver reports it; 0 on a
 * cpu target. For each number of steps on standard input it then prints {"ms": [...], "losses":
 * [...]}. A step is the same as in `skep train`: batch, forward, backward, clipping, AdamW and
 * reading the loss. */
#include "base/clock.h"
#include "base/log.h"
#include "base/random.h"
#include "build_config.h"
#include "runtime/session/batch.h"
#include "runtime/session/step.h"
#if SKEP_CUDA
#include "targets/ports/cuda_device.h"
#endif

#include <stdio.h>
#include <unistd.h>

enum { OVERRIDES_MAX = 64, STEPS_MAX = 10000 };

struct timed {
    double ms, loss;
};

static void fill_batch(struct session *session, int64_t batch) {
    uint64_t vocab = (uint64_t)session->blueprint.vocab;
    uint64_t key = random_key((uint64_t)batch, "step_times");
    for (int64_t r = 0; r < session->settings.microbatch; r++) {
        struct token_row row = batch_row(session, r);
        for (int64_t t = 0; t < session->settings.sequence_tokens; t++) {
            uint32_t words[4];
            random_block(key, (uint64_t)(r * session->settings.sequence_tokens + t), words);
            row.ids[t] = (int32_t)(words[0] % vocab);
            row.labels[t] = (int32_t)(words[1] % vocab);
            row.positions[t] = (int32_t)t;
        }
    }
}

static enum status run_step(struct session *session, int64_t step, struct timed *timed,
                            struct fault *fault) {
    int64_t begin = clock_monotonic_ns();
    const struct step_schedule schedule = step_schedule_at(session, step);
    int64_t valid = step_begin(session, &schedule, session->settings.batch_tokens);
    int64_t tokens = session->settings.microbatch * session->settings.sequence_tokens;
    int64_t microbatches = session->settings.batch_tokens / tokens;
    for (int64_t i = 0; i < microbatches; i++) {
        fill_batch(session, step * microbatches + i);
        program_execute_segment(&session->bound, SEGMENT_MICROBATCH);
    }
    struct step_result result = step_finish(session, &schedule, valid);
    *timed = (struct timed){(double)(clock_monotonic_ns() - begin) * 1e-6, result.loss};
    return program_failure(&session->bound, fault);
}

static uint64_t taken_bytes(const struct session *session) {
#if SKEP_CUDA
    const struct cuda_device *device = session->bound.port.cuda;
    uint64_t left;
    struct fault fault;
    if (device != NULL && cuda_device_free_bytes(device, &left, &fault) == OK) {
        return device->memory_bytes - left;
    }
#else
    (void)session;
#endif
    return 0;
}

static void print_ready(const struct session *session) {
    const struct target *target = session->target;
    int64_t parameters = 0;
    enum space space = target->kind == TARGET_CUDA ? SPACE_DEVICE : SPACE_HOST;
    for (int i = 0; i < session->blueprint.param_count; i++) {
        parameters += param_elements(&session->blueprint.params[i]);
    }
    printf("{\"parameters\": %lld, \"target\": \"%s\", \"device\": \"%s\", "
           "\"planned_bytes\": %llu, \"declared_bytes\": %llu, \"taken_bytes\": %llu}\n",
           (long long)parameters, target->name, target->description,
           (unsigned long long)session->program.plan.peak_bytes[space],
           (unsigned long long)target_declared_bytes(target, space),
           (unsigned long long)taken_bytes(session));
    fflush(stdout);
}

static enum status answer(struct session *session, int count, int64_t *step, struct fault *fault) {
    static struct timed timed[STEPS_MAX];
    for (int i = 0; i < count; i++) {
        enum status status = run_step(session, (*step)++, &timed[i], fault);
        if (status != OK) {
            return status;
        }
    }
    printf("{\"ms\": [");
    for (int i = 0; i < count; i++) {
        printf("%s%.4f", i > 0 ? ", " : "", timed[i].ms);
    }
    printf("], \"losses\": [");
    for (int i = 0; i < count; i++) {
        printf("%s%.6g", i > 0 ? ", " : "", timed[i].loss);
    }
    printf("]}\n");
    fflush(stdout);
    return OK;
}

static enum status open_session(struct session *session, int argc, char **argv,
                                struct fault *fault) {
    const char *overrides[OVERRIDES_MAX] = {"init=random"};
    int count = 1;
    for (int i = 2; i < argc && count < OVERRIDES_MAX; i++) {
        overrides[count++] = argv[i];
    }
    enum status status = session_read(session, argv[1], overrides, count, fault);
    if (status == OK) {
        status = session_compile(session, PURPOSE_TRAIN, fault);
    }
    if (status == OK) {
        status = session_bind(session, fault);
    }
    return status == OK ? session_init_weights(session, fault) : status;
}

int main(int argc, char **argv) {
    static struct session session;
    struct fault fault;
    int64_t step = 0;
    int count;
    if (argc < 2) {
        fprintf(stderr, "usage: step_times MODEL [key=value...]\n");
        return 2;
    }
    log_init(0);
    enum status status = open_session(&session, argc, argv, &fault);
    if (status == OK) {
        print_ready(&session);
    }
    while (status == OK && scanf("%d", &count) == 1 && count > 0 && count <= STEPS_MAX) {
        status = answer(&session, count, &step, &fault);
    }
    if (status != OK) {
        fault_print(&fault, STDERR_FILENO);
    }
    session_finish(&session);
    return fault_exit_code(status);
}
