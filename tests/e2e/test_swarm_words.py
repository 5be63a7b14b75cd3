"""What `track`, `join`, `status`, `roster` and `ledger` say when they are given what is wrong: the
place, the reason, the remedy, and an exit code: 2 for bad input, 1 for a failure, 3 for what does
not fit."""
import json
import socket
import threading
import time

from loopback_swarm import SwarmTest
from small_run import main

DATA = ("data.train=train.u16", "data.validation=valid.u16", "threads=1")


def free_port_pair():
    """The first of two consecutive free ports: the tracker uses both."""
    while True:
        with socket.create_server(("127.0.0.1", 0)) as first:
            port = first.getsockname()[1]
            try:
                with socket.create_server(("127.0.0.1", port + 1)):
                    return port
            except (OSError, OverflowError):
                pass


class WordsTest(SwarmTest):
    def say(self, code, words, *arguments):
        """One error line with these words in this order, and this exit code."""
        result = self.site.run(*arguments, env={
            "HOME": str(self.site.path), "XDG_CONFIG_HOME": str(self.site.path / "config"),
            "STATE_DIRECTORY": str(self.site.path / "state")})
        self.assert_exit(result, code)
        line = result.stderr.splitlines()[-1]
        self.assertTrue(line.startswith("skep: "), result.stderr)
        at = 0
        for word in words:
            at = line.find(word, at) + len(word)
            self.assertGreaterEqual(at, len(word), f"{arguments}: {word!r} is not in: {line}")
        return line

    def write(self, name, content):
        path = self.site.path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return name


