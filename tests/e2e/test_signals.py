"""Stopping, a second signal, the lock of a run's folder, setting a run aside, changed keys."""
import os
import pathlib
import resource
import signal
import time

from small_run import TIMEOUT_S, RunTest, kill_group, main, tensors_of, wait_until

STOPPERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def catches(process, number):
    """Whether the process has a handler for a signal."""
    status = pathlib.Path(f"/proc/{process.pid}/status").read_text(encoding="ascii")
    caught = next(line.split()[1] for line in status.splitlines() if line.startswith("SigCgt"))
    return int(caught, 16) >> (number - 1) & 1


class Signals(RunTest):
    def started(self, folder, *arguments, steps=1):
        """A run in the background that has completed `steps` steps."""
        process = folder.start(*arguments)
        self.addCleanup(process.kill)
        reached = wait_until(lambda: process.poll() is not None or
                             len(folder.metrics("step")) >= steps)
        self.assertTrue(reached and process.poll() is None, folder.log())
        return process

    def wait(self, process):
        return process.wait(timeout=TIMEOUT_S)

    def test_each_signal_saves_the_last_completed_step_and_exits_0(self):
        settings = {"steps": 120, "batch.tokens": 512}  # a second or two in all
        whole = self.folder(**settings)
        self.assert_exit(whole.train(), 0)
        folder = self.folder(**settings)
        for number in STOPPERS:
            before = len(folder.metrics("step"))
            process = self.started(folder, "stop_within=5", steps=before + 2)
            asked = time.monotonic()
            process.send_signal(number)
            self.assertEqual(self.wait(process), 0, folder.log())
            self.assertLess(time.monotonic() - asked, 10)
            self.assertEqual(folder.metrics("end")[-1]["reason"], "stopped")
            last = folder.metrics("step")[-1]["step"]
            self.assertEqual(folder.snapshots()[-1].name, f"step-{last:09d}")
        self.assert_exit(folder.train(), 0)
        self.assertEqual(folder.metrics("end")[-1]["reason"], "finished")
        self.assertTrue(folder.state() == whole.state(), "stopped runs end in other bits")

    def test_a_signal_before_there_is_a_run_changes_nothing_and_exits_0(self):
        """Rank 0 of two, which waits for the other."""
        folder = self.folder()
        alone = {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "2",
                 "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(21000 + os.getpid() % 10000)}
        for number in STOPPERS:
            process = folder.start(env={**os.environ, **alone})
            self.addCleanup(process.kill)
            wait_until(lambda p=process, n=number: catches(p, n), 3)
            process.send_signal(number)
            self.assertEqual(self.wait(process), 0, folder.log())
            self.assertEqual(folder.log(), "")
            self.assertFalse((folder.path / "run").exists())

    def test_ranks_that_are_stopped_while_they_start_exit_0(self):
        folder = self.folder()
        for number in STOPPERS:
            process = folder.start("--ranks", "2")
            self.addCleanup(process.kill)
            children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children")
            self.assertTrue(wait_until(lambda c=children: len(c.read_text().split()) == 2))
            process.send_signal(number)
            self.assertEqual(self.wait(process), 0, folder.log())
            self.assertFalse((folder.path / "run" / "metrics.jsonl").exists())

    def test_a_file_beyond_the_size_limit_is_like_a_full_disk(self):
        """SIGXFSZ would end the process without a word: exit code -25."""
        folder = self.folder(steps=4)
        limit = 1 << 12  # no snapshot fits
        process = folder.start(preexec_fn=lambda: resource.setrlimit(
            resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY)))
        self.addCleanup(process.kill)
        code = self.wait(process)
        self.assertGreater(code, 0, folder.log())
        self.assertRegex(folder.log(), "(?i)disk|space|file too large")

    def test_a_step_that_cannot_end_in_time_is_dropped(self):
        """20,000 microbatches a step take minutes."""
        folder = self.folder(steps=4, batch__tokens=64)
        self.assert_exit(folder.train("pause_at=2"), 0)
        state = folder.state()
        folder.settings["batch.tokens"] = 640000
        folder.write_run()
        folder.forget()
        process = folder.start("stop_within=0.5")
        self.addCleanup(process.kill)
        self.assertTrue(wait_until(lambda: folder.metrics("start")), folder.log())
        time.sleep(0.2)
        asked = time.monotonic()
        process.send_signal(signal.SIGTERM)
        self.assertEqual(self.wait(process), 0, folder.log())
        self.assertLess(time.monotonic() - asked, 10)
        self.assertEqual(folder.metrics("step"), [])
        self.assertEqual(folder.snapshots()[-1].name, "step-000000000")
        self.assertEqual(folder.metrics("end")[-1]["reason"], "stopped")
        self.assertNotEqual(state, folder.state())

    def test_a_second_signal_ends_at_once_with_128_and_its_number(self):
        for second in STOPPERS:
            folder = self.folder(steps=4, batch__tokens=640000)
            process = folder.start("stop_within=600")
            self.addCleanup(process.kill)
            self.assertTrue(wait_until(lambda f=folder: f.metrics("start")), folder.log())
            time.sleep(0.1)
            process.send_signal(signal.SIGTERM)
            time.sleep(0.5)
            self.assertIsNone(process.poll(), "stop_within=600 lets the step go on")
            process.send_signal(second)
            self.assertEqual(self.wait(process), 128 + second)

    def test_signals_that_come_together_are_one(self):
        """As Slurm sends SIGTERM at a time limit: twice within milliseconds."""
        folder = self.folder(steps=4, batch__tokens=640000)
        process = folder.start("stop_within=0.5")
        self.addCleanup(process.kill)
        self.assertTrue(wait_until(lambda: folder.metrics("start")), folder.log())
        time.sleep(0.1)
        for delay_s in (0.005, 0.02, 0):
            process.send_signal(signal.SIGTERM)
            time.sleep(delay_s)
        self.assertEqual(self.wait(process), 0, folder.log())
        self.assertEqual(folder.metrics("end")[-1]["reason"], "stopped")

    def test_a_folder_in_use_is_refused_naming_the_process(self):
        folder = self.folder(steps=4, batch__tokens=640000)
        process = folder.start()
        self.addCleanup(process.kill)
        self.assertTrue(wait_until(lambda: folder.metrics("start")), folder.log())
        lines = folder.metrics()
        result = folder.train()
        self.assert_exit(result, 2)
        self.assertIn(f"process {process.pid}", result.stderr)
        fresh = folder.train("--fresh")
        self.assert_exit(fresh, 2)
        self.assertEqual(folder.metrics(), lines)
        kill_group(process)
        self.assert_exit(folder.train("batch.tokens=64"), 0)

    def test_fresh_sets_the_old_run_aside(self):
        folder = self.folder(steps=4)
        self.assert_exit(folder.train(), 0)
        state = folder.state()
        for count in (1, 2):
            self.assert_exit(folder.train("--fresh", "seed=5"), 0)
            self.assertEqual(len(list((folder.path / "run").glob("snapshots.before-*"))), count)
        aside = sorted((folder.path / "run").glob("snapshots.before-*"))[0]
        self.assertRegex(aside.name, r"^snapshots.before-\d{4}-\d\d-\d\dT\d{6}Z(-\d)?$")
        kept = aside / "step-000000004"
        for name, content in state.items():
            self.assertTrue((kept / name).read_bytes() == content, name)
        self.assertNotEqual(folder.state(), state)

    def test_a_changed_shared_key_is_refused_with_both_values(self):
        folder = self.folder(steps=4)
        self.assert_exit(folder.train("pause_at=2"), 0)
        state = folder.state()
        for key, old, new in (("optimizer.lr", "0.01", "0.02"), ("seed", "3", "4"),
                              ("batch.tokens", "64", "32"), ("schedule.kind", "cosine", "wsd"),
                              ("precision.moments", "f32", "bf16")):
            result = folder.train(f"{key}={new}")
            self.assert_exit(result, 2)
            for word in (key, old, new):
                self.assertIn(word, result.stderr)
        self.assertTrue(folder.state() == state)
        self.assert_exit(folder.train("batch.microbatch=4", "eval.every=1"), 0)

    def test_a_finished_run_says_so_and_ends_well(self):
        folder = self.folder(steps=3)
        self.assert_exit(folder.train(), 0)
        model = tensors_of(folder.path / "run" / "model" / "model.safetensors")
        again = folder.train()
        self.assert_exit(again, 0)
        self.assertIn("is already at its last step", again.stderr)
        self.assertEqual(tensors_of(folder.path / "run" / "model" / "model.safetensors"), model)

    def test_no_output_but_progress_on_standard_error(self):
        folder = self.folder(steps=3)
        result = folder.train()
        self.assert_exit(result, 0)
        self.assertEqual(result.stdout, "")
        self.assertNotIn("\x1b", result.stderr, "no colour where there is no terminal")
        folder.forget()
        self.assertEqual(folder.train("-q").stderr, "")

    def test_every_line_carries_a_priority_in_the_journal(self):
        folder = self.folder(steps=3)
        result = folder.train(env={"JOURNAL_STREAM": "8:1"})
        self.assert_exit(result, 0)
        lines = result.stderr.splitlines()
        self.assertTrue(any(" loss " in line for line in lines), result.stderr)
        self.assertTrue(any("snapshot in" in line for line in lines), result.stderr)
        for line in lines:
            self.assertRegex(line, "^<6>")


if __name__ == "__main__":
    main()
