"""Metrics, traces and the files of swarm.record after SIGKILL and on a full disk: every line and
every file is complete, and the log reports what is missing."""
import json
import os
import random
import subprocess
import time
import unittest

from loopback_swarm import SwarmTest
from small_run import RunTest, main, tensors_of, wait_until


class SmallDisk(RunTest):
    def mount(self, path, size):
        """A file system of `size` bytes, or a skipped test."""
        path.mkdir(parents=True, exist_ok=True)
        made = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(path)],
                              capture_output=True, check=False)
        if made.returncode != 0:
            self.skipTest("mounting is not permitted")
        self.addCleanup(subprocess.run, ["umount", "-l", str(path)], check=False)

    @staticmethod
    def fill(path):
        """Uses the space that is left."""
        with open(path, "wb", buffering=0) as filler:
            for size in (4096, 512, 64, 8, 1):
                try:
                    while filler.write(b"x" * size) == size:
                        pass
                except OSError:
                    pass

    def lines(self, path):
        """Every line of a file, each of which must be complete."""
        text = path.read_text()
        self.assertTrue(text.endswith("\n"), text[-200:])
        return [json.loads(line) for line in text.splitlines()]


class Metrics(SmallDisk):
    def test_a_line_cut_short_is_removed_at_the_next_start(self):
        folder = self.folder(steps=4)
        self.assert_exit(folder.train("pause_at=2"), 0)
        path = folder.path / "run" / "metrics.jsonl"
        whole = path.read_bytes()
        for end in (b'{"kind": "step", "time": 17', b'{"ki', b"\0" * 700):
            path.write_bytes(whole + end)
            result = folder.train("pause_at=2")
            self.assert_exit(result, 0)
            self.assertRegex(result.stderr, r"metrics.jsonl: the last line was incomplete; it was "
                                            r"removed\n")
            self.assertEqual(self.lines(path)[:4], [json.loads(line) for line in
                                                    whole.splitlines()][:4])
        path.write_bytes(whole + b"a note of mine")
        result = folder.train()
        self.assert_exit(result, 0)
        self.assertIn("a line end was added", result.stderr)
        self.assertIn(b"\na note of mine\n", path.read_bytes())
        self.assertEqual([line["step"] for line in folder.metrics("step")], [1, 2, 3, 4])

    def lines_while_running(self, path):
        """The lines of a file to which a process writes. On a full disk a part of a line may be in
        it, which the process removes at once."""
        texts = []
        self.assertTrue(wait_until(
            lambda: texts.append(path.read_text()) or texts[-1].endswith("\n")), texts[-1:])
        return [json.loads(line) for line in texts[-1].splitlines()]

    @unittest.skipIf(os.geteuid() != 0, "only root mounts")
    def test_lines_are_whole_on_a_full_disk_and_the_log_counts_the_missing_ones(self):
        folder = self.folder(steps=1000000)
        self.mount(folder.path / "disk", 32768)
        path = folder.path / "disk" / "metrics.jsonl"
        process = folder.start("metrics=disk/metrics.jsonl", "export=model2")
        self.addCleanup(process.kill)
        self.assertTrue(wait_until(lambda: "cannot write metrics" in folder.log()), folder.log())
        before = self.lines_while_running(path)
        (folder.path / "kept").write_bytes(path.read_bytes())
        os.truncate(path, 0)
        self.assertTrue(wait_until(lambda: path.stat().st_size > 0), folder.log())
        process.terminate()
        self.assertEqual(process.wait(timeout=60), 0)
        log = folder.log()
        self.assertRegex(log, r"disk/metrics.jsonl: cannot write metrics: No space left on device; "
                              r"training continues without them\n")
        self.assertRegex(log, r"metrics are written again; \d+ lines? could not be written\n")
        first = next(line["step"] for line in self.lines(path) if line["kind"] == "step")
        missing = sum(int(line.split(" written again; ")[1].split()[0])
                      for line in log.splitlines() if "written again" in line)
        if log.count("cannot write") == 1:
            self.assertEqual(first - before[-1]["step"] - 1, missing)


