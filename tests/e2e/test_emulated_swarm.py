"""Members of a swarm whose devices are emulated, beside members that compute on the processor: one
root a round whatever a member computes on, and what a device that fails costs."""
import json

from emulated_run import CPU, DEVICE, PROFILE
from loopback_swarm import SwarmTest
from small_run import main

TINY = {"model_type": "llama", "vocab_size": 97, "hidden_size": 16, "intermediate_size": 24,
        "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1,
        "max_position_embeddings": 16, "rms_norm_eps": 1e-5, "initializer_range": 0.1,
        "tie_word_embeddings": True, "hidden_act": "silu"}
ROUNDS = 3
SHORT = {"swarm__inner_steps": 2, "swarm__members_min": 2, "batch__sequence": 8,
         "batch__tokens": 16, "batch__microbatch": 2, "swarm__outer_lr": 1,
         "swarm__patience": 20, "steps": 2 * ROUNDS}


class EmulatedSwarm(SwarmTest):
    def swarm(self, **settings):
        super().swarm(TINY, **{**SHORT, **settings})
        (self.site.path / "gpu.yaml").write_text(PROFILE)

    def cpu_member(self, name, *settings):
        member = self.member(name, *settings)
        member.command = [CPU, *member.command[1:]]
        return member

    def gpu_member(self, name, *settings):
        return self.member(name, "target=./gpu.yaml", *settings)

    def start_gpu(self, member, seed=1, **environment):
        return member.start(SKEP_EMULATED_SEED=str(seed), **DEVICE, **environment)

    def assert_rounds(self, *members, count=ROUNDS):
        roots = self.assert_one_root_a_round()
        named = [number for number, of in roots.items() if len(of) == len(members)]
        self.assertGreaterEqual(len(named), count - 1, self.logs())
        self.assert_one_history()

    def assert_everybody_contributes(self, member):
        self.assertGreaterEqual(max(line["contributors"] for line in member.rounds().values()), 2)

    def test_a_mixed_swarm_has_one_root_a_round_with_every_codec(self):
        for codec, params in (("int4", "f32"), ("int8", "bf16"), ("bf16", "f32"), ("fp32", "f32")):
            with self.subTest(codec=codec, params=params):
                self.swarm(swarm__codec=codec, precision__params=params,
                           precision__compute=params)
                cpu, gpu = self.cpu_member("cpu"), self.gpu_member("gpu")
                cpu.start()
                self.start_gpu(gpu)
                self.wait_for_end(cpu, gpu)
                self.assert_rounds(cpu, gpu)
                self.assert_everybody_contributes(gpu)
                self.assertEqual(self.exported(cpu), self.exported(gpu))
                self.tracker.kill()

    def test_what_a_member_keeps_lies_where_the_plan_says(self):
        self.swarm(swarm__codec="int4")
        result = self.site.run("plan", self.site.path / "tracker" / "heather.skep", "--json",
                               "target=./gpu.yaml", "data.train=train.u16")
        extents = {extent["name"]: extent["space"]
                   for extent in json.loads(result.stdout)["extents"]}
        for name in ("outer params", "outer momentum", "error feedback", "own contribution",
                     "results"):
            self.assertEqual(extents[name], "pinned", name)
        self.assertEqual(extents["outer stretches"], "device")
        for name in ("re-encoding residual", "contributions to own slices", "leaf names"):
            self.assertEqual(extents[name], "host", name)
        curious = self.gpu_member("curious", "--check")
        self.assertEqual(self.start_gpu(curious).wait(), 0, curious.log())
        report = (curious.folder / "output").read_text()
        for space in ("device", "pinned", "host"):
            self.assertIn(space, report)


if __name__ == "__main__":
    main()
