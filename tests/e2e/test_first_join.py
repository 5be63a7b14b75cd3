"""The first ten minutes of a volunteer and of an operator: what `join --check` covers, the
messages to a stranger, an unknown host, a restart on a disk that the member fills, and the
operator's own queries."""
import os
import pathlib
import re
import socket
import subprocess
import time
import unittest

from loopback_swarm import SwarmTest
from small_run import main

KEY = r"p[a-z2-7]{111}"


class JoinTest(SwarmTest):
    def close_roster(self):
        self.set_roster("open: false\n")
        self.adds_members = False

    def run_in(self, folder, *arguments, **environment):
        """A command with an identity, state and cache of its own, below a folder."""
        path = self.site.path / folder
        path.mkdir(exist_ok=True)
        return self.site.run(*arguments, env={
            "HOME": str(path), "XDG_CONFIG_HOME": str(path / "config"),
            "XDG_CACHE_HOME": str(path / "cache"), "STATE_DIRECTORY": str(path / "state"),
            **environment})


class Check(JoinTest):
    """`join --check` covers data, tracker, allow-list and port: exit code 2 when one is missing."""

    def check(self, code, lines, *arguments):
        began = time.monotonic()
        result = self.run_in("me", "join", *arguments, "--check", "threads=1")
        self.assertLess(time.monotonic() - began, 40)
        self.assert_exit(result, code)
        self.assertIn("device ", result.stdout)  # the report comes in any case
        for line in lines:
            self.assertRegex(result.stdout, line)
        self.assertFalse((self.site.path / "me" / "state").exists())
        return result

    def test_everything_is_there(self):
        self.swarm()
        self.check(0, [r"\ndata +files of the right number", r"\ntracker +tcp://\S+ answers\n",
                       r"\naccess +this key may join\n",
                       r"\npeers +the tracker has connected to this machine at "
                       r"tcp://127\.0\.0\.1:\d+\n"],
                   self.join_string, "data.train=train.u16")

    def test_an_address_at_which_this_machine_is_not_reached_is_missing(self):
        """Port 1 has no listener. The tracker's own port has one, but with a different key."""
        self.swarm()
        tracker = self.join_string.partition("#")[0]
        for address, reason in (
                ("tcp://127.0.0.1:1", "the tracker cannot connect to this address"),
                (tracker, "the tracker cannot connect to this address"),
                ("tcp://192.0.2.1:7710", "connects to the tracker from another address")):
            with self.subTest(address):
                result = self.check(2, [rf"\npeers +MISSING: {address}: .*{reason}"],
                                    self.join_string, "data.train=train.u16", "--public", address)
                self.assertRegex(result.stderr, rf"^skep: {address}: .*; .+\n$")

    def test_what_cannot_be_tested_is_no_failure(self):
        self.swarm()
        self.check(0, [r"\npeers +not tested: with --listen none"], self.join_string,
                   "data.train=train.u16", "--listen", "none")
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            address = f"tcp://127.0.0.1:{taken.getsockname()[1]}"
            self.check(0, [r"\npeers +not tested: .*in use"], self.join_string,
                       "data.train=train.u16", "--listen", address)
        other = "tcp://192.0.2.1:7710"
        result = self.check(2, [rf"\npeers +MISSING: {other}: .*not a local address"],
                            self.join_string, "data.train=train.u16", "--listen", other)
        self.assertIn(f"skep: {other}: cannot listen", result.stderr)
        result = self.run_in("me", "join", self.join_string, "data.train=train.u16", "--listen",
                             "none", "--public", "tcp://127.0.0.1:7710", "--check")
        self.assert_exit(result, 2)
        self.assertIn("skep: --public: with --listen none, no member can connect to "
                      "tcp://127.0.0.1:7710; leave out one of the two", result.stderr)

    def test_data_are_missing(self):
        self.swarm()
        (self.site.path / "train.u16").rename(self.site.path / "moved.u16")
        result = self.check(2, [r"\ndata +MISSING: .*1 file; the first is train.u16",
                                r"\naccess +this key may join\n"],
                            self.join_string, "data.validation=valid.u16")
        self.assertRegex(result.stderr, r"skep: data.train: .*missing.*data.train=PATH\n$")
        self.check(2, [r"\ndata +MISSING: .*bytes, but the manifest has"],
                   self.join_string, "data.train=valid.u16")

    def checks(self, code, *arguments):
        result = self.run_in("me", "join", *arguments, "--check", "--json", "threads=1")
        return self.document(result, code)["checks"]

    def test_the_json_form_has_the_same_checks(self):
        self.swarm()
        self.assertEqual(self.checks(0, self.join_string, "data.train=train.u16"),
                         {name: {"ok": True} for name in ("data", "tracker", "access", "peers")})
        self.assertIs(self.checks(0, self.join_string, "data.train=train.u16", "--listen",
                                  "none")["peers"]["ok"], None)
        closed = self.checks(2, self.join_string, "data.train=train.u16", "--public",
                             "tcp://127.0.0.1:1")
        self.assertEqual([check["ok"] for check in closed.values()], [True, True, True, False])
        self.assertIn("--listen none", closed["peers"]["remedy"])
        self.close_roster()
        found = self.checks(2, self.join_string, "data.train=valid.u16")
        self.assertEqual({name: check["ok"] for name, check in found.items()},
                         {"data": False, "tracker": True, "access": False, "peers": None})
        self.assertIn("bytes, but the manifest has", found["data"]["reason"])
        self.assertIn("not on the allow-list", found["access"]["reason"])
        self.assertRegex(found["access"]["remedy"], rf"send the operator this key: {KEY}")
        self.tracker.kill()
        self.checks_of_no_tracker()

    def checks_of_no_tracker(self):
        """The manifest in a file is enough for the rest of the report, but not for joining."""
        result = self.run_in("me", "join", "heather.skep", "--check", "--json", "threads=1")
        self.assert_exit(result, 2)
        self.assertIn("no answer within 5 s", result.stderr)

    def test_the_key_is_not_on_the_list(self):
        self.swarm()
        self.close_roster()
        result = self.check(2, [r"\ntracker +tcp://\S+ answers\n",
                                r"\naccess +MISSING: .*not on the allow-list"],
                            self.join_string, "data.train=train.u16")
        key = self.run_in("me", "keys").stdout.split()[-1]
        self.assertRegex(result.stderr, rf"send the operator this key: {key}\n$")
        self.assert_exit(self.site.run("roster", "add", key, "--roster", "roster.yaml"), 0)
        time.sleep(1.5)
        self.check(0, [r"\naccess +this key may join\n"], self.join_string, "data.train=train.u16")

    def test_the_tracker_does_not_answer(self):
        self.swarm()
        self.tracker.kill()
        for swarm in (self.join_string, "heather.skep"):
            began = time.monotonic()
            result = self.run_in("me", "join", swarm, "--check", "data.train=train.u16")
            self.assert_exit(result, 2)
            self.assertRegex(result.stderr, "no answer within 5 s; check that the tracker")
            self.assertLess(time.monotonic() - began, 20)


