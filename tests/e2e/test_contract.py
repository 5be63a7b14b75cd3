"""The command line's machine-readable side: JSON documents, exit codes, help for everything."""
import json
import math
import os
import socket
import subprocess
import tempfile
import time
import unittest

from small_run import SANITIZED, SKEP, RunTest, main, skep

COMMANDS = ["inspect", "plan", "mesh", "comm", "pack", "data", "train", "eval", "generate",
            "dump", "join", "keys", "ledger", "probe", "roster", "snapshot", "status", "track",
            "doctor", "version"]


class Contract(RunTest):
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

    def test_a_flags_value_may_look_like_a_flag(self):
        folder = self.folder(steps=1)
        for name in ("-v", "-q", "-h", "--help"):
            (folder.path / name).write_bytes((folder.path / "valid.u16").read_bytes())
            result = folder.run("eval", "run.yaml", "--data", name, "init=random",
                                "data.format=u16", "--json")
            self.assert_exit(result, 2)
            self.assertIn("snapshot", result.stderr)
            result = folder.run("plan", "run.yaml", "--svg", name)
            self.assert_exit(result, 0)
            self.assertIn(b"<svg", (folder.path / name).read_bytes())
        for name in ("-h", "--help"):
            self.assertIn("skep plan", folder.run("plan", "--svg", "x.svg", name).stdout)
        self.assert_exit(folder.run("probe", "a=b"), 2)
        self.assert_exit(folder.run("pack", "x.csv", "--seconds", "nan"), 2)

    def test_behind_two_dashes_nothing_is_a_flag(self):
        folder = self.folder(steps=1)
        (folder.path / "model").rename(folder.path / "-v")
        (folder.path / "run.yaml").rename(folder.path / "-h.yaml")
        result = folder.run("plan", "--json", "--", "-v", "batch.sequence=8")
        self.assertEqual(self.document(result)["model"], "-v")
        self.assert_exit(folder.run("plan", "-v"), 2)
        self.assert_exit(folder.run("plan", "--", "-v", "--json"), 2)
        result = folder.run("train", "-q", "--ranks", 2, "--", "-h.yaml", "model=-v")
        self.assert_exit(result, 0)
        self.assertEqual(result.stderr, "")
        self.assert_exit(folder.run("train", "--"), 2)

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

    def test_version_names_the_build(self):
        found = self.document(skep("version", "--json"))
        self.assertEqual(skep("--version").stdout, f"skep {found['version']}\n")
        self.assertRegex(found["commit"], r"^[0-9a-f]{12}$|^unknown$")
        self.assertIn(found["instruction_set"], found["instruction_sets"])
        for library in found["libraries"]:
            self.assertIn(library["used"], ("", library["built"]), "built and run here")
        self.assertEqual(len(found["libraries"]), 9)
        text = skep("version").stdout
        for word in (found["version"], found["commit"], found["compiler"], "libzmq"):
            self.assertIn(word, text)

    def listen(self, listener, port):
        """Other tests' trackers use the port of other loopback addresses for some seconds."""
        deadline = time.monotonic() + 60
        while True:
            try:
                listener.bind(("0.0.0.0", port))
                listener.listen()
                return
            except OSError:
                self.assertLess(time.monotonic(), deadline, f"port {port} stays in use")
                time.sleep(0.1)

    def test_doctor_finds_a_port_in_use_and_a_folder_that_cannot_be_written(self):
        with socket.socket() as listener, tempfile.TemporaryDirectory() as folder:
            self.listen(listener, 7700)
            result = subprocess.run([SKEP, "doctor", "--json"], capture_output=True, text=True,
                                    env={**os.environ, "XDG_STATE_HOME": folder, "HOME": folder})
            checks = {check["name"]: check for check in json.loads(result.stdout)["checks"]}
            self.assertEqual(checks["port"]["verdict"], "warning")
            self.assertIn("7700", checks["port"]["found"])
            environment = {**os.environ, "XDG_STATE_HOME": "/dev/null"}
            for arguments in (["doctor"], ["doctor", "--json"]):
                result = subprocess.run([SKEP, *arguments], capture_output=True, text=True,
                                        env=environment)
                self.assert_exit(result, 1)
                self.assertIn("/dev/null/skep", result.stdout)
                self.assertIn("1 of ", result.stderr)

    def test_help(self):
        everything = skep("help")
        self.assert_exit(everything, 0)
        for command in COMMANDS:
            self.assertIn(f"\n  {command} ", everything.stdout)
            for arguments in (["help", command], [command, "--help"]):
                if arguments == ["help", "keys"]:
                    continue  # is about run.yaml, see below
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
