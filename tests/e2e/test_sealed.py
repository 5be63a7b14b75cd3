"""After the seal a run takes no memory and gives none back: counted in the process, and by the
kernel's own record of its calls."""
import os
import re
import shutil
import subprocess
import unittest

from small_run import SANITIZED, SKEP, RunTest, main

COUNTER = os.environ.get("COUNT_ALLOC", "")
CULPRIT = os.environ.get("ALLOCATES_AFTER_SEAL", "")
STEPS = 300
EACH_ONCE = ["malloc", "realloc", "free", "calloc", "free", "aligned_alloc", "free",
             "posix_memalign", "free", "memalign", "free", "mmap", "mremap", "munmap", "sbrk"]


def counted(command, folder, report):
    """Run under the counter; (result, calls counted, writes seen while sealed, first callers)."""
    result = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False, timeout=120,
        env={**os.environ, "LD_PRELOAD": COUNTER, "COUNT_ALLOC_REPORT": str(report)})
    lines = report.read_text().splitlines() if report.exists() else ["count -1 writes -1"]
    words = lines[0].split()
    return result, int(words[1]), int(words[3]), lines[1:]


class Sealed(RunTest):
    @unittest.skipIf(not COUNTER, "no counter was built")
    def test_training_neither_allocates_nor_frees(self):
        folder = self.folder(steps=STEPS, eval__every=50, snapshot__every=60)
        result, count, writes, callers = counted(
            folder.command("train", "run.yaml"), folder.path, folder.path / "report")
        self.assert_exit(result, 0)
        self.assertEqual(len(folder.metrics("step")), STEPS)
        self.assertEqual(len(folder.metrics("eval")), STEPS // 50)
        self.assertGreaterEqual(len(folder.snapshots()), 2)
        self.assertGreater(writes, STEPS, "the seal was not seen")
        self.assertEqual(count, 0, "\n".join(callers))

    @unittest.skipIf(not COUNTER, "no counter was built")
    def test_a_resumed_run_in_bf16_with_recompute_does_not_either(self):
        folder = self.folder(steps=30, eval__every=10, precision__params="bf16",
                             precision__compute="bf16", strategy__recompute="block")
        self.assert_exit(folder.train("pause_at=10"), 0)
        result, count, writes, callers = counted(
            folder.command("train", "run.yaml"), folder.path, folder.path / "report")
        self.assert_exit(result, 0)
        self.assertGreater(writes, 20)
        self.assertEqual(count, 0, "\n".join(callers))

    @unittest.skipIf(not COUNTER, "no counter was built")
    def test_a_run_that_offloads_does_not_either(self):
        folder = self.folder(steps=30, eval__every=10, batch__sequence=32,
                             strategy__offload="[activations, optimizer]")
        result, count, writes, callers = counted(
            folder.command("train", "run.yaml"), folder.path, folder.path / "report")
        self.assert_exit(result, 0)
        self.assertGreater(writes, 20)
        self.assertEqual(count, 0, "\n".join(callers))

    @unittest.skipIf(not COUNTER, "no counter was built")
    def test_the_counter_sees_every_kind_of_call(self):
        folder = self.folder()
        result, count, writes, callers = counted([CULPRIT], folder.path, folder.path / "report")
        self.assert_exit(result, 0)
        self.assertEqual(writes, 1)
        names = [line.split()[0] for line in callers]
        self.assertEqual(names[:len(EACH_ONCE)], EACH_ONCE)
        self.assertGreater(count, len(EACH_ONCE), "what fopen allocates is counted too")


@unittest.skipIf(SANITIZED, "a sanitizer maps memory of its own")
class Traced(RunTest):
    def test_the_kernel_is_asked_for_no_memory(self):
        if shutil.which("strace") is None:
            self.skipTest("strace is not installed")
        folder = self.folder(steps=40, eval__every=10, snapshot__every=10)
        trace = folder.path / "trace"
        result = folder.train(prefix=["strace", "-f", "-qq", "-s", "80", "-o", str(trace), "-e",
                                      "trace=mmap,munmap,mremap,brk,write"])
        if "ptrace" in result.stderr.lower() and result.returncode != 0:
            self.skipTest("tracing is not permitted")
        self.assert_exit(result, 0)
        lines = trace.read_text().splitlines()
        begin = next(i for i, line in enumerate(lines) if r'{\"kind\": \"start\"' in line)
        end = next(i for i, line in enumerate(lines) if r'{\"kind\": \"end\"' in line)
        calls = [line for line in lines[begin + 1:end]
                 if re.search(r"\b(mmap|munmap|mremap|brk)\(", line)]
        self.assertGreater(end - begin, 40, f"{SKEP} was traced")
        self.assertEqual(calls, [])
        self.assertTrue(any("mmap(" in line for line in lines[:begin]))


if __name__ == "__main__":
    main()
