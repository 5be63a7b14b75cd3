/* dump: `skep dump` writes the logits, losses, gradients and updated weights of one batch, to
 * compare them with those of other programs. */
#include "runtime/diagnose/dump.h"
#include "runtime/cli/cli.h"

#include <stdio.h>

struct request { /* options of `skep dump` and its working data */
    struct session session;
    int64_t rank_count; /* --ranks; 0: not set */
    struct dump_request dump;
    struct dump_batch batch;
};

/* Reads the batch before the settings are checked against the model, because its shape determines
 * the shape of the program. */
static enum status read_batch(struct request *request, struct invocation *invocation) {
    struct session *session = &request->session;
    struct dump_batch *batch = &request->batch;
    struct fault *fault = &invocation->fault;
    TRY(dump_batch_shape(invocation->positionals[1], &session->region, batch, fault));
    int64_t ranks = session->ranks;
    const struct {
        const char *key;
        int64_t value;
    } shape[] = {{"batch.sequence", batch->time},
                 {"batch.microbatch", (batch->rows + ranks - 1) / ranks},
                 {"batch.tokens", batch->rows * batch->time}};
    session->longest_document = batch->longest_document;
    for (size_t i = 0; i < ARRAY_COUNT(shape); i++) {
        char value[24];
        snprintf(value, sizeof value, "%lld", (long long)shape[i].value);
        invocation_add_override(invocation, shape[i].key, value);
    }
    TRY(invocation_read_session(invocation, session));
    TRY(dump_check(session, &request->dump, fault));
    return dump_batch_read(batch, session->blueprint.vocab, &session->region, fault);
}

static enum status run_dump(struct invocation *invocation) {
    struct request *request = invocation->request;
    struct session *session = &request->session;
    const struct ranks_request ranks = {.count = request->rank_count};
    struct fault *fault = &invocation->fault;
    if (request->dump.out_path == NULL) {
        return fault_set(fault, STATUS_USAGE, "dump", "add -o OUT.safetensors",
                         "the path of the output file is missing");
    }
    TRY(ranks_begin(&ranks, session, invocation));
    if (invocation->ranks.is_parent) {
        return OK;
    }
    TRY(session_agree(session, read_batch(request, invocation), fault));
    return dump_run(session, &request->dump, &request->batch, fault);
}

static const struct option OPTIONS[] = {
    {OPTION("-o", TEXT, dump.out_path), .value_name = "OUT.safetensors",
     .help = "file to write; required", .example = "model batch.safetensors -o out.safetensors"},
    {OPTION("--gradients", FLAG, dump.gradients),
     .help = "also write the gradients, before clipping",
     .example = "model batch.safetensors -o out.safetensors --gradients"},
    {OPTION("--steps", INTEGER, dump.steps), .value_name = "N",
     .help = "take N optimizer steps on the batch and write the weights after them",
     .example = "model batch.safetensors -o out.safetensors --steps 3"},
    {OPTION("--ranks", INTEGER, rank_count), .minimum = 1, .maximum = RANKS_MAX, .value_name = "N",
     .help = "number of ranks to start on this machine; default: 1",
     .example = "model batch.safetensors -o out.safetensors --ranks 2"},
};

static void finish_dump(void *context) {
    struct request *request = context;
    session_finish(&request->session);
}

const struct command COMMAND_DUMP = {
    .name = "dump",
    .arguments = "MODEL BATCH.safetensors",
    .summary = "write logits, losses, gradients and weights, for comparison with other programs",
    .details = "MODEL is a model folder, a config.json, org/name from the Hub cache or a run file. "
               "BATCH.safetensors holds `input_ids` I32 [rows, tokens] and optionally `labels` and "
               "`cu_seqlens`; docs/FORMATS.md describes both files.",
    .example = "model batch.safetensors -o out.safetensors",
    .positional_count = 2,
    .takes_overrides = true,
    REQUEST_OPTIONS,
    .run = run_dump,
    .finish = finish_dump,
};
