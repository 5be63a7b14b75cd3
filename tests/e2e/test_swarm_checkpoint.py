"""A member that joins a long run begins at a checkpoint of the ledger, and resumes from it."""
import json

from loopback_swarm import SwarmTest, json_lines
from small_run import main

FIRST_CHECKPOINT = 256  # entries before it
SECONDS = 300


class Checkpoint(SwarmTest):
    def status(self, *more):
        return self.site.run("status", self.join_string, *more, env={
            "XDG_CONFIG_HOME": str(self.members["anna"].folder / "config")})

    def has_checkpoint(self):
        found = self.status("--json")
        return found.returncode == 0 and json.loads(found.stdout)["checkpoint"] > 0

    def verified(self, member):
        return self.document(self.site.run("ledger", member.ledger(), "--verify", "--json",
                                           "--operator", self.join_string.partition("#")[2]))

    def test_a_late_joiner_reads_the_ledger_from_a_checkpoint(self):
        self.swarm(steps=10**6, swarm__inner_steps=1)
        anna, bert = self.member("anna", "snapshot.every=50"), self.member("bert")
        anna.start()
        self.wait_for(self.has_checkpoint, "checkpoint", SECONDS)
        self.assertIn(f"\ncheckpoint entry {FIRST_CHECKPOINT}: joiners", self.status().stdout)
        bert.start()
        self.wait_for(lambda: bert.last() > 0, "rounds of the joiner")
        self.assertIn(f"verified the ledger from entry {FIRST_CHECKPOINT} on; 1 of the 1 voters",
                      bert.log())
        bert.kill()
        before = bert.last()
        first = bert.ledger().read_text().splitlines()[:2]
        bert.start()
        self.wait_for(lambda: bert.last() > before + 2, "rounds after a restart")
        for member in (anna, bert):
            member.ask_to_stop()
        self.wait_for_end(anna, bert, seconds=60)
        self.assert_one_root_a_round()
        whole, copy = anna.ledger().read_text().splitlines(), bert.ledger().read_text().splitlines()
        self.assertEqual(copy[:2], first)
        self.assertEqual(json.loads(copy[0])["kind"], "checkpoint")
        common = min(len(whole) - FIRST_CHECKPOINT, len(copy) - 1)
        self.assertGreater(common, 8)
        self.assertEqual(copy[1:common + 1], whole[FIRST_CHECKPOINT:FIRST_CHECKPOINT + common])
        self.assertEqual(self.verified(anna)["first_entry"], 0)
        found = self.verified(bert)
        self.assertEqual((found["first_entry"], found["entries"]),
                         (FIRST_CHECKPOINT, len(json_lines(bert.ledger())) - 1))
        self.assertTrue(found["operator_verified"])


if __name__ == "__main__":
    main()
