"""What a new user meets: text in place of tokens, a disk that the run itself fills, names of
settings and options from other trainers. Each row has the place, the reason and the remedy that the
message must contain."""
import os
import pathlib
import subprocess
import unittest

from small_run import LLAMA, RunTest, main, skep
from test_bad_input import MESSAGE, tree_of

TEXT = b"It is a truth universally acknowledged, that a single man in possession. " * 40


class Rows(RunTest):
    def refused(self, folder, arguments, *words, code=2, without=()):
        before = tree_of(folder.path)
        result = folder.run(*arguments)
        self.assert_exit(result, code)
        self.assertEqual(result.stdout, "")
        self.assertRegex(result.stderr, MESSAGE)
        self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
        for word in words:
            self.assertIn(word, result.stderr)
        for word in without:
            self.assertNotIn(word, result.stderr)
        self.assertEqual(tree_of(folder.path), before, "files were changed")

    def say(self, folder, rows):
        """rows: (name of the sub-test, arguments, words of the message)."""
        for title, arguments, words in rows:
            with self.subTest(title):
                self.refused(folder, arguments, *words)


class TextForATokeniser(Rows):
    """A text file is not read as bytes by a model whose tokens are not bytes."""

    def folder_with_text(self, config, tokenizer=None):
        folder = self.folder(config, data__train="book.txt", data__validation="book.txt", steps=2)
        (folder.path / "book.txt").write_bytes(TEXT)
        if tokenizer:
            (folder.path / "model" / tokenizer).write_text("{}")
        return folder

    def test_text_is_refused_unless_bytes_are_asked_for(self):
        rows = [("a vocabulary above 256", self.folder_with_text({**LLAMA, "vocab_size": 512})),
                ("tokenizer.json", self.folder_with_text(
                    {**LLAMA, "vocab_size": 256}, "tokenizer.json")),
                ("tokenizer.model", self.folder_with_text(
                    {**LLAMA, "vocab_size": 256}, "tokenizer.model"))]
        for title, folder in rows:
            with self.subTest(title):
                words = ("book.txt: is text", "tokenize", "data.format")
                self.refused(folder, ["train", "run.yaml"], *words)
                self.refused(folder, ["eval", "model", "--data", "book.txt", "init=random",
                                      "batch.sequence=16"], *words)
                self.assert_exit(folder.train("data.format=bytes"), 0)

    def test_other_forms_of_text_are_named(self):
        folder = self.folder()
        for name, words in (("a.jsonl", ["JSON lines, not tokens", "tokenize.py"]),
                            ("a.parquet", ["Parquet, not tokens", ".jsonl", "tokenize.py"]),
                            ("a.txt.gz", ["compressed, not tokens", "decompress"])):
            with self.subTest(name):
                (folder.path / name).write_bytes(TEXT)
                self.refused(folder, ["train", "run.yaml", f"data.train={name}"], name, *words)

    def test_a_tracker_makes_no_swarm_of_such_text(self):
        folder = self.folder_with_text({**LLAMA, "vocab_size": 512})
        folder.write_run(swarm__name="heather", swarm__inner_steps=2)
        (folder.path / "roster.yaml").write_text("open: true\n")
        result = folder.run("track", "run.yaml", "--state", "state", "--listen",
                            "tcp://127.0.0.1:0", "--roster", "roster.yaml")
        self.assert_exit(result, 2)
        self.assertIn("book.txt: is text", result.stderr)
        self.assertEqual(list(folder.path.glob("*.skep")), [])

    def test_a_model_of_bytes_reads_text(self):
        folder = self.folder_with_text({**LLAMA, "vocab_size": 256})
        self.assert_exit(folder.train(), 0)

    def test_a_suffix_that_says_bytes_is_taken_at_its_word(self):
        folder = self.folder_with_text({**LLAMA, "vocab_size": 512})
        (folder.path / "book.txt").rename(folder.path / "book.bytes")
        self.assert_exit(folder.train("data.train=book.bytes", "data.validation=book.bytes"), 0)


