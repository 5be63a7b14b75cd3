"""The cache of tokens that a run with text or conversations makes: damaged, interrupted, on a full
disk, in a folder with an odd name, and made by two processes at once."""
import json
import os
import random
import shutil
import signal
import subprocess

from chat_files import SEQUENCE, ChatTest, conversation
from refusals import RefusalTest
from small_run import SKEP, TIMEOUT_S, main, wait_until


class CacheTest(ChatTest, RefusalTest):
    def setUp(self):
        super().setUp()
        self.cache = self.path / "cache"
        self.write_run(data__train="chats.jsonl", data__chat="chatml", steps=1)

    def write_chats(self, count):
        chance = random.Random(17)
        lines = [json.dumps({"messages": conversation(chance)}) + "\n" for _ in range(1000)]
        with open(self.path / "chats.jsonl", "w", encoding="utf-8") as out:
            for _ in range(count):
                out.write(lines[chance.randrange(1000)])

    def whole(self):
        """The token files of the conversations, as skep data makes them."""
        self.skep("data", "chats.jsonl", "--model", "model", "-o", "whole", "--chat", "--template",
                  "chatml", "--sequence", str(SEQUENCE))
        return {path.name: path.read_bytes() for path in (self.path / "whole").glob("*.bin")}

    def environment(self):
        return {**os.environ, "XDG_CACHE_HOME": str(self.cache)}

    def train(self, *arguments, code=0, run="run.yaml", **options):
        return self.skep("train", run, "--fresh", *arguments, code=code, env=self.environment(),
                         **options).stderr

    def start(self, run="run.yaml"):
        process = subprocess.Popen([SKEP, "train", run, "--fresh"], cwd=self.path, text=True,
                                   env=self.environment(), stderr=subprocess.PIPE)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def files(self):
        return {path.name: path.read_bytes() for path in self.cache.rglob("*.bin")}


class Damaged(CacheTest):
    def damages(self, folder):
        """Each with the word that names it."""
        tokens, summary = folder / "train_000000.bin", folder / "data.json"
        yield lambda: os.truncate(tokens, 3000), "the header states "
        yield lambda: os.truncate(tokens, 0), "no llm.c header"
        yield lambda: tokens.write_bytes(bytes(5000)), "no llm.c header"
        yield tokens.unlink, "train_000000.bin: cannot open"
        yield summary.unlink, "data.json: cannot open"
        yield lambda: summary.write_text("{"), "data.json:1:"
        yield lambda: summary.write_text('{"train": {"files": 2}}'), "train_000001.bin: cannot open"

    def test_damaged_tokens_are_made_again(self):
        self.write_chats(300)
        self.train()
        made = self.files()
        self.assertEqual(made, self.whole())
        folder = next(self.cache.rglob("data.json")).parent
        for damage, words in self.damages(folder):
            with self.subTest(words):
                damage()
                log = self.train()
                self.assertRegex(log, f"{words}.*; making the tokens again")
                self.assertEqual(self.files(), made)
        self.assertIn("using the tokens of chats.jsonl in ", self.train())

    def test_what_is_not_a_cache_is_left_alone(self):
        self.write_chats(30)
        self.train()
        folder = next(self.cache.rglob("data.json")).parent
        (folder / "mine.txt").write_text("mine")
        (folder / "data.json").unlink()
        self.assertIn("exists already and is not empty; remove it", self.train(code=2))
        self.assertEqual((folder / "mine.txt").read_text(), "mine")

    def test_the_name_of_the_cache_may_look_like_a_pattern(self):
        self.write_chats(30)
        self.cache = self.path / "a[1]*"
        self.train()
        self.assertIn("using the tokens of ", self.train())

    def test_the_folder_of_a_run_may_look_like_a_pattern(self):
        self.write_chats(30)
        self.whole()
        (self.path / "a[1]").mkdir()
        for name in ("model", "whole", "chats.jsonl"):
            shutil.move(self.path / name, self.path / "a[1]")
        self.write_run(data__train="whole/train_*.bin", steps=1)
        shutil.move(self.path / "run.yaml", self.path / "a[1]")
        self.train(run="a[1]/run.yaml")