class Stranger(JoinTest):
    def test_a_stranger_is_told_its_key_and_nothing_of_the_operator(self):
        self.swarm()
        self.close_roster()
        stranger = self.member("stranger").start("--name", "ada")
        self.wait_for(lambda: "send the operator this key" in stranger.log(), "word of the key")
        key = self.run_in("stranger", "keys").stdout.split()[-1]
        self.assertRegex(stranger.log(),
                         rf"not yet admitted to heather; send the operator this key: {key};")
        self.assertEqual(stranger.log().count(key), 1, stranger.log())
        for secret in (str(self.site.path), "roster.yaml", "skep roster"):
            self.assertNotIn(secret, stranger.log().replace(str(stranger.folder), ""))
        # the operator reads the whole command
        self.assertRegex(self.tracker.log(),
                         rf"skep roster add {key} --name ada --roster \S+/roster.yaml\n")
        asked = time.monotonic()
        stranger.ask_to_stop()
        self.wait_for_end(stranger)
        self.assertLess(time.monotonic() - asked, 3, stranger.log())  # stop_within is 8 s

    def test_a_query_of_a_stranger_says_which_key_to_send(self):
        self.swarm()
        self.close_roster()
        for command in ("status", "ledger"):
            result = self.run_in("me", command, self.join_string)
            self.assert_exit(result, 2)
            key = self.run_in("me", "keys").stdout.split()[-1]
            self.assertRegex(result.stderr, rf"not on the allow-list; send the operator this key: "
                                            rf"{key}\n$")
            self.assertNotIn("roster.yaml", result.stderr)

    def test_a_bad_join_string_makes_no_identity(self):
        self.swarm()
        result = self.run_in("nobody", "join", self.join_string[:-5], "data.train=train.u16")
        self.assert_exit(result, 2)
        self.assertEqual(list((self.site.path / "nobody").rglob("identity")), [])


