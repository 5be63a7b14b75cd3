"""Help, man pages, completions and docs/COMMANDS.md name the same commands and options."""
import os
import pathlib
import pty
import re
import select
import shutil
import subprocess
import tempfile
import time
import unittest

from small_run import SKEP, main, skep

ROOT = pathlib.Path(__file__).parents[2]
GLOBAL = {"-q", "-v", "--help"}
FLAG = re.compile(r"(?<![\w-])--?[a-z][a-z-]*")
KEY_WAIT_S = 20

BASH = """
compopt() { :; }
. "$1"
shift
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
_skep
printf '%s\\n' "${COMPREPLY[@]}"
"""


def page(*arguments):
    result = skep("help", *arguments)
    assert result.returncode == 0, result.stderr
    return result.stdout


def commands():
    return re.findall(r"^  ([a-z]+) ", page(), re.MULTILINE)


def options(command):
    """The options in a command's help, each with its value's name or ""."""
    rows = re.findall(r"^  (-\S+) ?(\S*)$", skep(command, "--help").stdout, re.MULTILINE)
    return dict(rows)


class Pages(unittest.TestCase):
    def test_usage_and_list_of_options_agree(self):
        for command in commands():
            usage = skep(command, "--help").stdout.splitlines()[0]
            self.assertEqual(set(FLAG.findall(usage)), set(options(command)), command)

    def test_markdown_is_the_document(self):
        self.assertEqual((ROOT / "docs" / "COMMANDS.md").read_text(), page("markdown"),
                         "run `build/skep help markdown >docs/COMMANDS.md`")

    def test_markdown_has_every_option(self):
        sections = re.split(r"^## skep ", page("markdown"), flags=re.MULTILINE)[1:]
        found = {section.split()[0]: set(re.findall(r"^\| `(-\S+?)[ `]", section, re.MULTILINE))
                 for section in sections}
        self.assertEqual(found, {command: set(options(command)) for command in commands()})

    def test_man_pages_have_every_option(self):
        for command in commands():
            text = page("man", command).replace("\\-", "-")
            found = set(re.findall(r"^\.TP\n\\fB(-\S+?)\\fR", text, re.MULTILINE))
            self.assertEqual(found, set(options(command)) | GLOBAL, command)
        program = page("man")
        self.assertEqual(re.findall(r"^\.TP\n\.BR skep\\-(\w+) ", program, re.MULTILINE),
                         commands())

    def test_the_page_of_the_run_file_has_every_key(self):
        keys = [row.split()[0] for row in page("keys").splitlines()[1:]]
        found = re.findall(r"^\.TP\n\\fB(\S+?)\\fR:", page("man", "run"), re.MULTILINE)
        self.assertEqual(found, keys)

    def test_pages_that_do_not_exist(self):
        for arguments in (("man", "nothing"), ("completion", "csh"), ("completion",)):
            self.assertEqual(skep("help", *arguments).returncode, 2, arguments)

    @unittest.skipUnless(shutil.which("man") and shutil.which("groff"), "man is not installed")
    def test_man_prints_the_pages_without_warnings(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in [None, "run", *commands()]:
                path = pathlib.Path(folder) / "page.1"
                path.write_text(page("man", *([name] if name else [])))
                result = subprocess.run(
                    ["man", "--warnings=w", "-l", str(path)], capture_output=True, text=True,
                    env={**os.environ, "MANWIDTH": "80", "LC_ALL": "C.UTF-8"}, check=True)
                self.assertEqual(result.stderr, "", name)
                self.assertIn("NAME", result.stdout)


class Completion(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory())) \
            if hasattr(self, "enterContext") else pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        (self.folder / "my run.yaml").write_text("")

    def script(self, shell):
        path = self.folder / f"_skep.{shell}"
        path.write_text(page("completion", shell))
        return str(path)

    def check(self, complete):
        """complete(words): the candidates for the last of the words."""
        self.assertEqual(set(complete("")) - {"help"} - GLOBAL - {"--version"}, set(commands()))
        for command in commands():
            found = set(complete(command, "--")) | set(complete(command, "-"))
            self.assertEqual({word for word in found if word.startswith("-")},
                             set(options(command)) | GLOBAL, command)
        self.assertIn("rtx3060-12g", complete("plan", "run.yaml", "--target", "rtx30"))
        self.assertEqual(complete("snapshot", "ver"), ["verify"])
        self.assertEqual(set(complete("snapshot", "export", "x", "--dtype", "")),
                         {"f32", "bf16", "f16"})
        self.assertIn("batch.microbatch=", complete("train", "run.yaml", "batch.mi"))
        self.assertIn("my run.yaml", [word.replace("\\", "") for word in complete("train", "my")])
        self.assertEqual(complete("train", "run.yaml", "--ranks", ""), [])

    def test_bash(self):
        def complete(*words):
            result = subprocess.run(["bash", "-c", BASH, "bash", script, "skep", *words],
                                    capture_output=True, text=True, cwd=self.folder, check=True)
            self.assertEqual(result.stderr, "")
            return [line for line in result.stdout.splitlines() if line]
        script = self.script("bash")
        self.check(complete)
        self.assertEqual(complete("train", "run.yaml", "data.train", "=", "my"), ["my run.yaml"])

    @unittest.skipUnless(shutil.which("fish"), "fish is not installed")
    def test_fish(self):
        def complete(*words):
            line = " ".join(["skep", *words])
            result = subprocess.run(
                ["fish", "--no-config", "-c", f"source {script}; complete -C '{line}'"],
                capture_output=True, text=True, cwd=self.folder, check=True,
                env={**os.environ, "HOME": str(self.folder)})
            self.assertEqual(result.stderr, "")
            return [row.split("\t")[0] for row in result.stdout.splitlines() if row]
        script = self.script("fish")
        self.check(complete)

    @unittest.skipUnless(shutil.which("zsh"), "zsh is not installed")
    def test_zsh(self):
        shell = Zsh(self.folder, self.script("zsh"))
        self.addCleanup(shell.close)
        self.check(shell.complete)


