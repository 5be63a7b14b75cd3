"""A swarm with as many slices as there can be: members train, one joins late, one leaves, and the
ledger verifies. `small_slices` is `skep` with slices of 256 elements (tests/support)."""
import pathlib
import time

from loopback_swarm import SwarmTest
from small_run import LLAMA, main

# 16,384 slices of 256 elements: 4 layers of 256 x (1026 + 3 x 1000), 279 x 256, and one norm.
CONFIG = {**LLAMA, "vocab_size": 279, "hidden_size": 256, "intermediate_size": 1000,
          "num_hidden_layers": 4, "num_attention_heads": 8, "num_key_value_heads": 8,
          "tie_word_embeddings": True}
SLICES = 16384
ROUNDS = 4
ROUND_S = 120


def peak_mib(process):
    """The most memory that a running process has had, in MiB."""
    for line in pathlib.Path(f"/proc/{process.pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) // 1024
    return 0


class SwarmSlices(SwarmTest):
    def test_members_join_and_leave_with_the_most_slices(self):
        begun = time.monotonic()
        self.swarm(CONFIG, steps=2 * ROUNDS, swarm__inner_steps=1, batch__tokens=64, eval__every=0)
        first = self.member("first").start()
        second = self.member("second").start()
        self.wait_for_round(1, first, second)
        third = self.member("third").start()
        self.wait_for_round(first.last() + 1, third)
        leaving = time.monotonic()
        second.ask_to_stop()
        self.wait_for_end(second, seconds=ROUND_S)
        left = time.monotonic()
        self.wait_for_round(max(ROUNDS, first.last() + 1), first, third)
        print(f"{SLICES} slices: {first.last()} rounds in {time.monotonic() - begun:.0f} s, leave "
              f"{left - leaving:.0f} s; peak MiB: " +
              ", ".join(f"{each.name} {peak_mib(each.process)}"
                        for each in (self.tracker, first, third)))
        for member in (first, third):
            member.ask_to_stop()
        self.wait_for_end(first, third, seconds=ROUND_S)
        self.assert_one_root_a_round()
        history = self.assert_one_history()
        commits = [entry for entry in history if entry["kind"] == "commit"]
        self.assertGreaterEqual(len(commits), ROUNDS)
        for entry in commits:
            self.assertEqual(sum(member["owned"] for member in entry["members"]), SLICES)
        whole = [entry for entry in commits
                 if all(member["contributed"] == SLICES for member in entry["members"])]
        self.assertGreater(len(whole), 0, commits)

    def wait_for_round(self, number, *members):
        self.wait_for(lambda: min(member.last() for member in members) >= number,
                      f"round {number}", number * ROUND_S)


if __name__ == "__main__":
    main()
