"""Plans of a site: what moves between ranks by formulas of our own, peaks over the ZeRO stages,
padding, shards and meshes, the transport tried out, and what is refused."""
import json
import os
import pathlib
import resource
import signal
import subprocess

from small_run import GPT2, LLAMA, LONG, SANITIZED, SKEP, TIMEOUT_S, RunTest, main, skep, wait_until

CONFIGS = pathlib.Path(__file__).parents[1] / "unit" / "model" / "configs"
GRANULE = 64
TALLY_BYTES = 216  # loss, tokens, 24 digits and a count: eight bytes each
# Of 1 to 64: powers of two, their neighbours, primes and products.
WORLDS = (1, 2, 3, 4, 5, 7, 8, 9, 12, 13, 15, 16, 17, 24, 31, 32, 33, 48, 61, 63, 64)
PLAN_SECONDS = 10 if not SANITIZED else 120  # of the processor; it takes about one
BF16 = ["precision.params=bf16", "precision.compute=bf16"]


def processor_seconds():
    """What ended children have used."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def units_of(config):
    """name -> sizes of the parameters in it, by the layout of each family."""
    if config["model_type"] == "gpt2":
        width, layers = config["n_embd"], config["n_layer"]
        block = [3 * width * width, width * width, 4 * width * width, 4 * width * width,
                 width, width, 3 * width, width, width, width, 4 * width, width]
        embed = [config["vocab_size"] * width, config["n_positions"] * width]
        final, tied = [width, width], True
    else:
        width, ffn = config["hidden_size"], config["intermediate_size"]
        heads, layers = config["num_attention_heads"], config["num_hidden_layers"]
        groups = config["num_key_value_heads"] * (width // heads)
        block = [width * width, width * groups, width * groups, width * width,
                 width * ffn, width * ffn, ffn * width, width, width]
        embed, tied = [config["vocab_size"] * width], config["tie_word_embeddings"]
        final = [width] + ([] if tied else [config["vocab_size"] * width])
    units = {"embed": embed}
    units.update((f"layers.{layer}", block) for layer in range(layers))
    units["final"] = final
    return units, tied


def rounded(value, step):
    return -(-value // step) * step


def elements_of(sizes, world):
    return rounded(sum(rounded(size, GRANULE) for size in sizes), GRANULE * world)


def volumes_of(config, site):
    """Bytes that a rank receives in a step. `site` has shard, replicate, zero, compute and wire
    (bytes of an element), accumulation, late (reduce_at=step) and keep."""
    shard, replicate, steps = site["shard"], site["replicate"], site["accumulation"]
    world, times = shard * replicate, 1 if site["late"] else site["accumulation"]
    units, tied = units_of(config)
    volumes = dict.fromkeys(("gather_forward", "gather_backward", "reduce", "reduce_whole",
                             "replicate", "gather_params"), 0)
    for name, sizes in units.items():
        elements = elements_of(sizes, world)
        others = elements * (shard - 1) // shard
        between = elements // shard * (replicate - 1) // replicate
        volumes["reduce"] += others * site["wire"] * times
        volumes["replicate"] += between * (site["wire"] + 4) * times
        if site["zero"] == 0:
            volumes["reduce_whole"] += others * 4 * times
        elif site["zero"] < 3:
            volumes["gather_params"] += others * site["compute"]
        else:
            # The head is used by both passes at once; untied, nothing else uses the outer units
            # in the backward pass.
            twice = not site["keep"] and (tied or name.startswith("layers."))
            volumes["gather_forward"] += others * site["compute"] * steps
            volumes["gather_backward"] += others * site["compute"] * steps * twice
    volumes["tallies"] = 2 * TALLY_BYTES * (world - 1)
    volumes["total"] = sum(volumes.values())
    return volumes


class SitePlans(RunTest):
    def plan(self, model, *arguments, codes=(0,)):
        return self.document(skep("plan", model, "--json", *arguments), *codes)

    def check_volumes(self, model, config, site):
        rows = 7 * site["shard"] * site["replicate"]  # two microbatches of four, the last not full
        keys = [f"strategy.zero={site['zero']}", f"strategy.replicate={site['replicate']}",
                f"precision.reduce={'f32' if site['wire'] == 4 else 'bf16'}",
                f"strategy.reduce_at={'step' if site['late'] else 'microbatch'}",
                f"strategy.keep_gathered={str(site['keep']).lower()}", "batch.sequence=16",
                "batch.microbatch=4", f"batch.tokens={rows * 16}",
                *(BF16 if site["compute"] == 2 else [])]
        plan = self.plan(model, "--ranks", site["shard"] * site["replicate"], *keys)
        self.assertEqual(plan["mesh"], {"replicate": site["replicate"], "shard": site["shard"]})
        self.assertEqual(plan["volumes"], volumes_of(config, site), keys)
        row = next(row for row in plan["stages"] if row["zero"] == site["zero"])
        self.assertEqual(row["received_bytes"], plan["volumes"]["total"])

    def test_volumes_are_those_of_the_formulas(self):
        folder = self.folder()
        meshes = ((1, 2), (1, 3), (2, 2), (2, 1), (3, 2))
        for name, config in (("untied", LLAMA), ("gpt2", GPT2)):
            folder.write_model(config)
            for replicate, shard in meshes:
                for zero in range(4):
                    for compute, wire in ((4, 4), (2, 2), (4, 2)):
                        site = {"replicate": replicate, "shard": shard, "zero": zero, "keep": False,
                                "compute": compute, "wire": wire, "late": False, "accumulation": 2}
                        with self.subTest(model=name, **site):
                            self.check_volumes(folder.path / "model", config, site)

    def test_volumes_with_other_reductions_and_kept_params(self):
        folder = self.folder()
        site = {"replicate": 1, "shard": 4, "compute": 2, "wire": 2, "accumulation": 2}
        for name, config in (("untied", LLAMA), ("gpt2", GPT2)):
            folder.write_model(config)
            for zero, late, keep in ((0, True, False), (1, True, False), (3, False, True)):
                with self.subTest(model=name, zero=zero, late=late, keep=keep):
                    self.check_volumes(folder.path / "model", config,
                                       {**site, "zero": zero, "late": late, "keep": keep})

    def check_order(self, model, ranks, *keys):
        """peak(3) <= peak(2) <= peak(1) <= peak(0) unless a unit is too large, and then a note
        names it. Gives whether one is."""
        plan = self.plan(model, "--ranks", ranks, "--target", "h100-80g", *BF16, *keys,
                         codes=(0, 3))
        elements = sum(unit["elements"] for unit in plan["units"])
        large = [unit["name"] for unit in plan["units"]
                 if unit["elements"] > (1 - 1 / ranks) * elements]
        peaks = [row["peak_bytes"]["device"] for row in plan["stages"]]
        self.assertEqual([row["zero"] for row in plan["stages"]], [0, 1, 2, 3])
        named = [note for note in plan["notes"] if any(f"unit {name} " in note for name in large)]
        self.assertEqual(len(named), len(large), plan["notes"])
        if not large:
            self.assertEqual(peaks, sorted(peaks, reverse=True), f"{model} on {ranks}")
            self.assertEqual(plan["notes"], [])
        for before, after in zip(plan["stages"], plan["stages"][1:]):
            more = after["peak_bytes"]["device"] > before["peak_bytes"]["device"]
            said = any(f"ZeRO {after['zero']} needs" in note for note in plan["notes"])
            self.assertEqual(more, said, plan["notes"])
        fitting = [(row["step_seconds"], -row["zero"]) for row in plan["stages"] if row["fits"]]
        self.assertEqual(plan["fastest_zero"], -min(fitting)[1] if fitting else None)
        return bool(large)

    def test_each_stage_needs_no_more_than_the_one_before(self):
        models = ("gpt2", "distilgpt2", "smollm2-135m", "qwen2-0.5b", "llama-3.2-1b", "llama-2-7b")
        for model in models:
            for ranks in (2, 3, 4, 8):
                with self.subTest(model=model, ranks=ranks):
                    self.assertFalse(self.check_order(CONFIGS / f"{model}.json", ranks))

    def test_a_unit_that_is_most_of_the_model_is_named(self):
        folder = self.folder({**LLAMA, "vocab_size": 30000, "tie_word_embeddings": True})
        self.assertTrue(self.check_order(folder.path / "model", 2))
        self.assertTrue(self.check_order(CONFIGS / "gpt2.json", 4, "strategy.units=root"))
        text = skep("plan", CONFIGS / "gpt2.json", "--ranks", "4", "strategy.units=root")
        self.assertIn("unit root is the whole model", text.stdout)

    def test_a_row_of_the_table_is_the_plan_of_that_stage(self):
        arguments = [CONFIGS / "gpt2.json", "--ranks", 4, "--target", "rtx4090-24g",
                     "batch.microbatch=4"]
        table = self.plan(*arguments)["stages"]
        for zero in range(4):
            plan = self.plan(*arguments, f"strategy.zero={zero}")
            spaces = {space["name"]: space["peak_bytes"] for space in plan["spaces"]
                      if space["name"] != "disk"}
            self.assertEqual(table, plan["stages"])
            self.assertEqual(table[zero]["peak_bytes"], spaces)
            self.assertEqual(table[zero]["fits"], plan["fits"])
            self.assertEqual(table[zero]["received_bytes"], plan["volumes"]["total"])
            self.assertAlmostEqual(table[zero]["step_seconds"], plan["estimate"]["step_seconds"])

    def test_remedies_between_ranks_hold(self):
        """Each remedy, applied, fits with the peak it promised; what splits more is among them."""
        gpt2 = [CONFIGS / "gpt2.json", "--ranks", 4, "--target", "rtx4090-24g"]
        rows = [([CONFIGS / "llama-3.1-8b.json", "--ranks", 4, "--target", "h100-80g",
                  "batch.microbatch=8", "strategy.zero=0", *BF16], "strategy.zero")]
        for key, bad, good in (("strategy.keep_gathered", "true", "false"),
                               ("strategy.zero", "1", "3")):
            tight = [self.plan(*gpt2, f"{key}={value}")["spaces"][0] for value in (bad, good)]
            declared = sum(line["bytes"] for line in tight[0]["declared"])
            self.assertGreater(tight[0]["peak_bytes"], tight[1]["peak_bytes"])
            rows.append(([*gpt2, f"{key}={bad}",
                          f"limits.device={declared + tight[1]['peak_bytes']}"], key))
        for arguments, key in rows:
            with self.subTest(key=key):
                plan = self.plan(*arguments, codes=(3,))
                self.assertIn(key, {name for remedy in plan["remedies"]
                                    for name in remedy["change"]})
                for remedy in plan["remedies"]:
                    changes = [f"{name}={value}" for name, value in remedy["change"].items()]
                    changed = self.plan(*arguments, *changes)
                    self.assertEqual(changed["spaces"][0]["peak_bytes"], remedy["peak_bytes"])

    def test_no_change_of_a_heaped_remedy_is_needless(self):
        arguments = [CONFIGS / "llama-3.2-1b.json", "--ranks", 4, "--target", "rtx4090-24g",
                     "batch.microbatch=8", "limits.device=7GiB", *BF16]
        heaped = [remedy["change"] for remedy in self.plan(*arguments, codes=(3,))["remedies"]
                  if len(remedy["change"]) > 1]
        self.assertTrue(heaped)
        for change in heaped:
            changes = [f"{key}={value}" for key, value in change.items()]
            self.assert_exit(skep("plan", *arguments, *changes), 0)
            for i in range(len(changes)):
                fewer = changes[:i] + changes[i + 1:]
                self.assert_exit(skep("plan", *arguments, *fewer), 3)

    def test_the_largest_model_is_planned_with_its_table_in_seconds(self):
        began = processor_seconds()
        plan = self.plan(CONFIGS / "llama-3.1-405b.json", "--ranks", 64, "--target", "h100-80g",
                         *BF16, codes=(0, 3))
        self.assertLess(processor_seconds() - began, PLAN_SECONDS)
        self.assertEqual(len(plan["stages"]), 4)

    def test_padding_is_at_most_a_thousandth(self):
        models = ("gpt2", "smollm2-135m", "qwen2.5-0.5b", "qwen3-0.6b", "llama-3.2-1b",
                  "mistral-7b-v0.1")
        for model in models:
            config = CONFIGS / f"{model}.json"
            for world in range(1, 65) if LONG else WORLDS:
                units = self.document(skep("inspect", config, "--shards", world, "--json"))["units"]
                elements = sum(unit["elements"] for unit in units)
                padding = sum(unit["padding"] for unit in units)
                self.assertLessEqual(padding, 1e-3 * elements, f"{model} on {world}")
                for unit in units:
                    self.assertEqual(unit["elements"] % (GRANULE * world), 0)
            plan = self.plan(config, "--ranks", world, "--target", "h100-80g", codes=(0, 3))
            self.assertEqual([unit["padding"] for unit in plan["units"]],
                             [unit["padding"] for unit in units])
            self.assertEqual(sum(plan["padding_of_shard"]), padding)

    def test_a_site_of_one_is_like_no_site(self):
        alone = self.plan(CONFIGS / "gpt2.json", "--target", "rtx4090-24g")
        one = self.plan(CONFIGS / "gpt2.json", "--target", "rtx4090-24g", "--ranks", 1)
        self.assertEqual(alone, one)
        self.assertEqual(one["ranks"], 1)
        self.assertNotIn("stages", one)

    def test_the_text_says_what_the_document_says(self):
        arguments = ["plan", CONFIGS / "gpt2.json", "--ranks", 6, "--target", "h100-80g",
                     "strategy.replicate=2"]
        text, plan = skep(*arguments).stdout, self.plan(*arguments[1:])
        self.assertIn("site     6 ranks, all with this plan: mesh replicate=2,shard=3", text)
        self.assertIn(f"{plan['volumes']['total']:,} B", text)
        for kind in ("gather_forward", "gather_backward", "reduce", "replicate", "tallies"):
            self.assertIn(f"{plan['volumes'][kind]:,} B", text)
        self.assertIn("  3* ", text)

    def test_what_is_wrong_is_named(self):
        model = CONFIGS / "gpt2.json"
        rows = [(["plan", model, "--ranks", "0"], "--ranks", "at least 1"),
                (["plan", model, "--ranks", "1025"], "--ranks", "at most 1024"),
                (["plan", model, "--ranks", "two"], "--ranks", "two"),
                (["plan", model, "--ranks", "4", "strategy.replicate=3"], "strategy.replicate",
                 "take 1, 2 or 4"),
                (["plan", model, "--ranks", "4", "strategy.reduce_at=step"], "ZeRO 3",
                 "strategy.zero to 0 or 1"),
                (["plan", model, "--ranks", "4", "strategy.overrides=layer.0=zero:1"], "layer.0",
                 "layers.0"),
                (["inspect", model, "--shards", "0"], "--shards", "at least 1"),
                (["comm", "--ranks", "1"], "--ranks", "at least 2"),
                (["comm", "--ranks", "1025"], "--ranks", "at most 1024"),
                (["comm", "--bytes", "1MiB,x"], "--bytes", "512MiB"),
                (["comm", "--bytes", "2GiB"], "--bytes", "1 GiB"),
                (["mesh", "shard=2,shard=2"], "mesh", "shard"),
                (["mesh", "shard=4", "--table", "0,1,2,2"], "rank 2", "rank 3")]
        for arguments, *words in rows:
            result = skep(*arguments)
            self.assert_exit(result, 2)
            self.assertEqual(result.stdout, "")
            self.assertRegex(result.stderr, r"^skep: [^\n]+: [^\n]+\n$")
            for word in words:
                self.assertIn(word, result.stderr)


class Documents(RunTest):
    def test_meshes_and_shards_are_one_document_each(self):
        mesh = self.document(skep("mesh", "replicate=2,shard=4", "--per-node", 4, "--json"))
        self.assertEqual(mesh["ranks"], 8)
        self.assertEqual(mesh["coordinates"][5], [1, 1])
        shards = self.document(skep("inspect", CONFIGS / "gpt2.json", "--shards", 3, "--json"))
        self.assertEqual(shards["shards"], 3)
        self.assertEqual(len(shards["units"][1]["holds"]), 3)
        self.assertIn("transformer.h.0.attn.c_attn.weight", json.dumps(shards["units"][1]["holds"]))

    def test_every_parameter_is_held_once(self):
        for model, shards in (("gpt2", 5), ("smollm2-135m", 64), ("qwen2-0.5b", 7)):
            report = self.document(skep("inspect", CONFIGS / f"{model}.json", "--shards", shards,
                                        "--json"))
            held = {}
            for unit in report["units"]:
                for rank, parts in enumerate(unit["holds"]):
                    begin, end = unit["shards"][rank]
                    self.assertLessEqual(sum(part["count"] for part in parts), end - begin)
                    for part in parts:
                        self.assertEqual(part["first"], held.get(part["name"], 0))
                        held[part["name"]] = part["first"] + part["count"]
            whole = {}
            for tensor in report["tensors"]:
                count = 1
                for size in tensor["shape"]:
                    count *= size
                whole[tensor["name"]] = count
            self.assertEqual(held, whole)

    def test_the_summary_is_short_and_v_is_full(self):
        arguments = ["inspect", CONFIGS / "llama-2-7b.json", "--shards", "32"]
        short, full = skep(*arguments).stdout, skep(*arguments, "-v").stdout
        self.assertLess(len(short.splitlines()), 60)
        self.assertIn("model.layers.17.mlp.up_proj.weight", full)
        self.assertGreater(len(full.splitlines()), 32 * 34)


class Transport(RunTest):
    def test_every_collective_is_right_in_every_group(self):
        for ranks in (2, 3, 4):
            report = self.document(skep("comm", "--ranks", ranks, "--test", "--json"))
            self.assertEqual(report["ranks"], ranks)
            self.assertNotIn("bandwidth", report)
            tested = {(test["collective"], test["wire"], test["group"]) for test in report["tests"]}
            self.assertEqual(len(tested), 9 * 4)
            for test in report["tests"]:
                self.assertEqual(test["wrong"], 0, test)
                self.assertGreater(test["calls"], ranks)
                self.assertEqual(test["elements"] > 0, test["collective"] != "barrier", test)

    def test_rates_follow_from_times(self):
        report = self.document(skep("comm", "--ranks", 3, "--bandwidth", "--json", "--bytes",
                                    "1000,256KiB"))
        self.assertNotIn("tests", report)
        self.assertEqual(len(report["bandwidth"]), 6 * 2 + 1)
        for row in report["bandwidth"]:
            self.assertLessEqual(row["best_s"], row["median_s"])
            self.assertGreater(row["best_s"], 0)
            received = {"broadcast": 1, "all-reduce": 4 / 3}.get(row["collective"], 2 / 3)
            rate = row["bytes"] / row["best_s"]
            self.assertAlmostEqual(row["algorithm_bytes_per_s"], rate, delta=1e-6 * rate)
            self.assertAlmostEqual(row["bus_bytes_per_s"], received * rate, delta=1e-6 * rate)
            self.assertAlmostEqual(row["bus_bits_per_s"], 8 * received * rate, delta=8e-6 * rate)
        self.assertEqual({row["bytes"] for row in report["bandwidth"]}, {0, 1152, 262272})

    def test_a_killed_rank_ends_it_with_4(self):
        sizes = ",".join(["4MiB"] * 16)
        with subprocess.Popen([SKEP, "comm", "--ranks", "3", "--bandwidth", "--bytes", sizes],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True) as process:
            children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children")
            self.assertTrue(wait_until(lambda: len(children.read_text().split()) == 3))
            ranks = [int(word) for word in children.read_text().split()]
            # A rank that has mapped its peers' arenas is in the middle of its collectives.
            maps = pathlib.Path(f"/proc/{ranks[1]}/maps")
            self.assertTrue(wait_until(lambda: maps.read_text().count("/memfd:") >= 3))
            os.kill(ranks[1], signal.SIGKILL)
            _, errors = process.communicate(timeout=TIMEOUT_S)
        self.assertEqual(process.returncode, 4, errors)
        self.assertRegex(errors, r"skep: rank [012]: ")


if __name__ == "__main__":
    main()
