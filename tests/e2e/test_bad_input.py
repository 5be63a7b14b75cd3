"""What is wrong outside the program: every bad file, key, folder and disk ends in the exit code of
the command line's contract, one message that names the place, and nothing written or lost."""
import json
import os
import pathlib
import resource
import struct
import subprocess
import time
import unittest

from refusals import MESSAGE, RefusalTest, tree_of
from small_run import (LLAMA, RunTest, main, raw_safetensors, safetensors, tensors_of,
                       wait_until)

class BadInput(RefusalTest):
    def test_configs(self):
        folder = self.folder()
        config = folder.path / "model" / "config.json"
        rows = [
            ("", ["config.json"]), ("{", ["config.json"]), ("[]", ["config.json"]),
            ("null", ["config.json"]), ("{\"model_type\": 3}", ["model_type"]),
            ("\0\0\0", ["config.json"]), ("{\"a\": 1} x", ["config.json"]),
            ("[" * 100000, ["config.json"]), (" " * (2 << 20), ["config.json"]),
            ("{\"model_type\": \"\\ud800\"}", ["config.json"]), ("\xff\xfe", ["config.json"]),
            ({}, ["model_type"]), ({"model_type": "mixtral"}, ["mixtral"]),
            (dict(LLAMA, hidden_size=-1), ["hidden_size"]),
            (dict(LLAMA, hidden_size=0), ["hidden_size"]),
            (dict(LLAMA, hidden_size=1e30), ["hidden_size"]),
            (dict(LLAMA, hidden_size="32"), ["hidden_size"]),
            (dict(LLAMA, hidden_size=2 ** 62), ["hidden_size"]),
            (dict(LLAMA, num_hidden_layers=10 ** 6), ["num_hidden_layers"]),
            (dict(LLAMA, vocab_size=2 ** 31), ["vocab_size"]),
            (dict(LLAMA, num_attention_heads=5), ["num_key_value_heads"]),
            (dict(LLAMA, num_key_value_heads=3), ["num_key_value_heads"]),
            (dict(LLAMA, rms_norm_eps=-1), ["rms_norm_eps"]),
            (dict(LLAMA, hidden_act="relu6"), ["hidden_act", "relu6"]),
            (dict(LLAMA, rope_scaling={"rope_type": "yarn", "factor": 4}), ["yarn"]),
            (dict(LLAMA, quantization_config={"bits": 4}), ["quantization_config"]),
        ]
        for content, words in rows:
            with self.subTest(content=str(content)[:60]):
                text = content if isinstance(content, str) else json.dumps(content)
                config.write_text(text, encoding="latin-1")
                for command in (["plan", "model"], ["inspect", "model/config.json"],
                                ["train", "run.yaml"]):
                    self.refused(folder, command, "config.json", *words)

    def weights_folder(self):
        """A folder with a good model, its weights as a dictionary, and a run that starts there."""
        folder = self.folder(steps=1)
        self.assert_exit(folder.train(), 0)
        tensors = tensors_of(folder.path / "run" / "model" / "model.safetensors")
        folder.forget()
        folder.write_run(init="weights")
        return folder, tensors

    def test_weights(self):
        folder, good = self.weights_folder()
        path = folder.path / "model" / "model.safetensors"
        name = "model.layers.1.mlp.up_proj.weight"
        dtype, shape, data = good[name]
        whole = safetensors(good)
        size = struct.unpack("<Q", whole[:8])[0]
        header, rest = json.loads(whole[8:8 + size]), whole[8 + size:]
        overlapping = json.loads(json.dumps(header))
        overlapping[name]["data_offsets"] = header["model.norm.weight"]["data_offsets"]
        beyond = json.loads(json.dumps(header))
        beyond[name]["data_offsets"] = [len(rest), len(rest) + len(data)]
        huge = json.loads(json.dumps(header))
        huge[name]["shape"] = [2 ** 62, 2 ** 62]
        rows = [
            *[(title, safetensors({**good, name: (dtype, shape, bits + data[4:])}), [title])
              for title, bits in (("nan", b"\0\0\xc0\x7f"), ("inf", b"\0\0\x80\x7f"))],
            ("a missing tensor", safetensors({k: v for k, v in good.items() if k != name}), [name]),
            ("another shape", safetensors({**good, name: (dtype, shape[::-1], data)}), [name]),
            ("a wrong type", safetensors({**good, name: ("I32", shape, data)}), [name]),
            ("truncated data", whole[:-5], []),
            ("truncated header", whole[:100], []),
            ("seven bytes", whole[:7], []),
            ("nothing", b"", []),
            ("a header of 2^60 bytes", raw_safetensors(b"{}", b"", 1 << 60), []),
            ("a header of 200 MB", raw_safetensors(b"{}", b"", 200_000_000), []),
            ("a header of brackets", raw_safetensors(b"[" * 500_000, b""), []),
            ("overlapping tensors", raw_safetensors(json.dumps(overlapping).encode(), rest), []),
            ("offsets beyond the file", raw_safetensors(json.dumps(beyond).encode(), rest), []),
            ("a shape that overflows", raw_safetensors(json.dumps(huge).encode(), rest), []),
            ("bytes that nobody owns", raw_safetensors(json.dumps(header).encode(), rest + b"x"),
             []),
            ("no JSON", raw_safetensors(b"x" * 64, rest), []),
        ]
        for title, content, words in rows:
            with self.subTest(title):
                path.write_bytes(content)
                place = "model" if title == "a missing tensor" else "model.safetensors"
                self.refused(folder, ["train", "run.yaml"], place, *words)
                self.refused(folder, ["eval", "model", "--data", "valid.u16", "batch.sequence=16"],
                             place, *words)
        path.unlink()
        self.refused(folder, ["train", "run.yaml"], "model")
        path.write_bytes(whole)
        self.assert_exit(folder.train(), 0)

    def test_data(self):
        folder = self.folder(steps=40)
        data = folder.path / "train.u16"
        good = data.read_bytes()
        self.assert_exit(folder.train("pause_at=1"), 0)
        state = folder.state()
        for title, content in (("nothing", b""), ("half a token", good[:-1]),
                               ("less than a window", good[:32])):
            with self.subTest(title):
                data.write_bytes(content)
                self.refused(folder, ["train", "run.yaml"], "train.u16")
        data.unlink()
        self.refused(folder, ["train", "run.yaml"], "train.u16")
        data.mkdir()
        self.refused(folder, ["train", "run.yaml"], "train.u16")
        data.rmdir()
        (folder.path / "bare.bin").write_bytes(good)
        self.refused(folder, ["train", "run.yaml", "data.train=bare.bin"], "bare.bin",
                     "data.format")
        header = struct.pack("<256i", 20240520, 1, 10 ** 6, *[0] * 253)
        (folder.path / "short.bin").write_bytes(header + good[:1000])
        self.refused(folder, ["train", "run.yaml", "data.train=short.bin"], "short.bin")
        self.refused(folder, ["train", "run.yaml", "data.train=none*.u16"], "none*.u16")
        data.write_bytes(good)
        self.assertTrue(folder.state() == state)

    def assert_saved_its_last_step(self, folder):
        last = folder.metrics("step")[-1]["step"]
        self.assertEqual(folder.snapshots()[-1].name, f"step-{last:09d}")
        self.assertEqual(folder.metrics("end"), [])

    def test_ids_beyond_the_vocabulary_end_a_run_and_keep_its_snapshots(self):
        """One bad id of 6000: none of the 8 rows before the pause has it."""
        folder = self.folder(steps=400)
        tokens = bytearray((folder.path / "train.u16").read_bytes())
        tokens[8000:8002] = struct.pack("<H", 97)
        (folder.path / "train.u16").write_bytes(tokens)
        self.assert_exit(folder.train("pause_at=2"), 0)
        state = folder.state()
        (folder.path / "run" / "metrics.jsonl").unlink()
        result = folder.train()
        self.assert_exit(result, 1)
        self.assertIn("train.u16", result.stderr)
        self.assertIn("97", result.stderr)
        self.assertGreater(len(folder.metrics("step")), 1)
        self.assert_saved_its_last_step(folder)
        kept = {name: (folder.path / "run/snapshots/step-000000002" / name).read_bytes()
                for name in state}
        self.assertTrue(kept == state)
        again = folder.train()
        self.assert_exit(again, 2)
        self.assertIn("97", again.stderr)
        result = folder.run("eval", "run.yaml", "--data", "train.u16")
        self.assert_exit(result, 2)

    def test_data_that_are_cut_off_in_mid_run_cost_no_step(self):
        for ranks in (1, 2):
            folder = self.folder(steps=100000)
            data = folder.path / "train.u16"
            good = data.read_bytes()
            process = folder.start("--ranks", str(ranks))
            self.addCleanup(process.kill)
            self.assertTrue(wait_until(lambda f=folder: len(f.metrics("step")) > 2), folder.log())
            os.truncate(data, 100)
            self.assertEqual(process.wait(timeout=60), 1, folder.log())
            self.assertRegex(folder.log().splitlines()[-1], "^skep: .*train.u16: is truncated")
            self.assert_saved_its_last_step(folder)
            self.assert_exit(folder.train(), 2)
            data.write_bytes(good)
            last = folder.metrics("step")[-1]["step"]
            self.assert_exit(folder.train(f"pause_at={last + 1}"), 0)

    def test_what_is_refused_with_fresh_leaves_the_old_run_in_place(self):
        folder = self.folder(steps=2)
        self.assert_exit(folder.train(), 0)
        (folder.path / "thesis").mkdir()
        (folder.path / "thesis" / "text").write_text("of years")
        for override, word in [("data.train=gone.u16", "gone.u16"), ("init=weights", "weights"),
                               ("export=thesis", "thesis")]:
            self.refused(folder, ["train", "run.yaml", "--fresh", override], word)
        # The first step reads four rows of 16 tokens: all of these files, in any order.
        for place in range(4):
            ids = [1] * 65
            ids[place * 16 + 8] = 39166
            (folder.path / "other.u16").write_bytes(struct.pack("<65H", *ids))
            self.refused(folder, ["train", "run.yaml", "--fresh", "data.train=other.u16"],
                         f"other.u16: token {place * 16 + 8}: ", "39166")

    def test_an_export_that_is_no_folder_is_refused_before_the_first_step(self):
        folder = self.folder(steps=1)
        (folder.path / "place").mkdir()
        (folder.path / "file").write_text("x")
        (folder.path / "link").symlink_to("place")
        (folder.path / "dangling").symlink_to("nowhere")
        for name, kind in (("file", "file"), ("link", "symbolic link"),
                           ("dangling", "symbolic link")):
            self.refused(folder, ["train", "run.yaml", f"export={name}"],
                         f"skep: {name}: is a {kind}, not a folder; remove it, or choose a "
                         "different folder for the export")

    def test_a_report_that_cannot_be_written_is_a_failure(self):
        folder = self.folder(steps=1)
        self.assert_exit(folder.train(), 0)
        generate = ["generate", "run/model", "--tokens", "2", "--prompt"]
        for arguments in (["help", "keys"], ["plan", "run.yaml"], ["plan", "run.yaml", "--json"],
                          ["inspect", "model"], [*generate, "A"], [*generate, "1", "--ids"],
                          [*generate, "1", "--ids", "--tokens", "0"]):
            with open("/dev/full", "w", encoding="utf-8") as full:
                result = subprocess.run(folder.command(*arguments), cwd=folder.path, stdout=full,
                                        stderr=subprocess.PIPE, text=True, timeout=60, check=False)
            self.assert_exit(result, 1)
            self.assertIn("standard output", result.stderr)

    def test_a_dump_that_fails_removes_no_device(self):
        """Half a file is removed; what was there before and is none stays."""
        folder = self.folder(steps=1)
        self.assert_exit(folder.train(), 0)
        ids = {"input_ids": ("I32", [1, 8], struct.pack("<8i", *range(8)))}
        (folder.path / "batch.safetensors").write_bytes(safetensors(ids))
        out = folder.path / "out.safetensors"
        out.symlink_to("/dev/null")
        self.refused(folder, ["dump", "run/model", "batch.safetensors", "-o", out.name],
                     out.name, code=1)
        self.assertTrue(out.is_symlink())

    def test_keys(self):
        folder = self.folder()
        good = (folder.path / "run.yaml").read_text()
        rows = [("stepz: 3\n", ["stepz", "steps", "run.yaml"]),
                ("batch.microbach: 3\n", ["microbach"]),
                ("snapshot:\n  evry: 3\n", ["snapshot.evry", "snapshot.every"]),
                ("pause_at: soon\n", ["pause_at", "run.yaml"]),
                ("pause_at: -1\n", ["pause_at"]), ("pause_at: [1]\n", ["pause_at"]),
                ("export: {a: b}\n", ["export"]), ("seed: 4\n", ["seed"]),
                ("limits:\n  device: 9 GiBs\n", ["limits.device"]),
                ("a: [\n", ["run.yaml"]), ("\t- x\n", ["run.yaml"]),
                ("x: &a [*a]\n", ["run.yaml"]), ("pause_at: 99999999999999999999\n", ["pause_at"]),
                ("strategy:\n  recompute: most\n", ["strategy.recompute"]),
                ("stop_within: nan\n", ["stop_within"])]
        for text, words in rows:
            with self.subTest(text):
                (folder.path / "run.yaml").write_text(good + text)
                self.refused(folder, ["train", "run.yaml"], *words)
        (folder.path / "run.yaml").write_text(good)
        for override, words in (("stepz=3", ["stepz", "steps"]), ("=3", []),
                                ("steps=x", ["steps"]), ("steps=0", ["steps"]),
                                ("batch.sequence=65", ["batch.sequence", "64"]),
                                ("generate.context=1000", ["generate.context", "64"]),
                                ("batch.tokens=63", ["batch.tokens"]),
                                ("optimizer.lr=nan", ["optimizer.lr"]),
                                ("optimizer.betas=[0.9]", ["optimizer.betas"]),
                                ("strategy.recompute=[block,none,none]", ["strategy.recompute"]),
                                ("precision.compute=f64", ["precision.compute"]),
                                ("target=rtx3061-12g", ["rtx3060-12g"])):
            with self.subTest(override):
                self.refused(folder, ["train", "run.yaml", override], *words)
        self.refused(folder, ["train", "none.yaml"], "none.yaml")
        self.refused(folder, ["train", "run.yaml", "--frehs"], "--frehs")
        self.refused(folder, ["train", "run.yaml", "more"], "more")

    def test_folders_that_cannot_be_written(self):
        folder = self.folder(steps=2)
        (folder.path / "file").write_text("not a folder")
        for key, value in (("snapshot.folder", "file/s"), ("metrics", "file/m.jsonl"),
                           ("export", "file/model"), ("metrics", "model"),
                           ("snapshot.folder", "file"), ("export", "file")):
            with self.subTest(key=key, value=value):
                before = tree_of(folder.path)
                result = folder.train(f"{key}={value}")
                self.assertIn(result.returncode, (1, 2), result.stderr)
                self.assertRegex(result.stderr.splitlines()[-1], MESSAGE)
                self.assertIn(value.split("/", maxsplit=1)[0], result.stderr)
                self.assertEqual((folder.path / "file").read_text(), "not a folder")
                self.assertTrue(tree_of(folder.path) == before,
                                "it should have been refused before the first step")

    def test_profiles(self):
        folder = self.folder()
        profiles = pathlib.Path(__file__).parents[2] / "targets" / "profiles"
        good = (profiles / "cpu.yaml").read_text()
        lines = good.splitlines()
        path = folder.path / "my.yaml"
        path.write_text(good)
        self.assertIn(folder.run("plan", "model", "--target", "my.yaml").returncode, (0, 3))
        for text in ("", "x: 1\n", good + "unknown_key: 1\n", good.replace("kind:", "kin:"),
                     "\n".join(line for line in lines if not line.startswith("align")) + "\n",
                     good.replace(lines[-1], "broken: ["), "- " * 100):
            if text == good:
                continue
            with self.subTest(text=text[-60:]):
                path.write_text(text)
                self.refused(folder, ["plan", "model", "--target", "my.yaml"], "my.yaml")
        self.refused(folder, ["plan", "model", "--target", "none.yaml"], "none.yaml")

    def test_damaged_snapshots(self):
        """The newest good one is gone on from; without any the run is refused, not begun anew."""
        folder = self.folder(steps=6, snapshot__every=2, snapshot__keep=3)
        self.assert_exit(folder.train("pause_at=4"), 0)
        reference = self.folder(steps=6)
        self.assert_exit(reference.train(), 0)
        newest = folder.snapshots()[-1] / "weights.safetensors"
        content = bytearray(newest.read_bytes())
        content[-3] ^= 0x40
        newest.write_bytes(content)
        verified = folder.run("snapshot", "verify", "run/snapshots")
        self.assertNotEqual(verified.returncode, 0)
        result = folder.train()
        self.assert_exit(result, 0)
        self.assertIn("step-000000002", result.stderr)
        self.assertTrue(folder.state() == reference.state())
        for snapshot in folder.snapshots():
            (snapshot / "snapshot.json").write_text("[" * 1000)
        before = tree_of(folder.path)
        result = folder.train()
        self.assert_exit(result, 2)
        self.assertIn("--fresh", result.stderr.splitlines()[-1])
        self.assertEqual(tree_of(folder.path), before)


