"""Each bar of liars.py is missed by an outcome that just fails it, and by no other."""
import dataclasses
import unittest

from lie_run import LIES, Outcome
from liars import Row

KINDS = {lie.name: lie for lie in LIES}
COMMITS = 40


def outcome(**more):
    """A run that meets every bar; the member is named in its first round."""
    good = Outcome(liars=["m7"], commits=COMMITS, settled_commits=COMMITS,
                   seconds=40.0, first_round=2, took_effect=True,
                   named={"m7": [2, "reason"]}, losses=[2.0] * COMMITS, rechecked=30, owned=2.0,
                   deadlines_ms={"train_ms": 500, "exchange_ms": 1000})
    return dataclasses.replace(good, **more)


def missed(name, **more):
    return list(Row(KINDS[name], [outcome(**more)], [outcome(liars=[], named={})]).missed())


class Bars(unittest.TestCase):
    def test_a_good_outcome_misses_no_bar(self):
        for name, lie in KINDS.items():
            more = {"named": {}} if lie.group == "unlike" else {}
            self.assertEqual(missed(name, **more), [], name)

    def check(self, name, text, **more):
        found = missed(name, **more)
        self.assertEqual(len(found), 1, found)
        self.assertIn(text, found[0])

    def test_every_lie_may_cost_a_tenth_of_the_commits_and_a_slow_member_a_twentieth(self):
        self.assertEqual(missed("hold", seconds=44.0), [])
        self.check("hold", "89% of the commits per hour", seconds=45.0)
        self.assertEqual(missed("slow-up-20", seconds=42.0), [])
        self.check("slow-up-20", "94% of the commits per hour", seconds=42.5)

    def test_the_first_rounds_take_half_a_minute_at_most(self):
        self.assertEqual(missed("hold", start_seconds=30.0), [])
        self.check("hold", "31 s until round 3", start_seconds=31.0)

    def test_the_median_of_the_pairs_counts(self):
        clean = outcome(liars=[], named={})
        slow, fast = outcome(seconds=80.0), outcome()
        self.assertEqual(list(Row(KINDS["hold"], [slow, fast, fast], [clean] * 3).missed()), [])
        self.assertEqual(len(list(
            Row(KINDS["hold"], [slow, slow, fast], [clean] * 3).missed())), 1)

    def test_no_honest_member_is_named_or_ends(self):
        self.check("hold", "honest m1 is named", named={"m1": [9, "results"]})
        self.check("hold", "m3: 1", ended=["m3: 1"])

    def test_an_honest_member_with_unlike_data_is_not_named(self):
        self.check("constant-text", "named in 1 of 1 runs")

    def test_ledgers_verify_and_lies_take_effect(self):
        self.check("hold", "the ledger of m1", ledger_faults=["the ledger of m1: line 3"])
        self.check("hold", "took no effect", took_effect=False)

    def test_a_wrong_sum_is_not_committed_and_names_its_owner_at_once(self):
        self.check("sum", "1 of 30 commits have wrong sums", wrong_rounds=[7])
        self.check("sum", "not named", named={})
        self.check("sum", "named 1 rounds late", named={"m7": [3, "sum"]})

    def test_stalls_abort_no_round(self):
        self.check("drip", "1 aborts", aborts=1)

    def test_claims_raise_neither_shares_nor_deadlines(self):
        self.check("up-max", "owns 2.1 x", owned=2.1)
        self.check("step-day", "deadlines x 2.2",
                   deadlines_ms={"train_ms": 1100, "exchange_ms": 1000})

    def test_values_name_the_member_within_three_rounds_and_leave_the_loss(self):
        self.assertEqual(missed("x1000", named={"m7": [4, "norm"]}), [])
        self.check("x1000", "named 3 rounds late", named={"m7": [5, "norm"]})
        self.assertEqual(missed("replay", named={"m7": [5, "replay"]}), [])  # begins later
        self.check("x1000", "loss +1.5%", losses=[2.0] * (COMMITS - 10) + [2.03] * 10)

    def test_no_commit_has_a_copy_of_a_contribution_to_the_same_round(self):
        self.check("late-copy", "2 commits have copies", late_copies=2)

    def test_all_of_several_liars_are_named(self):
        self.check("nan", "not named", liars=["m6", "m7"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