class OwnDisk(Rows):
    """Files of a run count as space of the run: what its start took, a restart is not refused."""

    def disk(self, folder, size):
        disk = folder.path / "disk"
        disk.mkdir(exist_ok=True)
        made = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(disk)],
                              capture_output=True, check=False)
        if made.returncode != 0:
            self.skipTest("mounting is not permitted")
        self.addCleanup(subprocess.run, ["umount", "-l", str(disk)], check=False)
        return disk

    def needs(self, folder, *arguments):
        plan = self.document(folder.run("plan", "run.yaml", "--json", *arguments), 0, 3)
        return {line["name"]: line["bytes"] for space in plan["spaces"]
                if space["name"] in ("disk", "export_disk") for line in space["declared"]}

    @unittest.skipIf(os.geteuid() != 0, "only root mounts")
    def test_a_run_continues_on_the_disk_that_it_fills(self):
        folder = self.folder({**LLAMA, "hidden_size": 128, "intermediate_size": 256}, steps=9,
                             snapshot__every=1)
        need = self.needs(folder)
        self.disk(folder, need["snapshots"] + need["export"] + (64 << 10))
        places = ["snapshot.folder=disk/s", "export=disk/model"]
        self.assert_exit(folder.train(*places, "pause_at=4"), 0)
        self.assertEqual(len(list((folder.path / "disk" / "s").glob("step-*"))), 2)
        again = folder.train(*places, "pause_at=6")
        self.assert_exit(again, 0)
        self.assertIn("resuming from", again.stderr)
        self.assert_exit(folder.train(*places), 0)
        self.assert_exit(folder.train(*places, "steps=12"), 0)  # beside the old export, too

    @unittest.skipIf(os.geteuid() != 0, "only root mounts")
    def test_what_fresh_sets_aside_is_not_space_of_the_new_run(self):
        folder = self.folder({**LLAMA, "hidden_size": 128, "intermediate_size": 256}, steps=4,
                             snapshot__every=1)
        need = self.needs(folder)
        self.disk(folder, need["snapshots"] + need["export"] + (64 << 10))
        places = ["snapshot.folder=disk/s", "export=disk/model"]
        self.assert_exit(folder.train(*places), 0)
        result = folder.train("--fresh", *places)
        self.assert_exit(result, 3)
        self.assertIn("are available", result.stderr)

    @unittest.skipIf(os.geteuid() != 0, "only root mounts")
    def test_files_of_others_in_the_folders_give_no_space(self):
        """Only what the budget has counts: 2 snapshots of 3, and an export."""
        folder = self.folder({**LLAMA, "hidden_size": 128, "intermediate_size": 256}, steps=9)
        need = self.needs(folder)
        disk = self.disk(folder, need["snapshots"] + need["export"] + (64 << 10))
        (disk / "s" / "old").mkdir(parents=True)
        (disk / "s" / "old" / "filler").write_bytes(b"x" * (need["snapshots"] + (32 << 10)))
        result = folder.train("snapshot.folder=disk/s", "export=disk/model")
        self.assert_exit(result, 3)

    @unittest.skipIf(os.geteuid() != 0, "only root mounts")
    def test_an_export_replaces_the_earlier_one_on_a_disk_for_one(self):
        folder = self.folder({**LLAMA, "hidden_size": 128, "intermediate_size": 256}, steps=2)
        need = self.needs(folder)
        self.disk(folder, need["export"] + (64 << 10))
        self.assert_exit(folder.train("export=disk/model"), 0)
        before = (folder.path / "disk/model/model.safetensors").read_bytes()
        result = folder.train("export=disk/model", "steps=4")
        self.assert_exit(result, 0)
        after = (folder.path / "disk/model/model.safetensors").read_bytes()
        self.assertNotEqual(before, after)
        self.assertEqual([path.name for path in (folder.path / "disk").iterdir()], ["model"])

    def test_the_limit_is_named_where_the_limit_is_too_low(self):
        folder = self.folder(steps=2)
        for command in (["train", "run.yaml"], ["plan", "run.yaml"]):
            result = folder.run(*command, "limits.disk=100KiB")
            self.assert_exit(result, 3)
            self.assertIn("limits.disk", result.stderr)
            self.assertIn("raise limits.disk", result.stderr)
            self.assertNotIn("larger disk", result.stderr)


