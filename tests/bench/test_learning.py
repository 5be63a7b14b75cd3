#!/usr/bin/env python3
"""The learning bench: keys of settings, stored results, statistics, and which runs are next."""

import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "bench"))

import learning_grid as grid
import learning_report as report
import learning_settings as settings
import learning_store as store
import learning_swarm as swarm

TEXT = "0123456789ab"
PROGRAM = {"commit": "c", "instruction_set": "avx2", "probes": {"data parallel": "p", "int8": "q"}}


def record(made, seed, loss, date="2026-01-01T00:00:00", program=PROGRAM, **more):
    return {"setting": made, "seed": seed, "loss": loss, "program": program, "cpu_s": 60,
            "date": date, **more}


class KeyTest(unittest.TestCase):
    def test_key_ignores_the_order_of_names_and_the_spelling_of_numbers(self):
        made = settings.setting("swarm", text=TEXT, outer_lr=1, betas=[0.9, 0.99])
        turned = dict(reversed(list({**made, "outer_lr": 1.0}.items())))
        self.assertEqual(settings.key_of(made), settings.key_of(turned))

    def test_key_depends_on_every_value(self):
        made = settings.setting("swarm", text=TEXT)
        others = {"model": "gpt2-0.9m", "text": "another", "steps": 6000, "tokens": 2048,
                  "sequence": 64, "precision": "f32", "warmup": 50, "lr": 2e-3,
                  "betas": [0.9, 0.999], "eps": 1e-9, "clip_norm": 2.0, "weight_decay": 0.3,
                  "run_keys": ["optimizer.x=1"], "members": 2, "inner_steps": 10, "codec": "int4",
                  "outer_lr": 0.7, "outer_momentum": 0.9, "churn": 0.1, "member_betas": "auto",
                  "member_decay": "auto", "member_variance": "auto", "outer_gain": 1.4}
        sparse = {"sparse_values", "sparse_bits"}
        self.assertEqual(others.keys() | sparse,
                         settings.DEFAULTS["swarm"].keys() | settings.LATER.keys())
        keys = {settings.key_of(settings.setting("swarm", **{"text": TEXT, name: value}))
                for name, value in others.items()}
        self.assertEqual(len(keys | {settings.key_of(made)}), len(others) + 1)

    def test_later_names_at_their_defaults_do_not_change_a_key(self):
        """The key is that of results that were stored before the names existed."""
        made = settings.setting("swarm", text=TEXT, outer_gain=0, member_betas="fixed",
                                member_decay="fixed")
        self.assertEqual(made, settings.setting("swarm", text=TEXT))
        self.assertEqual(settings.key_of(made), "459f215fdde4")

    def test_a_gain_takes_the_place_of_the_momentum(self):
        made = settings.setting("swarm", text=TEXT, outer_gain=1.4, member_betas="auto")
        lines = settings.run_file(made, 7, "/texts").split("\n")
        self.assertIn("  outer_gain: 1.4", lines)
        self.assertIn("  member_betas: auto", lines)
        self.assertFalse([line for line in lines if "momentum" in line or "member_decay" in line])
        self.assertEqual(grid.at(made, steps=100), {**made, "steps": 100})
        self.assertIn("outer 1/gain 1.4, betas auto", settings.words_of(made))
        with self.assertRaises(ValueError):
            settings.setting("swarm", text=TEXT, outer_gain=1, outer_momentum=0.5)

    def test_the_sparse_codec_has_two_settings_of_its_own_and_no_outer_momentum(self):
        made = settings.setting("swarm", text=TEXT, codec="sparse", sparse_values=128)
        lines = settings.run_file(made, 7, "/texts").split("\n")
        self.assertIn("  codec: sparse", lines)
        self.assertIn("  sparse_values: 128", lines)
        self.assertFalse([line for line in lines if "momentum" in line or "sparse_bits" in line])
        self.assertIn("sparse 128 x 2 bit", settings.family_of(made))
        self.assertIn("outer 1/0", settings.words_of(made))
        self.assertEqual(grid.at(made, steps=100), {**made, "steps": 100})
        keys = {settings.key_of(settings.setting("swarm", text=TEXT, codec="sparse", **form))
                for form in ({}, {"sparse_values": 128}, {"sparse_bits": 1})}
        self.assertEqual(len(keys), 3)
        for changes in ({"codec": "sparse", "outer_momentum": 0.5}, {"sparse_bits": 1},
                        {"codec": "sparse", "outer_gain": 1}):
            with self.assertRaises(ValueError):
                settings.setting("swarm", text=TEXT, **changes)

    def test_key_depends_on_the_shape_behind_a_model_name(self):
        made = settings.setting("swarm", text=TEXT)
        self.assertNotEqual(settings.key_of(made), settings.key_of({**made, "shape": "other"}))

    def test_wrong_names_and_rows_are_rejected(self):
        for changes in ({"mumbers": 4}, {"model": "llama-9b"}, {"members": 3}):
            with self.assertRaises(ValueError):
                settings.setting("swarm", text=TEXT, **changes)
        with self.assertRaises(ValueError):
            settings.setting("data parallel", members=4)

    def test_churn_is_a_probability_of_thirty_steps(self):
        made = settings.setting("swarm", text=TEXT, churn=0.1, inner_steps=10)
        self.assertAlmostEqual((1 - settings.chance_per_round(made)) ** 3, 0.9)

    def test_run_file_divides_the_batch_and_has_further_keys(self):
        made = settings.setting("swarm", text=TEXT, members=8, run_keys=["limits.up=1MiB"])
        text = settings.run_file(made, 7, "/texts")
        for line in ("seed: 7", "  tokens: 128", "  microbatch: 1", "  members_min: 8",
                     "limits.up: 1MiB", "  betas: [0.9, 0.99]"):
            self.assertIn(line, text.split("\n"))


