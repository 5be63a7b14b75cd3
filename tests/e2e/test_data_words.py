"""What `skep data` reports: options that would have no effect, inputs and outputs that it rejects,
and the line for a run file, which is used as it is printed."""
import gzip
import json
import os
import re
import subprocess

from chat_files import ChatTest, chatml_lines
from small_run import SKEP, TIMEOUT_S, main, nested, wait_until
from token_files import DOCUMENTS, DataTest

CHAT = ("--chat", "--template", "chatml")
LONG_NAME = "x" * 300


class Options(DataTest):
    def test_an_option_without_effect_is_rejected_by_its_name(self):
        self.write("a.txt", b"text")
        self.write("ids.txt", b"[5]")
        values = {"--validation": "1%", "--field": "text", "--document-token": "none",
                  "--shard-tokens": "5", "--threads": "1", "--template": "chatml",
                  "--sequence": "64", "--long": "cut", "--date": "today", "--thinking": "off",
                  "-o": "out"}
        writes = ["--validation", "--strict", "--shard-tokens", "--threads", "--json", "-o"]
        chat = ["--template", "--sequence", "--long", "--date", "--thinking", "--parse-special"]
        text = ["--field", "--document-token"]
        rows = [(("--ids", "a.txt"), [*writes, *chat, *text, "--chat"], "is not for --ids"),
                (("--decode", "ids.txt"), [*writes, *chat, *text, "--chat", "--literal"],
                 "is not for --decode"),
                (("a.jsonl", "-o", "out", "--chat"), [*text, "--literal", "--special"],
                 "is not for --chat"),
                (("a.txt", "-o", "out"), chat, "is only for conversations; add --chat"),
                (("a.txt", "-o", "out"), ["--special"], "is only for --ids and --decode; add one")]
        for arguments, options, words in rows:
            for option in options:
                with self.subTest((arguments, option)):
                    given = [option, values[option]] if option in values else [option]
                    errors = self.refused(*arguments, *given, words=[f"skep: {option}: {words}"])
                    self.assertIn("; ", errors)

    def test_a_field_needs_json_lines(self):
        self.write("a.txt", b"text")
        self.refused("a.txt", "-o", "out", "--field", "body",
                     words=["--field: is for JSON lines, but all of the input is text; leave it"])


