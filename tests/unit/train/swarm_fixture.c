#include "swarm_fixture.h"

#include "scratch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static const char CONFIG[] =
    "{\n \"architectures\": [\"LlamaForCausalLM\"], \"model_type\": \"llama\", \"hidden_act\": "
    "\"silu\",\n \"hidden_size\": 64, \"intermediate_size\": 96, \"num_hidden_layers\": 2, "
    "\"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"vocab_size\": 4099, "
    "\"max_position_embeddings\": 64, \"rms_norm_eps\": 1e-05, \"initializer_range\": 0.3, "
    "\"tie_word_embeddings\": true, \"rope_theta\": 10000.0\n}\n";
static const char RUN[] = "model: model\n"
                          "init: random\n"
                          "seed: 5\n"
                          "steps: 250\n"
                          "data: {train: [a.txt, b.txt], validation: c.txt, format: bytes}\n"
                          "batch: {sequence: 32, microbatch: 3, tokens: 192}\n"
                          "optimizer.lr: 1e-3\n"
                          "threads: 1\n"
                          "limits.device: 3GiB\n"
                          "swarm: {name: heather, inner_steps: 40, codec: int4, members_max: 5}\n";

static void expect_ok(enum status status, const struct fault *fault) {
    if (status != OK) {
        fail_msg("%s: %s", fault->subject, fault->reason);
    }
}

const char *swarm_fixture_make(struct region *region, struct manifest_draft *offer,
                               struct manifest *manifest) {
    struct key_pairs operator_keys;
    struct fault fault;
    const char *text = NULL;
    scratch_write_text("tracker/model/config.json", CONFIG);
    scratch_write_text("tracker/run.yaml", RUN);
    scratch_write_text("tracker/a.txt", "What is written here is the first file of two, and it is "
                                        "longer than a row of thirty-two tokens and one.");
    scratch_write_text("tracker/b.txt", "The second file is as long as it needs to be, which is "
                                        "more than thirty-three bytes.");
    scratch_write_text("tracker/c.txt", "Held out: neither of the other two has these words in it, "
                                        "and nobody trains on them.");
    keys_generate(&operator_keys);
    expect_ok(manifest_draft_read("tracker/run.yaml", NULL, 0, region, offer, &fault), &fault);
    expect_ok(manifest_draft_sign(offer, "tcp://127.0.0.1:7700", &operator_keys, region, manifest,
                                  &text, &fault),
              &fault);
    scratch_write_text("heather.skep", text);
    assert_int_equal(setenv("XDG_STATE_HOME", "/state", 1), 0);
    assert_int_equal(unsetenv("STATE_DIRECTORY"), 0);
    return text;
}
