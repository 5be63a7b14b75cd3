"""What a swarm's processes hold does not grow with its rounds, and ZeroMQ stays within its line."""
import pathlib
import time

from loopback_swarm import SwarmTest
from small_run import LONG, main

SETTLED = 100 if LONG else 30  # rounds after which nothing may grow any more
ROUNDS = 2000 if LONG else 80
GROWTH = 1 << 20


def anonymous_bytes(process):
    for line in pathlib.Path(f"/proc/{process.pid}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    return None  # it is a zombie


class SwarmMemory(SwarmTest):
    def test_nothing_grows_from_round_to_round(self):
        # More rounds than are looked at, so that everybody still lives at the last look.
        self.swarm(steps=ROUNDS + 50, swarm__inner_steps=1, batch__tokens=64, eval__every=0,
                   swarm__members_min=3)
        members = [self.member(name, f"snapshot.every={10 * ROUNDS}").start()
                   for name in ("first", "second", "third")]
        watched = {member.name: member for member in [*members, self.tracker]}
        settled = self.bytes_at(SETTLED, watched, members)
        last = self.bytes_at(ROUNDS, watched, members)
        for name in watched:
            self.assertLessEqual(last[name] - settled[name], GROWTH,
                                 f"{name}: {settled} after round {SETTLED}, {last} after {ROUNDS}")
        for member in members:
            member.ask_to_stop()
        self.wait_for_end(*members)
        self.assert_one_root_a_round()
        for member in members:
            self.assert_within_plan(member)

    def bytes_at(self, number, watched, members):
        """Anonymous memory of each process when the slowest member has applied that round."""
        deadline = time.monotonic() + 5 * number + 60
        while min(member.last() for member in members) < number:
            self.assertLess(time.monotonic(), deadline, self.logs())
            self.assertTrue(all(member.is_running() for member in members), self.logs())
            time.sleep(0.5)
        return {name: anonymous_bytes(each.process) for name, each in watched.items()}

    def assert_within_plan(self, member):
        """The arena, and the lines for the program and for ZeroMQ, hold what the process held."""
        result = self.site.run("plan", self.site.path / "tracker" / "heather.skep", "--json",
                               "data.train=train.u16", "threads=1",
                               env={"STATE_DIRECTORY": str(member.folder / "state")})
        device = self.document(result)["spaces"][0]
        declared = {row["name"]: row["bytes"] for row in device["declared"]}
        room = declared["program, libraries and thread stacks"] + declared["ZeroMQ"]
        line = member.lines("memory")[-1]
        planned = sum(space["planned_bytes"] for space in line["spaces"])
        self.assertLessEqual(line["process_bytes"], planned + room)


if __name__ == "__main__":
    main()
