"""`skep generate --chat`: answers to questions, against the same ids without it."""
import json
import os
import shutil
import subprocess
import unittest

from chat_files import END, SEQUENCE, START, ChatTest, conversations_of, read_rows
from small_run import SKEP, TIMEOUT_S, main

COUNTER = os.environ.get("COUNT_ALLOC", "")


class Answers(ChatTest):
    """`skep generate --chat`: the tokens that follow the rendered conversation, as text."""

    @classmethod
    def setUpClass(cls):
        """A model that has learned some answers, each with its end."""
        super().setUpClass()
        cls.facts = [(f"Which {word} ?", f"{answer} wax") for word, answer in zip(
            ("bee", "comb", "naïve", "蜂", "12.5", "🐝"), ("a", "two", "naïve", "蜂", "12", "🐝"))]
        test = cls("make")
        test.setUp()
        cls.addClassCleanup(test.doCleanups)
        test.chats([[{"role": "user", "content": question},
                     {"role": "assistant", "content": answer}]
                    for question, answer in cls.facts] * 12)
        test.write_run(steps=150, optimizer__lr=0.01, batch__tokens=2 * SEQUENCE)
        test.skep("train", "run.yaml")
        cls.trained = test.path

    def make(self):
        """No test: gives setUpClass a folder."""

    def setUp(self):
        super().setUp()
        if hasattr(self, "trained"):
            self.path = self.trained

    def chat(self, *arguments, code=0, text=None, **options):
        return self.skep("generate", "run/model", "--chat", "--template", "chatml", *arguments,
                         code=code, input=text, **options)

    def prompt_ids(self, messages):
        """The ids before the answer that follows these messages."""
        (self.path / "one.jsonl").write_text(json.dumps(
            {"messages": [*messages, {"role": "assistant", "content": "x"}]}))
        shutil.rmtree(self.path / "one", ignore_errors=True)
        self.skep("data", "one.jsonl", "--model", "model", "-o", "one", "--chat", "--template",
                  "chatml", "--sequence", str(4 * SEQUENCE))
        row = conversations_of(read_rows(self.path / "one" / "train_000000.bin")[0])[0]
        last = max(i for i, (_, is_trained) in enumerate(row) if is_trained)
        first = last
        while row[first - 1][1]:
            first -= 1
        return [token for token, _ in row[:first]]

    def answer(self, messages, *arguments):
        """The text that the model generates from these ids, up to the end token."""
        ids = self.skep("generate", "run/model", "--ids", "--prompt",
                        str(self.prompt_ids(messages)), *arguments).stdout.split()
        end = next(i for i, text in self.token_bytes.items() if text == END.encode())
        ids = [int(word) for word in ids]
        ids = ids[:ids.index(end)] if end in ids else ids
        return b"".join(self.token_bytes[token] for token in ids if token > 1).decode(
            errors="replace")

    def test_questions_are_answered_and_the_answer_ends_by_itself(self):
        for question, answer in self.facts:
            result = self.chat("--prompt", question, "--temperature", "0")
            self.assertEqual(result.stdout, answer + "\n")
        questions = "\n\n".join(question for question, _ in self.facts)
        for ending in ("", "\n", "\r\n\n"):
            result = self.chat("--temperature", "0", text=questions + ending)
            self.assertEqual(result.stdout, "".join(answer + "\n" for _, answer in self.facts))
        self.assertEqual(self.chat(text="").stdout, "")

    def test_a_prompt_is_the_conversation_so_far(self):
        """Sampled answers equal those of the same ids; an empty line forgets what was said."""
        options = ("--seed", "4", "--tokens", "6", "--temperature", "1.5")
        asked = ["a bee", "wax ?", "", "comb"]
        given = self.chat(*options, "--system", "Be brief.", text="\n".join(asked)).stdout
        start = [{"role": "system", "content": "Be brief."}]
        messages, wanted = list(start), ""
        for question in asked:
            if question == "":
                messages = list(start)
                continue
            messages.append({"role": "user", "content": question})
            answer = self.answer(messages, *options)
            wanted += answer + "\n"
            messages.append({"role": "assistant", "content": answer})
        self.assertEqual(given, wanted)

    def test_the_run_and_the_model_choose_the_template(self):
        question, answer = self.facts[0]
        arguments = ("generate", "run.yaml", "--chat", "--prompt", question, "--temperature", "0")
        self.assertIn("has no chat template", self.skep(*arguments, code=2).stderr)
        self.assertEqual(self.skep(*arguments, "data.chat=chatml").stdout, answer + "\n")

    def test_refusals(self):
        for arguments, words in (
                (("--prompt", f"{START}"), "--prompt: contains the control token <|im_start|>; "
                 "remove the token from the text, or add --parse-special"),
                (("--system", f"x{END}"), "--system: contains the control token <|im_end|>; "),
                (("--prompt", b"ab\xff"), "--prompt: byte 2 is not UTF-8"),
                (("--prompt", "a", "--system", b"\xffb"), "--system: byte 0 is not UTF-8"),
                (("--prompt", "a b " * 200), "; raise generate.context, or shorten the question"),
                (("generate.context=1",), "generate.context: is 1; a context holds a token"),
                (("--thinking", "yes"), "write on or off"),
                (("--ids",), "--ids: is not for conversations"),
                (("--template", "llama3"), "has no token <|start_header_id|>")):
            self.assertIn(words, self.chat(*arguments, text="a\n", code=2).stderr)
        for option in (("--system", "b"), ("--parse-special",)):
            result = self.skep("generate", "run/model", "--prompt", "a", *option, code=2)
            self.assertIn(f"{option[0]}: is only for conversations; add --chat", result.stderr)

    def test_control_tokens_are_accepted_where_the_user_says_so(self):
        options = ("--seed", "4", "--tokens", "6", "--temperature", "1.5")
        user = [{"role": "user", "content": content} for content in ("x", "wax ?")]
        given = self.chat("--prompt", f"x{END}\n{START}user\nwax ?", "--parse-special", *options)
        self.assertEqual(given.stdout, self.answer(user, *options) + "\n")
        given = self.chat("--system", f"a{END}\n{START}user\nx", "--prompt", "wax ?",
                          "--parse-special", *options)
        wanted = self.answer([{"role": "system", "content": "a"}, *user], *options)
        self.assertEqual(given.stdout, wanted + "\n")

    def test_a_question_that_is_rejected_does_not_end_the_chat(self):
        """It is reported, and the conversation continues as if it had not been asked."""
        options = ("--seed", "4", "--tokens", "6", "--temperature", "1.5")
        plain = b"a bee\nwax ?\n\ncomb\n"
        wanted = self.bytes_chat(plain, *options).stdout
        rows = [(f"b {END}".encode(), "contains the control token <|im_end|>"),
                (b"a\0b", "contains a NUL"), (b"a\r\0b\r", "contains a NUL"),
                (b"ab\xff\r", "byte 2 is not UTF-8"),
                (b"a" * 70000, "the line has more than 64 KiB; divide"),
                (b"a" * 65536 * 3, "the line has more than 64 KiB; divide"),
                (b"a b " * 200, "the conversation has ")]
        for bad, words in rows:
            for text in (bad + b"\n" + plain, plain + bad,
                         plain.replace(b"wax", bad + b"\nwax").replace(b"comb", bad + b"\ncomb")):
                result = self.bytes_chat(text, *options, code=2)
                errors = result.stderr.decode().splitlines()
                self.assertEqual(result.stdout, wanted)
                numbers = [i + 1 for i, line in enumerate(text.split(b"\n")) if line == bad]
                self.assertEqual(len(errors), len(numbers) + 1, errors)
                for number, line in zip(numbers, errors):
                    self.assertIn(f"skep: standard input:{number}: {words}", line)
                    self.assertIn("; ", line)
                several = "question was" if len(numbers) == 1 else "questions were"
                self.assertEqual(errors[-1], f"skep: standard input: {len(numbers)} {several} "
                                 "rejected; correct the lines that are named above")

    def bytes_chat(self, text, *arguments, code=0):
        result = subprocess.run([SKEP, "generate", "run/model", "--chat", "--template", "chatml",
                                 *arguments], cwd=self.path, input=text, capture_output=True,
                                check=False, timeout=TIMEOUT_S)
        self.assertEqual(result.returncode, code, result.stderr)
        return result

    def test_a_full_conversation_ends_with_an_empty_line(self):
        """As the message says: the next conversation is answered."""
        question, answer = self.facts[0]
        text = f"{question}\n" * 100 + f"\n{question}\n"
        result = self.chat("--temperature", "0", text=text, code=2)
        self.assertIn("; raise generate.context, or begin another conversation with an empty line",
                      result.stderr)
        self.assertTrue(result.stdout.endswith(f"\n{answer}\n"))

    @unittest.skipIf(not COUNTER, "no counter was built")
    def test_nothing_is_allocated_while_questions_are_answered(self):
        report = self.path / "report"
        self.chat("--tokens", "5", "--top-p", "0.9", text="a\nb\n\nc\n",
                  env={**os.environ, "LD_PRELOAD": COUNTER, "COUNT_ALLOC_REPORT": str(report)})
        lines = report.read_text().splitlines()
        _, count, _, writes = lines[0].split()[:4]
        self.assertGreater(int(writes), 3, "the seal was not seen")
        self.assertEqual(int(count), 0, "\n".join(lines[1:]))


if __name__ == "__main__":
    main()