class Interrupted(CacheTest):
    COUNT = 80000  # several packs of rows, each of which is saved

    def test_a_run_that_is_killed_or_stopped_while_it_tokenises_continues(self):
        self.write_chats(self.COUNT)
        killed = self.start()
        self.assertTrue(wait_until(lambda: list(self.cache.rglob("progress.json"))))
        killed.kill()
        killed.wait(timeout=TIMEOUT_S)
        stopped = self.start()
        self.read_until(stopped, "continuing an interrupted call")
        stopped.terminate()
        log = stopped.communicate(timeout=TIMEOUT_S)[1]
        if "step 1/1" in log:
            self.skipTest("the run was faster than the signal")
        self.assertEqual(stopped.returncode, 0)
        self.assertIn("stopped while tokenising; the progress is saved, and the same command "
                      "continues", log)
        self.assertIn("continuing an interrupted call", self.train())
        self.assertEqual(self.files(), self.whole())

    def wait_for_lock(self):
        """Waits until a process has written its id to the lock that it holds."""
        self.assertTrue(wait_until(lambda: any(lock.read_text()
                                               for lock in self.cache.rglob("lock"))))

    def read_until(self, process, words):
        """Reads the log up to a line with these words."""
        line = process.stderr.readline()
        while words not in line:
            self.assertNotEqual(line, "", words)
            line = process.stderr.readline()

    def test_a_second_run_waits_for_the_tokens_of_the_first(self):
        self.write_chats(self.COUNT)
        shutil.copy(self.path / "run.yaml", self.path / "second.yaml")
        first = self.start()
        self.wait_for_lock()
        second = self.start("second.yaml")
        logs = [process.communicate(timeout=TIMEOUT_S)[1] for process in (first, second)]
        self.assertEqual([first.returncode, second.returncode], [0, 0], logs)
        self.assertIn("using the tokens of chats.jsonl in ", logs[1])
        if "waiting for" in logs[1]:
            self.assertIn(f"waiting for process {first.pid}, which is writing ", logs[1])
        self.assertEqual(self.files(), self.whole())
        self.assertEqual(list(self.cache.rglob("*.new")) + list(self.cache.rglob("lock")), [])

    def test_a_run_makes_the_tokens_when_the_one_it_waits_for_is_killed(self):
        self.write_chats(self.COUNT)
        shutil.copy(self.path / "run.yaml", self.path / "second.yaml")
        first = self.start()
        self.wait_for_lock()
        first.send_signal(signal.SIGSTOP)  # it holds its lock until it is killed
        second = self.start("second.yaml")
        self.read_until(second, "waiting for process")
        first.kill()
        log = second.communicate(timeout=TIMEOUT_S)[1]
        self.assertEqual(second.returncode, 0, log)
        self.assertEqual(self.files(), self.whole())

    def test_a_wait_is_ended_by_a_signal(self):
        self.write_chats(self.COUNT)
        shutil.copy(self.path / "run.yaml", self.path / "second.yaml")
        first = self.start()
        self.wait_for_lock()
        first.send_signal(signal.SIGSTOP)
        second = self.start("second.yaml")
        self.read_until(second, "waiting for process")
        second.terminate()
        self.assertIn("stopped while tokenising; ", second.communicate(timeout=TIMEOUT_S)[1])
        self.assertEqual(second.returncode, 0)


class Full(CacheTest):
    def test_a_full_disk_is_named_and_the_next_call_continues(self):
        self.write_chats(80000)
        whole = self.whole()
        need = sum(map(len, whole.values()))
        self.cache = self.mounted(self, f"{need // 1024 * 2 // 3}k")
        errors = self.train(code=3)
        self.assertRegex(errors, r"cannot write: No space left on device; free space there, or set "
                         r"XDG_CACHE_HOME to a folder on another disk")
        self.skep("data", "chats.jsonl", "--model", "model", "-o", "disk/tokens", "--chat",
                  "--template", "chatml", "--sequence", str(SEQUENCE), code=3)
        subprocess.run(["mount", "-o", "remount,size=64m", str(self.cache)], check=True)
        self.train()
        self.assertEqual(self.files(), whole)


if __name__ == "__main__":
    main()
