"""Swarms with the sparse codec: members that are killed, leave, return and join late; rounds that
are computed again from what their members recorded; and settings that the codec rules out."""
import json
import math
import pathlib
import struct

from loopback_swarm import SwarmTest
from small_run import LLAMA, main, tensors_of

# 0.9 million parameters: five slices.
MODEL = {**LLAMA, "hidden_size": 128, "intermediate_size": 384, "num_hidden_layers": 4}
SPARSE = {"swarm__codec": "sparse", "swarm__outer_lr": 1, "optimizer__lr": 0.002}
NORM_CLIP, NORM_VALUE = 2, 8  # as runtime/swarm/ledger/norms.h has them


def floats(data):
    return struct.unpack(f"<{len(data) // 4}f", data)


class Sparse(SwarmTest):
    def lines_of(self, member):
        return [json.loads(line) for line in member.ledger().read_text().splitlines()]

    def test_members_are_killed_leave_return_and_join_late(self):
        self.swarm(config=MODEL, steps=160, **SPARSE)
        first, second, third = (self.member(name).start() for name in ("first", "second", "third"))
        self.wait_for(lambda: first.last() >= 3, "rounds of three")
        third.kill()
        before = first.last()
        self.wait_for(lambda: first.last() >= before + 2, "rounds without the killed member")
        third.start()  # replays its own disk, then what it has missed
        late = self.member("late").start()
        self.wait_for(lambda: any(line["contributors"] == 4 for line in first.rounds().values()),
                      "a round of four")
        second.ask_to_stop()
        self.wait_for_end(second)
        second.start()
        self.wait_for_end(first, second, third, late)
        roots = self.assert_one_root_a_round()
        # a member that returns at the end fetches the last state without applying a round
        self.assertGreaterEqual(len(roots[max(roots)]), 3)
        self.assert_one_history()
        self.assertEqual({self.exported(member) for member in (second, third, late)},
                         {self.exported(first)})
        losses = [line["loss"] for line in first.lines("round") if line["loss"] is not None]
        self.assertLess(losses[-1], losses[0] - 0.3)

    # ---- rounds computed again ----

    def test_recorded_rounds_can_be_computed_again(self):
        self.swarm(config=MODEL, steps=40, swarm__members_min=3, swarm__patience=50,
                   swarm__sparse_values=32, **SPARSE)
        members = [self.member(name, f"swarm.record=record-{name}").start()
                   for name in ("first", "second", "third")]
        self.wait_for_end(*members)
        self.assert_one_history()
        commits = {line["round"]: line for line in self.lines_of(members[0])
                   if line["kind"] == "commit"}
        self.assertEqual(len(commits), 4)
        for number in sorted(commits)[1:]:
            self.check_round(number, commits[number])

    def record(self, name, number, file, tensor):
        path = pathlib.Path(self.site.path) / f"record-{name}" / f"round-{number}" / file
        return floats(tensors_of(path)[tensor][2])

    def check_round(self, number, commit):
        records = {name: self.record(name, number, "declared.safetensors", "contribution")
                   for name in ("first", "second", "third")}
        before = self.record("first", number - 1, "outer.safetensors", "params")
        after = self.record("first", number, "outer.safetensors", "params")
        line = json.loads((self.site.path / "record-first" / f"round-{number}" /
                           "commit.json").read_text())
        clips = [min(1, NORM_CLIP * commit["reference_norm"] / member["norm"])
                 for member in line["members"]]
        weights = [member["weight"] for member in line["members"]]
        norms = {name: math.sqrt(sum(value * value for value in values))
                 for name, values in records.items()}
        sent = []  # in the order of seats: each member declared the norm of one record
        for member in line["members"]:
            name = min(norms, key=lambda name: abs(norms[name] - member["norm"]))
            self.assertAlmostEqual(norms.pop(name) / member["norm"], 1, places=9)
            sent.append(records[name])
        # no value of these contributions is near the limit of a single value
        blocks = -(-len(before) // 4096)
        limit = NORM_VALUE * commit["reference_norm"] / math.sqrt(32 * blocks)
        self.assertLess(max(max(map(abs, values)) for values in sent), limit)
        moved = 0
        for part in line["slices"]:
            seats = part["contributors"]
            self.assertLessEqual(set(seats), {0, 1, 2})
            for i in range(part["begin"], part["end"]):
                senders = [seat for seat in seats if sent[seat][i] != 0]
                total = sum(weights[seat] for seat in senders)
                mean = sum(weights[seat] * clips[seat] * sent[seat][i]
                           for seat in senders) / total if senders else 0
                moved += mean != 0
                self.assertAlmostEqual(after[i], before[i] - mean, delta=1e-6 * (1 + abs(mean)))
        self.assertGreater(moved, 32 * blocks)  # members send different elements

    # ---- a run that diverges ----

    def test_a_run_that_diverges_ends(self):
        self.swarm(steps=100000, swarm__codec="sparse", swarm__outer_lr=1, optimizer__lr=1000)
        member = self.member("alone").start()
        self.assertEqual(member.wait(), 1, member.log())
        self.assertRegex(member.log(), r"skep: heather: the run has diverged: [^\n]+; [^\n]+\n$")

    # ---- settings ----

    def rejected(self, *arguments, words):
        result = self.site.run(*arguments)
        self.assert_exit(result, 2)
        for word in words:
            self.assertIn(word, result.stderr)

    def test_manifest_plan_and_check(self):
        self.swarm(config=MODEL, steps=1000, swarm__sparse_bits=1, **SPARSE)
        manifest = (self.site.path / "tracker" / "heather.skep").read_text()
        self.assertIn("swarm.sparse_values: 64", manifest)
        self.assertIn("swarm.sparse_bits: 1", manifest)
        self.assertNotIn("momentum", manifest)
        plan = self.document(self.site.run("plan", self.told["manifest"], "--json"))
        sizes = {extent["name"]: extent["bytes"] for extent in plan["extents"]}
        self.assertNotIn("outer momentum", sizes)
        self.assertNotIn("re-encoding residual", sizes)
        count = sizes["outer params"] // 4
        self.assertEqual(sizes["error feedback"], 4 * count)
        self.assertEqual(sizes["own contribution"], 74 * -(-count // 4096))  # 74 bytes a block
        check = self.document(self.site.run("join", self.join_string, "--check", "--json",
                                            "data.train=train.u16", "data.validation=valid.u16"))
        self.assertEqual(check["join_bytes"], 4 * count)
        self.rejected("plan", self.told["manifest"], "--target", "rtx4090-24g",
                      words=["rtx4090-24g", "sparse", "target=cpu"])
        self.rejected("plan", self.told["manifest"], "swarm.sparse_bits=2",
                      words=["swarm.sparse_bits", "1 in the swarm heather"])

    def test_outer_momentum_and_useless_keys_are_rejected(self):
        self.swarm(config=MODEL, steps=1000, **SPARSE)
        for key, words in (("swarm.outer_momentum=0.5", ["swarm.outer_momentum", "swarm.codec"]),
                           ("swarm.outer_gain=1", ["swarm.outer_gain", "swarm.codec"]),
                           ("swarm.sparse_values=65", ["swarm.sparse_values"])):
            self.rejected("track", "run.yaml", "--state", "other", key, words=words)
        self.rejected("track", "run.yaml", "--state", "other", "swarm.codec=int8",
                      "swarm.sparse_bits=4", words=["swarm.sparse_bits", "swarm.codec"])


if __name__ == "__main__":
    main()