class Inputs(DataTest):
    def test_a_name_of_a_compressed_file_is_kept_to(self):
        rows = [("a.txt.gz", b"text", "is not gzip, as its name states: its first bytes are 74 65"),
                ("a.txt.zst", b"te", "is not Zstandard, as its name states: its first bytes are "
                 "74 65; download"),
                ("a.jsonl.gz", b"", "is not gzip, as its name states: it is empty; download"),
                ("b.txt.zst", gzip.compress(b"text"), "its first bytes are 1f 8b 08 00")]
        for name, data, words in rows:
            self.write(name, data)
            self.refused(name, "-o", "out", words=[f"skep: {name}: ", words])
            self.refused("--ids", name, words=[words])
        self.write("folder/a.txt", b"text")
        self.write("folder/b.txt.gz", b"<html>")
        self.refused("folder", "-o", "out", words=["folder/b.txt.gz: is not gzip", "3c 68 74 6d"])

    def test_inputs_that_cannot_be_read_have_a_remedy(self):
        os.symlink("nowhere", self.path / "link.txt")
        rows = [("nosuch.txt", ["nosuch.txt: cannot open: No such file", "; check the path"]),
                (LONG_NAME, ["cannot open: File name too long; check the path"]),
                ("link.txt", ["link.txt: is a link to a file that does not exist; remove the"]),
                ("folder", ["folder/link.txt: is a link to a file that does not exist"])]
        self.write("folder/a.txt", b"text")
        os.symlink("nowhere", self.path / "folder" / "link.txt")
        for name, words in rows:
            self.refused(name, "-o", "out", words=words)
        folder = os.open(self.path / "folder", os.O_RDONLY)
        self.addCleanup(os.close, folder)
        self.refused("-", "-o", "out", stdin=folder,
                     words=["standard input: is a folder; pass the path of the folder"])

    def test_what_is_not_a_file_is_skipped_and_counted(self):
        self.write("folder/a.txt", b"text")
        os.mkfifo(self.path / "folder" / "pipe.txt")
        os.symlink("nowhere", self.path / "folder" / "link.png")
        report = json.loads(self.data("folder", "-o", "out", "--json").stdout)
        self.assertEqual(report["skipped_files"], 2)

    def test_text_that_cannot_be_divided_is_named_with_its_place(self):
        before = b"words " * 100000
        run = b" " * (17 << 20)
        remedy = ("; remove this part of the text, or put words with spaces between them into "
                  "it\n")
        self.write("a.txt", before + run)
        found = re.search(r"skep: a.txt: more than 16 MiB of text from byte (\d+) that the "
                          f"tokenizer cannot divide{remedy}",
                          self.refused("a.txt", "-o", "out", words=[]))
        self.assertIsNotNone(found)
        self.assertLessEqual(abs(int(found[1]) - len(before)), 100)
        self.write_lines("a.jsonl", ["text", run.decode()])
        self.refused("a.jsonl", "-o", "out",
                     words=["skep: a.jsonl:2: more than 16 MiB of text that the tokenizer cannot "
                            f"divide{remedy}"])

    def test_a_line_without_the_text_is_named_with_its_column(self):
        remedy = "; pass the name of the text field with --field of `skep data`\n"
        for line, words in (
                ('{"a": 1}', f'a.jsonl:1:1: the object has no field "text"{remedy}'),
                ('{"text": 1}', f'a.jsonl:1:10: the field "text" is not a string{remedy}'),
                (chatml_lines(1), 'a.jsonl:1:1: the object has no field "text"; it has `messages`: '
                 "add --chat to `skep data`\n")):
            self.write("a.jsonl", line.encode())
            self.refused("a.jsonl", "-o", "out", words=["skep: " + words])

    def test_half_of_a_surrogate_pair_is_named_with_its_place(self):
        line = '{"text": "ab\\ud800c"}'
        self.write("a.jsonl", ('{"text": "a"}\n' + line).encode())
        self.refused("a.jsonl", "-o", "out", "--strict", words=[
            "skep: a.jsonl:2:13: half of a surrogate pair is not a character; correct the escape, "
            "or leave out --strict\n"])
        report = self.data("a.jsonl", "-o", "out").stdout.decode()
        self.assertIn(f"the first in a.jsonl at byte {14 + line.index(chr(92))}\n", report)

    def test_a_line_that_is_too_long_is_named(self):
        words = ["skep: a.jsonl:2: the line has more than 64 MiB; divide it into several objects, "
                 "one on each line\n"]
        self.write("a.jsonl", b'{"text": "a"}\n{"text": "' + b"a " * (33 << 20) + b'"}')
        self.refused("a.jsonl", "-o", "out", words=words)

    def test_a_share_that_leaves_nothing_to_train_on_is_named(self):
        for count in range(1, 9):  # until the first document is the one that is kept
            self.write_lines("a.jsonl", ["text"] * count)
            result = subprocess.run(
                [SKEP, "data", "a.jsonl", "--model", "model", "-o", "out", "--validation", "50%"],
                cwd=self.path, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
            if "keeps all" in result.stderr:
                break
        self.assertRegex(result.stderr, r"^skep: --validation: keeps all of the text, \d documents?"
                         ", and leaves none to train on; use more text, lower the share, or leave")
        self.assertEqual(result.returncode, 2)


class Outputs(DataTest):
    def test_folders_that_cannot_be_made_have_a_remedy(self):
        self.write("a.txt", b"text")
        remedy = "; choose a different folder, or make it writable\n"
        for folder, words in (
                ("/proc/x", ["/proc/x.new: cannot create the folder: ", remedy]),
                (LONG_NAME, ["cannot create the folder: File name too long", remedy]),
                ("", ["data: the folder of the token files is missing; add -o DIR"])):
            self.refused("a.txt", "-o", folder, words=words)

    def test_a_link_is_rejected_before_any_work(self):
        self.write("a.txt", b"text")
        (self.path / "target").mkdir()
        for name, target in (("link", "target"), ("dangling", "nowhere")):
            os.symlink(target, self.path / name)
            for folder in (name, name + "/"):
                self.refused("a.txt", "-o", folder,
                             words=[f"skep: {name}: is a symbolic link, not a folder; pass the "
                                    "folder that it points to, or remove the link\n"])
            self.assertFalse((self.path / f"{name}.new").exists())

    def test_complete_files_outlast_a_failure_to_rename(self):
        with subprocess.Popen([SKEP, "data", "-", "--model", "model", "-o", "out"], cwd=self.path,
                              stdin=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            self.assertTrue(wait_until((self.path / "out.new" / "lock").exists))
            os.symlink("nowhere", self.path / "out")
            errors = process.communicate(b"text", timeout=TIMEOUT_S)[1].decode()
        self.assertEqual(process.returncode, 1)
        self.assertIn("skep: out: cannot rename to it: Not a directory; rename the complete folder "
                      "out.new yourself", errors)
        self.assertEqual(set(self.files("out.new")), {"train_000000.bin", "data.json"})

    def test_output_that_cannot_be_written_is_a_failure(self):
        self.write("a.txt", b"text")
        for arguments in (("a.txt", "-o", "out"), ("--ids", "a.txt")):
            with open("/dev/full", "wb") as full:
                result = subprocess.run([SKEP, "data", *arguments, "--model", "model"], stdout=full,
                                        cwd=self.path, stderr=subprocess.PIPE, timeout=TIMEOUT_S,
                                        check=False)
            self.assertEqual(result.returncode, 1)
            self.assertIn(b"skep: standard output: cannot be written completely: No space left on "
                          b"device; write it to", result.stderr)

    def test_numbers_that_are_too_large_are_named(self):
        for option in ("--threads", "--shard-tokens"):
            self.refused("a.txt", "-o", "out", option, "9" * 30,
                         words=[f"{option}: {'9' * 30} is too large; use at most "])


class Reports(ChatTest):
    def test_one_thing_is_not_several(self):
        answer = {"role": "assistant", "content": "b"}
        user = {"role": "user", "content": "a"}
        lines = [json.dumps({"messages": messages}).encode() for messages in ([user, answer],
                                                                              [user])]
        lines = b"\n".join(lines).replace(b'"a"', b'"\xff"', 1)
        (self.path / "chats.jsonl").write_bytes(lines)
        report = self.skep("data", "chats.jsonl", "--model", "model", "-o", "chats",
                           *CHAT).stdout
        self.assertIn(" in 1 row of 2048, ", report)
        self.assertIn(" 1 file; 1 conversation\n", report)
        self.assertIn("left out    1 conversation without an answer to train\n", report)
        self.assertIn("replaced    1 ill-formed UTF-8 sequence by U+FFFD; the first in chats.jsonl "
                      f"at byte {lines.index(255)}\n", report)

    def test_conversations_that_all_fall_to_validation_are_named(self):
        found = ""
        for count in range(1, 9):
            (self.path / "chats.jsonl").write_text(chatml_lines(count))
            found = self.run_data("chats.jsonl", "-o", "chats", *CHAT, "--validation", "50%")
            if "keeps all" in found:
                break
        self.assertRegex(found, r"^skep: --validation: keeps all conversations .*, \d, and leaves "
                         "none to train on; use more conversations, lower the share")

    def run_data(self, *arguments):
        return subprocess.run([SKEP, "data", *arguments, "--model", "model"], cwd=self.path,
                              capture_output=True, text=True, timeout=TIMEOUT_S,
                              check=False).stderr

    def test_a_message_that_cannot_be_divided_is_limited_like_a_text(self):
        line = chatml_lines(1)
        long = line.replace('"a"', '"' + "a" * (17 << 20) + '"')
        (self.path / "chats.jsonl").write_text(line + long)
        self.assertIn("skep: chats.jsonl:2: more than 16 MiB of text that the tokenizer cannot "
                      "divide; remove this part of the text, or put words with spaces between "
                      "them into it\n", self.run_data("chats.jsonl", "-o", "chats", *CHAT))

    def test_a_line_that_is_too_long_is_named(self):
        (self.path / "chats.jsonl").write_text(chatml_lines(1) + " " * (65 << 20))
        self.assertIn("skep: chats.jsonl:2: the line has more than 64 MiB; divide it into several "
                      "objects", self.run_data("chats.jsonl", "-o", "chats", *CHAT))

    def test_a_nul_is_named_by_its_own_reason(self):
        line = chatml_lines(1)
        (self.path / "chats.jsonl").write_text(line + line.replace('"a"', '"a\\u0000"'))
        errors = self.run_data("chats.jsonl", "-o", "chats", *CHAT)
        self.assertRegex(errors, r"skep: chats.jsonl:2:\d+: has the escape \\u0000; a message "
                         "cannot contain the character NUL; remove the escape\n")

    def test_an_answer_behind_the_cut_is_not_said_to_be_missing(self):
        line = chatml_lines(1).replace('"a"', '"' + "a " * 99 + '"')
        (self.path / "chats.jsonl").write_text(line)
        self.assertIn("1 have no answer before the cut", self.run_data(
            "chats.jsonl", "-o", "chats", *CHAT, "--long", "cut", "--sequence", "16"))

    def test_a_null_is_not_said_to_be_missing(self):
        (self.path / "chats.jsonl").write_text('{"messages": null}\n')
        self.assertIn("chats.jsonl:1: `messages` is null; ",
                      self.run_data("chats.jsonl", "-o", "chats", *CHAT))

    def test_the_printed_line_of_a_run_file_reads_the_files(self):
        (self.path / "book.txt").write_bytes(DOCUMENTS["long"])
        for folder in ("plain", "slash//", "a,b", "a: b", "{c}", "*", "d[x]", "e\nf", "g'h\"i",
                       "-j", "#k", "\\l", "über"):
            with self.subTest(folder):
                report = self.skep("data", "book.txt", "--model", "model", f"-o=./{folder}" if
                                   folder.startswith("-") else f"-o={folder}", "--validation",
                                   "20%").stdout
                line = report[report.index("run file    ") + len("run file    "):]
                self.assertNotIn("//", line)
                (self.path / "run.yaml").write_text(
                    nested({"model": "model", "init": "random", "steps": 1, "threads": 1,
                            "batch.sequence": 64, "batch.tokens": 64}) + line)
                self.skep("train", "run.yaml", "--fresh")

    def test_files_shorter_than_a_row_are_counted(self):
        (self.path / "book.txt").write_bytes(DOCUMENTS["long"][:4000])
        report = json.loads(self.skep("data", "book.txt", "--model", "model", "-o", "parts",
                                      "--shard-tokens", "200", "--json").stdout)
        last = report["train"]["tokens"] % 200
        self.assertGreater(last, 0)
        self.write_run(data__train="parts/train_*.bin", batch__sequence=last, batch__tokens=last,
                       steps=1)
        result = self.skep("train", "run.yaml")
        self.assertRegex(result.stderr, r"1 of the \d+ data files is shorter than a row and adds "
                         r"no row: .*parts/train_\d+.bin")
        self.write_run(data__train="parts/train_*.bin", batch__sequence=200, batch__tokens=200,
                       steps=1)
        errors = self.skep("train", "run.yaml", "--fresh", code=2).stderr
        self.assertIn("has at most 200 tokens; a row of 200 tokens needs one token more", errors)


if __name__ == "__main__":
    main()
