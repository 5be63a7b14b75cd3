"""`skep track`, `status`, `roster` and `ledger` as the operator of a swarm meets them."""
import json
import os
import re
import select
import signal
import subprocess
import time

from small_run import SKEP, TIMEOUT_S, RunTest, main

JOIN = re.compile(r"tcp://127\.0\.0\.1:\d+#p[a-z2-7]{111}")
SWARM = {"swarm__name": "heather", "swarm__inner_steps": 5, "swarm__members_max": 4}


class Tracker:
    """A tracker that runs, from its join string on."""

    def __init__(self, test, folder, *arguments):
        self.test = test
        self.process = subprocess.Popen(
            [SKEP, "track", str(folder.path / "run.yaml"), "--listen", "tcp://127.0.0.1:0",
             *map(str, arguments)],
            text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env={**os.environ, "HOME": str(folder.path)})
        test.addCleanup(self.end)
        ready, _, _ = select.select([self.process.stdout], [], [], TIMEOUT_S)
        test.assertTrue(ready, "no join string")
        self.join = self.process.stdout.readline().strip()

    def end(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        self.process.stderr.close()

    def stop(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        _, error = self.process.communicate(timeout=TIMEOUT_S)
        self.test.assertEqual(self.process.returncode, 0, error)
        return error


class Track(RunTest):
    def setUp(self):
        self.there = self.folder(**SWARM)
        self.state = self.there.path / "run"

    def skep(self, *arguments):
        return self.skep_of(self.there.path, *arguments)

    @staticmethod
    def skep_of(home, *arguments):
        return subprocess.run([SKEP, *map(str, arguments)], text=True, capture_output=True,
                              timeout=TIMEOUT_S, env={**os.environ, "HOME": str(home)})

    def own(self, *arguments):
        return self.skep(*arguments, "--identity", self.state / "identity")

    def test_the_join_string_and_the_manifest_stay_over_a_restart(self):
        first = Tracker(self, self.there)
        self.assertRegex(first.join, rf"^{JOIN.pattern}$")
        manifest = (self.state / "heather.skep").read_bytes()
        self.assertEqual((self.there.path / "heather.skep").read_bytes(), manifest)
        first.stop(signal.SIGINT)
        second = Tracker(self, self.there)
        self.assertEqual(second.join, first.join)
        self.assertEqual((self.state / "heather.skep").read_bytes(), manifest)
        status = json.loads(self.own("status", second.join, "--json").stdout)
        self.assertEqual((status["incarnation"], status["entries"]), (2, 1))
        second.stop()

    def test_a_changed_run_is_refused_with_the_key(self):
        Tracker(self, self.there).stop()
        before = (self.state / "tracker.db").read_bytes()
        self.there.write_run(optimizer__lr=0.02)
        result = self.skep("track", self.there.path / "run.yaml", "--listen", "tcp://127.0.0.1:0")
        self.assert_exit(result, 2)
        self.assertIn("optimizer.lr", result.stderr)
        self.assertEqual((self.state / "tracker.db").read_bytes(), before)

    def test_a_second_tracker_of_the_same_state_is_refused(self):
        Tracker(self, self.there)
        result = self.skep("track", self.there.path / "run.yaml", "--listen", "tcp://127.0.0.1:0")
        self.assert_exit(result, 2)
        self.assertIn("another process", result.stderr)

    def test_status_is_for_the_roster(self):
        tracker = Tracker(self, self.there)
        home = self.there.path / "elsewhere"
        stranger = self.skep_of(home, "status", tracker.join)
        self.assert_exit(stranger, 2)
        self.assertIn("not on the allow-list", stranger.stderr)
        key = self.skep_of(home, "keys").stdout.strip()
        roster = self.state / "roster.yaml"
        self.assert_exit(self.skep("roster", "add", key, "--roster", roster), 0)
        until = time.monotonic() + TIMEOUT_S
        while stranger.returncode != 0 and time.monotonic() < until:
            stranger = self.skep_of(home, "status", self.state / "heather.skep", "--json")
        status = json.loads(stranger.stdout)
        self.assertEqual((status["format"], status["name"], status["stage"], status["round"]),
                         (1, "heather", "ready", 0))
        self.assertEqual(status["commits_max"], 4)  # 20 steps, 5 a round
        self.assertEqual(status["members"], [])
        self.assertGreater(status["deadlines"]["silence_ms"], 0)
        text = self.skep("status", tracker.join)
        self.assert_exit(text, 0)
        self.assertIn("heather", text.stdout)

    def test_nobody_there_is_said_in_time(self):
        tracker = Tracker(self, self.there)
        tracker.stop()
        result = self.skep("status", tracker.join)
        self.assert_exit(result, 1)
        self.assertIn("no answer", result.stderr)

    def test_the_roster_is_edited_and_listed(self):
        roster = self.there.path / "roster.yaml"
        key = self.skep("keys").stdout.strip()
        self.assert_exit(self.skep("roster", "list", "--roster", roster), 0)
        self.assert_exit(self.skep("roster", "add", key, "--name", "ada", "--roster", roster), 0)
        listed = json.loads(self.skep("roster", "list", "--roster", roster, "--json").stdout)
        self.assertEqual(listed["members"], [{"key": key, "name": "ada"}])
        again = self.skep("roster", "add", key, "--roster", roster)
        self.assert_exit(again, 2)
        self.assertRegex(again.stderr, r"roster\.yaml:\d+:\d+")
        wrong = self.skep("roster", "add", key[:-1], "--roster", roster)
        self.assert_exit(wrong, 2)
        self.assert_exit(self.skep("roster", "remove", "ada", "--roster", roster), 0)
        self.assertEqual(self.skep("roster", "list", "--roster", roster).stdout, "")
        self.assert_exit(self.skep("roster", "list"), 2)
        self.assert_exit(self.skep("roster", "empty", "--roster", roster), 2)

    def test_the_ledger_is_read_from_the_tracker_and_from_its_store(self):
        tracker = Tracker(self, self.there)
        out = self.there.path / "ledger.jsonl"
        asked = self.own("ledger", tracker.join, "--verify", "--json", "--export", out)
        self.assert_exit(asked, 0)
        document = json.loads(asked.stdout)
        self.assertEqual((document["entries"], document["genesis"], document["tracker_verified"]),
                         (1, 1, True))
        line = json.loads(out.read_text())
        self.assertEqual((line["kind"], line["round"]), ("genesis", 0))
        busy = self.skep("ledger", self.state / "tracker.db")
        self.assert_exit(busy, 2)
        self.assertIn("join string", busy.stderr)
        tracker.stop()
        again = self.there.path / "again.jsonl"
        self.assert_exit(self.skep("ledger", self.state / "tracker.db", "--export", again), 0)
        self.assertEqual(again.read_bytes(), out.read_bytes())
        key = tracker.join.split("#")[1]
        self.assert_exit(self.skep("ledger", again, "--verify", "--operator", key), 0)

    def test_bad_addresses_are_refused_before_anything_is_made(self):
        for arguments in (["--listen", "tcp://127.0.0.1"], ["--listen", "127.0.0.1:x"],
                          ["--public", "tcp://a b:7"], ["--public", "host"]):
            with self.subTest(arguments=arguments):
                result = self.skep("track", self.there.path / "run.yaml", *arguments)
                self.assert_exit(result, 2)
                self.assertFalse((self.state / "heather.skep").exists())

    def rollback(self, *arguments):
        return self.skep("track", self.there.path / "run.yaml", "--rollback", *arguments)

    def test_the_operators_key_is_made_with_the_swarm_and_named_by_its_manifest(self):
        self.assert_exit(self.rollback("8"), 2)  # there is no swarm yet
        Tracker(self, self.there).stop()
        key = self.state / "operator.key"
        self.assertEqual(key.stat().st_mode & 0o7777, 0o600)
        public = self.skep("keys", "--identity", key).stdout.strip()
        self.assertIn(f"operator: {public}\n", (self.state / "heather.skep").read_text())
        self.assertNotEqual(public, self.skep("keys", "--identity",
                                              self.state / "identity").stdout.strip())
        Tracker(self, self.there).stop()
        key.rename(self.there.path / "safe.key")  # a tracker needs it no more
        Tracker(self, self.there).stop()
        self.assertFalse(key.exists())

    def test_a_swarm_starts_with_the_operators_own_key(self):
        own = self.there.path / "own.key"
        public = self.there.path / "public.key"
        public.write_text(self.skep("keys", "--identity", own).stdout)
        refused = self.skep("track", self.there.path / "run.yaml", "--listen",
                            "tcp://127.0.0.1:0", "--operator-key", public)
        self.assert_exit(refused, 2)
        self.assertIn("cannot sign a new swarm", refused.stderr)
        self.assertFalse((self.state / "heather.skep").exists())
        Tracker(self, self.there, "--operator-key", own).stop()
        self.assertFalse((self.state / "operator.key").exists())
        self.assertIn(f"operator: {public.read_text().strip()}\n",
                      (self.state / "heather.skep").read_text())
        refused = self.skep("track", self.there.path / "run.yaml", "--listen",
                            "tcp://127.0.0.1:0", "--operator-key", self.state / "identity")
        self.assert_exit(refused, 2)
        self.assertIn("operator's key", refused.stderr)
        self.assertIn("cannot sign", self.rollback("8", "--operator-key", public).stderr)

    def test_an_order_that_cannot_be_followed_is_not_written(self):
        tracker = Tracker(self, self.there)
        other = self.there.path / "other.key"
        self.skep("keys", "--identity", other)
        for running in (True, False):
            for arguments, words in ((["8"], "more than 8 commits"),
                                     (["8", "--operator-key", other], "not the operator's key"),
                                     (["8", "--operator-key", "none"], "cannot open"),
                                     (["0"], ""), (["x"], "")):
                with self.subTest(arguments=arguments, running=running):
                    result = self.rollback(*arguments)
                    self.assert_exit(result, 2)
                    self.assertIn(words, result.stderr)
            if running:
                tracker.stop()
        self.assertFalse((self.state / "rollback.json").exists())


if __name__ == "__main__":
    main()
