"""A copied state folder makes two trackers; with half of the members at each, none commits before
the operator names one of them."""
import json
import shutil
import time

from loopback_swarm import Process, SwarmTest, json_lines
from small_ledger import keys_of
from small_run import main, wait_until

SAYS_FORK_S = 10  # from the moment at which each tracker has half of the members
WATCHED_S = 15    # that none of them commits


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
            if entry["kind"] == "open" and len(seats) == 1 and len(electors) > 1:
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

    def test_copies_with_half_of_the_members_each_wait_for_the_operator(self):
        self.swarm(steps=10**6, swarm__inner_steps=2, swarm__forks="refused")
        members = [self.member(name).start() for name in ("first", "second", "third", "anna")]
        self.wait_for(lambda: all(len(self.commits(member)) >= 3 for member in members), "commits")
        self.wait_for(lambda: len(self.commits(members[0])[-1]["members"]) == 4, "all members")
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
        begun = time.monotonic()
        trackers = (self.tracker, self.copy)
        self.wait_for(lambda: all("possible fork" in tracker.log() for tracker in trackers),
                      "word of a fork", SAYS_FORK_S + 5)
        said_s = time.monotonic() - begun
        before = [len(self.commits(member)) for member in members]
        time.sleep(WATCHED_S)
        self.assertEqual(before, [len(self.commits(member)) for member in members], self.logs())
        for tracker in trackers:
            self.assertRegex(tracker.log(), r"possible fork: [012] of the 4 electors")
        status = json.loads(self.site.run("status", original, "--json").stdout)
        self.assertRegex(json.dumps(status), r"\(a possible fork\)")

        ordered = self.site.run("track", "run.yaml", "--state", "tracker", "--continue", "--json")
        self.assert_exit(ordered, 0)
        self.assertEqual(json.loads(ordered.stdout)["members"], 2)
        self.wait_for(lambda: min(len(self.commits(member)) for member in members[:2])
                      > max(before) + 2, "commits of the side that the operator named")
        self.assertEqual(before[2:], [len(self.commits(member)) for member in members[2:]])
        self.copy.kill()
        for member in members[2:]:
            self.rejoin(member, original)
        self.wait_for(lambda: min(len(self.commits(member)) for member in members)
                      > max(before) + 2, "commits after the copy has ended")
        self.leave_all_but_one(members)
        self.assert_one_root_a_round()
        history = self.assert_one_history()
        self.assertEqual(history[0]["needs_leases"], 1)
        opened = [entry["leases"] for entry in history if entry["kind"] == "open"]
        self.assertGreaterEqual(len({leases["start"] for leases in opened}), 2)
        self.assertEqual(["order" in leases for leases in opened].count(True), 1)
        self.assert_resigned(history)
        print(f"both said that a fork is possible after {said_s:.1f} s")


if __name__ == "__main__":
    main()
