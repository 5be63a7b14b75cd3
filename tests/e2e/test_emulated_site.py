"""Sites of several ranks on GPUs that are emulated, which talk by an emulated NCCL: the losses of a
site of processors, the same bits in every order and at every ZeRO stage, and an end in words when a
rank or a link is lost."""
import os
import re
import signal
import time

from emulated_run import CPU, PROFILE
from small_run import LLAMA, LONG, RunTest, children, main, rank_of, wait_until

STEPS = 3
PATIENCE_S = 600
TOLERANCE = 2e-4  # of a loss near 4.6: kernels that sum in another order
MIB = 1 << 20
GRANULE = 2 * MIB
NCCL_CODE = 3 * MIB  # tests/emulated/nccl.h
# Five seconds are promised: test_loss_bound.c and test_nccl_bound.c hold every wait to its share
# on a clock of their own. Here a machine may be busy, unless SKEP_LONG=1 says that it is not.
NOTICED_S = 5 if LONG else 60


def nccl_group(ranks):
    """What the emulated NCCL takes for a group; a single rank: one without sends and receives."""
    return 2 * MIB + 2 * MIB * (ranks - 1)


class EmulatedSite(RunTest):
    def site(self, **settings):
        folder = self.folder(LLAMA, **{"steps": STEPS, "batch__tokens": 24, "batch__sequence": 8,
                                       "batch__microbatch": 1,
                                       **settings})
        (folder.path / "gpu.yaml").write_text(PROFILE)
        return folder

    def environment(self, ranks, seed=1, **more):
        return {"SKEP_EMULATED_SEED": str(seed), "SKEP_EMULATED_MIB": "512",
                "SKEP_EMULATED_DEVICES": str(ranks), **more}

    def train(self, folder, ranks, *arguments, seed=1, code=0, **more):
        result = folder.train("target=./gpu.yaml", *arguments, "--ranks", str(ranks),
                              env=self.environment(ranks, seed, **more))
        self.assert_exit(result, code)
        return result

    def losses(self, folder):
        return [line["loss"] for line in folder.metrics("step")]

    def cpu_losses(self, folder, ranks):
        gpu = folder.command
        folder.command = lambda *arguments: [CPU, *map(str, arguments)]
        self.assert_exit(folder.train("--ranks", str(ranks)), 0)
        found = self.losses(folder)
        folder.command = gpu
        folder.forget()
        return found

    def test_losses_are_those_of_a_site_of_processors(self):
        for ranks in (2, 3):
            folder = self.site()
            expected = self.cpu_losses(folder, ranks)
            self.train(folder, ranks)
            found = self.losses(folder)
            self.assertEqual(len(found), STEPS)
            for here, there in zip(found, expected, strict=True):
                self.assertAlmostEqual(here, there, delta=TOLERANCE)

    def test_zero_stage_and_order_change_no_bit(self):
        folder = self.site(steps=2)
        states = []
        for seed, zero in ((1, 3), (2, 3), (3, 0), (4, 1), (5, 2)):
            folder.forget()
            self.train(folder, 2, f"strategy.zero={zero}", seed=seed)
            states.append(folder.state())
        for state in states[1:]:
            self.assertEqual(state, states[0])

    def test_a_ring_sums_to_nearly_the_same(self):
        folder = self.site()
        self.train(folder, 3)
        exact = self.losses(folder)
        folder.forget()
        self.train(folder, 3, "precision.wire_sum=ring")
        for here, there in zip(self.losses(folder), exact, strict=True):
            self.assertAlmostEqual(here, there, delta=TOLERANCE)

    def test_bytes_that_a_rank_receives_are_those_of_processors(self):
        folder = self.site(steps=1, precision__reduce="bf16")
        self.cpu_losses(folder, 2)
        received = []
        for skep, extra in ((CPU, ()), (None, ("target=./gpu.yaml",))):
            gpu = folder.command
            if skep is not None:
                folder.command = lambda *arguments: [CPU, *map(str, arguments)]
            self.assert_exit(folder.train(*extra, "--ranks", "2", env=self.environment(2)), 0)
            received.append([line["received_bytes"] for line in folder.metrics("step")])
            folder.command = gpu
            folder.forget()
        self.assertEqual(received[0], received[1])

    def test_the_plan_says_how_sums_are_made(self):
        folder = self.site()
        exact = folder.run("plan", "run.yaml", "target=./gpu.yaml", "--ranks", "2", "--program")
        ring = folder.run("plan", "run.yaml", "target=./gpu.yaml", "--ranks", "2", "--program",
                          "precision.wire_sum=ring")
        self.assertRegex(exact.stdout, r"reduce_scatter .* >gradients\.summed:")
        self.assertNotIn("by ring", exact.stdout)
        self.assertRegex(ring.stdout, r"reduce_scatter .* by ring")
        self.assertNotIn("gradients.summed", ring.stdout)

    def test_an_absent_or_failing_nccl_is_told(self):
        folder = self.site(steps=1)
        result = self.train(folder, 2, code=2, SKEP_EMULATED_NCCL="absent")
        self.assertIn("libnccl.so.2", result.stderr)
        result = self.train(folder, 2, code=1, SKEP_EMULATED_NCCL="refuse_joining")
        self.assertIn("cannot connect the ranks of a group", result.stderr)
        result = self.train(folder, 2, SKEP_EMULATED_NCCL="refuse_memory")
        self.assertIn("NCCL cannot register the arena", result.stderr)

    def declared(self, folder, ranks, *arguments):
        """name -> bytes of the device's declared lines."""
        plan = self.document(folder.run("plan", "run.yaml", "target=./here.yaml", "--json",
                                        "--ranks", ranks, *arguments))
        device, = (space for space in plan["spaces"] if space["name"] == "device")
        return {line["name"]: line["bytes"] for line in device["declared"]}

    def test_what_nccl_takes_is_measured_planned_and_taken(self):
        folder = self.site(steps=1)
        found = self.document(folder.run("probe", "--json", "--write", "here.yaml",
                                         env=self.environment(2)))["machine"]
        self.assertEqual(found["nccl"], "NCCL 2.28.9 between 2 ranks on 2 GPUs")
        self.assertEqual(found["nccl_bytes"], NCCL_CODE + nccl_group(2))
        self.assertEqual(found["nccl_group_bytes"], nccl_group(2))
        alone, two, four = (self.declared(folder, ranks) for ranks in (1, 2, 4))
        self.assertFalse([name for name in alone if name.startswith("NCCL")])
        self.assertEqual(two, alone | {"NCCL channels and proxies": NCCL_CODE + nccl_group(2)})
        self.assertEqual(four, two)
        self.assertEqual(self.declared(folder, 4, "strategy.replicate=2"),
                         two | {"NCCL, further groups": 2 * nccl_group(2)})
        for arguments, peers in (((), 2), (("precision.wire_sum=ring",), 1)):
            folder.forget()
            log = folder.run("-v", "train", "run.yaml", "target=./here.yaml", "--ranks", 2,
                             *arguments, env=self.environment(2)).stderr
            memory = re.findall(r"device memory: (\d+) bytes planned, (\d+) declared, (\d+) in use",
                                log)
            self.assertTrue(memory, log)
            for planned, declared, taken in (map(int, line) for line in memory):
                self.assertEqual(declared, sum(two.values()))
                # An emulated device takes nothing but the arena, in whole granules, and NCCL's.
                arena = -(-planned // GRANULE) * GRANULE
                self.assertEqual(taken, arena + NCCL_CODE + nccl_group(peers))
                self.assertLessEqual(taken, planned + declared + GRANULE)

    def test_ranks_on_one_gpu_measure_nccl_too(self):
        folder = self.site(steps=1)
        result = folder.run("probe", "--ranks", 2, "--write", "here.yaml", env={
            **self.environment(1), "NCCL_MAX_CTAS": "4"})
        self.assert_exit(result, 0)
        self.assertIn("ranks    NCCL 2.28.9 between 2 ranks on 1 GPU, NCCL_MAX_CTAS=4",
                      result.stdout)
        self.assertIn("NCCL_MAX_CTAS=4", (folder.path / "here.yaml").read_text())

    def test_without_nccl_a_probe_says_so_and_what_it_takes_stays_an_estimate(self):
        folder = self.site(steps=1)
        result = folder.run("probe", "--ranks", 2, "--write", "here.yaml", env=self.environment(
            2, SKEP_EMULATED_NCCL="absent"))
        self.assert_exit(result, 0)
        self.assertIn("ranks    no NCCL: is not here", result.stdout)
        profile = (folder.path / "here.yaml").read_text()
        self.assertIn("estimate, not measured by skep probe: no NCCL: is not here", profile)
        alone = folder.run("probe", "--write", "here.yaml", env=self.environment(1))
        self.assertIn("with one rank NCCL uses no memory;", alone.stdout)

    def test_a_broken_link_ends_all_ranks(self):
        folder = self.site(steps=400)
        self.train(folder, 2, "pause_at=1")
        result = folder.train("target=./gpu.yaml", "--ranks", "2",
                              env=self.environment(2, SKEP_EMULATED_NCCL="error_at=60",
                                                   SKEP_EMULATED_NCCL_RANK="1"))
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("a link broke", result.stderr)
        self.assertIn("snapshot of step 1", result.stderr)
        self.train(folder, 2, "pause_at=2")

    def test_a_rank_whose_device_fails_takes_no_leave_of_the_others(self):
        """Here it would never come back from it; and the others say why they end."""
        folder = self.site(steps=2000)
        process = folder.start("target=./gpu.yaml", "--ranks", 2, env={
            **os.environ, **self.environment(2, SKEP_EMULATED_LOSE_AT="1500",
                                             SKEP_EMULATED_LOSE_RANK="1",
                                             SKEP_EMULATED_NCCL="finalize_waits")})
        self.addCleanup(process.kill)
        self.assertEqual(process.wait(PATIENCE_S), 1, folder.log())
        self.assertIn("rank 1: failed: device 1, emulated GPU 1", folder.log())
        self.assertNotIn("did not end within", folder.log())

    def test_a_killed_or_stopped_rank_ends_the_others_in_words(self):
        for blow in (signal.SIGKILL, signal.SIGSTOP):
            folder = self.site(steps=2000)
            process = folder.start("target=./gpu.yaml", "--ranks", 3,
                                   env={**os.environ, **self.environment(3)})
            self.addCleanup(process.kill)  # its ranks end with it
            self.assertTrue(wait_until(lambda: len(folder.metrics("step")) >= 2, PATIENCE_S),
                            folder.log())
            ranks = {rank_of(pid): pid for pid in children(process.pid)}
            os.kill(ranks[1], blow)
            begin = time.monotonic()
            self.assertEqual(process.wait(PATIENCE_S), 4, folder.log())
            self.assertLess(time.monotonic() - begin, NOTICED_S)
            self.assertIn("rank 1: was lost" if blow == signal.SIGKILL
                          else "rank 1: sent no heartbeat", folder.log())


if __name__ == "__main__":
    main()