class Names(JoinTest):
    def test_a_host_that_does_not_exist_is_said_at_once(self):
        """A label of 64 letters is no name, so no name server is needed."""
        self.swarm()
        key = self.join_string.partition("#")[2]
        swarm = f"tcp://{'x' * 64}.invalid:7700#{key}"
        for command in (["join", swarm, "data.train=train.u16"], ["status", swarm],
                        ["ledger", swarm], ["plan", swarm]):
            began = time.monotonic()
            result = self.run_in("me", *command)
            self.assertLess(time.monotonic() - began, 5)
            self.assert_exit(result, 2)
            self.assertRegex(result.stderr, r"skep: tcp://x+\S+: unknown host \"x+\.invalid\": .*; "
                                            r"check the spelling, or use an IP address\n$")


class Waiting(JoinTest):
    def test_a_member_alone_says_for_how_many_it_waits(self):
        self.swarm(swarm__members_min=2, steps=1000000)
        anna = self.member("anna").start()
        self.wait_for(lambda: "waiting for 1 more member: 1 of at least 2 have joined" in
                      anna.log(), "word of the others")
        bert = self.member("bert").start()
        self.wait_for(lambda: min(anna.last(), bert.last()) >= 5, "rounds")
        alone, _, together = anna.log().partition("round 1 ")
        self.assertNotIn("waiting for 1 more member", together)
        lines = re.findall(r"waiting for (.+?)(?: for (\d+):(\d\d))?\n", alone)
        self.assertEqual(len(set(lines)), len(lines), anna.log())  # each change has one line
        lasted = {}
        for what, minutes, seconds in lines:  # and a wait another one after 10 s
            now = 60 * int(minutes) + int(seconds) if seconds else 0
            self.assertGreaterEqual(now, lasted.get(what, -10) + 10, anna.log())
            lasted[what] = now

    def test_the_others_are_told_who_left_when_they_wait(self):
        self.swarm(swarm__members_min=2, steps=1000000)
        anna, bert = self.member("anna").start("--name", "anna"), self.member("bert")
        bert.start("--name", "bert")
        self.wait_for(lambda: min(anna.last(), bert.last()) >= 2, "rounds")
        bert.ask_to_stop()
        self.wait_for_end(bert)
        lack = r"1 more member: 1 of at least 2 are here; bert left 0:\d\d ago\n"
        for process in (anna, self.tracker):
            self.wait_for(lambda: re.search("waiting for " + lack, process.log()), "who is missing")
        status = self.site.run("status", "heather.skep", env={"XDG_CONFIG_HOME": str(
            anna.folder / "config")})
        self.assertRegex(status.stdout, r"\nwaits for  members: 1 of at least 2 are ready; bert "
                                        r"left 0:\d\d ago, for ")
        self.assertRegex(status.stdout, r"\nbert +left ")
        self.assertRegex(status.stdout, r"\nanna +waiting ")
        self.assertNotIn("deadlines", status.stdout)
        self.wait_for(lambda: anna.log().count("bert left") >= 3, "a line each 10 s", 40)
        bert.kill()
        bert.start("--name", "bert")
        reached = anna.last()
        self.wait_for(lambda: anna.last() > reached, "another round")
        self.tracker.ask_to_stop()
        self.tracker.wait()
        self.assertRegex(self.tracker.log(), r"stopped after \d+ rounds; start it with the same "
                                             r"command to continue\n$")

    def test_after_the_end_it_is_said_that_the_run_is_over(self):
        self.swarm(steps=20)
        anna = self.member("anna").start()
        self.wait_for_end(anna)
        self.assertEqual(anna.lines("start")[0]["keys"]["model"], "llama")  # no tracker's address
        late = self.member("late").start()
        self.wait_for_end(late)
        self.assertRegex(late.log(), "the run of heather is over: all 2 rounds are committed; .* "
                                     "the final model is in `model` in the state folder of any "
                                     "member that trained to the end")
        self.assertRegex(self.tracker.log(), r"round 1 committed as commit 1: 1 of 1 members "
                                             r"contributed, 1 voted, root [0-9a-f]{16}\n")


