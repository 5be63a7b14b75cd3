"""A swarm as people use it: members that are started with the join string only, come, go, die and
come back, and the one model that all of them end with."""
import json
import math
import os
import random
import re
import shutil
import signal
import time
import unittest

from loopback_swarm import SwarmTest
from small_run import LONG, main, tensors_of

COUNTER = os.environ.get("COUNT_ALLOC", "")
ROUNDS = 24
# In write_tokens' text: the token that follows has 0.8 + 0.2 / 97, each of the others 0.2 / 97.
LOSS_OF_PAIRS = -(0.8 + 0.2 / 97) * math.log(0.8 + 0.2 / 97) - 96 * 0.2 / 97 * math.log(0.2 / 97)


class Swarm(SwarmTest):
    def test_one_model_comes_of_members_that_die_and_come(self):
        self.swarm(steps=10 * ROUNDS, eval__every=20)
        first, second, third = (self.member(name).start()
                                for name in ("first", "second", "third"))
        self.wait_for(lambda: any(line["contributors"] == 3
                                  for line in first.rounds().values()), "round of three")
        third.kill()
        after = first.last()
        self.wait_for(lambda: first.last() >= after + 2, "round without the killed one")
        late = self.member("late").start()
        self.wait_for(lambda: any(line["contributors"] == 3 and number > after + 1
                                  for number, line in first.rounds().items()),
                      "round with the late one")
        self.wait_for_end(first, second, late)
        roots = self.assert_one_root_a_round()
        self.assertEqual(max(roots), max(entry["round"] for entry in self.assert_one_history()
                                         if entry["kind"] == "commit"))
        self.assertIn("late", roots[max(roots)])
        self.assertEqual(self.exported(first), self.exported(second))
        self.assertEqual(self.exported(first), self.exported(late))
        self.assert_learned(first)

    def assert_learned(self, member):
        """The model that was written is the one that was evaluated last; who knows which token
        follows which, four times of five, and nothing else, has LOSS_OF_PAIRS."""
        losses = [line["loss"] for line in member.lines("eval")]
        self.assertLess(losses[-1], losses[0])
        self.assertLess(losses[-1], 1.1 * LOSS_OF_PAIRS)
        result = self.site.run("eval", member.folder / "state" / "model", "--data", "valid.u16",
                               "--json", "batch.sequence=16", "eval.tokens=64")
        document = self.document(result)
        self.assertAlmostEqual(document["loss"], losses[-1], places=5)

    def test_a_round_is_in_every_members_ledger_as_in_its_metrics(self):
        self.swarm(steps=60)
        members = [self.member(name).start() for name in ("first", "second")]
        self.wait_for_end(*members)
        commits = {entry["round"]: entry for entry in self.assert_one_history()
                   if entry["kind"] == "commit"}
        self.assertEqual(len(commits), 6)
        for member in members:
            self.assertGreater(sum(line["sent_bytes"] for line in member.lines("round")), 0)
            for number, line in member.rounds().items():
                commit = commits[number]
                named = {seat for seat, member in enumerate(commit["members"])
                     if member["contributed"]}
                self.assertEqual(line["root"], commit["root"])
                self.assertEqual(line["members"], len(commit["members"]))
                self.assertEqual(line["contributors"], len(named))
                self.assertEqual(line["step"], 10 * commit["commits"])
        for commit in commits.values():
            for seat in commit["members"]:
                self.assertLessEqual(seat["tokens"], 10 * 256)

    def test_one_that_leaves_is_saved_and_comes_back(self):
        self.swarm(steps=100000)
        stays, leaves = (self.member(name).start() for name in ("stays", "leaves"))
        self.wait_for(lambda: leaves.last() >= 3, "rounds")
        leaves.ask_to_stop()
        asked = time.monotonic()
        self.wait_for_end(leaves, seconds=30)
        self.assertLess(time.monotonic() - asked, 20)
        self.assertEqual(leaves.lines("end")[-1]["reason"], "stopped")
        left = leaves.last()
        self.wait_for(lambda: stays.last() >= left + 2, "round without it")
        leaves.start()
        self.wait_for(lambda: any(line["contributors"] == 2 and number > left + 2
                                  for number, line in leaves.rounds().items()),
                      "round with it again")
        self.assertIn(f"round {left}", leaves.log().partition("resuming from")[2])
        for member in (stays, leaves):
            member.ask_to_stop()
        self.wait_for_end(stays, leaves, seconds=30)
        self.assert_one_root_a_round()
        self.assert_one_history()

    def test_one_that_was_killed_replays_what_it_had(self):
        self.swarm(steps=100000, swarm__codec="int4")
        stays, dies = (self.member(name, "snapshot.every=1000000").start()
                       for name in ("stays", "dies"))
        self.wait_for(lambda: stays.last() >= 3 and dies.last() >= 3, "rounds")
        for member in (stays, dies):
            member.kill()
        had = dies.last()
        for member in (stays, dies):
            member.start()
        self.wait_for(lambda: min(stays.last(), dies.last()) > had + 2, "rounds after the restart")
        for member in (stays, dies):
            member.ask_to_stop()
        self.wait_for_end(stays, dies, seconds=30)
        self.assert_one_root_a_round()
        history = self.assert_one_history()
        rounds = [entry["round"] for entry in history if entry["kind"] == "commit"]
        self.assertEqual(rounds, sorted(set(rounds)))
        self.assertEqual([entry["commits"] for entry in history if entry["kind"] == "commit"],
                         list(range(1, len(rounds) + 1)))
        self.assertFalse([entry for entry in history if entry["kind"] == "rollback"])

    def test_any_of_them_killed_at_any_moment_costs_no_round(self):
        """All members at once too, and the tracker; a seed is printed when it fails."""
        seed = int(os.environ.get("SWARM_SEED", random.randrange(10**6)))
        chance = random.Random(seed)
        self.swarm(steps=10**6, swarm__inner_steps=2, batch__tokens=64,
                   swarm__codec=chance.choice(["int8", "int4"]))
        members = [self.member(name, f"snapshot.every={chance.choice([4, 10, 1000])}").start()
                   for name in ("first", "second", "third")]
        for turn in range(40 if LONG else 5):
            last = max(member.last() for member in members)
            self.wait_for(lambda: max(member.last() for member in members) >= last + 2,
                          f"progress in turn {turn} of seed {seed}")
            time.sleep(0.6 * chance.random())  # the moment of the kill
            killed = [member for member in members if chance.random() < 0.75]
            for member in killed:
                member.kill()
            if chance.random() < 0.3:
                self.restart_tracker()
            for member in killed:
                member.start()
        last = max(member.last() for member in members)
        self.wait_for(lambda: min(member.last() for member in members) >= last + 2,
                      f"progress after the last kill of seed {seed}")
        for member in members:
            member.ask_to_stop()
        self.wait_for_end(*members, seconds=30)
        self.assert_one_root_a_round()
        self.assertFalse([entry for entry in self.assert_one_history()
                          if entry["kind"] == "rollback"], f"seed {seed}")

    def test_members_outlive_the_tracker(self):
        self.swarm(steps=100000)
        members = [self.member(name).start() for name in ("first", "second")]
        self.wait_for(lambda: all(member.last() >= 2 for member in members), "rounds")
        self.tracker.kill()
        time.sleep(1)
        self.assertTrue(all(member.is_running() for member in members), self.logs())
        before = max(member.last() for member in members)
        self.restart_tracker()
        self.wait_for(lambda: all(member.last() >= before + 2 for member in members),
                      "rounds with the new tracker")
        for member in members:
            member.ask_to_stop()
        self.wait_for_end(*members, seconds=30)
        self.assert_one_root_a_round()
        self.assert_one_history()

    def test_a_recorded_round_is_what_the_exported_model_has(self):
        self.swarm(steps=20, swarm__codec="fp32", swarm__outer_lr=1, swarm__outer_momentum=0)
        alone = self.member("alone", "swarm.record=record").start()
        self.wait_for_end(alone)
        last = self.site.path / "record" / "round-2"
        _, shape, outer = tensors_of(last / "outer.safetensors")["params"]
        model = tensors_of(alone.folder / "state" / "model" / "model.safetensors")
        self.assertEqual(shape, [sum(len(data) for _, _, data in model.values()) // 4])
        self.assertEqual(sorted(data for _, _, data in model.values() if len(data) > 200),
                         sorted(data for _, _, data in model.values()
                                if len(data) > 200 and data in outer))
        _, _, declared = tensors_of(last / "declared.safetensors")["contribution"]
        self.assertEqual(len(declared), len(outer))


@unittest.skipIf(not COUNTER, "no counter was built")
class Sealed(SwarmTest):
    def test_neither_thread_of_a_member_allocates(self):
        """All but ZeroMQ, through rounds, a snapshot, an evaluation, an adoption and the end."""
        self.swarm(steps=400, swarm__codec="int4", eval__every=50)
        counted = {"LD_PRELOAD": COUNTER, "COUNT_ALLOC_ZMQ": "1"}
        early = self.member("early", "snapshot.every=50", "swarm.record=record")
        early.start(COUNT_ALLOC_REPORT=str(early.folder / "report"), **counted)
        self.wait_for(lambda: early.last() >= 9, "more rounds than are replayed")
        early.process.send_signal(signal.SIGSTOP)
        late = self.member("late")
        late.start(COUNT_ALLOC_REPORT=str(late.folder / "report"), **counted)
        self.wait_for(lambda: "joined heather" in late.log(), "the late one")
        early.process.send_signal(signal.SIGCONT)
        self.wait_for_end(early, late)
        self.assertIn("state received", late.log())
        for member in (early, late):
            first, *callers = (member.folder / "report").read_text().splitlines()
            words = first.split()
            self.assertGreater(int(words[3]), 20, "the seal was not seen")
            self.assertEqual(int(words[1]), 0, "\n".join([member.name, *callers]))


class Ending(SwarmTest):
    def test_a_run_that_diverges_ends(self):
        self.swarm(steps=100000, optimizer__lr=1000)
        member = self.member("alone").start()
        self.assertEqual(member.wait(), 1, member.log())
        self.assertRegex(member.log(), r"skep: heather: the run has diverged: [^\n]+; [^\n]+\n$")

    def test_data_that_go_bad_after_a_round_are_a_failure(self):
        for name, when in (("train.u16", 2), ("valid.u16", 1)):
            with self.subTest(name):
                self.swarm(steps=100000 if name == "train.u16" else 300)
                member = self.member("alone").start()
                self.wait_for(lambda: member.last() >= when, "rounds")
                os.truncate(self.site.path / name, 100)
                self.assertEqual(member.wait(), 1, member.log())
                self.assertRegex(member.log().splitlines()[-1], f"^skep: .*{name}: is truncated")
                self.tracker.kill()

    def test_a_run_that_has_ended_is_told_to_who_comes_too_late(self):
        self.swarm(steps=30)
        early, late = self.member("early"), self.member("late")
        self.wait_for_end(early.start())
        model = self.exported(early)
        self.wait_for_end(early.start())  # again: the model is written anew
        self.assertEqual(self.exported(early), model)
        self.wait_for_end(late.start())
        self.assertIn("the run of heather is over", late.log())

    def test_weights_of_a_folder_come_from_it_or_from_other_members(self):
        self.swarm(steps=20)
        made = self.member("made")
        self.wait_for_end(made.start())
        model = made.folder / "state" / "model"
        self.tracker.kill()
        self.swarm(steps=60, init="weights", model=str(model))
        has = self.member("has", f"model={model}").start()
        lacks = self.member("lacks").start()
        wrong = self.member("wrong", f"model={self.wrong_weights(model)}")
        self.assertEqual(wrong.start().wait(), 2, wrong.log())
        self.assertIn("root", wrong.log())
        self.wait_for_end(has, lacks)
        self.assertEqual(self.exported(has), self.exported(lacks))
        self.assert_one_root_a_round()

    def wrong_weights(self, model):
        """The same model with one bit of one weight changed."""
        folder = self.site.path / "wrong"
        shutil.copytree(model, folder)
        weights = bytearray((folder / "model.safetensors").read_bytes())
        weights[-1] ^= 0x01
        (folder / "model.safetensors").write_bytes(weights)
        return folder


class Refused(SwarmTest):
    def refused(self, member, code, *words):
        self.assertEqual(member.start().wait(), code, member.log())
        self.assertRegex(member.log(), r"(?s)skep: [^\n]+: [^\n]+\n$")
        for word in words:
            self.assertIn(word, member.log())

    def test_the_report_alone_changes_nothing(self):
        self.swarm()
        member = self.member("curious", "--check")
        self.assertEqual(member.start().wait(), 0, member.log())
        report = (member.folder / "output").read_text()
        for word in ("heather", "arena", "disk", "network"):
            self.assertIn(word, report)
        self.assertFalse((member.folder / "state").exists())
        curious = self.member("too", "--check", "--json")
        self.assertEqual(curious.start().wait(), 0, curious.log())
        found = json.loads((curious.folder / "output").read_text())
        self.assertTrue(found["fits"])
        arena = float(re.search(r"arena (\S+) MiB", report)[1])
        self.assertAlmostEqual(found["spaces"][0]["planned_bytes"] / 2**20, arena, delta=0.01)
        up = float(re.search(r"a round (\S+) KiB up", report)[1])
        self.assertAlmostEqual(found["round_up_bytes"] / 2**10, up, delta=1)

    def test_what_cannot_be_is_refused_with_a_reason(self):
        self.swarm(steps=1000000)  # the run must not end before `again` starts
        self.refused(self.member("shared", "optimizer.lr=1"), 2, "optimizer.lr")
        self.refused(self.member("many", "--ranks", "1025"), 2, "--ranks", "at most 1024")
        self.refused(self.member("tight", "limits.device=1MiB"), 3)
        self.refused(self.member("other", "data.train=valid.u16"), 2, "valid.u16")
        joined = self.member("twice").start()
        self.wait_for(lambda: joined.last() >= 1, "round")
        again = self.member("again")
        again.folder = joined.folder
        self.refused(again, 2, f"process {joined.process.pid}")

    def test_a_member_that_is_not_on_the_list_trains_once_its_key_is(self):
        self.swarm(steps=100000, roster="members:\n")
        stranger = self.member("stranger").start()
        self.wait_for(lambda: "this key: p" in stranger.log(), "word of the key")
        key = stranger.log().partition("this key: ")[2].split(";")[0]
        result = self.site.run("roster", "add", key, "--roster", "roster.yaml")
        self.assert_exit(result, 0)
        self.wait_for(lambda: stranger.last() >= 1, "round")
        stranger.ask_to_stop()
        self.wait_for_end(stranger, seconds=30)


if __name__ == "__main__":
    main()