class OtherTrainers(Rows):
    def test_keys_of_other_trainers_are_answered_with_ours(self):
        folder = self.folder()
        good = (folder.path / "run.yaml").read_text()
        rows = [("learning_rate: 1e-4", "optimizer.lr"), ("lr: 1e-4", "optimizer.lr"),
                ("lr_scheduler: cosine", "schedule.kind"),
                ("lr_scheduler_type: cosine", "schedule.kind"),
                ("warmup_ratio: 0.1", "schedule.warmup_steps"),
                ("num_train_epochs: 3", "steps"), ("max_steps: 3", "steps"),
                ("per_device_train_batch_size: 4", "batch.microbatch"),
                ("batch.micro_batch_size: 4", "batch.microbatch"),
                ("gradient_accumulation_steps: 4", "batch.tokens"),
                ("bf16: true", "precision.params"), ("max_seq_length: 64", "batch.sequence"),
                ("max_grad_norm: 1", "optimizer.clip_norm"),
                ("save_steps: 10", "snapshot.every"), ("output_dir: out", "export"),
                ("training:\n  learning_rate: 1e-4", "optimizer.lr")]
        for text, key in rows:
            with self.subTest(text):
                (folder.path / "run.yaml").write_text(good + text + "\n")
                self.refused(folder, ["train", "run.yaml"], "run.yaml:", "is not a known key", key,
                             without=("did you mean",))
        (folder.path / "run.yaml").write_text(good)
        self.say(folder, [(text, ["train", "run.yaml", text], ["unknown key", key])
                          for text, key in (("learning_rate=1", "optimizer.lr"),
                                            ("lr-scheduler-type=cosine", "schedule.kind"),
                                            ("bf16=true", "precision.params"))])

    def test_options_that_are_settings_here(self):
        folder = self.folder()
        rows = [(["--steps", "5"], "write steps=5"), (["--steps=5"], "write steps=5"),
                (["--microbatch", "4"], "write batch.microbatch=4"),
                (["--batch.tokens", "64"], "write batch.tokens=64"),
                (["--learning-rate", "1"], "optimizer.lr"), (["--bf16"], "precision.params"),
                (["--config", "run.yaml"], "give the run file without an option"),
                (["--gpu", "0"], "target"), (["--frehs"], "did you mean --fresh?")]
        for option, remedy in rows:
            with self.subTest(option):
                self.refused(folder, ["train", "run.yaml", *option], option[0].split("=")[0],
                             remedy)
        self.refused(folder, ["inspect", "model", "--steps", "5"], "skep help inspect")

    def test_resume_is_accepted_and_fresh_is_never_proposed(self):
        folder = self.folder(steps=4)
        self.assert_exit(folder.train("pause_at=2"), 0)
        result = folder.train("--resume")
        self.assert_exit(result, 0)
        self.assertIn("train resumes by itself", result.stderr)
        self.assertIn("resuming from", result.stderr)
        self.assertEqual([line["step"] for line in folder.metrics("step")], [1, 2, 3, 4])
        self.refused(folder, ["train", "run.yaml", "--resum"], "--resume", without=("--fresh",))
        self.refused(folder, ["train", "run.yaml", "--continue"], without=("--fresh",))
        self.refused(folder, ["train", "run.yaml", "--resume", "--fresh"], "contradict")

    def test_names_of_types(self):
        folder = self.folder(steps=1)
        plans = {}
        for name in ("f32", "fp32", "float32", "F32", "bf16", "bfloat16", "BF16"):
            result = folder.run("plan", "run.yaml", "--json", f"precision.params={name}",
                                f"precision.compute={name}")
            plans.setdefault(self.document(result)["hash"], []).append(name)
        self.assertEqual(sorted(plans.values()),
                         [["bf16", "bfloat16", "BF16"], ["f32", "fp32", "float32", "F32"]])
        self.refused(folder, ["plan", "run.yaml", "precision.params=fp16"], "fp16", "f32 or bf16")

    def test_profiles(self):
        for name in ("rtx4090-24g", "RTX4090-24G", "Rtx4090-24g"):
            folder = self.folder()
            plan = self.document(folder.run("plan", "run.yaml", "--json", "--target", name))
            self.assertEqual(plan["target"], "rtx4090-24g")
        for name, nearest in (("4090", "rtx4090-24g"), ("rtx4080", "rtx4090-24g"),
                              ("RTX3061-12G", "rtx3060-12g"), ("H100", "h100-80g")):
            with self.subTest(name):
                result = skep("plan", folder.path / "model", "--target", name)
                self.assert_exit(result, 2)
                self.assertIn(f"did you mean {nearest}?", result.stderr)
                self.assertIn(f"profiles are {nearest},", result.stderr)


