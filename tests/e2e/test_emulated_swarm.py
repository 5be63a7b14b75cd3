"""Members of a swarm whose devices are emulated, beside members that compute on the processor: one
root a round whatever a member computes on, and what a device that fails costs."""
import json
import os
import pathlib
import unittest

from emulated_run import CPU, DEVICE, PROFILE
from loopback_swarm import SwarmTest
from small_run import LONG, main

TINY = {"model_type": "llama", "vocab_size": 97, "hidden_size": 16, "intermediate_size": 24,
        "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1,
        "max_position_embeddings": 16, "rms_norm_eps": 1e-5, "initializer_range": 0.1,
        "tie_word_embeddings": True, "hidden_act": "silu"}
ROUNDS = 3
MANY_ROUNDS = 100
PATIENCE_S = 600  # a machine that does other work, too
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
        for codec, params, offload in (("int4", "f32", "none"), ("int8", "bf16", "none"),
                                       ("bf16", "f32", "optimizer"), ("fp32", "bf16", "none")):
            with self.subTest(codec=codec, params=params, offload=offload):
                self.swarm(swarm__codec=codec, precision__params=params,
                           precision__compute=params)
                cpu = self.cpu_member("cpu")
                gpu = self.gpu_member("gpu", f"strategy.offload={offload}")
                cpu.start()
                self.start_gpu(gpu)
                self.wait_for_end(cpu, gpu, seconds=PATIENCE_S)
                self.assert_rounds(cpu, gpu)
                self.assert_everybody_contributes(gpu)
                self.assertEqual(self.exported(cpu), self.exported(gpu))
                self.tracker.kill()

    @unittest.skipUnless(LONG, "SKEP_LONG=1 runs it")
    def test_nobody_is_named_in_a_hundred_rounds_of_a_mixed_swarm(self):
        """Voters check each other's sums and sketches, whatever computed them."""
        self.swarm(swarm__codec="int8", swarm__members_min=4, steps=2 * MANY_ROUNDS)
        cpus = [self.cpu_member(name).start() for name in ("cpu1", "cpu2")]
        gpus = [self.gpu_member(name) for name in ("gpu1", "gpu2")]
        for seed, member in enumerate(gpus, 1):
            self.start_gpu(member, seed=seed)
        self.wait_for_end(*cpus, *gpus, seconds=PATIENCE_S)
        self.assert_rounds(*cpus, *gpus, count=MANY_ROUNDS)
        entries = self.assert_one_history()
        commits = [entry for entry in entries if entry["kind"] == "commit"]
        self.assertGreaterEqual(len(commits), MANY_ROUNDS)
        self.assertFalse([entry for entry in entries if entry["kind"] in ("suspend", "abort")])
        checked = sum(len(entry["members"]) == 4 and all(
            member["contributed"] for member in entry["members"]) for entry in commits)
        print(f"{len(commits)} commits, {checked} with contributions of all four members")

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
        self.assertEqual(self.start_gpu(curious).wait(PATIENCE_S), 0, curious.log())
        report = (curious.folder / "output").read_text()
        for space in ("device", "pinned", "host"):
            self.assertIn(space, report)

    def test_a_gpu_that_cannot_be_used_does_not_lend_the_processor_unasked(self):
        self.swarm(swarm__members_min=1)
        old = {"LD_LIBRARY_PATH": str(pathlib.Path(os.environ["OLD_DRIVER"]).parent)}
        for name, arguments in (("plain", ()), ("check", ("--check",)), ("auto", ("target=auto",))):
            with self.subTest(name):
                member = self.cpu_member(name, *arguments)
                self.assertEqual(member.start(**old).wait(PATIENCE_S), 2, member.log())
                self.assertRegex(member.log(), r"skep: libcuda\.so\.1: [^\n]+; install NVIDIA's "
                                               r"driver[^\n]+; target=cpu lends the CPU only\n$")
                self.assertEqual(member.log().count("libcuda.so.1"), 1, member.log())
        asked = self.cpu_member("asked", "target=cpu")
        asked.start(**old)
        self.wait_for_end(asked, seconds=PATIENCE_S)
        self.assertNotIn("libcuda", asked.log())

    def test_a_member_goes_on_on_the_other_kind_of_device(self):
        """What was trained on a GPU is replayed and trained on a processor, and back."""
        self.swarm(steps=10**6, swarm__codec="int4")
        stays, moves = self.cpu_member("stays"), self.gpu_member("moves", "snapshot.every=4")
        gpu = moves.command
        cpu = [CPU, *(word for word in gpu[1:] if not word.startswith("target="))]
        stays.start()
        for command in (gpu, cpu, gpu):
            moves.command = command
            before = max(stays.last(), moves.last())
            self.start_gpu(moves)
            self.wait_for(lambda: any(number > before + 1 and line["contributors"] == 2
                                      for number, line in moves.rounds().items()),
                          "round of both", seconds=PATIENCE_S)
            moves.ask_to_stop()
            self.wait_for_end(moves, seconds=PATIENCE_S)
        stays.ask_to_stop()
        self.wait_for_end(stays, seconds=PATIENCE_S)
        self.assert_one_root_a_round()
        self.assert_one_history()

    def test_a_device_that_fails_ends_its_member_and_rounds_go_on_when_it_is_back(self):
        """No round opens without it: else the other one is far ahead before a slow machine has
        started it again."""
        self.swarm(steps=10**6, swarm__codec="int4")
        stays, fails = self.cpu_member("stays").start(), self.gpu_member("fails")
        self.start_gpu(fails)
        self.wait_for(lambda: fails.last() >= 2, "rounds", seconds=PATIENCE_S)
        fails.kill()
        work = 4000  # of the device; grows until it is behind what a start takes
        while True:
            had = fails.last()
            self.start_gpu(fails, SKEP_EMULATED_LOSE_AT=str(work))
            self.assertEqual(fails.wait(PATIENCE_S), 1, fails.log())
            if fails.last() > had:
                break
            work *= 2
        words = fails.log().splitlines()[-1]
        self.assertIn("CUDA_ERROR_LAUNCH_FAILED", words)
        self.assertRegex(words, r"start it again: the member resumes from round \d+")
        self.assertTrue(stays.is_running(), stays.log())
        before = stays.last()
        self.start_gpu(fails, seed=2)
        self.wait_for(lambda: min(stays.last(), fails.last()) > before + 1,
                      "rounds with it again", seconds=PATIENCE_S)
        for member in (stays, fails):
            member.ask_to_stop()
        self.wait_for_end(stays, fails, seconds=PATIENCE_S)
        self.assert_one_root_a_round()
        self.assertFalse([entry for entry in self.assert_one_history()
                          if entry["kind"] == "rollback"])


if __name__ == "__main__":
    main()