class Zsh:
    """An interactive zsh on a terminal; a completer prints its candidates instead of a menu."""

    SETUP = ("PS1=''; autoload -Uz compinit; compinit -u -D; "
             "unsetopt automenu beep; LISTMAX=10000; "
             "zstyle ':completion:*' insert-tab false; "
             "compadd() { [[ ${@[1,(i)(-|--)]} == *-(O|A|D)\\ * ]] && "
             "{ builtin compadd \"$@\"; return }; local -a found; "
             "builtin compadd -A found \"$@\"; print -l -- $found >>$OUT; "
             "builtin compadd \"$@\"; }; ")

    EDITING = "\x1b[?2004h"  # printed when zsh reads keys itself

    def __init__(self, folder, script):
        self.out = folder / "candidates"
        self.process, self.terminal = pty.fork()
        if self.process == 0:
            os.chdir(folder)
            os.environ.update(OUT=str(self.out), HOME=str(folder), TERM="dumb", COLUMNS="200")
            os.execlp("zsh", "zsh", "-f", "-i")
        self.send(self.SETUP + f"source {script}; echo rea''dy\n", "ready")

    def send(self, text, expected):
        os.write(self.terminal, text.encode())
        seen, deadline = "", time.monotonic() + KEY_WAIT_S
        while self.EDITING not in seen.partition(f"\n{expected}\r")[2]:
            left_s = max(0, deadline - time.monotonic())
            ready, _, _ = select.select([self.terminal], [], [], left_s)
            assert ready, f"zsh printed {seen!r}, not {expected!r}"
            seen += os.read(self.terminal, 65536).decode(errors="replace")
        return seen

    def complete(self, *words):
        self.out.write_text("")
        os.write(self.terminal, (" ".join(["skep", *words]) + "\t").encode())
        os.write(self.terminal, b"\x15")
        self.send("echo do''ne\n", "done")
        return [line for line in self.out.read_text().splitlines() if line]

    def close(self):
        os.close(self.terminal)
        os.waitpid(self.process, 0)


if __name__ == "__main__":
    main()