def sized_files(limit):
    """Before exec: no file may grow beyond `limit` bytes, and the write says so."""
    def prepare():
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    return prepare


class Refusals(RunTest):
    def test_an_override_is_blamed_on_the_command_line(self):
        folder = self.folder()
        result = folder.run("plan", "run.yaml", "batch.sequence=300")
        self.assert_exit(result, 2)
        self.assertRegex(result.stderr, "^skep: command line: batch.sequence is 300")
        folder.write_run(batch__sequence=300)
        self.assertRegex(folder.run("plan", "run.yaml").stderr, r"^skep: run.yaml:\d+:3: batch.seq")

    def test_eval_without_text_says_where_to_name_it(self):
        folder = self.folder()
        result = folder.run("eval", "model", "init=random")
        self.assert_exit(result, 2)
        self.assertIn("add --data FILE\n", result.stderr)
        del folder.settings["data.validation"]
        folder.write_run()
        result = folder.run("eval", "run.yaml")
        self.assert_exit(result, 2)
        self.assertIn("data.validation", result.stderr)

    def test_fresh_moves_nothing_when_the_run_is_refused(self):
        folder = self.folder(steps=2)
        self.assert_exit(folder.train(), 0)
        (folder.path / "file").write_text("not a folder")
        before = tree_of(folder.path)
        for override in ("metrics=/", "metrics=file/m", "metrics=run", "export=file/model",
                         "snapshot.folder=file", "snapshot.folder=file/s"):
            with self.subTest(override):
                result = folder.train("--fresh", override)
                self.assertIn(result.returncode, (1, 2), result.stderr)
                self.assertEqual(tree_of(folder.path), before)


