"""`skep keys` as an operator meets it: one identity a machine, secret, the same for all who ask."""
import json
import os
import stat
import subprocess
import unittest

from small_run import SKEP, RunTest, main

KEY = r"p[a-z2-7]{111}"


class Keys(RunTest):
    def setUp(self):
        self.home = self.folder().path / "home"
        self.home.mkdir()
        self.identity = self.home / ".config" / "skep" / "identity"

    def start(self, *arguments, **variables):
        environment = {"HOME": str(self.home), **variables}
        return subprocess.Popen([SKEP, "keys", *arguments], text=True, env=environment,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def keys(self, *arguments, **variables):
        process = self.start(*arguments, **variables)
        out, error = process.communicate(timeout=60)
        return subprocess.CompletedProcess(process.args, process.returncode, out, error)

    def refused(self, *words):
        before = self.identity.read_bytes()
        result = self.keys()
        self.assert_exit(result, 2)
        self.assertEqual(result.stdout, "")
        self.assertRegex(result.stderr, r"^skep: [^\n]+: [^\n]+; [^\n]+\n$")
        for word in words:
            self.assertIn(word, result.stderr)
        self.assertEqual(self.identity.read_bytes(), before)

    def test_an_identity_is_made_once_with_mode_0600(self):
        first = self.keys()
        self.assert_exit(first, 0)
        self.assertRegex(first.stdout, rf"^{KEY}\n$")
        self.assertEqual(stat.S_IMODE(self.identity.stat().st_mode), 0o600)
        content = self.identity.read_bytes()
        self.assertNotIn(first.stdout.strip().encode(), content)
        second = self.keys()
        self.assertEqual(second.stdout, first.stdout)
        self.assertEqual(self.identity.read_bytes(), content)
        self.assertEqual(list(self.identity.parent.iterdir()), [self.identity])

    def test_the_document(self):
        other = self.home / "other"
        first = json.loads(self.keys("--identity", str(other), "--json").stdout)
        self.assertEqual(first["format"], 1)
        self.assertRegex(first["key"], rf"^{KEY}$")
        self.assertEqual((first["file"], first["made"]), (str(other), True))
        second = json.loads(self.keys(f"--identity={other}", "--json").stdout)
        self.assertEqual(second, {**first, "made": False})
        self.assertFalse(self.identity.exists())

    def test_the_secret_is_printed_nowhere(self):
        result = self.keys("--json")
        secret = self.identity.read_text().split()[1]
        self.assertNotIn(secret, result.stdout + result.stderr)

    def test_processes_at_once_print_the_same(self):
        for turn in range(5):
            processes = [self.start("--identity", str(self.home / f"identity{turn}"))
                         for _ in range(6)]
            outputs = [process.communicate(timeout=60) for process in processes]
            self.assertTrue(all(process.returncode == 0 for process in processes), outputs)
            self.assertEqual(len({out for out, _ in outputs}), 1)
            self.assertEqual(sum("created" in error for _, error in outputs), 1)
        self.assertEqual(len(list(self.home.iterdir())), 5)

    def test_a_file_others_can_read_is_refused(self):
        self.assert_exit(self.keys(), 0)
        self.identity.chmod(0o644)
        self.refused("0644", "chmod 600", str(self.identity))

    def test_a_damaged_file_is_refused(self):
        self.assert_exit(self.keys(), 0)
        content = self.identity.read_text()
        for damaged in ("", "x", content[:-1], content + "\n", content.replace("s", "t", 1),
                        content.replace(content.split()[1], "p" + content.split()[1][1:])):
            self.identity.write_text(damaged)
            self.refused("damaged", str(self.identity))

    def test_without_a_home(self):
        environment = {key: value for key, value in os.environ.items()
                       if key not in ("HOME", "XDG_CONFIG_HOME")}
        result = subprocess.run([SKEP, "keys"], text=True, env=environment, capture_output=True)
        self.assert_exit(result, 2)
        self.assertIn("--identity", result.stderr)
        self.assertIn("HOME", result.stderr)

    def test_XDG_CONFIG_HOME_comes_first(self):
        config = self.home / "elsewhere"
        self.assert_exit(self.keys(XDG_CONFIG_HOME=str(config)), 0)
        self.assertTrue((config / "skep" / "identity").exists())
        self.assertFalse(self.identity.exists())

    def test_a_folder_that_is_a_file_is_named(self):
        (self.home / ".config").write_text("a file")
        result = self.keys()
        self.assert_exit(result, 2)
        self.assertIn(".config", result.stderr)

    def test_usage(self):
        for arguments in (["x"], ["--identiy", "x"], ["--identity"], ["a=b"]):
            self.assert_exit(self.keys(*arguments), 2)
        self.assertFalse(self.identity.exists())


if __name__ == "__main__":
    main()
