"""What a run has learned is what its commands use, and a run goes on only as the same run."""
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
        self.assertIn("data.train", result.stderr)


if __name__ == "__main__":
    main()
