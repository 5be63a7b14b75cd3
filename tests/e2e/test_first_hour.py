"""What a new user meets: text in place of tokens, a disk that the run itself fills, names of
settings and options from other trainers. Each row has the place, the reason and the remedy that the
message must contain."""
import json
import math
import os
import pathlib
import re
import shutil
import subprocess
import unittest

from refusals import RefusalTest
from small_run import LLAMA, main, skep, tensors_of

TEXT = b"It is a truth universally acknowledged, that a single man in possession. " * 40


class Rows(RefusalTest):
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
                words = ("book.txt: is text", "skep data", "data.format")
                if title == "tokenizer.json":  # which is tried, and is none
                    words = ("model/tokenizer.json: is not a tokenizer",)
                self.refused(folder, ["train", "run.yaml"], *words)
                self.refused(folder, ["eval", "model", "--data", "book.txt", "init=random",
                                      "batch.sequence=16"], *words)
                self.assert_exit(folder.train("data.format=bytes"), 0)

    def test_other_forms_of_text_are_named(self):
        folder = self.folder()
        for name, words in (("a.jsonl", ["JSON lines, not tokens", "skep data"]),
                            ("a.parquet", ["Parquet, not tokens", ".jsonl", "skep data"]),
                            ("a.txt.gz", ["compressed, not tokens", "decompress"])):
            with self.subTest(name):
                (folder.path / name).write_bytes(TEXT)
                self.refused(folder, ["train", "run.yaml", f"data.train={name}"], name, *words)

    def test_a_tracker_makes_no_swarm_of_such_text(self):
        folder = self.folder_with_text({**LLAMA, "vocab_size": 512})
        folder.write_run(swarm__name="heather", swarm__inner_steps=2)
        result = folder.run("track", "run.yaml", "--state", "state", "--listen",
                            "tcp://127.0.0.1:0")
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

    def needs(self, folder, *arguments):
        plan = self.document(folder.run("plan", "run.yaml", "--json", *arguments), 0, 3)
        return {line["name"]: line["bytes"] for space in plan["spaces"]
                if space["name"] in ("disk", "export_disk") for line in space["declared"]}

    @unittest.skipIf(os.geteuid() != 0, "only root mounts")
    def test_a_run_continues_on_the_disk_that_it_fills(self):
        folder = self.folder({**LLAMA, "hidden_size": 128, "intermediate_size": 256}, steps=9,
                             snapshot__every=1)
        need = self.needs(folder)
        self.mounted(folder, need["snapshots"] + need["export"] + (64 << 10))
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
        self.mounted(folder, need["snapshots"] + need["export"] + (64 << 10))
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
        disk = self.mounted(folder, need["snapshots"] + need["export"] + (64 << 10))
        (disk / "s" / "old").mkdir(parents=True)
        (disk / "s" / "old" / "filler").write_bytes(b"x" * (need["snapshots"] + (32 << 10)))
        result = folder.train("snapshot.folder=disk/s", "export=disk/model")
        self.assert_exit(result, 3)

    @unittest.skipIf(os.geteuid() != 0, "only root mounts")
    def test_an_export_replaces_the_earlier_one_on_a_disk_for_one(self):
        folder = self.folder({**LLAMA, "hidden_size": 128, "intermediate_size": 256}, steps=2)
        need = self.needs(folder)
        self.mounted(folder, need["export"] + (64 << 10))
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
                ("num_train_epochs: 3", "use epochs"), ("max_steps: 3", "steps"),
                ("per_device_train_batch_size: 4", "batch.microbatch"),
                ("batch.micro_batch_size: 4", "batch.microbatch"),
                ("gradient_accumulation_steps: 4", "batch.tokens"),
                ("bf16: true", "precision.params"), ("max_seq_length: 64", "batch.sequence"),
                ("max_grad_norm: 1", "optimizer.clip_norm"),
                ("save_steps: 10", "snapshot.every"), ("output_dir: out", "export"),
                ("lora: {r: 8}", "there is no LoRA"), ("lora.r: 8", "there is no LoRA"),
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
                (["--config", "run.yaml"], "pass the run file without an option"),
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


