"""A copied state folder makes two trackers: with half of the members at each, one of them commits.
A tracker that lost its first elector of two waits for the operator."""
import json
import re
import shutil
import time

from loopback_swarm import Process, SwarmTest, json_lines
from small_ledger import keys_of
from small_run import main, wait_until

SAYS_FORK_S = 10  # from the moment at which each tracker has half of the members
WATCHED_S = 10    # that a tracker does not commit


class Forks(SwarmTest):
    def commits(self, member):
        return [entry for entry in json_lines(member.ledger()) if entry["kind"] == "commit"]

    def start_copy(self):
        """The copy of the tracker, on any free port of another address; its join string."""
        shutil.copytree(self.site.path / "tracker", self.site.path / "copied",
                        ignore=shutil.ignore_patterns("log", "output", "lock"))
        self.copy = Process(self.site, "copy", self.site.command(
            "track", "run.yaml", "--state", "copied", "--roster", "roster.yaml", "--json",
            "--listen", "tcp://127.0.0.2:0"))
        self.addCleanup(self.copy.kill)
        self.copy.start()
        output = self.copy.folder / "output"
        self.assertTrue(wait_until(lambda: output.exists() and output.read_text().endswith("\n") or
                                   not self.copy.is_running()))
        self.assertTrue(self.copy.is_running(), self.copy.log())
        return json.loads(output.read_text())["join"]

    def leave_all_but_one(self, members):
        """The one that stays is not the first elector, so it needs a resignation."""
        first = self.commits(members[0])[-1]["members"][0]["id"]
        stays = next(member for member in members if self.id_of(member) != first)
        left = [member for member in members if member != stays]
        for member in left:
            member.ask_to_stop()
        self.wait_for_end(*left)
        before = len(self.commits(stays))
        self.wait_for(lambda: len(self.commits(stays)) > before + 2, "commits of one member")
        stays.ask_to_stop()
        self.wait_for_end(stays)

    def id_of(self, member):
        return keys_of(self.key_of(f"{member.name}/config"))[1].hex()

    def assert_resigned(self, history):
        """The first OPEN of the member that stayed has the resignations that it needs."""
        electors = []
        for entry in history:
            seats = [member["id"] for member in entry.get("members", [])]
            if entry["kind"] == "open" and len(seats) < len(electors) and \
                    len(seats) == 1 and "order" not in entry["leases"]:
                leases = entry["leases"]
                break
            electors = seats if entry["kind"] == "commit" else electors
        self.assertGreater(len(leases["resigned"]), 0)
        self.assertEqual(len(leases["signatures"]), len(leases["resigned"]))
        self.assertNotIn(electors.index(seats[0]), leases["resigned"])

    def rejoin(self, member, join_string):
        member.kill()
        member.command = [join_string if "#" in word and word.startswith("tcp://") else word
                          for word in member.command]
        member.start()

    def assert_says(self, tracker, words, seconds=SAYS_FORK_S + 5):
        self.wait_for(lambda: re.search(words, tracker.log()), words, seconds)

    def assert_no_commits(self, members):
        before = [len(self.commits(member)) for member in members]
        time.sleep(WATCHED_S)
        self.assertEqual(before, [len(self.commits(member)) for member in members], self.logs())

    def wait_for_commits(self, members, what):
        before = max(len(self.commits(member)) for member in self.members.values())
        self.wait_for(lambda: min(len(self.commits(member)) for member in members) > before + 2,
                      what)

    def split(self, members):
        """The first elector and another member follow the tracker, the others a copy of it."""
        first = self.commits(members[0])[-1]["members"][0]["id"]
        members.sort(key=lambda member: self.id_of(member) != first)
        original = self.join_string
        for member in members:
            member.kill()
        self.tracker.kill()
        copied = self.start_copy()
        self.restart_tracker()
        for member in members[:2]:
            self.rejoin(member, original)
        for member in members[2:]:
            self.rejoin(member, copied)

    def order_to_continue(self, waiting):
        """The operator orders the tracker to continue with the only member that it has."""
        self.assert_says(self.tracker, r"possible fork: 1 of the 2 electors .*too few")
        status = json.loads(self.site.run("status", self.join_string, "--json").stdout)
        self.assertRegex(json.dumps(status), r"electors: 1 of 2 .*\(a possible fork\); \w+ "
                                             r"disconnected 0:\d\d ago; start it again, or see ")
        for process in (self.tracker, waiting):
            self.assert_says(process, r"waiting for 1 more elector: 1 of at least 2 can vote here; "
                                      r"\w+ disconnected 0:\d\d ago; start it again, or see ", 20)
        self.assert_no_commits([waiting])
        ordered = self.site.run("track", "run.yaml", "--state", "tracker", "--continue", "--json")
        self.assert_exit(ordered, 0)
        self.assertEqual(json.loads(ordered.stdout)["members"], 1)
        self.wait_for_commits([waiting], "commits of the member that the operator named")

    def test_at_most_one_of_two_copies_commits(self):
        self.swarm(steps=10**6, swarm__inner_steps=2, swarm__shrink_after=14)
        members = [self.member(name).start() for name in ("first", "second", "third", "anna")]
        self.wait_for(lambda: all(len(self.commits(member)) >= 3 for member in members), "commits")
        self.wait_for(lambda: len(self.commits(members[0])[-1]["members"]) == 4, "all members")
        self.split(members)
        begun = time.monotonic()
        self.assert_says(self.tracker, r"possible fork: 2 of the 4 electors .* continues")
        self.assert_says(self.copy, r"possible fork: [012] of the 4 electors .*too few")
        said_s = time.monotonic() - begun
        self.wait_for_commits(members[:2], "commits of the side with the first elector")
        self.assert_no_commits(members[2:])
        members[0].kill()
        self.order_to_continue(members[1])
        self.copy.kill()
        members[0].start()
        for member in members[2:]:
            self.rejoin(member, self.join_string)
        self.wait_for(lambda: all(len(self.commits(member)[-1]["members"]) == 4
                                  for member in members), "all members after the copy has ended")
        self.leave_all_but_one(members)
        self.assert_one_root_a_round()
        history = self.assert_one_history()
        self.assertEqual(history[0]["needs_leases"], 1)
        opened = [entry["leases"] for entry in history if entry["kind"] == "open"]
        self.assertGreaterEqual(len({leases["start"] for leases in opened}), 2)
        self.assertEqual(["order" in leases for leases in opened].count(True), 1)
        self.assert_resigned(history)
        print(f"both said that a fork is possible after {said_s:.1f} s")

    def test_a_first_elector_that_the_operator_removed_is_named(self):
        """With it a copy could have committed before, so the other one waits."""
        self.swarm(steps=10**6, swarm__inner_steps=2)
        members = [self.member(name).start() for name in ("first", "second")]
        self.wait_for(lambda: all(len(self.commits(member)) >= 3 and
                                  len(self.commits(member)[-1]["members"]) == 2
                                  for member in members), "commits of both")
        first = self.commits(members[0])[-1]["members"][0]["id"]
        members.sort(key=lambda member: self.id_of(member) != first)
        rows = self.roster.read_text()
        self.set_roster(rows.replace(self.rows(members[0].name), ""))
        words = rf"waiting for 1 more elector: 1 of at least 2 can vote here; {first[:12]} is " \
                r"not on the allow-list; add it again, or see `skep track --continue`\n"
        for process in (self.tracker, members[1]):
            self.assert_says(process, words)
        self.set_roster(rows)
        self.wait_for_commits(members, "commits after the operator has added it again")


if __name__ == "__main__":
    main()
