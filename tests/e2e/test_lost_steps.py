"""What a crash or a full disk costs is said: at the start of a run that would lose all steps, at
the start after the loss, and in the message of a save that fails."""
import json
import re

from refusals import RefusalTest
from small_run import LLAMA, kill_group, main, wait_until


class LostSteps(RefusalTest):
    WARNING = "no snapshot is due before the end, so a crash loses all steps"

    def killed_after(self, folder, steps, *arguments):
        """The last step in the metrics of a run that was killed with SIGKILL."""
        process = folder.start(*arguments)
        self.addCleanup(process.kill)
        self.assertTrue(wait_until(lambda: len(folder.metrics("step")) >= steps), folder.log())
        kill_group(process)
        return folder.metrics("step")[-1]["step"]

    def test_a_run_without_snapshots_says_what_a_crash_costs(self):
        folder = self.folder(steps=4)
        self.assertIn(self.WARNING + "; set snapshot.every\n", folder.train("pause_at=3").stderr)
        self.assertNotIn("a crash loses", folder.train().stderr)  # one step is left
        for every, is_said in ((4, True), (3, False)):
            folder.forget()
            result = folder.train(f"snapshot.every={every}")
            self.assert_exit(result, 0)
            self.assertEqual(self.WARNING in result.stderr, is_said, every)

    def test_the_next_start_says_what_a_crash_has_cost(self):
        folder = self.folder(steps=100000)
        reached = self.killed_after(folder, 5)
        result = folder.train("pause_at=4")
        self.assert_exit(result, 0)
        self.assertIn(f"the earlier run reached step {reached} without a snapshot; "
                      "starting at step 1\n", result.stderr)
        self.assertNotIn("the earlier run reached", folder.train("pause_at=6").stderr)
        reached = self.killed_after(folder, len(folder.metrics("step")) + 5)
        result = folder.train("pause_at=8")
        self.assertIn(f"the earlier run reached step {reached}; its last snapshot is of step 6\n",
                      result.stderr)

    def test_nothing_is_said_where_nothing_was_lost(self):
        folder = self.folder(steps=100000)
        self.killed_after(folder, 5)
        self.assertNotIn("the earlier run reached",
                         folder.train("--fresh", "pause_at=2").stderr)
        (folder.path / "run" / "metrics.jsonl").write_text("{\"kind\": \"step\"\0\n{}\nnone")
        self.assertNotIn("the earlier run reached", folder.train("pause_at=3").stderr)

    def test_a_save_that_fails_says_which_steps_are_lost(self):
        """Here the new snapshot finds a file in the place of its folder."""
        folder = self.folder({**LLAMA, "hidden_size": 64}, steps=6)
        snapshots = folder.path / "run" / "snapshots"
        snapshots.mkdir(parents=True)
        (snapshots / "step-000000006").write_text("in the way")
        result = folder.train()
        self.assertNotEqual(result.returncode, 0)
        self.assertRegex(result.stderr.splitlines()[-1], "; steps 1 to 6 are not saved")
        folder.forget()
        self.assert_exit(folder.train("pause_at=2"), 0)
        (snapshots / "step-000000006").write_text("in the way")
        result = folder.train()
        self.assertNotEqual(result.returncode, 0)
        self.assertRegex(result.stderr.splitlines()[-1],
                         "; steps 3 to 6 are not saved; the snapshot of step 2 is complete")


class TooLarge(RefusalTest):
    """A run that neither the memory nor the disk can hold."""

    def test_memory_is_named_before_the_disk(self):
        folder = self.folder({**LLAMA, "hidden_size": 8192, "intermediate_size": 28000,
                              "num_hidden_layers": 32, "vocab_size": 128000,
                              "num_attention_heads": 64})
        both = (r"target this machine: the device arena needs \S+ GiB, but only \S+ [KMG]?i?B are "
                r"available; the snapshots and the export need \S+ TiB, "
                r"but only \S+ [KMG]iB are available")
        result = folder.run("plan", "run.yaml")
        self.assert_exit(result, 3)
        self.assertRegex(result.stdout, f"^does not fit: {both}\n")
        self.assertRegex(result.stderr, f"^skep: {both}; no setting makes it fit: it needs a "
                                        r"target with \S+ GiB of device memory\n$")
        json_result = folder.run("plan", "run.yaml", "--json")
        self.assertEqual(json.loads(json_result.stdout)["remedies"], [])
        self.assertEqual(json_result.stderr, result.stderr)
        result = folder.train()
        self.assert_exit(result, 3)
        self.assertRegex(result.stderr, both)

    def test_a_full_disk_has_no_remedies_of_memory(self):
        folder = self.folder()
        result = folder.run("plan", "run.yaml", "limits.disk=100KiB")
        self.assert_exit(result, 3)
        self.assertNotIn("changes with which the run fits, each", result.stdout)
        self.assertIn("lower snapshot.keep or raise limits.disk", result.stderr)
        plan = self.document(folder.run("plan", "run.yaml", "limits.disk=100KiB", "--json"), 3)
        self.assertEqual(plan["remedies"], [])

    def test_the_memory_that_is_named_is_enough(self):
        folder = self.folder()
        result = folder.run("plan", "run.yaml", "--target", "rtx3060-12g", "limits.device=865MiB")
        self.assert_exit(result, 3)
        needed = re.search(r"it needs a target with (\S+ [KMG]iB) of device memory", result.stderr)
        self.assertIsNotNone(needed, result.stderr)
        self.assert_exit(folder.run("plan", "run.yaml", "--target", "rtx3060-12g",
                                    f"limits.device={needed[1].replace(' ', '')}"), 0)


if __name__ == "__main__":
    main()
