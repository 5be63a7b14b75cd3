"""meson install: the files of a package, units that systemd accepts, and reports to systemd."""
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import tempfile
import unittest

from loopback_swarm import SwarmTest
from small_run import SANITIZED, SKEP, main, skep

ROOT = pathlib.Path(__file__).parents[2]
EXPOSURE_MAX = 3.0
WITHOUT_KERNELS_BYTES = 2 << 20
WITH_KERNELS_BYTES = 4 << 20
ANALYZE = shutil.which("systemd-analyze")
UNITS = ("skep-track@", "skep-join@", "skep-join-gpu@")
WAIT_S = 60


class Installed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.destination = pathlib.Path(tempfile.mkdtemp(prefix="skep-install-"))
        subprocess.run([os.environ["MESON"], "install", "-C", os.environ["BUILD"], "--no-rebuild",
                        "--destdir", str(cls.destination)], check=True, capture_output=True)
        found = list(cls.destination.rglob("bin/skep"))
        assert len(found) == 1, found
        cls.prefix = found[0].parents[1]

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.destination)

    def text(self, path):
        return (self.prefix / path).read_text()

    def test_every_command_has_its_man_page(self):
        pages = {path.name for path in self.prefix.glob("share/man/man1/*")}
        commands = re.findall(r"^  ([a-z]+) ", skep("help").stdout, re.MULTILINE)
        self.assertEqual(pages, {"skep.1", *(f"skep-{command}.1" for command in commands)})
        self.assertEqual(self.text("share/man/man1/skep-train.1"),
                         skep("help", "man", "train").stdout)
        self.assertIn("batch.microbatch", self.text("share/man/man5/skep-run.5"))

    def test_completions_profiles_licence_and_changes(self):
        for shell, path in (("bash", "share/bash-completion/completions/skep"),
                            ("zsh", "share/zsh/site-functions/_skep"),
                            ("fish", "share/fish/vendor_completions.d/skep.fish")):
            self.assertEqual(self.text(path), skep("help", "completion", shell).stdout)
        profiles = {path.name for path in self.prefix.glob("share/skep/profiles/*")}
        self.assertEqual(profiles, {path.name for path in ROOT.glob("targets/profiles/*.yaml")})
        self.assertEqual(self.text("share/licenses/skep/LICENSE"), (ROOT / "LICENSE").read_text())
        self.assertTrue(self.text("share/doc/skep/CHANGELOG.md").startswith("# Changes"))

    def test_the_version_is_the_newest_of_the_changes(self):
        changes = self.text("share/doc/skep/CHANGELOG.md")
        newest = re.search(r"^## (\S+?)(,|$)", changes, re.MULTILINE)
        version = json.loads(skep("version", "--json").stdout)["version"]
        self.assertEqual(version, newest[1])

    def test_nothing_else_is_installed(self):
        known = re.compile(r"bin/skep|lib/systemd/system/skep-.*\.service|share/(man|"
                           r"bash-completion|zsh|fish|skep/profiles|licenses/skep|doc/skep)/.*")
        for path in self.prefix.rglob("*"):
            name = str(path.relative_to(self.prefix))
            self.assertTrue(path.is_dir() or known.fullmatch(name), name)

    def unit(self, name, folder):
        """The installed unit, as an instance that starts a program that exists."""
        text = self.text(f"lib/systemd/system/{name}.service")
        binary = re.search(r"^ExecStart=(\S+)", text, re.MULTILINE)[1]
        path = pathlib.Path(folder) / f"{name}x.service"
        path.write_text(re.sub(r"^Documentation=.*\n", "", text.replace(binary, SKEP),
                               flags=re.MULTILINE))
        return path

    @unittest.skipUnless(ANALYZE, "systemd-analyze is not installed")
    def test_systemd_accepts_the_units_and_they_are_confined(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in UNITS:
                path = self.unit(name, folder)
                verified = subprocess.run([ANALYZE, "verify", "--man=no", str(path)],
                                          capture_output=True, text=True)
                self.assertEqual((verified.returncode, verified.stderr), (0, ""), name)
                report = subprocess.run([ANALYZE, "security", "--offline=true", str(path)],
                                        capture_output=True, text=True).stdout
                exposure = float(re.search(r"exposure level for \S+: ([\d.]+)", report)[1])
                self.assertLessEqual(exposure, EXPOSURE_MAX, name)

    def test_the_options_in_the_units_exist(self):
        for name in UNITS:
            text = self.text(f"lib/systemd/system/{name}.service")
            command = re.search(r"^ExecStart=(.*)$", text, re.MULTILINE)[1]
            help_text = skep("help", command.split()[1]).stdout
            for option in re.findall(r" (--[a-z-]+)", command):
                self.assertIn(f"\n  {option} ", help_text, name)


@unittest.skipIf(SANITIZED, "a sanitizer adds to the program")
@unittest.skipUnless(shutil.which("size"), "size of binutils is not installed")
class Size(unittest.TestCase):
    def test_the_program_is_small(self):
        """Without tables for unwinding, which package builds leave out."""
        rows = subprocess.run(["size", "-A", SKEP], capture_output=True, text=True, check=True)
        kept = re.findall(r"^(\.\S+) +(\d+) +([1-9]\d*)$", rows.stdout, re.MULTILINE)
        total = sum(int(size) for name, size, _ in kept
                    if name not in (".bss", ".eh_frame", ".eh_frame_hdr"))
        has_cuda = json.loads(skep("version", "--json").stdout)["cuda"] != ""
        self.assertLessEqual(total, WITH_KERNELS_BYTES if has_cuda else WITHOUT_KERNELS_BYTES)


class PackageTool(unittest.TestCase):
    def test_help_and_usage(self):
        tool = ROOT / "tools" / "package"
        shown = subprocess.run([tool, "--help"], capture_output=True, text=True, check=True).stdout
        for word in ("deb [OUT]", "tar [OUT]", "minutes", "SKEP_COMMIT", "SOURCE_DATE_EPOCH"):
            self.assertIn(word, shown)
        wrong = subprocess.run([tool, "rpm"], capture_output=True, text=True, check=False)
        self.assertEqual(wrong.returncode, 2)
        self.assertIn("deb|tar", wrong.stderr)


class Bare(unittest.TestCase):
    def test_a_build_without_cuda_reads_no_header_of_it(self):
        if json.loads(skep("version", "--json").stdout)["cuda"] != "":
            self.skipTest("this build has CUDA")
        deps = subprocess.run(["ninja", "-C", os.environ["BUILD"], "-t", "deps"],
                              capture_output=True, text=True, check=True).stdout
        for block in deps.split("\n\n"):
            self.assertNotIn("/cuda.h\n", block + "\n", block.split(":")[0])
        self.assertIn("runtime/cli/cli.h", deps)


class Notified(SwarmTest):
    def test_a_tracker_and_a_member_report_that_they_are_ready_and_stop(self):
        folder = tempfile.mkdtemp(prefix="skep-notify-")
        self.addCleanup(shutil.rmtree, folder)
        sockets = {}
        for name in ("tracker", "member"):
            sockets[name] = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            sockets[name].bind(f"{folder}/{name}")
            sockets[name].settimeout(WAIT_S)
            self.addCleanup(sockets[name].close)
        os.environ["NOTIFY_SOCKET"] = f"{folder}/tracker"
        self.addCleanup(os.environ.pop, "NOTIFY_SOCKET", None)
        self.swarm(steps=20)
        os.environ["NOTIFY_SOCKET"] = f"{folder}/member"
        member = self.member("one")
        process = member.start()
        self.assertTrue(sockets["tracker"].recv(4096).startswith(b"READY=1\nSTATUS="))
        self.assertTrue(sockets["member"].recv(4096).startswith(b"READY=1\nSTATUS="))
        self.wait_for_end(process)
        self.assertEqual(sockets["member"].recv(4096), b"STOPPING=1")


if __name__ == "__main__":
    main()
