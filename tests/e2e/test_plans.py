"""Plans: they sum up, their remedies hold, their hashes name them, and every known model can be
planned for every known target."""
import pathlib
import resource

from small_run import LONG, SANITIZED, RunTest, main, skep

TREE = pathlib.Path(__file__).parents[2]
TARGETS = sorted(path.stem for path in (TREE / "targets" / "profiles").glob("*.yaml"))
CONFIGS = TREE / "tests" / "unit" / "model" / "configs"
MODELS = sorted(CONFIGS.glob("*.json"))
PLAN_SECONDS = 4 if not SANITIZED else 60  # of the processor; the slowest take about 1.5


def processor_seconds():
    """What ended children have used."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


class Plans(RunTest):
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

    def test_a_target_without_any_room_is_planned_and_refused(self):
        arguments = ["plan", CONFIGS / "gpt2.json", "--target", "rtx3060-12g"]
        result = skep(*arguments, "--json", "limits.device=1MiB")
        plan = self.document(result, 3)
        self.assertFalse(plan["fits"])
        self.assertEqual(self.check_plan(plan)["capacity_bytes"], 1 << 20)
        self.assertEqual(plan["remedies"], [])
        self.assertIn("limits.device", result.stderr)
        whole = self.document(skep(*arguments, "--json"))
        self.assertEqual(plan["extents"], whole["extents"])
        self.assert_exit(skep(*arguments, "limits.device=1MiB"), 3)

    def check_remedies(self, arguments, plan):
        """Each remedy, applied as overrides, fits, with the peak it promised."""
        for remedy in plan["remedies"]:
            changes = [f"{key}={value}" for key, value in remedy["change"].items()]
            changed = skep("plan", *arguments, "--json", *changes)
            self.assertEqual(changed.returncode, 0, f"{arguments} {changes}: {changed.stderr}")
            device = self.check_plan(self.document(changed))
            self.assertEqual(device["peak_bytes"], remedy["peak_bytes"])

    def test_plans_sum_up_and_remedies_hold(self):
        rows = [("gpt2", "rtx3060-12g", ["batch.microbatch=64"], 3),
                ("gpt2-xl", "rtx4090-24g", ["batch.microbatch=4"], 3),
                ("llama-3.2-1b", "rtx3060-12g", [], 3),
                ("qwen2-0.5b", "rtx3090-24g", ["batch.microbatch=32"], 3),
                ("gpt2", "h100-80g", [], 0), ("qwen3-0.6b", "h100-80g", [], 0)]
        for model, target, overrides, code in rows:
            with self.subTest(model=model, target=target):
                arguments = [CONFIGS / f"{model}.json", "--target", target, *overrides]
                result = skep("plan", *arguments, "--json")
                plan = self.document(result, code)
                self.assertEqual(plan["fits"], code == 0)
                self.check_plan(plan)
                if code == 3:
                    self.assertRegex(result.stderr, rf"^skep: target {target}: ")
                    self.check_remedies(arguments, plan)
                    self.assertEqual(skep("plan", *arguments).returncode, 3)

    def test_offload_is_a_remedy_where_the_host_has_memory_of_its_own(self):
        half = ["precision.params=bf16", "precision.compute=bf16"]
        rows = [("llama-3.2-1b", [*half, "batch.microbatch=2", "strategy.recompute=block"], {
                    "optimizer"}),
                ("qwen3-0.6b", [*half, "batch.sequence=8192", "strategy.recompute=selective"], {
                    "activations"})]
        for model, overrides, wanted in rows:
            arguments = [CONFIGS / f"{model}.json", "--target", "rtx3060-12g", *overrides]
            plan = self.document(skep("plan", *arguments, "--json"), 3)
            found = {remedy["change"].get("strategy.offload") for remedy in plan["remedies"]}
            self.assertLessEqual(wanted, found, plan["remedies"])
            self.check_remedies(arguments, plan)
        arguments = [CONFIGS / "gpt2.json", "--target", "cpu", "limits.device=5GiB",
                     "batch.microbatch=8"]
        plan = self.document(skep("plan", *arguments, "--json"), 3)
        self.assertTrue(plan["remedies"])
        for remedy in plan["remedies"]:
            self.assertNotIn("strategy.offload", remedy["change"])

    def test_what_offload_takes_from_the_device_is_what_the_host_holds(self):
        """Of 8 billion parameters at 8,192 tokens: but for some layers' worth on its way."""
        def peaks(offload):
            plan = self.document(skep("plan", CONFIGS / "llama-3.1-8b.json", "--json", "--target",
                                      "rtx4090-24g", "precision.params=bf16",
                                      "precision.compute=bf16", "batch.sequence=8192",
                                      f"strategy.offload={offload}"), 3)
            self.check_plan(plan)
            return {space["name"]: space["peak_bytes"] for space in plan["spaces"]}
        none, activations, both = (peaks(what) for what in
                                   ("none", "activations", "activations,optimizer"))
        # Input, norms, middle, attended; queries, keys, values; the MLP's three; statistics.
        layer = 8192 * ((5 * 4096 + 6144 + 3 * 14336) * 2 + (32 + 1 + 1) * 4)
        saved = 31 * layer
        self.assertGreaterEqual(activations["pinned"], saved)
        self.assertLess(activations["pinned"], saved + none["pinned"] + (1 << 20))
        self.assertGreater(none["device"] - activations["device"], 0.95 * saved)
        optimizer = both["host"] - activations["host"]
        self.assertEqual(activations["device"] - both["device"], optimizer)

    def test_the_same_plan_has_the_same_hash_and_another_has_another(self):
        model = CONFIGS / "gpt2.json"
        hashes = [self.document(skep("plan", model, "--target", "h100-80g", "--json",
                                     *overrides))["hash"]
                  for overrides in ([], [], ["batch.microbatch=2"], ["optimizer.lr=0.1"])]
        self.assertEqual(hashes[0], hashes[1])
        self.assertNotEqual(hashes[0], hashes[2])
        self.assertEqual(hashes[0], hashes[3], "the learning rate is no part of a program")

    def check_pair(self, model, target):
        began = processor_seconds()
        result = skep("plan", model, "--target", target, "--json")
        seconds = processor_seconds() - began
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


if __name__ == "__main__":
    main()