class Slips(Rows):
    """Section by section what a user types wrongly, each with the remedy."""

    def test_runs_and_models(self):
        folder = self.folder(steps=1)
        (folder.path / "empty").mkdir()
        self.assert_exit(folder.train(), 0)
        (folder.path / "tab.yaml").write_text("model: model\noptimizer:\n\tlr: 1\n")
        self.say(folder, [
            ("a run file that is not there", ["train", "runs.yaml"],
             ["runs.yaml", "No such file", "there are run.yaml, tab.yaml"]),
            ("a folder", ["train", "empty"], ["empty: the folder has no config.json",
                                              "give a run file"]),
            ("the folder of a run", ["generate", "run", "--prompt", "a"],
             ["run: the folder has no config.json", "did you mean run/model?"]),
            ("a short name", ["plan", "gpt2"], ["gpt2", "did you mean openai-community/gpt2?"]),
            ("a model that is not in the cache", ["plan", "org/name"],
             ["org/name", "run `hf download org/name` (pip install huggingface_hub)"]),
            ("a tab", ["train", "tab.yaml"], ["tab.yaml:3:1: tab", "indent with spaces"])])

    def test_values(self):
        folder = self.folder()
        self.say(folder, [
            ("tokens", ["train", "run.yaml", "batch.tokens=1000", "batch.sequence=64"],
             ["not a multiple of batch.sequence, 64", "use 960 or 1024"]),
            ("few tokens", ["train", "run.yaml", "batch.tokens=10", "batch.sequence=64"],
             ["use 64\n"]),
            ("no data", ["train", "run.yaml", "data.train=none.u16"],
             ["none.u16", "check data.train; paths in a run file are relative to its folder"]),
            ("no validation data", ["train", "run.yaml", "data.validation=none*.u16"],
             ["none*.u16", "check data.validation"]),
            ("an export that cannot be made", ["train", "run.yaml", "export=train.u16/model"],
             ["train.u16", "choose a different folder for the export"])])

    def test_a_run_that_is_stopped_says_how_it_resumes(self):
        folder = self.folder(steps=9)
        result = folder.train("pause_at=4")
        self.assert_exit(result, 0)
        self.assertRegex(result.stderr, r"stopped at step 4 of 9; the same command resumes\n")
        self.assertNotIn("stopped at", folder.train().stderr)


class Plan(Rows):
    def test_the_verdict_comes_first(self):
        folder = self.folder()
        result = folder.run("plan", "run.yaml")
        self.assert_exit(result, 0)
        self.assertRegex(result.stdout, r"^fits: the arena needs \S+ [KMG]iB of the \S+ [KMG]iB "
                                        r"available on the device\n\nmodel ")
        result = folder.run("plan", "run.yaml", "limits.device=1MiB")
        self.assert_exit(result, 3)
        self.assertRegex(result.stdout, "^does not fit: ")
        self.assertNotIn("run `skep plan`", result.stderr)
        too_small = folder.run("plan", "run.yaml", "--target", "rtx3060-12g",
                               "batch.microbatch=1000000", "batch.tokens=16000000")
        self.assert_exit(too_small, 3)
        self.assertRegex(too_small.stdout, "^does not fit: target rtx3060-12g: the device arena "
                                           "needs .*, but only ")
        self.assertRegex(too_small.stderr, "; see the changes in the report\n$")


class Gpu(Rows):
    """A GPU that the build cannot use is not passed over in silence."""

    @unittest.skipIf(os.geteuid() != 0, "only root mounts")
    def test_a_build_without_kernels_names_the_gpu_that_it_finds(self):
        folder = self.folder(steps=1)
        has_kernels = self.document(folder.run("version", "--json"))["cuda"] != ""
        script = ("mount -t tmpfs none /proc/driver && mkdir /proc/driver/nvidia && "
                  "touch /proc/driver/nvidia/version && exec \"$0\" \"$@\"")
        result = subprocess.run(["unshare", "-m", "sh", "-c", script,
                                 *folder.command("train", "run.yaml")], cwd=folder.path, text=True,
                                capture_output=True, check=False)
        if "mount:" in result.stderr or "unshare" in result.stderr or has_kernels:
            self.skipTest("no private mounts, or a build with CUDA kernels")
        self.assert_exit(result, 0)
        self.assertEqual(result.stderr.count("this machine has an NVIDIA GPU, but this build"), 1,
                         result.stderr)

    def test_an_old_nvcc_builds_no_kernels_and_says_so(self):
        folder = self.folder()
        nvcc = folder.path / "nvcc"
        nvcc.write_text("#!/bin/sh\necho 'Copyright (c) 2005-2024 NVIDIA Corporation'\n"
                        "echo 'Cuda compilation tools, release 12.4, V12.4.131'\n")
        nvcc.chmod(0o755)
        tree = pathlib.Path(__file__).parents[2]
        def setup(option):
            return subprocess.run(
                ["meson", "setup", str(folder.path / option), f"-Dcuda={option}"], cwd=tree,
                text=True, capture_output=True, check=False,
                env={**os.environ, "PATH": f"{folder.path}:{os.environ['PATH']}"})
        result = setup("auto")
        self.assert_exit(result, 0)
        words = "is version 12.4; CUDA kernels need 13.0 or newer"
        self.assertIn(words, result.stdout)
        self.assertIn("#define SKEP_CUDA 0", (folder.path / "auto/build_config.h").read_text())
        result = setup("enabled")
        self.assertNotEqual(result.returncode, 0)
        self.assertIn(words, result.stdout)


if __name__ == "__main__":
    main()
