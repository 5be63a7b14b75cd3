"""What `track`, `join`, `status`, `roster` and `ledger` say when they are given what is wrong."""
import json
import re
import time

from loopback_swarm import SwarmTest
from small_run import main


class OneIdentity(SwarmTest):
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


if __name__ == "__main__":
    main()