class Trace(SmallDisk):
    @unittest.skipIf(os.geteuid() != 0, "only root mounts")
    def test_a_full_disk_leaves_the_earlier_trace(self):
        folder = self.folder(steps=6)
        self.mount(folder.path / "disk", 1 << 20)
        trace = folder.path / "disk" / "trace.json"
        self.assert_exit(folder.train("trace=disk/trace.json", "trace_steps=2:3"), 0)
        earlier = trace.read_bytes()
        self.assertIn("traceEvents", json.loads(earlier))
        self.fill(folder.path / "disk" / "filler")
        result = folder.train("--fresh", "trace=disk/trace.json", "trace_steps=2:3")
        self.assert_exit(result, 0)
        self.assertRegex(result.stderr, "trace.json.new: .*; training continues without a trace")
        self.assertEqual(trace.read_bytes(), earlier)
        self.assertFalse((folder.path / "disk" / "trace.json.new").exists())


class Record(SwarmTest, SmallDisk):
    CONFIG = {"model_type": "llama", "vocab_size": 997, "hidden_size": 128,
              "intermediate_size": 512, "num_hidden_layers": 2, "num_attention_heads": 4,
              "num_key_value_heads": 2, "max_position_embeddings": 64, "rms_norm_eps": 1e-5,
              "tie_word_embeddings": False}

    def check(self, record):
        """Every file under its own name is complete; returns their number."""
        count = 0
        for path in sorted(record.glob("round-*/*")):
            if path.name == "commit.json":
                count += 1
                self.assertEqual(self.lines(path)[0]["kind"], "commit")
            elif path.suffix == ".safetensors":
                count += 1
                for name, (_, shape, data) in tensors_of(path).items():
                    self.assertEqual(len(data), 4 * shape[0], path)
                    # a file that is only reserved contains zeros; the momentum of a round does not
                    self.assertTrue(any(data[-(1 << 16):]), f"{path}: {name} ends in zeros")
            else:
                self.assertEqual(path.suffix, ".new")
        return count

    def test_a_member_that_is_killed_leaves_complete_files(self):
        self.swarm(config=self.CONFIG, steps=1000000, swarm__inner_steps=1, batch__tokens=64)
        chance = random.Random(5)
        record = self.site.path / "record"
        anna = self.member("anna", "swarm.record=record")
        complete = 0
        for _ in range(8):
            count = len(list(record.glob("round-*/commit.json")))
            anna.start()
            self.wait_for(lambda: len(list(record.glob("round-*/commit.json"))) > count,
                          "recorded round")
            if chance.random() < 0.5:  # while a file is being written
                wait_until(lambda: list(record.glob("round-*/*.new")), 1)
            else:
                time.sleep(chance.random() * 0.2)
            anna.kill()
            self.assertGreater(self.check(record), complete)
            complete = self.check(record)
            metrics = anna.folder / "state" / "metrics.jsonl"
            self.assertIn("round", [line["kind"] for line in self.lines(metrics)])

    @unittest.skipIf(os.geteuid() != 0, "only root mounts")
    def test_a_full_disk_ends_the_record_and_not_the_training(self):
        self.swarm(config=self.CONFIG, steps=1000000, swarm__inner_steps=1, batch__tokens=64)
        record = self.site.path / "record"
        self.mount(record, 24 << 20)
        anna = self.member("anna", "swarm.record=record").start()
        self.wait_for(lambda: "is not recorded" in anna.log(), "word of the full disk")
        reached = anna.last()
        self.wait_for(lambda: anna.last() > reached + 2, "rounds without a record")
        self.assertRegex(anna.log(), r"safetensors.new: no space for \d+ bytes: No space left on "
                                     r"device; training continues, but round \d+ is not recorded\n")
        self.assertEqual(anna.log().count("is not recorded"), 1)
        anna.kill()
        self.assertGreater(self.check(record), 2)
        self.assertEqual(list(record.glob("round-*/*.new")), [])
        for path in record.glob("round-*/*.safetensors"):
            path.unlink()
        last = anna.last()
        anna.start()
        self.wait_for(lambda: anna.last() > last, "a round after the restart")
        anna.kill()
        self.assertGreater(self.check(record), 2)


if __name__ == "__main__":
    main()