class FineTuning(RefusalTest):
    """What a run file that starts from a model's weights gets without being told."""

    def tuned(self, **settings):
        """A folder whose model is stored as bfloat16, and a run file with nothing but data."""
        folder = self.folder(steps=2, precision="bf16")
        self.assert_exit(folder.train(), 0)
        shutil.rmtree(folder.path / "model")
        (folder.path / "run" / "model").rename(folder.path / "model")
        folder.forget()
        folder.settings = {key: folder.settings[key] for key in ("model", "data.train", "steps")}
        folder.write_run(**settings)
        return folder

    @staticmethod
    def types(folder):
        found = tensors_of(folder.path / "run" / "model" / "model.safetensors")
        return {kind for kind, _, _ in found.values()}

    def test_the_model_keeps_its_type_and_its_rate_is_low(self):
        folder = self.tuned(batch__sequence=16)
        plan = self.document(folder.run("plan", "run.yaml", "--json"))
        sources = {row["key"]: row["source"] for row in plan["defaults"]}
        self.assertEqual(sources["precision.params"], "type in the model's config.json")
        self.assertEqual(sources["optimizer.lr"], "with init: weights (fine-tuning)")
        self.assertNotIn("steps", sources)
        text = folder.run("plan", "run.yaml").stdout
        for line in ("default  precision.params bf16: type in the model's config.json",
                     "default  optimizer.lr 2e-05: with init: weights",
                     "default  schedule.warmup_steps 20: with init: weights"):
            self.assertIn(line, text)
        self.assert_exit(folder.train(), 0)
        self.assertEqual(self.types(folder), {"BF16"})
        keys = folder.metrics("start")[0]["keys"]
        self.assertEqual((keys["optimizer.lr"], keys["schedule.warmup_steps"],
                          keys["precision.params"]), (2e-05, 20, "bf16"))
        self.assertAlmostEqual(folder.metrics("step")[0]["lr"], 1e-6, delta=1e-9)

    def test_given_values_stay(self):
        folder = self.tuned(batch__sequence=16, precision="f32")
        folder.write_run(**{"optimizer__lr": 3e-4, "schedule__warmup_steps": 0})
        self.assert_exit(folder.train(), 0)
        self.assertEqual(self.types(folder), {"F32"})
        self.assertAlmostEqual(folder.metrics("step")[0]["lr"], 3e-4, delta=1e-9)
        self.assert_exit(folder.train("--fresh", "export.dtype=bf16"), 0)
        self.assertEqual(self.types(folder), {"BF16"})

    def test_epochs_are_an_alternative_to_steps(self):
        folder = self.folder(batch__sequence=16, batch__tokens=64)
        del folder.settings["steps"]
        folder.write_run(epochs=1.5)
        rows = (6000 - 1) // 16
        steps = math.ceil(1.5 * rows / 4)
        plan = self.document(folder.run("plan", "run.yaml", "--json"))
        self.assertEqual(plan["steps"], steps)
        self.assertAlmostEqual(plan["passes"], steps * 4 / rows, delta=1e-5)
        self.assertIn(f"length   {steps} steps: 1.51 passes over data.train",
                      folder.run("plan", "run.yaml").stdout)
        result = folder.train()
        self.assert_exit(result, 0)
        self.assertIn(f"{steps} steps of 64 tokens: 1.51 passes over the data", result.stderr)
        self.assertEqual(folder.metrics("step")[-1]["step"], steps)
        self.assertIn(f"the run is already at its last step, {steps} of {steps}; a larger steps "
                      "extends it",
                      folder.train().stderr)  # the snapshot has the same length
        self.refused(folder, ["train", "run.yaml", "steps=5"], "command line",
                     "epochs and steps both set the length of the run",
                     "remove one of them: steps (command line) or epochs (run.yaml:")

    def test_evaluations_may_become_more_frequent_at_a_restart(self):
        folder = self.folder(steps=4)
        self.assert_exit(folder.train("pause_at=2"), 0)
        self.assert_exit(folder.train("eval.every=1"), 0)
        self.assertEqual([line["step"] for line in folder.metrics("eval")], [2, 3, 4])


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
            ("a model instead of a run file", ["train", "model"],
             ["skep: model: is a model, not a run file", "write a run file with `model: model`",
              "data.train", "skep help train"]),
            ("its config.json", ["train", "model/config.json"],
             ["skep: model/config.json: is a model, not a run file"]),
            ("the folder of a run", ["generate", "run", "--prompt", "a"],
             ["run: the folder has no config.json", "did you mean run/model?"]),
            ("a short name", ["plan", "gpt2"], ["gpt2", "did you mean openai-community/gpt2?"]),
            ("a model that is not in the cache", ["plan", "org/name"],
             ["org/name", "run `hf download org/name` (pip install huggingface_hub)"]),
            ("a tab", ["train", "tab.yaml"], ["tab.yaml:3:1: tab", "indent with spaces"])])

    def test_a_model_and_data_on_the_command_line_are_a_run(self):
        folder = self.folder()
        result = folder.run("train", "model", "init=random", "steps=1", "data.train=train.u16",
                            "batch.sequence=16")
        self.assert_exit(result, 0)
        self.assertTrue((folder.path / "skep-run" / "model" / "model.safetensors").exists())

    def test_an_incomplete_download(self):
        folder = self.folder(steps=1)
        self.assert_exit(folder.train(), 0)
        shutil.rmtree(folder.path / "model")
        (folder.path / "run" / "model").rename(folder.path / "model")
        folder.forget()
        folder.write_run(init="weights")
        weights = folder.path / "model" / "model.safetensors"
        names = tensors_of(weights)
        index = {"weight_map": {name: "model-00001-of-00002.safetensors" for name in names}}
        (folder.path / "model" / "model.safetensors.index.json").write_text(json.dumps(index))
        shard = weights.rename(folder.path / "model" / "model-00001-of-00002.safetensors")
        self.assert_exit(folder.train("--fresh"), 0)
        folder.forget()
        shard.unlink()
        self.refused(folder, ["train", "run.yaml"], shard.name, "No such file",
                     "download the model again: the")

    def test_an_open_quote_and_an_open_bracket(self):
        folder = self.folder()
        for text, place, mark in (('data.train: "train.u16\nsteps: 3\n', "bad.yaml:2:13", '"'),
                                  ("optimizer: {lr: 1\nsteps: 3\n", "bad.yaml:2:12", "{")):
            (folder.path / "bad.yaml").write_text("model: model\n" + text)
            self.refused(folder, ["train", "bad.yaml"], place,
                         f"the character {mark} opens a value here, and nothing closes it; add")

    def test_values(self):
        folder = self.folder()
        self.say(folder, [
            ("tokens", ["train", "run.yaml", "batch.tokens=1000", "batch.sequence=64"],
             ["not a multiple of batch.sequence, 64", "use 960 or 1024"]),
            ("few tokens", ["train", "run.yaml", "batch.tokens=10", "batch.sequence=64"],
             ["use 64\n"]),
            ("no data", ["train", "run.yaml", "data.train=none.u16"],
             ["data.train: none.u16 does not exist; check the path; paths on the command line are "
              "relative to the working directory\n"]),
            ("no data on the command line", ["train", "run.yaml", "data.train=none/*.bin"],
             ["data.train: none/*.bin matches no file; check the path; paths on the command line"]),
            ("no validation data", ["train", "run.yaml", "data.validation=none*.u16"],
             ["data.validation: none*.u16 matches no file"]),
            ("an export that cannot be made", ["train", "run.yaml", "export=train.u16/model"],
             ["train.u16", "choose a different folder for the export"])])

    def test_data_in_a_run_file_are_relative_to_it(self):
        folder = self.folder(data__train="none.u16")
        self.refused(folder, ["train", "run.yaml"], "data.train: none.u16 does not exist; put it "
                     "there, or correct the path; paths in a run file are relative to its folder")

    def test_a_start_that_is_refused_leaves_no_folder(self):
        folder = self.folder()
        before = sorted(folder.path.rglob("*"))
        for arguments in (["data.train=none.u16"], ["limits.device=1MiB"], ["limits.disk=1KiB"]):
            self.assertIn(folder.train(*arguments).returncode, (2, 3))
            self.assertEqual(sorted(folder.path.rglob("*")), before, arguments)
        (folder.path / "run").mkdir()
        self.assert_exit(folder.train("data.train=none.u16"), 2)
        self.assertTrue((folder.path / "run").exists())

    def test_missing_arguments_are_named(self):
        for command, missing in (("train", "RUN.yaml"), ("generate", "MODEL"),
                                 ("dump", "MODEL"), ("dump model", "BATCH.safetensors"),
                                 ("snapshot", "list|verify|inspect|export"),
                                 ("snapshot list", "FOLDER"), ("mesh", "NAME=SIZE,...")):
            name = command.split()[0]
            result = skep(*command.split())
            self.assert_exit(result, 2)
            self.assertEqual(result.stderr,
                             f"skep: {name}: {missing} is missing; see `skep help {name}`\n")
        result = skep("roster")
        self.assertIn("roster: add KEY | remove KEY-or-NAME | sign | list is missing",
                      result.stderr)

    def test_a_run_that_is_stopped_says_how_it_resumes(self):
        folder = self.folder(steps=9)
        result = folder.train("pause_at=4")
        self.assert_exit(result, 0)
        self.assertRegex(result.stderr, "stopped at step 4 of 9; the same command resumes the")
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
        self.assertRegex(too_small.stderr, "; make one of the changes that the report lists\n$")


    def test_a_model_in_bf16_is_planned_with_a_note(self):
        folder = self.folder({**LLAMA, "torch_dtype": "bfloat16"}, init="weights")
        note = "planned in f32, because no run file is given; a run file that starts from this"
        self.assertIn(note, folder.run("plan", "model").stdout)
        self.assertNotIn(note, folder.run("plan", "model", "precision=bf16").stdout)
        self.assertNotIn(note, folder.run("plan", "run.yaml").stdout)


