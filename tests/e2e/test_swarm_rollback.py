"""The operator rolls a swarm back to a stored state: every member returns to it."""
import base64
import hashlib
import json
import re
import time

from loopback_swarm import SwarmTest, json_lines
from small_run import LLAMA, main

RETURN_S = 60  # from the order until every member has committed on the older state


class Rollback(SwarmTest):
    def order(self, number, *more):
        return self.site.run("track", "run.yaml", "--state", "tracker", "--rollback", str(number),
                             "--json", *more)

    def possible_rounds(self):
        refused = self.order(1)
        self.assert_exit(refused, 2)
        found = re.search(r"with a stored state: ([\d, ]+)\n", refused.stderr)
        return [int(number) for number in found.group(1).split(",")] if found else []

    def member_with_small_files(self, name):
        """A member that can write every file but that of a whole state."""
        member = self.member(name)
        blocks = 6 * self.parameters // 512  # 8 bytes a parameter in a state, 4 in other files
        script = f'trap "" XFSZ; ulimit -f {blocks}; exec "$@"'
        member.command = ["sh", "-c", script, "sh", *member.command]
        return member

    def entries(self, member, kind):
        return [entry for entry in json_lines(member.ledger()) if entry["kind"] == kind]

    def signing_key(self, member):
        text = self.site.run("keys", "--identity", member.folder / "config/skep/identity").stdout
        return base64.b32decode(text.strip().upper())[33:65]

    def assert_drawn_members_store(self, members, history):
        """The three lowest numbers of each eighth commit store its state, and no others."""
        keys = {self.signing_key(member): member for member in members}
        for commit in (entry for entry in history if entry["kind"] == "commit"):
            if commit["commits"] % 8 != 0:
                continue
            seats = [bytes.fromhex(row["id"]) for row in commit["members"]]
            drawn = sorted(seats, key=lambda seat: hashlib.blake2b(
                b"skep state keeper\0" + bytes.fromhex(commit["hash"]) + seat,
                digest_size=32).digest())[:3]
            for key, member in keys.items():
                number = commit["round"]
                stored = f"stored the state of round {number} in " in member.log()
                failed = f"the state of round {number} is not stored" in member.log()
                self.assertEqual((stored, failed),
                                 (key in drawn and member.name != "small",
                                  key in drawn and member.name == "small"),
                                 f"round {number}, {member.name}\n{self.logs()}")

    def lineage(self, history):
        """The commits that no rollback has undone."""
        commits = []
        for entry in history:
            if entry["kind"] == "rollback":
                while commits and commits[-1]["root"] != entry["root"]:
                    commits.pop()
                self.assertTrue(commits, "a rollback to a root that no commit has")
                self.assertEqual(entry["cursor"], commits[-1]["cursor"])
            elif entry["kind"] == "commit":
                commits.append(entry)
        return commits

    def assert_no_sample_twice(self, history):
        super().assert_no_sample_twice(self.lineage(history))

    def test_every_member_returns_to_a_stored_state(self):
        larger = {**LLAMA, "hidden_size": 128, "intermediate_size": 256}  # than the ledger is long
        self.swarm(larger, steps=10**6, swarm__inner_steps=2, swarm__members_max=6,
                   precision__moments="bf16")
        inspected = json.loads(self.site.run("inspect", "model", "--json").stdout)
        self.parameters = inspected["parameters"]["total"]
        first, second, third = (self.member(name) for name in ("first", "second", "third"))
        small = self.member_with_small_files("small")
        members = [first, second, third, small]
        for member in members:
            member.start()
        self.wait_for(lambda: len(self.entries(first, "commit")) >= 18, "commits", 120)
        third.kill()
        self.assert_drawn_members_store(
            members, [entry for entry in self.entries(first, "commit") if entry["round"] <= 17])
        late = self.member("late").start()
        rounds = self.possible_rounds()
        self.assertGreaterEqual(len(rounds), 2)
        begun = time.monotonic()
        result = self.order(rounds[0])
        self.assert_exit(result, 0)
        order = json.loads(result.stdout)
        self.assertEqual(order["round"], rounds[0])
        self.assertEqual(len(order["keepers"]), 3)
        running = [first, second, small, late]

        def has_returned(member):
            undone = self.entries(member, "rollback")
            return undone and member.last() > undone[-1]["round"]
        self.wait_for(lambda: all(has_returned(member) for member in running), "return", RETURN_S)
        self.assertLess(time.monotonic() - begun, RETURN_S)
        rollback = self.entries(first, "rollback")[-1]
        self.assertEqual(rollback["root"], order["root"])
        self.assertIn("order", rollback)

        third.start()
        self.wait_for(lambda: has_returned(third), "return of the member that was down", RETURN_S)
        self.restart_tracker()  # which finds the order again and does not follow it
        before = max(member.last() for member in members)
        self.wait_for(lambda: min(member.last() for member in members) > before + 2, "rounds")
        self.assertIn("the order was carried out before", self.tracker.log())
        for member in [*members, late]:
            member.ask_to_stop()
        self.wait_for_end(*members, late, seconds=60)
        self.assert_one_root_a_round()
        history = self.assert_one_history()
        self.assertEqual(len([entry for entry in history if entry["kind"] == "rollback"]), 1)
        commits = self.lineage(history)
        self.assertIn(rounds[0], [entry["round"] for entry in commits])
        self.assertFalse([entry for entry in commits
                          if rounds[0] < entry["round"] <= rollback["round"]])
        self.assert_orders_verify(first)

    def assert_orders_verify(self, member):
        """With the operator's key the order verifies; with another it does not."""
        manifest = (self.site.path / "tracker" / "heather.skep").read_text()
        key = re.search(r"^operator: (p\w+)$", manifest, re.M).group(1)
        self.assertEqual(key, self.join_string.partition("#")[2])
        wrong = self.site.run("keys", "--identity", self.site.path / "wrong.key").stdout.strip()
        self.assert_exit(self.site.run("ledger", member.ledger(), "--verify", "--operator", key), 0)
        refused = self.site.run("ledger", member.ledger(), "--verify", "--operator", wrong)
        self.assert_exit(refused, 2)
        self.assertIn("operator did not sign", refused.stderr)


if __name__ == "__main__":
    main()
