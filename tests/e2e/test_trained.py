"""What a run has learned is what its commands use, and a run goes on only as the same run."""
import hashlib
import math
import re
import unittest

from small_run import LLAMA, RunTest, main, write_tokens


class Trained(RunTest):
    def loss(self, folder, what, *arguments):
        result = folder.run("eval", what, "--data", "valid.u16", "--json", "batch.sequence=16",
                            *arguments)
        return self.document(result)["loss"]

    def test_eval_of_a_run_uses_its_newest_snapshot(self):
        folder = self.folder(steps=30, snapshot__every=10)
        self.assert_exit(folder.train(), 0)
        learned = self.loss(folder, "run.yaml")
        self.assertEqual(learned, self.loss(folder, "run/model"))
        self.assertLess(learned, 4.0, "random weights lose about ln 97 = 4.57")

    def test_eval_rounds_the_masters_of_a_bf16_run(self):
        bf16 = {"precision__params": "bf16", "precision__compute": "bf16"}
        folder = self.folder(steps=20, **bf16)
        self.assert_exit(folder.train(), 0)
        wide = ("precision.params=bf16", "precision.compute=bf16")
        self.assertEqual(self.loss(folder, "run.yaml"), self.loss(folder, "run/model", *wide))

    def test_a_random_run_without_a_snapshot_is_refused(self):
        folder = self.folder()
        result = folder.run("eval", "run.yaml", "--data", "valid.u16")
        self.assert_exit(result, 2)
        self.assertIn("train first", result.stderr)

    def test_generate_of_a_run_uses_its_newest_snapshot(self):
        folder = self.folder(steps=30)
        self.assert_exit(folder.train(), 0)
        flags = ("--prompt", "1,2,3", "--ids", "--tokens", "6", "--temperature", "0")
        texts = {folder.run("generate", what, *flags).stdout for what in ("run.yaml", "run/model")}
        self.assertEqual(len(texts), 1)
        self.assertNotEqual(texts.pop(), "")

    def test_a_prompt_is_bytes_only_for_a_model_without_a_tokenizer(self):
        folder = self.folder({**LLAMA, "vocab_size": 256}, steps=1)
        self.assert_exit(folder.train(), 0)
        prompt = ("generate", "run/model", "--tokens", "2", "--prompt")
        self.assert_exit(folder.run(*prompt, "It is"), 0)
        (folder.path / "run" / "model" / "tokenizer.json").write_text("{}")
        result = folder.run(*prompt, "It is")
        self.assert_exit(result, 2)
        self.assertEqual(result.stdout, "")
        self.assertIn("tokenizer.json", result.stderr)  # which is not one
        self.assert_exit(folder.run(*prompt, "1,2", "--ids"), 0)
        self.assert_exit(folder.run(*prompt, "It is", "data.format=bytes"), 0)

    def test_a_changed_model_is_no_continuation(self):
        folder = self.folder(steps=6)
        self.assert_exit(folder.train("pause_at=3"), 0)
        before = folder.state()
        folder.write_model({**LLAMA, "rms_norm_eps": 0.1})
        result = folder.train()
        self.assert_exit(result, 2)
        self.assertIn("config.json", result.stderr)
        self.assertEqual(before, folder.state())

    def test_other_data_are_no_continuation(self):
        folder = self.folder(steps=6)
        self.assert_exit(folder.train("pause_at=3"), 0)
        write_tokens(folder.path / "train.u16", 5000, 97, 1)
        result = folder.train()
        self.assert_exit(result, 2)
        self.assertIn("data.train: the data has 10000 bytes, but had 12000",
                      result.stderr)
        write_tokens(folder.path / "train.u16", 6000, 97, 3)
        result = folder.train()
        self.assert_exit(result, 2)
        self.assertIn("data.train: the files have the sizes recorded in the snapshot but different",
                      result.stderr)
        write_tokens(folder.path / "train.u16", 6000, 97, 1)
        self.assert_exit(folder.train(), 0)

    def test_a_snapshot_that_knows_only_its_rows_is_gone_on_from(self):
        folder = self.folder(steps=6)
        self.assert_exit(folder.train("pause_at=3"), 0)
        path = folder.snapshots()[-1] / "snapshot.json"
        text = path.read_text()
        kept = re.sub(r'"data_[a-z]+": "[0-9]+",?\s*', "", text)
        kept = re.sub(r',\s*}', "}", kept)
        body, tail = kept.rsplit(',\n  "blake2b"', 1)
        digest = hashlib.blake2b(body.encode(), digest_size=32).hexdigest()
        self.assertIn('"', tail)
        path.write_text(f'{body},\n  "blake2b": "{digest}"\n}}\n')
        self.assertNotIn("data_hash", path.read_text())
        result = folder.train()
        self.assert_exit(result, 0)
        self.assertIn("resuming from", result.stderr)

    def test_a_finished_run_goes_on_when_steps_is_raised(self):
        folder = self.folder(steps=6, schedule__kind="constant")
        whole = self.folder(steps=12, schedule__kind="constant")
        self.assert_exit(folder.train(), 0)
        result = folder.train("steps=12")
        self.assert_exit(result, 0)
        self.assertIn("steps is now 12; it was 6", result.stderr)
        self.assert_exit(whole.train(), 0)
        self.assertTrue(folder.state() == whole.state())
        result = folder.train("steps=9")
        self.assert_exit(result, 2)
        self.assertIn("steps is now 9, but the snapshot is of step 12", result.stderr)

    def test_a_longer_run_is_on_the_longer_schedule(self):
        folder = self.folder(steps=6, schedule__kind="cosine")
        self.assert_exit(folder.train(), 0)
        result = folder.train("steps=12")
        self.assert_exit(result, 0)
        self.assertIn("the schedule for the new number", result.stderr)
        rates = [line["lr"] for line in folder.metrics("step")]
        self.assertEqual(len(rates), 12)
        expected = [0.01 * (0.1 + 0.45 * (1 + math.cos(math.pi * s / 12))) for s in range(6, 12)]
        for rate, wanted in zip(rates[6:], expected):
            self.assertAlmostEqual(rate, wanted, delta=1e-9)

    def test_a_list_of_many_files_is_in_metrics_and_snapshot(self):
        folder = self.folder(steps=2)
        names = [f"{'long-name-' * 12}{i:04}.u16" for i in range(600)]
        for name in names:
            write_tokens(folder.path / name, 20, 97, 1)
        folder.write_run(data__train=f"[{', '.join(names)}]")
        self.assert_exit(folder.train("pause_at=1"), 0)
        self.assertEqual(folder.metrics("start")[0]["keys"]["data.train"], names)
        self.assert_exit(folder.train(), 0)
        names[-1], names[-2] = names[-2], names[-1]
        folder.write_run(data__train=f"[{', '.join(names)}]")
        result = folder.train()
        self.assert_exit(result, 2)
        self.assertIn("data.train is now [", result.stderr)