class StoreTest(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = pathlib.Path(holder.name) / "results"
        self.made = settings.setting("data parallel", text=TEXT)

    def test_half_a_line_is_not_read_and_not_continued(self):
        for seed in (1, 2):
            store.append_record(self.folder, record(self.made, seed, 1.0))
        path = self.folder / "data_parallel.jsonl"
        whole = path.read_bytes()
        path.write_bytes(whole[:-20])
        self.assertEqual([one["seed"] for one in store.read_records(self.folder)], [1])
        store.append_record(self.folder, record(self.made, 3, 1.0))
        self.assertEqual([one["seed"] for one in store.read_records(self.folder)], [1, 3])

    def test_kinds_have_files_of_their_own(self):
        store.append_record(self.folder, record(self.made, 1, 1.0))
        store.append_record(self.folder, record(settings.setting("muon", text=TEXT), 1, 1.0))
        self.assertEqual(sorted(path.name for path in self.folder.iterdir()),
                         ["data_parallel.jsonl", "muon.jsonl"])
        self.assertEqual(len(store.read_records(self.folder)), 2)

    def test_the_newest_of_two_results_counts(self):
        records = [record(self.made, 1, 2.0, "2026-01-02"), record(self.made, 1, 1.0, "2026-01-01")]
        self.assertEqual(store.losses_of(store.by_setting(records), self.made, [1, 2]), {1: 2.0})


class ProgramTest(unittest.TestCase):
    def usable(self, *programs):
        made = settings.setting("data parallel", text=TEXT)
        records = [record(made, seed, 1.0, f"2026-01-{seed + 1:02}", program)
                   for seed, program in enumerate(programs)]
        kept, left_out = report.usable_records(records, mix=False)
        self.assertEqual(len(kept) + left_out, len(records))
        self.assertEqual(report.usable_records(records, mix=True), (records, 0))
        return [one["seed"] for one in kept]

    def test_another_commit_with_equal_probes_is_counted(self):
        self.assertEqual(self.usable(PROGRAM, {**PROGRAM, "commit": "d"}), [0, 1])

    def test_other_bits_or_another_instruction_set_are_left_out(self):
        other = {**PROGRAM, "probes": {"data parallel": "other"}}
        self.assertEqual(self.usable(other, PROGRAM), [1])
        self.assertEqual(self.usable({**PROGRAM, "instruction_set": "avx512"}, PROGRAM), [1])

    def test_each_probe_is_compared_with_its_newest_value(self):
        dense = {**PROGRAM, "probes": {"data parallel": "p"}}
        changed_codec = {**PROGRAM, "probes": {"data parallel": "p", "int8": "changed"}}
        self.assertEqual(self.usable(PROGRAM, changed_codec, dense), [1, 2])


class StatisticsTest(unittest.TestCase):
    def test_interval_is_that_of_a_paired_t_test(self):
        # Differences of 1, 2 and 3 %: standard deviation 1, t(2) = 4.303.
        mean, half, count = store.paired_difference({1: 1.01, 2: 2.04, 3: 1.03, 9: 5.0},
                                                    {1: 1.0, 2: 2.0, 3: 1.0, 8: 5.0})
        self.assertAlmostEqual(mean, 2)
        self.assertAlmostEqual(half, 4.303 / 3 ** 0.5)
        self.assertEqual(count, 3)

    def test_one_common_seed_has_no_interval_and_none_no_difference(self):
        self.assertEqual(store.paired_difference({1: 1.0, 2: 2.0}, {2: 2.0}), (0.0, None, 1))
        self.assertIsNone(store.paired_difference({1: 1.0}, {2: 1.0}))

    def test_report_pairs_with_the_best_baseline(self):
        baselines = [settings.setting("data parallel", text=TEXT, steps=6000, lr=lr)
                     for lr in (1e-3, 2e-3)]
        four = settings.setting("swarm", text=TEXT, steps=6000)
        records = [record(made, seed, loss + seed / 100) for made, loss in
                   ((baselines[0], 2.0), (baselines[1], 1.0), (four, 1.1)) for seed in (11, 12)]
        records[-1].update(short=2, rounds=200)
        lines = report.tables(records)
        self.assertIn("  compared with data parallel at " + settings.words_of(baselines[1]), lines)
        row = next(line for line in lines if "outer 1/0.5" in line)
        self.assertIn("to baseline +8.97 % +- 0.51 (n = 2)", row)
        self.assertIn("2 of 200 rounds short", row)

    def test_a_setting_with_fewer_seeds_is_not_the_best(self):
        lucky, sound = (settings.setting("data parallel", text=TEXT, lr=lr) for lr in (1e-3, 2e-3))
        records = [record(lucky, 11, 0.5), record(sound, 11, 0.6), record(sound, 12, 1.0)]
        best = report.best_of(store.by_setting(records), [lucky, sound], (11, 12))
        self.assertEqual(best, sound)


class RoundsTest(unittest.TestCase):
    def test_missing_samples_and_missing_slices_make_a_round_short(self):
        def commit(*members):
            return {"members": [{"tokens": tokens, "contributed": slices}
                                for tokens, slices in members]}
        commits = [commit((50, 32), (50, 32)), commit((50, 32), (50, 31)),
                   commit((50, 32), (0, 0)), commit((40, 32), (50, 32)), commit((100, 32))]
        self.assertEqual(swarm.rounds_of(commits, 100), {"rounds": 5, "short": 3, "tokens": 440})


class GridTest(unittest.TestCase):
    def results(self, stage, name, loss_of):
        """One result for each run of a stage, by the results so far."""
        wanted = grid.cells(stage, [name], TEXT, store.by_setting(self.records))
        self.records += [record(made, seed, loss_of(made)) for made, seed in wanted]
        return wanted

    def test_stages_narrow_the_settings_and_take_other_seeds_for_the_result(self):
        for name in grid.GRIDS:
            self.records = []
            self.assertEqual(grid.cells("tune", [name], TEXT, {}), [])
            screen = self.results("screen", name, lambda made: abs(made["lr"] - 1.4e-3))
            tune = self.results("tune", name, lambda made: made["betas"][0])
            result = self.results("result", name, lambda made: 1.0)
            self.assertEqual(len(tune), grid.TUNED * len(grid.TUNING_SEEDS), name)
            self.assertEqual(len(result), len(grid.RESULT_SEEDS))
            self.assertEqual({made["steps"] for made, _ in tune + result}, {grid.FULL_STEPS})
            self.assertEqual(len({settings.key_of(made) for made, _ in screen}),
                             len(grid.GRIDS[name]), "settings that are equal")
            self.assertFalse({seed for _, seed in result} & {seed for _, seed in screen + tune})

    def test_confirm_takes_the_winner_to_another_model_and_text(self):
        self.records = []
        for stage in ("screen", "tune", "result"):
            self.results(stage, "swarm of 4", lambda made: made["lr"])
        table = store.by_setting(self.records)
        confirm = grid.cells("confirm", ["swarm of 4"], TEXT, table, "other text")
        self.assertEqual([(made["model"], made["text"], seed) for made, seed in confirm],
                         [("gpt2-0.9m", "other text", seed) for seed in grid.CONFIRM_SEEDS])
        self.assertNotEqual(confirm[0][0]["shape"], grid.winner("swarm of 4", TEXT, table)[0]
                            ["shape"])

    def test_tuning_waits_for_the_last_run_of_the_screening(self):
        self.records = []
        self.results("screen", "muon", lambda made: made["lr"])
        last = self.records.pop()
        table = store.by_setting(self.records)
        self.assertEqual(grid.cells("tune", ["muon"], TEXT, table), [])
        wanted = grid.cells("screen", ["muon"], TEXT, table)
        self.assertEqual(grid.missing_cells(wanted, table), [(last["setting"], last["seed"])])

    def test_grids_grow_together(self):
        first = grid.cells("screen", ["data parallel", "swarm of 4"], TEXT, {})[:4]
        self.assertEqual([(made["kind"], seed) for made, seed in first],
                         [("data parallel", 11), ("data parallel", 12), ("swarm", 11),
                          ("swarm", 12)])


if __name__ == "__main__":
    unittest.main()
