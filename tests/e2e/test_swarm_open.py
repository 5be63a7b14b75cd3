"""An open swarm: the operator names the voters; guests contribute, and give way to voters."""
import json

from loopback_swarm import SWARM, SwarmTest
from small_run import main


class OpenSwarm(SwarmTest):
    def setUp(self):
        self.swarm(steps=100000, swarm__members_max=4)
        self.voters = [self.member(name) for name in ("anna", "bert", "carl")]
        self.guests = [self.member(name) for name in ("gina", "hugo")]
        self.set_roster("open: true\nmembers:\n" + self.rows("anna", "bert", "carl"))

    def commits(self, member):
        lines = [json.loads(line) for line in member.ledger().read_text().split("\n")[:-1]]
        return [line for line in lines if line["kind"] == "commit"]

    def test_guests_contribute_and_neither_own_nor_vote(self):
        anna, bert, carl = self.voters
        for member in (*self.guests, anna, bert):
            member.start()
        self.wait_for(lambda: anna.ledger().exists() and any(
            sum(row.get("guest", False) and row["contributed"] > 0 for row in line["members"])
            for line in self.commits(anna)), "a contribution of a guest")
        status = json.loads(self.site.run("status", self.join_string, "--json").stdout)
        roles = {row["name"]: row["guest"] for row in status["members"]}
        self.assertEqual([roles[voter.name] for voter in (anna, bert)], [False, False])
        self.assertEqual(sum(roles.values()), 2)

        # All four slots are taken: a guest gives way to the third voter.
        carl.start()
        self.wait_for(lambda: carl.last() > 0, "rounds of the third voter")
        self.assertIn("is disconnected: a voter needs its", self.tracker.log())
        for guest in self.guests:
            guest.kill()
        before = max(voter.last() for voter in self.voters)
        self.wait_for(lambda: min(voter.last() for voter in self.voters) > before + 1,
                      "rounds after the guests were killed")
        for voter in self.voters:
            voter.ask_to_stop()
        self.wait_for_end(*self.voters, seconds=60)
        self.assert_one_root_a_round()
        self.assert_one_history()

        named = {row["id"] for line in self.commits(anna) for row in line["members"]
                 if not row.get("guest", False)}
        self.assertLessEqual(len(named), 3)
        for line in self.commits(anna):
            self.assertEqual(sum(row["owned"] for row in line["members"]
                                 if row.get("guest", False)), 0)
            self.assertLessEqual({one["id"] for one in line["signatures"]}, named)


class IncompleteList(SwarmTest):
    """`open: true` needs three named members when a swarm is created, at each start, and in a list
    that changes while the tracker runs."""

    def assert_rejected(self, text):
        for words in ("roster.yaml:1:", "has only 0 members: an open swarm needs at least 3",
                      "skep roster add KEY"):
            self.assertIn(words, text)

    def test_a_swarm_is_not_created_with_it(self):
        folder = self.folder(**SWARM)
        (folder.path / "roster.yaml").write_text("open: true\n")
        result = folder.run("track", "run.yaml", "--state", "tracker", "--roster", "roster.yaml",
                            "--listen", "tcp://127.0.0.1:0")
        self.assert_exit(result, 2)
        self.assert_rejected(result.stderr)
        self.assertEqual(list(folder.path.glob("**/*.skep")), [])

    def test_a_tracker_neither_adopts_it_nor_starts_with_it(self):
        self.swarm(steps=100000)
        named = self.roster.read_text()
        anna = self.member("anna").start()
        self.wait_for(lambda: anna.last() >= 1, "a round")
        self.roster.write_text("open: true\n")
        self.wait_for(lambda: "keeping the previous allow-list" in self.tracker.log(),
                      "a warning", 10)
        self.assert_rejected(self.tracker.log())
        before = anna.last()
        self.wait_for(lambda: anna.last() > before + 1, "rounds with the previous list")
        listen = self.join_string.partition("#")[0]
        self.tracker.kill()
        self.tracker.start("--listen", listen)
        self.assertEqual(self.tracker.wait(), 2, self.tracker.log())
        self.assert_rejected(self.tracker.log().splitlines()[-1])
        self.roster.write_text(named)
        self.start_tracker(listen)
        before = anna.last()
        self.wait_for(lambda: anna.last() > before + 1, "rounds after the restart")
        anna.ask_to_stop()
        self.wait_for_end(anna)
        first = next(entry for entry in self.assert_one_history() if entry["kind"] == "open")
        self.assertGreater(len(first["roster"]["members"]), 3)

    def test_a_tracker_does_not_start_without_the_operators_signature(self):
        self.swarm()
        self.tracker.kill()
        (self.site.path / "roster.yaml.signed").unlink()
        safe = self.site.path / "safe.key"
        (self.site.path / "tracker" / "operator.key").rename(safe)
        listen = self.join_string.partition("#")[0]
        self.tracker.start("--listen", listen)
        self.assertEqual(self.tracker.wait(), 2, self.tracker.log())
        last = self.tracker.log().splitlines()[-1]
        self.assertIn("roster.yaml: the operator has not signed the allow-list", last)
        self.assertIn("--operator-key", last)
        self.start_tracker(listen, "--operator-key", str(safe))


if __name__ == "__main__":
    main()
