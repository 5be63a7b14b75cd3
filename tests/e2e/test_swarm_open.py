"""An open swarm: the operator names the voters; guests contribute, and give way to voters."""
import json

from loopback_swarm import SwarmTest
from small_run import main


class OpenSwarm(SwarmTest):
    def setUp(self):
        self.swarm(steps=100000, swarm__members_max=4)
        self.voters = [self.member(name) for name in ("anna", "bert", "carl")]
        self.guests = [self.member(name) for name in ("gina", "hugo")]
        rows = [f"  - key: {self.key_of(voter)}\n    name: {voter.name}\n" for voter in self.voters]
        (self.site.path / "roster.yaml").write_text("open: true\nmembers:\n" + "".join(rows))
        self.wait_for((self.site.path / "roster.yaml.signed").exists, "a signed list", 10)

    def key_of(self, member):
        return self.site.run("keys", env={"XDG_CONFIG_HOME": str(member.folder / "config")}
                             ).stdout.strip()

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
        self.assertIn("frees its slot for a voter", self.tracker.log())
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


if __name__ == "__main__":
    main()
