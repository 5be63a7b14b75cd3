"""The command line's machine-readable side: JSON documents, exit codes, the plan's sums and its
remedies, help for everything, and a plan for every target and model that is known."""
import json
import math
import pathlib
import subprocess
import time
import unittest

from small_run import LONG, SANITIZED, SKEP, RunTest, main

TREE = pathlib.Path(__file__).parents[2]
TARGETS = sorted(path.stem for path in (TREE / "targets" / "profiles").glob("*.yaml"))
MODELS = sorted((TREE / "tests" / "unit" / "model" / "configs").glob("*.json"))
COMMANDS = ["inspect", "plan", "pack", "train", "eval", "generate", "dump", "probe", "snapshot"]
PLAN_SECONDS = 5 if not SANITIZED else 60  # about one on a machine that does nothing else


def skep(*arguments):
    return subprocess.run([SKEP, *map(str, arguments)], text=True, capture_output=True,
                          timeout=300, check=False)


class Contract(RunTest):
    def document(self, result, *codes):
        """The one JSON document on standard output."""
        self.assertIn(result.returncode, codes or (0,), result.stderr)
        document = json.loads(result.stdout)
        self.assertEqual(document["format"], 1)
        return document

    def test_json_documents(self):
        folder = self.folder(steps=3, snapshot__every=1, eval__tokens=0)
        self.assert_exit(folder.train(), 0)
        loss = folder.metrics("eval")[-1]["loss"]
        found = self.document(folder.run("eval", "run/model", "--data", "valid.u16", "--json",
                                         "batch.sequence=16"))
        self.assertGreater(found["tokens"], 1000)
        self.assertEqual(found["loss"], loss, "the exported model is the trained one")
        self.assertAlmostEqual(found["perplexity"], math.exp(loss), delta=1e-6 * math.exp(loss))
        self.document(folder.run("inspect", "model", "--json"))
        self.document(folder.run("inspect", "model/config.json", "--json"))
        self.document(folder.run("plan", "run.yaml", "--json"))
        self.document(folder.run("plan", "model", "--json"))
        self.document(folder.run("snapshot", "list", "run/snapshots", "--json"))
        self.document(folder.run("snapshot", "verify", "run/snapshots", "--json"))

    @unittest.skipIf(SANITIZED, "loops of a probe measure nothing here")
    def test_probe_prints_one_document(self):
        self.document(skep("probe", "--json"))

    def test_generation_gives_the_same_ids_again(self):
        folder = self.folder(steps=30)
        self.assert_exit(folder.train(), 0)
        runs = [folder.run("generate", "run/model", "--prompt", "1,2,3", "--ids", "--tokens", "8",
                           "--seed", "5") for _ in range(2)]
        self.assert_exit(runs[0], 0)
        self.assertEqual(runs[0].stdout, runs[1].stdout)
        ids = [int(word) for word in runs[0].stdout.replace(",", " ").split()]
        self.assertTrue(ids and all(0 <= token < 97 for token in ids))

    def overlaps(self, plan):
        """Pairs of buffers that share bytes while both are alive; by a sweep of its own."""
        found = []
        for space in {extent["space"] for extent in plan["extents"]}:
            extents = [extent for extent in plan["extents"] if extent["space"] == space]
            extents.sort(key=lambda extent: extent["offset"])
            for i, one in enumerate(extents):
                for other in extents[i + 1:]:
                    if other["offset"] >= one["offset"] + one["bytes"]:
                        break
                    if one["first"] < other["last"] and other["first"] < one["last"]:
                        found.append((one["name"], other["name"]))
        return found

    def check_plan(self, plan):
        for space in plan["spaces"]:
            extents = [extent for extent in plan["extents"] if extent["space"] == space["name"]]
            if extents:
                self.assertEqual(max(e["offset"] + e["bytes"] for e in extents),
                                 space["peak_bytes"])
            self.assertLessEqual(space["bound_bytes"], space["peak_bytes"])
        for extent in plan["extents"]:
            self.assertEqual(extent["offset"] % extent["align"], 0)
            self.assertLess(extent["first"], extent["last"])
            self.assertLessEqual(extent["last"], plan["program_steps"])
        self.assertEqual(self.overlaps(plan), [])
        device = next(space for space in plan["spaces"] if space["name"] == "device")
        room = device["capacity_bytes"] - sum(line["bytes"] for line in device["declared"])
        if not plan["fits"] and device["peak_bytes"] > room:
            self.assertEqual(sum(tenant["bytes"] for tenant in plan["blame"]["tenants"]),
                             device["peak_bytes"])
        return device

    def check_remedies(self, arguments, plan):
        """Each remedy, applied as overrides, fits, with the peak it promised."""
        for remedy in plan["remedies"]:
            changes = [f"{key}={value}" for key, value in remedy["change"].items()]
            changed = skep("plan", *arguments, "--json", *changes)
            self.assertEqual(changed.returncode, 0, f"{arguments} {changes}: {changed.stderr}")
            device = self.check_plan(self.document(changed))
            self.assertEqual(device["peak_bytes"], remedy["peak_bytes"])

    def test_plans_sum_up_and_remedies_hold(self):
        configs = TREE / "tests" / "unit" / "model" / "configs"
        rows = [("gpt2", "rtx3060-12g", ["batch.microbatch=64"], 3),
                ("gpt2-xl", "rtx4090-24g", ["batch.microbatch=4"], 3),
                ("llama-3.2-1b", "rtx3060-12g", [], 3),
                ("qwen2-0.5b", "rtx3090-24g", ["batch.microbatch=32"], 3),
                ("gpt2", "h100-80g", [], 0), ("qwen3-0.6b", "h100-80g", [], 0)]
        for model, target, overrides, code in rows:
            with self.subTest(model=model, target=target):
                arguments = [configs / f"{model}.json", "--target", target, *overrides]
                result = skep("plan", *arguments, "--json")
                plan = self.document(result, code)
                self.assertEqual(plan["fits"], code == 0)
                self.check_plan(plan)
                if code == 3:
                    self.assertRegex(result.stderr, rf"^skep: target {target}: ")
                    self.check_remedies(arguments, plan)
                    self.assertEqual(skep("plan", *arguments).returncode, 3)

    def test_the_same_plan_has_the_same_hash_and_another_has_another(self):
        model = TREE / "tests" / "unit" / "model" / "configs" / "gpt2.json"
        hashes = [self.document(skep("plan", model, "--target", "h100-80g", "--json",
                                     *overrides))["hash"]
                  for overrides in ([], [], ["batch.microbatch=2"], ["optimizer.lr=0.1"])]
        self.assertEqual(hashes[0], hashes[1])
        self.assertNotEqual(hashes[0], hashes[2])
        self.assertEqual(hashes[0], hashes[3], "the learning rate is no part of a program")

    def check_pair(self, model, target):
        began = time.monotonic()
        result = skep("plan", model, "--target", target, "--json")
        seconds = time.monotonic() - began
        plan = self.document(result, 0, 3)
        self.assertEqual(plan["fits"], result.returncode == 0)
        self.assertLess(seconds, PLAN_SECONDS, f"{model.name} on {target}")

    def test_every_model_and_every_target_can_be_planned(self):
        """Each model on some target, each target with some model; all pairs when SKEP_LONG=1."""
        self.assertGreater(len(MODELS), 30)
        for i, model in enumerate(MODELS):
            for k, target in enumerate(TARGETS):
                if LONG or k == i % len(TARGETS):
                    with self.subTest(model=model.name, target=target):
                        self.check_pair(model, target)

    def test_help(self):
        everything = skep("help")
        self.assert_exit(everything, 0)
        for command in COMMANDS:
            self.assertIn(f"\n  {command} ", everything.stdout)
            for arguments in (["help", command], [command, "--help"]):
                result = skep(*arguments)
                self.assert_exit(result, 0)
                self.assertTrue(result.stdout.startswith(f"skep {command} "), result.stdout)
                self.assertEqual(result.stderr, "")
        self.assert_exit(skep("help", "keys"), 0)
        self.assertIn("batch.microbatch", skep("help", "keys").stdout)
        self.assertRegex(skep("--version").stdout, r"^skep \d+\.\d+\.\d+\n$")
        self.assertEqual(skep("--help").stdout, everything.stdout)

    def test_bad_usage_is_2_and_names_the_nearest(self):
        for arguments, word in ((["trian"], "train"), (["help", "trian"], "train"),
                                (["train"], "skep help train"), (["plan"], "skep help plan"),
                                (["inspect", "x", "--jsn"], "--jsn"),
                                (["plan", "x", "--target"], "--target"),
                                (["snapshot", "lst", "x"], "lst"),
                                (["eval", "none", "--data", "x"], "none")):
            result = skep(*arguments)
            self.assert_exit(result, 2)
            self.assertEqual(result.stdout, "")
            self.assertIn(word, result.stderr)
            self.assertRegex(result.stderr, r"^skep: [^\n]+: [^\n]+\n$")
        self.assertEqual(skep().returncode, 2)


if __name__ == "__main__":
    main()