class Diverged(RunTest):
    def test_a_diverged_run_stops_and_keeps_its_good_snapshots(self):
        """At this rate the weights leave every range before the first dozen steps are done."""
        folder = self.folder(steps=200, snapshot__every=3, optimizer__lr=1000,
                             optimizer__clip_norm=0, schedule__kind="constant")
        result = folder.train()
        self.assert_exit(result, 1)
        steps = folder.metrics("step")
        first = next(line["step"] for line in steps if line["skipped"])
        self.assertEqual(len(steps), first + 19, "20 in a row end the run")
        self.assertTrue(folder.snapshots())
        for snapshot in folder.snapshots():
            self.assertLess(int(snapshot.name.split("-")[1]), first)
        lines = result.stderr.splitlines()
        self.assertRegex(lines[-1], f"^skep: step {first + 19}: .*; lower optimizer.lr")
        self.assertEqual(sum("not finite" in line for line in lines), 4, result.stderr)
        self.assertNotIn("-nan", result.stderr)

    def test_the_time_left_is_that_to_the_pause(self):
        folder = self.folder(steps=100000000)
        result = folder.train("pause_at=12")
        self.assert_exit(result, 0)
        self.assertRegex(result.stderr, "step 12/100000000 .* left 0:00 ")


if __name__ == "__main__":
    main()
