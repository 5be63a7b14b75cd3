"""`skep data --chat`: conversations become rows whose masks are checked token by token, and
training and evaluation count the trained tokens only."""
import json
import os
import random
import signal
import subprocess

from chat_files import (CHATML, END, SEQUENCE, START, WORDS, ChatTest, chatml, conversation,
                        conversations_of, read_rows)
from small_run import SKEP, TIMEOUT_S, main, wait_until


class Rows(ChatTest):
    def test_rows_have_whole_conversations_and_their_masks(self):
        chance = random.Random(5)
        conversations = [conversation(chance) for _ in range(300)]
        wanted = [chatml(messages) for messages in conversations]
        report = json.loads(self.chats(conversations).stdout)
        rows = read_rows(self.path / "chats" / "train_000000.bin")
        found, trained_count = [], 0
        for row in rows:
            for tokens in conversations_of(row):
                texts = [self.token_bytes[token] for token, _ in tokens]
                text = b"".join(texts)
                if not text.startswith(START.encode()):
                    self.assertEqual(set(tokens), {(0, 0)}, "padding")
                    continue
                found.append(text)
                trained = next(
                    mask for other, mask in wanted if other == text)
                at = 0
                for (_, is_trained), part in zip(tokens, texts):
                    self.assertEqual(bool(is_trained), any(trained[at:at + len(part)]), text)
                    at += len(part)
                trained_count += sum(is_trained for _, is_trained in tokens)
        kept = report["train"]["conversations"]
        self.assertEqual((len(rows), len(found)), (report["train"]["rows"], kept))
        self.assertEqual(kept + report["long"], len(conversations))
        self.assertGreater(report["long"], 0)
        self.assertEqual(trained_count, report["train"]["trained"])
        texts = [text for text, _ in wanted]
        self.assertTrue(all(found.count(text) <= texts.count(text) for text in set(found)))

    def test_long_conversations_are_cut_or_left_out(self):
        short = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
        answer = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "c" * 500}]
        question = [{"role": "user", "content": "a" * 500}, {"role": "assistant", "content": "b"}]
        counts = []
        for option in ("drop", "cut"):
            report = json.loads(self.chats([short, answer, question], "--long", option,
                                           folder=option).stdout)
            counts.append((report["train"]["conversations"], report["long"], report["untrained"]))
        self.assertEqual(counts, [(1, 2, 0), (2, 1, 1)])  # none is counted twice

    def test_errors_name_the_line(self):
        good = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
        bad = [{"role": "user", "content": f"x {END}"}, {"role": "assistant", "content": "b"}]
        errors = self.chats([good, bad], code=2).stderr
        self.assertIn("chats.jsonl:2: `messages[0]` contains the control token <|im_end|>", errors)
        self.assertIn("add --parse-special", errors)
        self.assertFalse((self.path / "chats").exists())
        self.chats([good, bad], "--parse-special")
        for line, words in (
                ("{", "bad.jsonl:2:1: not valid JSON: .*; each line must be one JSON object"),
                ("[]", "bad.jsonl:2: is a JSON array.*; each line must be one JSON object"),
                ('{"messages": []}', "has 0 messages.*; correct this line or remove it"),
                ('{"messages": [{"role": "bot", "content": ""}]}', "; correct this line"),
                ('{"messages": [{"role": "user", "content": "a"}], "tools": [{}]}',
                 "; choose another template with --template .in a run, data.chat., or remove it"),
                ('{"a": NaN}', "bad.jsonl:2:9: not valid JSON"),
                ('{"a": 1, "a": 2}', "bad.jsonl:2:[0-9]+: not valid JSON: duplicate object key")):
            (self.path / "bad.jsonl").write_text(f"\n{line}\n")
            errors = self.skep("data", "bad.jsonl", "--chat", "--template", "chatml", "--model",
                               "model", "-o", "other", code=2).stderr
            self.assertRegex(errors, words)
        (self.path / "bad.jsonl").write_text("\n{\n")
        for arguments, word in (
                (("bad.jsonl", "--chat", "--template", "chatml"), "bad.jsonl:2:1: not valid JSON"),
                (("chats.jsonl", "--chat"), "has no chat template"),
                (("chats.jsonl", "--chat", "--template", "llama3"), "<|start_header_id|>"),
                (("chats.jsonl", "--chat", "--template", "alpaca"), "chatml, llama3, mistral"),
                (("chats.jsonl", "--chat", "--long", "keep"), "write cut or drop"),
                (("chats.jsonl", "--template", "chatml"), "add --chat"),
                (("chats.jsonl", "--chat", "--literal"), "not for --chat")):
            self.assertIn(word, self.skep("data", *arguments, "--model", "model", "-o", "other",
                                          code=2).stderr)
        config = self.path / "model" / "tokenizer_config.json"
        names = json.loads(config.read_text())
        config.write_text(json.dumps({**names, "chat_template": "{{ x }}"}))
        errors = self.skep("data", "chats.jsonl", "--chat", "--model", "model", "-o", "other",
                           code=2).stderr
        self.assertIn("hash ", errors)
        self.assertIn("choose one with --template", errors)