class Unreachable(JoinTest):
    def test_a_member_and_its_operator_are_told_that_its_port_is_closed(self):
        self.swarm(steps=1000000)
        anna = self.member("anna")
        closed = "tcp://127.0.0.1:1"
        anna.start("--public", closed, "--name", "anna")
        self.wait_for(lambda: "cannot connect" in anna.log(), "warning")
        self.assertIn(f"other members cannot connect to {closed}; open this port, or correct "
                      "--public; training continues over the connections that this "
                      "member opens itself\n", anna.log())
        self.assertIn(f"anna: other members could not connect to {closed} for 5 s: the user of "
                      "that machine has to open the port, or correct", self.tracker.log())
        bert = self.member("bert").start()
        self.wait_for(lambda: bert.last() > 0, "a round")
        time.sleep(9)
        self.assertNotIn("cannot connect", bert.log())
        self.assertEqual(anna.log().count("cannot connect"), 1)

    def test_a_member_that_does_not_listen_trains_through_one_that_does(self):
        self.swarm(swarm__members_min=2, steps=1000000)
        anna = self.member("anna").start("--listen", "none", "--name", "anna")
        bert = self.member("bert").start("--name", "bert")
        self.wait_for(lambda: min(anna.last(), bert.last()) >= 3, "rounds")
        self.assertEqual({line["contributors"] for line in anna.lines("round")}, {2})
        self.assertNotIn("cannot connect", anna.log() + self.tracker.log())
        status = self.document(self.site.run("status", "heather.skep", "--json", env={
            "XDG_CONFIG_HOME": str(anna.folder / "config")}))
        self.assertEqual(sorted(row["address"] != "" for row in status["members"]), [False, True])


class Late(JoinTest):
    def test_a_member_whose_contribution_is_late_is_told(self):
        self.swarm(swarm__members_min=3, steps=1000000)
        others = [self.member(name).start() for name in ("anna", "bert")]
        slow = self.member("carl", "limits.up=500").start()
        late = (r"round \d+: this member's contribution arrived too late; its samples return to "
                "the swarm\n")
        self.wait_for(lambda: re.search(late, slow.log()), "line about it")
        for other in others:
            self.assertNotIn("arrived too late", other.log())