class Gpu(Rows):
    """A GPU that the build cannot use is not passed over in silence."""

    @unittest.skipIf(os.geteuid() != 0, "only root mounts")
    def test_a_build_without_kernels_names_the_gpu_that_it_finds(self):
        folder = self.folder(steps=1)
        has_kernels = self.document(folder.run("version", "--json"))["cuda"] != ""
        script = ("mount -t tmpfs none /proc/driver && mkdir /proc/driver/nvidia && "
                  "touch /proc/driver/nvidia/version && exec \"$0\" \"$@\"")
        for arguments, times in ((("train", "run.yaml"), 1), (("plan", "run.yaml"), 1),
                                 (("train", "run.yaml", "--ranks", "2", "--fresh"), 1),
                                 (("train", "run.yaml", "--fresh", "target=cpu"), 0)):
            result = subprocess.run(["unshare", "-m", "sh", "-c", script,
                                     *folder.command(*arguments)], cwd=folder.path, text=True,
                                    capture_output=True, check=False)
            if "mount:" in result.stderr or "unshare" in result.stderr or has_kernels:
                self.skipTest("no private mounts, or a build with CUDA kernels")
            self.assert_exit(result, 0)
            self.assertEqual(result.stderr.count(
                "this machine has an NVIDIA GPU, but this build has no CUDA kernels and uses the "
                "CPU; "), times, result.stderr)

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