class Calls(ChatTest):
    """Calls with several threads, and calls that are stopped and repeated."""

    def arguments(self, name, folder, *options):
        return ["data", name, "--model", "model", "-o", folder, "--chat", "--template", "chatml",
                "--sequence", str(SEQUENCE), "--validation", "10%", *map(str, options)]

    def write_lines(self, count):
        """About 100 bytes a line; the longest of them exceed a row."""
        chance = random.Random(11)
        lines = [json.dumps({"messages": conversation(chance)}) for _ in range(1000)]
        with open(self.path / "chats.jsonl", "w", encoding="utf-8") as out:
            for i in range(count):
                out.write(lines[chance.randrange(1000)] + ("\n\n" if i % 7 == 0 else "\n"))

    def files(self, folder):
        return {path.name: path.read_bytes() for path in (self.path / folder).iterdir()}

    def interrupt(self, lines, number, *options):
        """Ends a call by a signal when it has saved progress and waits for more lines."""
        progress = self.path / "piped.new" / "progress.json"
        process = subprocess.Popen([SKEP, *self.arguments("-", "piped", *options)], cwd=self.path,
                                   stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.addCleanup(process.stdin.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        process.stdin.write(lines)
        process.stdin.flush()
        self.assertTrue(wait_until(progress.exists))
        process.send_signal(number)
        self.assertEqual(process.wait(timeout=TIMEOUT_S),
                         -number if number == signal.SIGKILL else 0)
        return progress

    def test_any_number_of_threads_writes_the_same_files(self):
        self.write_lines(8000)
        for threads in (1, 2, 5):
            self.skep(*self.arguments("chats.jsonl", f"t{threads}", "--threads", threads,
                                      "--shard-tokens", 100000))
        files = self.files("t1")
        self.assertGreater(len(files), 3)
        self.assertEqual(files, self.files("t2"))
        self.assertEqual(files, self.files("t5"))
        summary = json.loads(files["data.json"])
        self.assertEqual((summary["template"], summary["sequence"]), ("ChatML", SEQUENCE))
        parts = summary["train"], summary["validation"]
        self.assertEqual(sum(part["conversations"] + part["long"] + part["untrained"]
                             for part in parts), 8000)
        for name, part in zip(("train", "validation"), parts):
            rows = [row for file in sorted(files) if file.startswith(name)
                    for row in read_rows(self.path / "t1" / file)]
            self.assertEqual(len(rows), part["rows"])
            self.assertEqual(sum(token[1] for row in rows for token in row), part["trained"])
        self.assertEqual(parts[0]["files"], sum(name.startswith("train") for name in files))

    def test_a_call_that_is_stopped_or_killed_continues(self):
        """Behind the last rows that were packed, of 2^20 tokens."""
        self.write_lines(80000)
        lines = (self.path / "chats.jsonl").read_bytes()
        options = ("--shard-tokens", 1500000, "--threads", 1)
        self.skep(*self.arguments("chats.jsonl", "whole", *options))
        for number in (signal.SIGTERM, signal.SIGKILL):
            progress = self.interrupt(lines[:-1000], number, *options)
        saved = json.loads(progress.read_text())
        self.assertGreater(saved["train"]["chat"]["next"], 1000)
        result = subprocess.run([SKEP, *self.arguments("-", "piped", *options)], cwd=self.path,
                                input=lines, capture_output=True, timeout=TIMEOUT_S, check=True)
        self.assertIn("continuing an interrupted call", result.stderr.decode())
        self.assertEqual(self.files("piped"), self.files("whole"))

    def test_a_call_that_has_saved_nothing_ends_with_a_failure(self):
        """Progress is saved when a pack of rows is full."""
        self.write_lines(100)
        process = subprocess.Popen([SKEP, *self.arguments("-", "piped")], cwd=self.path, text=True,
                                   stdin=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.stdin.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        process.stdin.write((self.path / "chats.jsonl").read_text())
        process.stdin.flush()
        self.assertTrue(wait_until((self.path / "piped.new" / "lock").exists))
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(timeout=8), 1)
        self.assertIn("skep: piped: stopped before any progress was saved; run the command again",
                      process.stderr.read())
        self.assertEqual(list(self.path.glob("piped*")), [])

    def test_changed_conversations_start_over(self):
        self.write_lines(80000)
        lines = (self.path / "chats.jsonl").read_bytes()
        self.interrupt(lines, signal.SIGINT, "--threads", 1)
        changed = lines.replace(b"builds", b"makes!", 1)
        for code in (2, 0):  # the first call discards what is there
            result = subprocess.run([SKEP, *self.arguments("-", "piped", "--threads", 1)],
                                    cwd=self.path, input=changed, capture_output=True,
                                    timeout=TIMEOUT_S, check=False)
            self.assertEqual(result.returncode, code, result.stderr)


class Training(ChatTest):
    def test_only_trained_tokens_count(self):
        chance = random.Random(7)
        report = json.loads(self.chats([conversation(chance) for _ in range(60)]).stdout)
        self.write_run()
        self.skep("train", "run.yaml")
        found = json.loads(self.skep("eval", "run/model", "--data", "chats/train_000000.bin",
                                     "--json", f"batch.sequence={SEQUENCE}").stdout)
        self.assertEqual(found["tokens"], report["train"]["trained"])

    def test_an_answer_is_learned_and_a_question_is_not(self):
        """Questions are noise, answers depend on nothing: the loss of the answers vanishes."""
        chance = random.Random(9)
        answer = {"role": "assistant", "content": "of wax"}
        self.chats([[{"role": "user", "content": "".join(chance.choice(WORDS) for _ in range(6))},
                     answer] for _ in range(200)])
        self.write_run(steps=150, optimizer__lr=0.01)
        self.skep("train", "run.yaml")
        found = json.loads(self.skep("eval", "run/model", "--data", "chats/train_000000.bin",
                                     "--json", f"batch.sequence={SEQUENCE}").stdout)
        self.assertLess(found["loss"], 0.05)

    def evaluate(self, folder):
        """Sum of the losses, and number of trained tokens."""
        found = json.loads(self.skep("eval", "run/model", "--data", f"{folder}/train_000000.bin",
                                     "--json", f"batch.sequence={SEQUENCE}").stdout)
        return found["loss"] * found["tokens"], found["tokens"]

    def test_conversations_of_a_row_do_not_see_each_other(self):
        """Two in one row have the losses that each has in a row of its own."""
        both = [[{"role": "user", "content": question}, {"role": "assistant", "content": answer}]
                for question, answer in (("a bee", "of wax"), ("builds", "comb 12.5"))]
        report = json.loads(self.chats(both).stdout)
        self.assertEqual((report["train"]["rows"], report["train"]["conversations"]), (1, 2))
        self.chats(both[:1], folder="first")
        self.chats(both[1:], folder="second")
        self.write_run(batch__tokens=SEQUENCE)
        self.skep("train", "run.yaml")
        together, first, second = map(self.evaluate, ("chats", "first", "second"))
        self.assertEqual(together[1], first[1] + second[1])
        self.assertAlmostEqual(together[0], first[0] + second[0], places=3)

    def test_conversations_are_tokenised_by_the_run(self):
        """As skep data makes them, for each template and length of rows once."""
        chance = random.Random(3)
        self.chats([conversation(chance) for _ in range(100)])
        environment = {**os.environ, "XDG_CACHE_HOME": str(self.path / "cache")}

        def train(*overrides, code=0):
            return self.skep("train", "run.yaml", "--fresh", *overrides, code=code,
                             env=environment).stderr

        self.write_run(data__train="chats.jsonl")
        self.assertIn("has no chat template; choose one with --template or data.chat:",
                      train(code=2))
        self.write_run(data__train="chats.jsonl", data__validation="chats.jsonl",
                       data__chat="chatml")
        log = train()
        self.assertIn("tokenising chats.jsonl into ", log)
        self.assertIn(" conversations in rows of 64, template ChatML", log)
        self.assertIn("chats.jsonl: left out ", log)
        made = (self.path / "chats" / "train_000000.bin").read_bytes()
        cached = list((self.path / "cache").rglob("train_*.bin"))
        self.assertEqual([path.read_bytes() for path in cached], [made])
        self.assertIn("using the tokens of chats.jsonl in ", train())
        train("batch.sequence=32", "batch.tokens=128")
        self.assertEqual(len(list((self.path / "cache").rglob("train_*.bin"))), 2)
        found = json.loads(self.skep("eval", "run.yaml", "--json", env=environment).stdout)
        self.assertEqual(found["tokens"], json.loads(
            (self.path / "chats" / "data.json").read_text())["train"]["trained"])
        config = self.path / "model" / "tokenizer_config.json"
        config.write_text(json.dumps({**json.loads(config.read_text()), "chat_template": CHATML}))
        self.write_run(data__train="chats.jsonl")
        self.assertIn("template ChatML of docs/DATA.md", train())  # found by its first line
        (self.path / "text.txt").write_text("text")
        self.write_run(data__train="text.txt", data__chat="chatml")
        self.assertIn("text.txt: is text; conversations are JSON lines", train(code=2))

    def test_members_of_a_swarm_make_the_same_rows(self):
        """Each from the conversations, with a cache of its own and the template of the swarm."""
        chance = random.Random(13)
        self.chats([conversation(chance) for _ in range(60)])
        self.write_run(data__train="chats.jsonl", data__chat="chatml", swarm__name="heather",
                       swarm__inner_steps=1)
        environment = {**os.environ, "XDG_CACHE_HOME": str(self.path / "cache"),
                       "XDG_STATE_HOME": str(self.path / "state"),
                       "XDG_CONFIG_HOME": str(self.path / "config")}
        tracker = subprocess.Popen(
            [SKEP, "track", "run.yaml", "--listen", "tcp://127.0.0.1:0", "--state", "tracker"],
            cwd=self.path, env=environment, text=True, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL)
        self.addCleanup(tracker.stdout.close)
        self.addCleanup(tracker.wait)
        self.addCleanup(tracker.kill)
        join = tracker.stdout.readline().strip()
        environment["XDG_CACHE_HOME"] = str(self.path / "other")
        lines = (self.path / "chats.jsonl").read_text().splitlines(keepends=True)
        for name, kept, code in (("same.jsonl", lines, 0), ("fewer.jsonl", lines[:-30], 2)):
            (self.path / name).write_text("".join(kept))
            report = self.skep("join", join, "model=model", f"data.train={name}", "--check",
                               "--listen", "none", code=code, env=environment)
            line = next(line for line in report.stdout.splitlines() if line.startswith("data"))
            self.assertEqual("does not match file 1 of the swarm's data.train" in line, code == 2,
                             line)

    def test_another_sequence_is_rejected(self):
        self.chats([conversation(random.Random(1), 1, 3) for _ in range(20)])
        self.write_run(batch__sequence=32)
        errors = self.skep("train", "run.yaml", code=2).stderr
        self.assertIn("is packed into rows of 64 tokens, but batch.sequence is 32", errors)
        self.assertIn("set batch.sequence to 64", errors)


if __name__ == "__main__":
    main()
