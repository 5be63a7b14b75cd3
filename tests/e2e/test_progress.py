"""Progress on a terminal and in a plain log: every phase that takes more than a second is shown,
a terminal shows one line, a log at most one line each 10 s, with the time."""
import calendar
import json
import os
import pty
import re
import struct
import subprocess
import time
import unittest

from loopback_swarm import SwarmTest
from small_run import SANITIZED, TIMEOUT_S, RunTest, main, write_tokens

TIME = r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ) "
WIDE = {"model_type": "llama", "vocab_size": 97, "hidden_size": 256, "intermediate_size": 1024,
        "num_hidden_layers": 6, "num_attention_heads": 4, "num_key_value_heads": 2,
        "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "tie_word_embeddings": False}
PROGRESS = re.compile(r"step \d+/\d+  loss|: \d+ %, left |^evaluating|round \d+  step|"
                      r"waiting for the (next|results)")
EVALUATING = r"evaluating: \d+ %, left \d+:\d\d"
WINDOWS = (400, 1000, 4000)  # of the validation set, until its evaluation takes some seconds


def seconds_left(text):
    """"1:02" or "3:00:07" in seconds."""
    seconds = 0
    for part in text.split(":"):
        seconds = 60 * seconds + int(part)
    return seconds


class PlainLog(RunTest):
    def test_lines_have_times_and_standard_output_has_none(self):
        folder = self.folder(steps=3)
        before = int(time.time())
        result = folder.train()
        self.assert_exit(result, 0)
        self.assertEqual(result.stdout, "")
        lines = result.stderr.splitlines()
        self.assertGreater(len(lines), 3)
        for line in lines:
            match = re.match(TIME, line)
            self.assertTrue(match, line)
            moment = calendar.timegm(time.strptime(match.group(1), "%Y-%m-%dT%H:%M:%SZ"))
            self.assertTrue(before <= moment <= time.time(), line)
        journal = folder.train("--fresh", env={"JOURNAL_STREAM": "8:1"})
        self.assertNotRegex(journal.stderr, TIME)
        self.assertRegex(journal.stderr, "^<6>")
        bad = folder.train("stepz=3")  # an error has the form of the contract
        self.assertRegex(bad.stderr, "^skep: command line: ")
        plan = folder.run("plan", "run.yaml", "--json")
        self.assertEqual(plan.stderr, "")
        json.loads(plan.stdout)

    @unittest.skipIf(SANITIZED, "its times are not those of the program")
    def test_a_long_evaluation_is_shown_and_is_in_the_time_left(self):
        """Steps are short, and the evaluation at the end takes most of the run. A fast machine
        evaluates more."""
        for windows in WINDOWS:
            folder = self.folder(WIDE, steps=6, eval__tokens=0, batch__sequence=64,
                                 batch__tokens=64, batch__microbatch=1, init="random")
            write_tokens(folder.path / "valid.u16", 64 * windows, 97, 2)
            began = time.monotonic()
            with subprocess.Popen(folder.command("train", "run.yaml"), cwd=folder.path, text=True,
                                  stderr=subprocess.PIPE) as process:
                seen = [(time.monotonic() - began, line) for line in process.stderr]
            self.assertEqual(process.returncode, 0)
            end = time.monotonic() - began
            if end - next(moment for moment, line in seen if " step 6/6 " in line) > 4:
                break
        lines = [line for _, line in seen]
        step, left = next((moment, seconds_left(re.search(r"left ([\d:]+)", line).group(1)))
                          for moment, line in seen if " step 6/6 " in line)
        actual = end - step
        self.assertGreater(actual, 4)  # else this test shows nothing
        self.assertTrue(actual / 4 < left < actual * 4, f"{left} s announced, {actual:.1f} s taken")
        if actual > 20:
            self.assertTrue(any(re.search(r"evaluating: \d+ %, left ", line) for line in lines))
        shown = [moment for moment, line in seen if PROGRESS.search(line)]
        for one, other in zip(shown, shown[1:]):
            if other - one < 9.5:  # the last step is always shown
                self.assertIn("step 6/6", next(line for moment, line in seen if moment == other))


class Terminal(RunTest):
    def on_terminal(self, folder, *arguments):
        """Output of a command on a terminal of 80 columns."""
        leader, follower = pty.openpty()
        import fcntl
        import termios
        fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        with subprocess.Popen(folder.command(*arguments), cwd=folder.path, stderr=follower,
                              stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL) as process:
            os.close(follower)
            pieces = []
            while True:
                try:
                    piece = os.read(leader, 1 << 16)
                except OSError:
                    break
                if not piece:
                    break
                pieces.append(piece)
            code = process.wait(timeout=TIMEOUT_S)
        os.close(leader)
        return code, b"".join(pieces).decode().replace("\r\n", "\n")

    @unittest.skipIf(SANITIZED, "its times are not those of the program")
    def test_one_line_is_updated_in_place(self):
        for windows in WINDOWS:
            folder = self.folder(WIDE, steps=40, eval__tokens=0, batch__sequence=64,
                                 batch__tokens=64, batch__microbatch=1, init="random")
            write_tokens(folder.path / "valid.u16", 64 * windows, 97, 2)
            code, text = self.on_terminal(folder, "train", "run.yaml")
            self.assertEqual(code, 0)
            if len(re.findall(EVALUATING, text)) > 3:
                break
        self.assertNotRegex(text, TIME)
        updates = text.split("\r\x1b[K")
        steps = [update for update in updates if "step " in update and "tokens/s" in update]
        self.assertGreater(len(steps), 3)
        for update in steps:  # nothing wraps, so that the line can be cleared
            self.assertTrue(update.startswith("\x1b[?7l") and update.endswith("\x1b[?7h"), update)
        self.assertGreater(len(re.findall(EVALUATING, text)), 3)
        for line in text.split("\n")[:-1]:  # of each line, what remains is a message
            rest = line.split("\r\x1b[K")[-1]
            self.assertNotIn("\x1b[?7l", rest, text[-2000:])
        self.assertTrue(text.endswith("\n"))

    def test_an_error_begins_on_a_line_of_its_own(self):
        folder = self.folder(steps=200, optimizer__lr=1000, optimizer__clip_norm=0, init="random",
                             schedule__kind="constant", optimizer__weight_decay=1)
        code, text = self.on_terminal(folder, "train", "run.yaml")
        self.assertEqual(code, 1, text[-500:])
        self.assertRegex(text, r"\nskep: step \d+: the run has diverged")
        self.assertIn("\x1b[?7l", text)


class Join(SwarmTest):
    def test_a_member_shows_time_left_and_what_it_gave(self):
        self.swarm(steps=60, swarm__inner_steps=20)
        anna = self.member("anna").start()
        self.wait_for_end(anna)
        log = anna.log()
        self.assertRegex(log, TIME + "joined heather, which has 1 member")
        self.assertRegex(log, r"was assigned \d\S* tokens in [0-3] rounds?, "
                              r"\S+ \wi?B up, \S+ \wi?B down")
        given = re.search(r"assigned (\S+) tokens in 3 rounds, .* since this start\n", log)
        self.assertTrue(given, log)
        ledger = [json.loads(line) for line in anna.ledger().read_text().splitlines()]
        tokens = sum(entry["members"][0]["tokens"] for entry in ledger if entry["kind"] == "commit")
        self.assertEqual(given.group(1), f"{tokens / 1000:.3g}k" if tokens >= 1000 else str(tokens),
                         log)

    def test_a_member_says_for_how_long_it_has_waited_for_an_answer(self):
        self.swarm(steps=20)
        self.tracker.kill()
        anna = self.member("anna").start()
        self.wait_for(lambda: re.search(r"still no answer for 0:\d\d; "
                                        r"next attempt (in \d+ s|now)\n",
                                        anna.log()), "word of the next attempt", 60)
        anna.ask_to_stop()
        self.wait_for_end(anna)


if __name__ == "__main__":
    main()
