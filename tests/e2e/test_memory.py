"""What a training process holds at its peak is the plan and at most 16 MiB more."""
import unittest

from small_run import LONG, SANITIZED, RunTest, main, wait_until

MIB = 1 << 20
ALLOWANCE = 16 * MIB
GPT2_124M = {"model_type": "gpt2", "vocab_size": 50257, "n_embd": 768, "n_layer": 12,
             "n_head": 12, "n_positions": 1024, "initializer_range": 0.02}


def held_bytes(pid):
    """Anonymous and shared memory of a process now, from the kernel; 0 when it is gone."""
    try:
        with open(f"/proc/{pid}/status", encoding="utf-8") as status:
            fields = dict(line.split(":", 1) for line in status)
        return sum(int(fields[name].split()[0]) * 1024 for name in ("RssAnon", "RssShmem"))
    except (OSError, KeyError, ValueError):
        return 0


def largest_while_running(process):
    """The largest of held_bytes over the life of a process."""
    largest = 0

    def ended():
        nonlocal largest
        largest = max(largest, held_bytes(process.pid))
        return process.poll() is not None
    if not wait_until(ended, 600):
        process.kill()
    return largest


@unittest.skipIf(SANITIZED, "a sanitizer holds memory of its own")
class Memory(RunTest):
    def check(self, folder):
        process = folder.start()
        held = largest_while_running(process)
        self.assertEqual(process.returncode, 0, folder.log())
        line = folder.metrics("memory")[-1]
        planned = sum(space["planned_bytes"] for space in line["spaces"])
        for space in line["spaces"]:
            self.assertLessEqual(space["high_water_bytes"], space["planned_bytes"])
        self.assertGreater(held, planned // 2, "the process was looked at while it ran")
        self.assertLessEqual(held, planned + ALLOWANCE)
        self.assertLessEqual(line["process_bytes"], planned + ALLOWANCE)
        self.assertGreaterEqual(line["process_bytes"], planned)
        return planned

    def test_a_small_run_holds_its_plan(self):
        self.check(self.folder(steps=200, eval__every=50, snapshot__every=50))

    def test_a_run_of_forty_mebibytes_holds_its_plan(self):
        config = dict(GPT2_124M, vocab_size=97, n_embd=480, n_layer=2, n_positions=64)
        self.assertGreater(self.check(self.folder(config, steps=4, threads=2)), 40 * MIB)

    @unittest.skipUnless(LONG, "SKEP_LONG=1 runs it")
    def test_gpt2_124m_in_f32_holds_its_plan(self):
        folder = self.folder(GPT2_124M, steps=1, threads=2, batch__sequence=1024,
                             batch__microbatch=1, batch__tokens=1024, eval__tokens=1024)
        plan = folder.run("plan", "run.yaml")
        if plan.returncode == 3:
            self.skipTest("this machine has too little memory or disk for it")
        self.check(folder)


if __name__ == "__main__":
    main()
