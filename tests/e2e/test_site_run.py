"""What a site says of itself, what it refuses, and what it leaves behind."""
import json
import os
import pathlib

from small_run import RunTest, launched, main

ROWS = {"batch__tokens": 12 * 16, "batch__microbatch": 1, "optimizer__lr": 1e-3}


class SiteRun(RunTest):
    def test_rank_0_alone_speaks_and_names_who_launched_the_ranks(self):
        folder = self.folder(steps=3, **ROWS)
        result = folder.train("--ranks", 4, "strategy.replicate=2", "strategy.zero=2")
        self.assert_exit(result, 0)
        first, second = result.stderr.splitlines()[:2]
        self.assertRegex(first, r"^\S+Z 4 ranks \(--ranks\)$")
        for words in ("replicate 2 x shard 2", "ZeRO 2"):
            self.assertIn(words, second)
        again = folder.train("--ranks", 2, "steps=4")
        self.assert_exit(again, 0)
        self.assertRegex(again.stderr.splitlines()[0], r"^\S+Z 2 ranks \(--ranks\)$")
        self.assertEqual(result.stderr.count("validation loss"), 1)
        folder.forget()
        outcomes = launched(folder, 3)
        self.assertEqual([code for code, _ in outcomes], [0, 0, 0], outcomes)
        self.assertIn("3 ranks (torchrun)", outcomes[0][1])
        self.assertEqual([errors for _, errors in outcomes[1:]], ["", ""])
        self.assertEqual(len(folder.metrics("start")), 1)

    def test_metrics_tell_of_the_ranks(self):
        folder = self.folder(steps=3, **ROWS)
        self.assert_exit(folder.train("--ranks", 6, "strategy.replicate=3"), 0)
        start = folder.metrics("start")[0]
        self.assertEqual((start["ranks"], start["mesh"]), (6, {"replicate": 3, "shard": 2}))
        memory = folder.metrics("memory")[-1]
        self.assertEqual([line["rank"] for line in memory["ranks"]], list(range(6)))
        self.assertTrue(all(line["process_bytes"] > 0 for line in memory["ranks"]))
        folder.forget()
        self.assert_exit(folder.train(), 0)
        self.assertNotIn("received_bytes", folder.metrics("step")[0])
        self.assertNotIn("ranks", folder.metrics("memory")[0])

    def test_a_trace_has_the_steps_that_were_asked_for_of_every_rank(self):
        folder = self.folder(steps=8, **ROWS)
        result = folder.train("--ranks", 3, "trace=traces/steps.json", "trace_steps=2:3")
        self.assert_exit(result, 0)
        for rank in range(3):
            self.assertIn(f"trace: rank {rank}: compute", result.stderr)
        path = folder.path / "traces" / "steps.json"
        events = json.loads(path.read_text())["traceEvents"]
        finishes = {}
        for event in events:
            if event["ph"] == "X" and event["name"].startswith("clip"):
                finishes[event["pid"]] = finishes.get(event["pid"], 0) + 1
        self.assertEqual(finishes, {0: 2, 1: 2, 2: 2})
        content = path.read_bytes()
        self.assert_exit(folder.train("--ranks", 3, "trace=traces/steps.json", "steps=9"), 0)
        self.assertEqual(path.read_bytes(), content, "steps 3 to 5 were over before this start")
        for steps in ("3", "0:2", "5:3", "a:b", "1:2000"):
            refused = folder.train("trace=t.json", f"trace_steps={steps}", "--fresh")
            self.assert_exit(refused, 2)
            self.assertIn("trace_steps", refused.stderr)

    def test_what_ranks_cannot_have_is_refused_once_and_changes_nothing(self):
        folder = self.folder(**ROWS)
        for arguments, words in (
                (("--ranks", 4, "strategy.replicate=3"), ["replicate", "1, 2 or 4"]),
                (("--ranks", 2, "strategy.reduce_at=step"), ["reduce_at", "ZeRO 3"]),
                (("--ranks", 2, "data.train=none.u16"), ["none.u16"]),
                (("--ranks", 0), ["--ranks"]),
                (("--ranks", 5000), ["--ranks", "1024"])):
            result = folder.train(*arguments)
            self.assert_exit(result, 2)
            self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
            for word in words:
                self.assertIn(word, result.stderr)
            self.assertFalse((folder.path / "run" / "snapshots").exists())

    def test_ranks_may_outnumber_what_there_is_to_share(self):
        folder = self.folder(steps=2, batch__tokens=16, batch__microbatch=1)
        self.assert_exit(folder.train("--ranks", 12), 0)
        self.assertEqual(len(folder.metrics("step")), 2)

    def test_no_process_and_no_memory_is_left_behind(self):
        folder = self.folder(steps=2, **ROWS)
        self.assert_exit(folder.train("--ranks", 4), 0)
        for path in pathlib.Path("/proc").glob("[0-9]*/cwd"):
            try:
                self.assertNotEqual(os.readlink(path), str(folder.path))
            except OSError:
                pass


if __name__ == "__main__":
    main()