class OddNames(RunTest):
    def test_a_comma_in_a_data_path_does_not_split_it(self):
        folder = self.folder(steps=2)
        for name in ("train", "valid"):
            (folder.path / f"{name}.u16").rename(folder.path / f"{name},1.u16")
        folder.write_run(data__train="['train,1.u16', 'valid,1.u16']",
                         data__validation="valid,1.u16")
        self.assert_exit(folder.train(), 0)
        evaluated = folder.run("eval", "run.yaml", "--data", "valid,1.u16")
        self.assert_exit(evaluated, 0)


class FullDisk(RefusalTest):
    def test_a_write_that_fails_keeps_the_older_snapshots(self):
        folder = self.folder(steps=8, snapshot__every=2)
        self.assert_exit(folder.train("pause_at=4"), 0)
        state, names = folder.state(), folder.snapshots()
        result = folder.train(preexec_fn=sized_files(60_000), restore_signals=False)
        self.assert_exit(result, 3)
        self.assertRegex(result.stderr.splitlines()[-1], MESSAGE)
        self.assertIn("snapshots", result.stderr.splitlines()[-1])
        self.assertEqual(folder.snapshots(), names)
        self.assertTrue(folder.state() == state)
        self.assert_exit(folder.train(), 0)
        reference = self.folder(steps=8)
        self.assert_exit(reference.train(), 0)
        self.assertTrue(folder.state() == reference.state())

    @unittest.skipIf(os.geteuid() != 0, "only root mounts")
    def test_a_disk_that_cannot_hold_the_snapshots_is_refused_with_3(self):
        folder = self.folder()
        disk = self.mounted(folder, "256k")
        result = folder.train("snapshot.folder=disk/s")
        self.assert_exit(result, 3)
        self.assertIn("disk", result.stderr)
        self.assertEqual(list(disk.rglob("*.safetensors")), [])
        self.assert_exit(folder.train("limits.disk=100KiB"), 3)
        self.assert_exit(folder.run("plan", "run.yaml", "limits.disk=100KiB"), 3)

    @unittest.skipIf(os.geteuid() != 0, "only root mounts")
    def test_an_export_on_a_disk_of_its_own_is_checked_there(self):
        folder = self.folder(steps=2)
        self.mounted(folder, "256k")
        before = tree_of(folder.path)
        result = folder.train("export=disk/deep/model")
        self.assert_exit(result, 3)
        self.assertRegex(result.stderr, "^skep: disk/deep/model: the export needs .* "
                                        "only 256 KiB are available;")
        self.assertEqual(tree_of(folder.path), before)
        plan = folder.run("plan", "run.yaml", "export=disk/deep/model", "--json")
        spaces = {space["name"]: space for space in self.document(plan, 3)["spaces"]}
        self.assertEqual(spaces["export_disk"]["capacity_bytes"], 256 * 1024)
        self.assertEqual([line["name"] for line in spaces["disk"]["declared"]], ["snapshots"])
        self.assertIn("on another file system",
                      folder.run("plan", "run.yaml", "export=disk/deep/model").stdout)

    @unittest.skipIf(os.geteuid() != 0, "only root mounts")
    def test_snapshots_need_no_room_for_an_export_elsewhere(self):
        folder = self.folder(steps=2)
        plan = self.document(folder.run("plan", "run.yaml", "--json"))
        disk = next(space for space in plan["spaces"] if space["name"] == "disk")
        need = {line["name"]: line["bytes"] for line in disk["declared"]}
        self.mounted(folder, need["snapshots"] + need["export"] // 2)
        self.assert_exit(folder.train("snapshot.folder=disk/s"), 0)
        limit = need["snapshots"] + need["export"] - 1
        result = folder.train("--fresh", "snapshot.folder=disk/s", f"limits.disk={limit}")
        self.assert_exit(result, 3)
        self.assertIn("limits.disk: the snapshots and the export need", result.stderr)

    @unittest.skipIf(os.geteuid() != 0, "only root mounts")
    def test_a_disk_that_others_fill_costs_no_snapshot(self):
        folder = self.folder(steps=3000, snapshot__every=1)
        disk = self.mounted(folder, "6m")
        folder.settings["snapshot.folder"] = "disk/s"
        folder.write_run()
        process = folder.start()
        self.addCleanup(process.kill)
        self.assertTrue(wait_until(lambda: list(disk.glob("s/step-*/snapshot.json"))),
                        folder.log())
        with open(disk / "filler", "wb", buffering=0) as filler:
            while process.poll() is None:  # what an old snapshot gives back is taken, too
                try:
                    filler.write(b"x" * 4096)
                except OSError:
                    time.sleep(0.001)
        self.assertEqual(process.wait(timeout=60), 3, folder.log())
        self.assertIn("disk/s", folder.log().splitlines()[-1])
        self.assert_exit(folder.run("snapshot", "verify", "disk/s"), 0)
        (disk / "filler").unlink()
        last = max(line["step"] for line in folder.metrics("step"))
        result = folder.train(f"pause_at={last + 2}")
        self.assert_exit(result, 0)
        self.assertIn("resuming from", result.stderr)


if __name__ == "__main__":
    main()
