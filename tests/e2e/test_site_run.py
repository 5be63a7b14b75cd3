"""What a site says of itself, and the bounds that every rank of it keeps to."""
import itertools
import json
import os
import pathlib
import subprocess
import unittest

from small_run import GPT2, LLAMA, LONG, SANITIZED, RunTest, main, tensors_of

COUNTER = os.environ.get("COUNT_ALLOC", "")
ROWS = {"batch__tokens": 12 * 16, "batch__microbatch": 1, "optimizer__lr": 1e-3}


def launched(folder, ranks, arguments=(), env=None):
    """`skep train` as a launcher of another kind starts it: one process a rank; (code, errors)."""
    port = str(20000 + os.getpid() % 10000)
    processes = []
    for rank in range(ranks):
        own = {"RANK": str(rank), "WORLD_SIZE": str(ranks), "LOCAL_RANK": str(rank),
               "LOCAL_WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        extra = env(rank) if env else {}
        processes.append(subprocess.Popen(
            folder.command("train", "run.yaml", *arguments), cwd=folder.path, text=True,
            env={**os.environ, **own, **extra}, stdout=subprocess.PIPE, stderr=subprocess.PIPE))
    ended = [(process.communicate(timeout=120)[1], process.returncode) for process in processes]
    return [(code, errors) for errors, code in ended]


class SiteRun(RunTest):
    def test_rank_0_alone_speaks_and_names_who_launched_the_ranks(self):
        folder = self.folder(steps=3, **ROWS)
        result = folder.train("--ranks", 4, "strategy.replicate=2", "strategy.zero=2")
        self.assert_exit(result, 0)
        first = result.stderr.splitlines()[0]
        for words in ("4 ranks (--ranks)", "replicate 2 x shard 2", "ZeRO 2"):
            self.assertIn(words, first)
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

    def configurations(self):
        worlds = ((2, 1), (3, 1), (4, 2), (4, 4), (8, 1)) if LONG else ((3, 1), (4, 2))
        kinds = (("f32", "none"), ("bf16", "block")) if LONG else (("f32", "none"),)
        for (ranks, replicate), zero, (dtype, recompute) in itertools.product(
                worlds, range(4), kinds):
            for prefetch in (0, 2) if zero == 3 else (1,):
                yield ("--ranks", ranks, f"strategy.replicate={replicate}",
                       f"strategy.zero={zero}", f"strategy.prefetch={prefetch}",
                       f"precision.params={dtype}", f"precision.compute={dtype}",
                       f"precision.reduce={dtype}", f"strategy.recompute={recompute}")

    def test_every_rank_holds_its_plan_and_receives_what_the_formulas_say(self):
        count = 0
        for config in (LLAMA, GPT2):
            folder = self.folder(config, steps=2, **ROWS)
            for arguments in self.configurations():
                folder.forget()
                self.assert_exit(folder.train(*arguments), 0)
                plan = self.document(folder.run("plan", "run.yaml", "--json", *arguments))
                planned = {space["name"]: space["peak_bytes"] for space in plan["spaces"]
                           if space["name"] != "disk"}
                for line in folder.metrics("memory"):
                    for rank in line["ranks"]:
                        self.assertEqual(rank["high_water_bytes"], planned, arguments)
                for step in folder.metrics("step"):
                    self.assertEqual(step["received_bytes"], plan["volumes"]["total"], arguments)
                self.assertEqual(folder.metrics("start")[0]["plan"], plan["hash"])
                count += 1
        print(f"{count} configurations", flush=True)

    @unittest.skipIf(not COUNTER, "no counter was built")
    def test_no_rank_allocates_after_the_seal(self):
        folder = self.folder(steps=60, eval__every=20, snapshot__every=20, **ROWS)
        outcomes = launched(folder, 3, ("trace=trace.json",), lambda rank: {
            "LD_PRELOAD": COUNTER, "COUNT_ALLOC_REPORT": str(folder.path / f"report{rank}")})
        self.assertEqual([code for code, _ in outcomes], [0, 0, 0], outcomes)
        for rank in range(3):
            lines = (folder.path / f"report{rank}").read_text().splitlines()
            self.assertEqual(lines[0].split()[:2], ["count", "0"], "\n".join(lines))
        self.assertGreater(int((folder.path / "report0").read_text().split()[3]), 60)

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

    def test_frozen_parameters_stay_and_the_others_train_as_on_one_rank(self):
        frozen = "model.embed_tokens,model.layers.0.mlp"
        for dtype in ("f32", "bf16"):
            folder = self.folder(steps=6, frozen=f'"{frozen}"', precision__params=dtype,
                                 precision__compute=dtype, **ROWS)
            self.assert_exit(folder.train("pause_at=1"), 0)
            before = tensors_of(folder.snapshots()[-1] / "weights.safetensors")
            self.assert_exit(folder.train(), 0)
            alone = tensors_of(folder.snapshots()[-1] / "weights.safetensors")
            losses = [line["loss"] for line in folder.metrics("step")][-5:]
            moments = tensors_of(folder.snapshots()[-1] / "optimizer.safetensors")
            for name, tensor in alone.items():
                stays = name.startswith("model.embed_tokens") or ".layers.0.mlp." in name
                self.assertEqual(before[name] == tensor, stays, name)
                self.assertEqual(f"exp_avg.{name}" in moments, not stays, name)
            for ranks, zero in ((2, 3), (3, 1)):
                folder.forget()
                self.assert_exit(folder.train("--ranks", ranks, f"strategy.zero={zero}"), 0)
                here = tensors_of(folder.snapshots()[-1] / "weights.safetensors")
                self.assertEqual({name: here[name] for name in before if before[name] ==
                                  alone[name]},
                                 {name: before[name] for name in before if before[name] ==
                                  alone[name]})
                for expected, line in zip(losses, folder.metrics("step")[1:]):
                    self.assertLess(abs(line["loss"] - expected),
                                    (1e-6 if dtype == "f32" else 1e-3) * expected)
                self.assert_exit(folder.train("--ranks", 2, "steps=7"), 0)

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

    @unittest.skipIf(SANITIZED, "a sanitizer holds memory of its own")
    def test_a_rank_holds_its_plan_and_little_more(self):
        config = dict(GPT2, n_embd=480, n_layer=2)
        folder = self.folder(config, steps=3, **ROWS)
        self.assert_exit(folder.train("--ranks", 2), 0)
        line = folder.metrics("memory")[-1]
        planned = sum(space["planned_bytes"] for space in line["spaces"])
        for rank in line["ranks"]:
            # what a rank reads of the other's memory is mapped into it too, and counted twice
            self.assertLessEqual(rank["process_bytes"], 2 * planned + (16 << 20))

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
