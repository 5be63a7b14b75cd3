"""Refusals: a command that ends with one message and changes no file; and small disks."""
import pathlib
import subprocess

from small_run import RunTest

MESSAGE = r"^skep: .+: .+"


def tree_of(path):
    """Every file below a folder with its bytes, but for a run's lock."""
    return {str(file.relative_to(path)): file.read_bytes()
            for file in sorted(pathlib.Path(path).rglob("*"))
            if file.is_file() and file.name not in ("lock", "run.log")}


class RefusalTest(RunTest):
    def refused(self, folder, arguments, *words, code=2, without=()):
        """The command ends with `code`, has every word in its one message, and changes no file."""
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
        return result.stderr

    def mounted(self, folder, size):
        """The folder "disk" as a small file system of its own; skips where that is forbidden."""
        disk = folder.path / "disk"
        disk.mkdir(exist_ok=True)
        made = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(disk)],
                              capture_output=True, check=False)
        if made.returncode != 0:
            self.skipTest("mounting is not permitted")
        self.addCleanup(subprocess.run, ["umount", "-l", str(disk)], check=False)
        return disk