class Evaluations(JoinTest):
    def test_the_run_file_of_the_swarm_determines_when_members_evaluate(self):
        self.swarm(steps=40, eval__every=20)
        anna = self.member("anna").start()
        self.wait_for_end(anna)
        self.assertEqual([line["step"] for line in anna.lines("eval")], [20, 40])
        result = self.run_in("me", "join", self.join_string, "eval.every=10",
                             "data.train=train.u16")
        self.assert_exit(result, 2)
        self.assertIn("eval.every is a shared setting: it is 20 in the swarm", result.stderr)
        result = self.run_in("me", "join", self.join_string, "precision=bf16",
                             "data.train=train.u16")
        self.assert_exit(result, 2)
        self.assertIn("precision is a shared setting", result.stderr)


class OwnDisk(JoinTest):
    @unittest.skipIf(os.geteuid() != 0, "only root mounts")
    def test_a_member_restarts_on_the_disk_that_it_fills(self):
        self.swarm(steps=1000000, config={
            "model_type": "llama", "vocab_size": 97, "hidden_size": 128, "intermediate_size": 256,
            "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
            "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "tie_word_embeddings": False})
        plan = self.document(self.site.run("plan", "heather.skep", "--json"), 0, 3)
        need = next(space for space in plan["spaces"] if space["name"] == "disk")["peak_bytes"]
        anna = self.member("anna")
        state = anna.folder / "state"
        state.mkdir()
        made = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={need + (1 << 16)}", "none",
                               str(state)], capture_output=True, check=False)
        if made.returncode != 0:
            self.skipTest("mounting is not permitted")
        self.addCleanup(subprocess.run, ["umount", "-l", str(state)], check=False)
        anna.start()
        self.wait_for(lambda: list(state.glob("snapshots/step-*/snapshot.json")), "a snapshot")
        anna.kill()
        reached = anna.last()
        anna.start()
        self.wait_for(lambda: anna.last() > reached or not anna.is_running(), "more rounds")
        self.assertTrue(anna.is_running(), anna.log())


class Operator(JoinTest):
    """A tracker with the default allow-list, in a home of the operator."""

    def start(self, folder, *more):
        self.site.write_run(**{"swarm__name": "heather", "swarm__inner_steps": 10})
        home = pathlib.Path(self.site.path / folder)
        home.mkdir(exist_ok=True)
        with open(home / "log", "wb") as log:
            tracker = subprocess.Popen(
                self.site.command("track", "run.yaml", "--listen", "tcp://127.0.0.1:0", *more),
                cwd=self.site.path, stdout=subprocess.PIPE, stderr=log, text=True,
                env={**os.environ, "HOME": str(home), "XDG_CONFIG_HOME": str(home / "config")})
        self.addCleanup(tracker.stdout.close)
        self.addCleanup(tracker.wait)
        self.addCleanup(tracker.kill)
        return tracker, tracker.stdout.readline().strip(), home / "log"

    def test_the_operator_may_ask_for_the_status(self):
        self.site = self.folder(steps=20)
        _, join, log = self.start("me")
        self.assertIn("named operator", log.read_text())
        for swarm in (join, "heather.skep"):
            self.assert_exit(self.run_in("me", "status", swarm, "--json"), 0)
        self.assert_exit(self.run_in("other", "status", join), 2)

    def test_a_manifest_of_another_swarm_is_not_overwritten(self):
        self.site = self.folder(steps=20)
        first, _, _ = self.start("me", "--state", "first")
        first.kill()
        manifest = self.site.path / "heather.skep"
        before = manifest.read_bytes()
        second, join, log = self.start("me", "--state", "second")
        self.assertEqual((second.wait(timeout=60), join), (2, ""))
        self.assertRegex(log.read_text(), r"skep: \./heather.skep: is the manifest of another "
                                          r"swarm.*; move it away, or choose another swarm.name\n$")
        self.assertEqual(manifest.read_bytes(), before)
        self.assertFalse((self.site.path / "second" / "heather.skep").exists())
        again, join, _ = self.start("me", "--state", "first")
        self.assertRegex(join, "^tcp://")
        self.assertIsNone(again.poll())


if __name__ == "__main__":
    main()