class BadInput(WordsTest):
    def test_a_tracker_refuses_its_run(self):
        self.swarm()
        listen = self.join_string.partition("#")[0]
        key = self.join_string.partition("#")[2]
        run = (self.site.path / "run.yaml").read_text()
        self.write("nameless.yaml", "".join(line for line in run.splitlines(True)
                                            if "name: heather" not in line))
        self.write("maybe.yaml", "open: maybe\n")
        self.write("twice.yaml", f"members:\n  - key: {key}\n  - key: {key}\n")
        self.say(2, ["nothing.yaml", "No such file"], "track", "nothing.yaml")
        self.say(2, ["nameless.yaml", "swarm.name is missing", "add a line"],
                 "track", "nameless.yaml", "--state", "other")
        for roster, words in (("maybe.yaml", ["maybe.yaml:1:", "open is"]),
                              ("twice.yaml", ["twice.yaml:3:", "earlier row", "remove one"]),
                              ("model", ["model", "not a regular file", "name a file"])):
            self.say(2, words, "track", "run.yaml", "--state", "other", "--roster", roster)
            self.say(2, words, "roster", "list", "--roster", roster)
        self.say(2, ["the key", "112 characters", "skep keys"],
                 "roster", "add", key[:-1], "--roster", "roster.yaml")
        self.say(2, ["roster.yaml", "no member with this name", "skep roster list"],
                 "roster", "remove", "nobody", "--roster", "roster.yaml")
        self.say(1, [listen, "in use", "another port"],
                 "track", "run.yaml", "--state", "other", "--listen", listen)
        self.assertFalse((self.site.path / "other" / "heather.skep").exists())

    def test_a_manifest_that_is_not_the_tracker_s_is_refused(self):
        self.swarm()
        whole = (self.site.path / "tracker" / "heather.skep").read_bytes()
        fetch = "fetch the manifest again"
        newer = "install a newer version of skep"
        cases = {"cut.skep": (whole[:len(whole) // 2], ["cut.skep", "signature", fetch]),
                 "other.skep": (whole.replace(b"heather", b"feather", 1),
                                ["other.skep", "signature does not match", fetch]),
                 "format.skep": (whole.replace(b"format: 1", b"format: 2", 1),
                                 ["format.skep", "format has version 2", "up to 1", newer]),
                 "protocol.skep": (whole.replace(b"protocol: 2", b"protocol: 9", 1),
                                   ["protocol.skep", "protocol has version 9", "up to 2", newer]),
                 "old.skep": (whole.replace(b"protocol: 2", b"protocol: 1", 1),
                              ["old.skep", "protocol 1", "Skep 0.1.0"])}
        for name, (content, words) in cases.items():
            self.assertNotEqual(content, whole)
            self.write(name, content)
            self.say(2, words, "join", name, *DATA)
            self.say(2, words, "status", name)
            self.say(2, words, "ledger", name, "--verify")
        self.say(2, ["nothing.skep", "No such file"], "join", "nothing.skep", *DATA)
        self.assertFalse((self.site.path / "state").exists())

    def test_a_delegation_of_another_operator_is_refused(self):
        self.swarm()
        listen = self.join_string.partition("#")[0]
        other = self.site.run("keys", "--identity", "other").stdout.strip()
        for command in (["status"], ["ledger"], ["join", *DATA]):
            self.say(2, [listen, "is signed with a key other than",
                         "ask the swarm's operator for its current join string"],
                     command[0], f"{listen}#{other}", *command[1:])

    def test_an_address_that_hangs_up_is_retried_like_a_busy_one(self):
        self.swarm()
        key = self.join_string.partition("#")[2]
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
            listen = f"tcp://127.0.0.1:{port - 1}"
            hung_up = threading.Event()

            def hang_up():
                while not hung_up.is_set():
                    connection, _ = server.accept()
                    connection.close()
            threading.Thread(target=hang_up, daemon=True).start()
            result = self.site.run("status", f"{listen}#{key}")
            self.assert_exit(result, 1)
            self.assertIn(f"{listen} is busy or unreachable: retrying\n", result.stderr)
            self.assertIn("that the join string is current", result.stderr)
            member = self.member("anna")
            member.command[2] = f"{listen}#{key}"
            member.start()
            self.wait_for(lambda: "retrying until it answers" in member.log(), "word of the wait")
            self.assertIn(f"{listen}: busy or unreachable", member.log())
            self.assertTrue(member.is_running())
            member.ask_to_stop()
            self.wait_for_end(member)
            hung_up.set()

    def test_join_strings_are_checked(self):
        self.swarm()
        listen = self.join_string.partition("#")[0]
        for command in (["status"], ["ledger"], ["join", *DATA]):
            self.say(2, ["join string", "112 characters", "skep track"],
                     command[0], self.join_string[:-1], *command[1:])
            self.say(2, ["join string", "no #KEY", "skep track"], command[0], listen, *command[1:])

    def test_a_member_refuses_what_it_cannot_join_with(self):
        self.swarm()
        data = bytearray((self.site.path / "train.u16").read_bytes())
        data[1001] ^= 1
        self.write("changed.u16", bytes(data))
        join = ["join", self.join_string, "data.validation=valid.u16", "threads=1"]
        own = "data.train=train.u16"
        self.say(2, ["changed.u16", "file 1", "differs from that of the operator's file",
                     "get the file again from the operator"],
                 *join, "data.train=changed.u16")
        self.say(2, ["data.train", "none.u16 does not exist",
                     "save the operator's file train.u16 (400", "bytes) under this path"],
                 *join, "data.train=none.u16")
        self.say(2, ["--ranks", "2.5"], *join, own, "--ranks", "2.5")
        self.say(2, ["optimizer.lr is a shared setting", "0.01 in the swarm heather",
                     "1 on the command line", "remove it"], *join, own, "optimizer.lr=1")
        self.say(2, ["optimiser.lr", "did you mean optimizer.lr"], *join, own, "optimiser.lr=1")
        self.say(2, ["--name", '"a b"', "A-Z"], *join, own, "--name", "a b")
        self.say(2, ["--public", '"host"', "tcp://HOST:PORT"], *join, own, "--public", "host")
        self.say(2, ["tcp://nohost", "ADDRESS:PORT"], *join, own, "--listen", "tcp://nohost")
        self.say(3, ["1.00 MiB", "increase limits.device"], *join, own, "limits.device=1MiB")
        self.say(3, ["limits.disk", "1.00 KiB", "raise limits.disk"], *join, own,
                 "limits.disk=1KiB")
        listen = self.join_string.partition("#")[0]
        self.say(1, [listen, "in use", "another port"], *join, own, "--listen", listen)
        self.write("identity", "no identity\n")
        (self.site.path / "identity").chmod(0o644)
        self.say(2, ["identity", "mode 0644", "chmod 600"], *join, own, "--identity", "identity")

    def test_a_ledger_that_is_none_is_refused(self):
        self.swarm()
        key = self.join_string.partition("#")[2]
        self.say(2, ["nothing.jsonl", "No such file"], "ledger", "nothing.jsonl")
        self.say(2, ["run.yaml:1:", "not valid JSON"], "ledger", "run.yaml")
        self.say(2, ["--operator", "112 characters", "join string"],
                 "ledger", self.join_string, "--operator", key[:-1])
        self.say(2, ["tracker.db", "another process", "join string"],
                 "ledger", "tracker/tracker.db")


class NobodyThere(WordsTest):
    def test_questions_end_and_members_wait_until_they_are_stopped(self):
        self.swarm()
        listen = self.join_string.partition("#")[0]
        self.tracker.kill()
        self.say(1, [listen, "no answer", "check that the tracker is running"],
                 "status", self.join_string)
        by_key, by_file = self.member("anna"), self.member("bert")
        by_file.command[2] = str(self.site.path / "heather.skep")
        for member in (by_key.start(), by_file.start()):
            self.wait_for(lambda: "no answer" in member.log(), "word of the tracker")
            self.assertRegex(member.log(), rf"{listen}: busy or unreachable: no answer within 5 s; "
                                           "check that the tracker is running, .*; retrying until")
        time.sleep(1)
        for member in (by_key, by_file):
            asked = time.monotonic()
            member.ask_to_stop()
            self.wait_for_end(member)
            self.assertLess(time.monotonic() - asked, 6, member.log())  # stop_within is 8 s
            self.assertEqual(member.log().count("no answer"), 1)


class Status(WordsTest):
    def status(self):
        return json.loads(self.site.run("status", self.join_string, "--json").stdout)

    def test_a_round_that_stands_says_for_whom(self):
        self.swarm(steps=1000000, swarm__shrink_after=0)
        anna = self.member("anna").start("--name", "anna")
        bert = self.member("bert").start("--name", "bert")
        self.wait_for(lambda: any(line["contributors"] == 2 for line in bert.rounds().values()),
                      "a round of both")
        bert.kill()
        def waits():
            status = self.status()
            return status["awaits"]["what"].startswith("members: 1 of at least 2") and status
        status = self.wait_for(waits, "word of who is missing")
        self.assertEqual({row["name"] for row in status["members"] if row["contributed"]},
                         {"anna", "bert"})
        self.assertEqual(status["slices"], 2)
        text = self.site.run("status", self.join_string)
        self.assert_exit(text, 0)
        self.assertRegex(text.stdout, r"\nwaits for  members: 1 of at least 2 are "
                                      r"(connected|ready); bert disconnected 0:\d\d ago, for "
                                      r"\d+\.\d s\n")
        self.assertRegex(text.stdout, r"\ncommitted  \d+ of 100000 rounds, .*, "
                                      r"the newest with 2 contributors and \S+ of \S+ tokens\n")
        self.assertRegex(text.stdout, r"\nbert +silent ")


class OneIdentity(WordsTest):
    """Several processes with the keys of one member."""

    def identity(self, member):
        return member.folder / "config" / "skep" / "identity"

    def test_questions_do_not_disturb_the_member_and_the_last_start_is_it(self):
        self.swarm(steps=1000000, swarm__inner_steps=5)
        first = self.member("anna").start("--name", "anna")
        keeper = self.member("carl").start("--name", "carl")
        self.wait_for(lambda: min(first.last(), keeper.last()) >= 2, "rounds")
        for _ in range(3):
            status = self.site.run("status", self.join_string, "--json", "--identity",
                                   self.identity(first))
            self.assert_exit(status, 0)
            self.assertEqual({row["name"] for row in json.loads(status.stdout)["members"]},
                             {"anna", "carl"})
        ledger = self.site.run("ledger", self.join_string, "--verify", "--identity",
                               self.identity(first))
        self.assert_exit(ledger, 0)
        self.assertNotIn("is gone", first.log())
        second = self.member("bert").start("--identity", str(self.identity(first)))
        self.assertEqual(first.wait(), 1, self.logs())
        self.assertRegex(first.log(), r"skep: heather: another process has joined with this "
                                      r"identity; .*--identity FILE\n$")
        reached = second.last()
        self.wait_for(lambda: second.last() > reached, "rounds of the later start")
        self.assertTrue(second.is_running())
        self.assertLessEqual(second.log().count("is gone"), 2, self.logs())
        self.assertNotIn("is gone", keeper.log())


class Addresses(WordsTest):
    """Members that say nothing of where they listen are reached as they came."""

    def assert_members_reach_each_other(self, listen):
        self.swarm(listen=listen, steps=1000000, swarm__members_min=2)
        anna = self.member("anna", listen=None).start()
        bert = self.member("bert", listen=None).start()
        self.wait_for(lambda: min(anna.last(), bert.last()) >= 2, "rounds of both")

    def test_over_ipv4(self):
        self.assert_members_reach_each_other("tcp://127.0.0.1:0")

    def test_over_ipv6(self):
        try:
            socket.create_server(("::1", 0), family=socket.AF_INET6).close()
        except OSError as reason:
            self.skipTest(f"no IPv6 here: {reason}")
        self.assert_members_reach_each_other("tcp://[::1]:0")

    def test_a_tracker_that_moved_is_found_by_its_new_join_string(self):
        self.swarm(steps=1000000)
        anna = self.member("anna").start()
        self.wait_for(lambda: anna.last() >= 2, "rounds")
        before, reached = self.join_string, anna.last()
        anna.kill()
        self.tracker.kill()
        self.start_tracker(f"tcp://127.0.0.1:{free_port_pair()}")
        self.assertNotEqual(self.join_string, before)
        self.wait_for(lambda: "members need the new join string" in self.tracker.log(), "advice")
        anna = self.member("anna").start()
        self.wait_for(lambda: anna.last() > reached, "rounds at the new address")
        self.assert_one_history()


if __name__ == "__main__":
    main()
