"""Members of a swarm that are sites of several ranks: the same roots as everybody's, whatever
number of ranks they have, had, or lose."""
import math
import os
import pathlib
import random
import re
import signal
import time
import unittest

from loopback_swarm import SwarmTest
from small_run import LONG, gone, main, ranks_of, wait_until

COUNTER = os.environ.get("COUNT_ALLOC", "")
ROUNDS = 24
STOP_S = 60  # a member that leaves waits for its round; the machine may do other work, too
# In write_tokens' text: the token that follows has 0.8 + 0.2 / 97, each of the others 0.2 / 97.
LOSS_OF_PAIRS = -(0.8 + 0.2 / 97) * math.log(0.8 + 0.2 / 97) - 96 * 0.2 / 97 * math.log(0.2 / 97)
KEPT = ("outer state", "exchange")  # roles of what a member keeps beside its program


def arena_bytes(pid):
    """Of a rank's own arena, what the kernel holds pages for."""
    mappings = pathlib.Path(f"/proc/{pid}/smaps").read_text().split("\nVmFlags")
    own = [text for text in mappings if " rw-s " in text and "skep arena" in text]
    return sum(1024 * int(re.search(r"^Rss: +(\d+)", text, re.M).group(1)) for text in own)


def place(rank):
    """The environment of one of two ranks that another launcher starts."""
    variables = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": 2, "LOCAL_WORLD_SIZE": 2,
                 "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": 20000 + os.getpid() % 10000}
    return {name: str(value) for name, value in variables.items()}


class SwarmSite(SwarmTest):
    def ranks(self, member, count):
        """rank -> process of a member of `count` ranks, once all are there."""
        self.wait_for(lambda: len(ranks_of(member.process.pid)) == count, f"{count} ranks")
        return ranks_of(member.process.pid)

    def start_first(self, name):
        """A member that is the first elector, so that it continues when another one is killed."""
        member = self.member(name).start()
        self.wait_for_round(member, 1)
        return member

    def wait_for_round(self, member, contributors):
        """One more round that so many had a part in."""
        before = member.last()
        self.wait_for(lambda: any(number > before and line["contributors"] >= contributors
                                  for number, line in member.rounds().items()),
                      f"round of {contributors} after {before}")

    def assert_ends(self, member, code):
        self.assertEqual(member.wait(STOP_S), code, self.logs())

    def test_sites_of_any_number_of_ranks_come_to_one_model(self):
        self.swarm(steps=10 * ROUNDS, swarm__members_min=3, eval__every=40)
        one = self.member("one", "swarm.record=one/record").start()
        two = self.member("two", "--ranks", "2", "swarm.record=two/record").start()
        three = self.member("three", "--ranks", "3", "strategy.zero=1").start()
        self.wait_for_end(one, two, three)
        roots = self.assert_one_root_a_round()
        self.assertEqual(len(roots[max(roots)]), 3, roots)
        self.assertEqual(max(line["contributors"] for line in two.rounds().values()), 3)
        commits = [entry for entry in self.assert_one_history() if entry["kind"] == "commit"]
        self.assertEqual(len(commits), ROUNDS)
        self.assertEqual(self.exported(one), self.exported(two))
        self.assertEqual(self.exported(one), self.exported(three))
        for number in one.rounds().keys() & two.rounds().keys():
            path = f"record/round-{number}/outer.safetensors"
            self.assertEqual((one.folder / path).read_bytes(), (two.folder / path).read_bytes())
        self.assert_learned(one, two)

    def assert_learned(self, one, two):
        """All ranks of a member evaluate the same weights as a member that is alone; between rounds
        only where there is the time."""
        alone, site = ({line["step"]: line["loss"] for line in member.lines("eval")}
                       for member in (one, two))
        self.assertTrue(10 * ROUNDS in alone and 10 * ROUNDS in site)
        for step in alone.keys() & site.keys():
            self.assertAlmostEqual(alone[step], site[step], places=4)
        self.assertLess(site[10 * ROUNDS], 1.1 * LOSS_OF_PAIRS)

    def test_several_ranks_train_what_one_trains(self):
        """Steps of more windows than one exchange between ranks carries, to rounding."""
        found = []
        for ranks in (1, 2, 3):
            self.swarm(steps=6, swarm__inner_steps=2, swarm__codec="fp32", swarm__patience=100,
                       batch__sequence=8, batch__tokens=8 * 600, batch__microbatch=40,
                       eval__every=2)
            member = self.member("alone", "--ranks", str(ranks)).start()
            self.wait_for_end(member)
            commits = [entry for entry in self.assert_one_history() if entry["kind"] == "commit"]
            self.assertEqual([entry["members"][0]["tokens"] for entry in commits],
                             3 * [2 * 8 * 600])
            found.append([line["loss"] for line in member.lines("round")] +
                         [member.lines("eval")[-1]["loss"]])
            self.tracker.kill()
        self.assertEqual(len(found[0]), 4)
        for losses in found[1:]:
            for one, several in zip(found[0], losses, strict=True):
                self.assertAlmostEqual(one, several, places=4)
        self.assertLess(found[0][-1], found[0][0])

    def test_what_only_rank_0_keeps_takes_no_memory_of_the_others(self):
        self.swarm(steps=10**6)
        member = self.member("site").start("--ranks", "3")
        ranks = self.ranks(member, 3)
        self.wait_for_round(member, 1)
        held = [arena_bytes(ranks[rank]) for rank in range(3)]
        planned, kept = self.planned("--ranks", 3)
        self.assertGreaterEqual(held[0], planned)
        for other in held[1:]:
            self.assertLess(other, held[0] - 0.95 * kept)
        member.ask_to_stop()
        self.assert_ends(member, 0)
        self.assertEqual(member.lines("start")[0]["ranks"], 3)
        told = member.lines("memory")[-1]["ranks"]
        self.assertEqual([rank["rank"] for rank in told], [0, 1, 2])
        first, *others = (sum(rank["high_water_bytes"].values()) for rank in told)
        self.assertEqual(first, planned)
        self.assertEqual(others, 2 * [planned - kept])

    def planned(self, *arguments):
        """Bytes of the arena, and those of it that are kept for the swarm."""
        result = self.site.run("plan", self.site.path / "tracker" / "heather.skep", "--json",
                               "data.train=train.u16", "threads=1", *arguments)
        document = self.document(result)
        self.assertIn("inner weights", [extent["name"] for extent in document["extents"]])
        return document["spaces"][0]["peak_bytes"], sum(
            extent["bytes"] for extent in document["extents"] if extent["role"] in KEPT)

    def test_one_that_loses_a_rank_goes_on_with_any_number(self):
        self.swarm(steps=10**6, swarm__codec="int4")
        stays = self.start_first("stays")
        loses = self.member("loses", "snapshot.every=30")
        for count, victim, number in ((2, 1, signal.SIGKILL), (3, 0, signal.SIGKILL),
                                      (2, 1, signal.SIGSTOP)):
            loses.start("--ranks", str(count))
            ranks = self.ranks(loses, count)
            self.wait_for_round(loses, 2)
            os.kill(ranks[victim], number)
            self.assert_ends(loses, 4)
            self.assertIn(f"rank {victim}", loses.log().splitlines()[-1])
            self.assertTrue(all(gone(pid) for pid in ranks.values()))
            self.wait_for_round(stays, 1)
        for arguments in ((), ("--ranks", "4")):
            loses.start(*arguments)
            self.wait_for_round(loses, 2)
            loses.ask_to_stop()
            self.assert_ends(loses, 0)
        stays.ask_to_stop()
        self.assert_ends(stays, 0)
        self.assertIn("resuming from", loses.log().rpartition("4 ranks")[2])
        self.assert_one_root_a_round()
        history = self.assert_one_history()
        self.assertFalse([entry for entry in history if entry["kind"] == "rollback"])

    def test_a_site_killed_at_any_moment_with_any_ranks_costs_no_round(self):
        """One of its ranks, or the launcher, which takes them along; a seed is printed."""
        seed = int(os.environ.get("SWARM_SEED", random.randrange(10**6)))
        chance = random.Random(seed)
        self.swarm(steps=10**6, swarm__inner_steps=2, batch__tokens=64,
                   swarm__codec=chance.choice(["int8", "int4"]), precision__params="bf16",
                   precision__compute="bf16", eval__every=6)
        stays = self.start_first("stays")
        site = self.member("site", f"snapshot.every={chance.choice([4, 10, 1000])}")
        for turn in range(40 if LONG else 4):
            count = chance.randint(2, 4)
            site.start("--ranks", str(count), f"strategy.zero={chance.randrange(4)}")
            ranks = self.ranks(site, count)
            time.sleep(3 * chance.random())  # the moment of the kill
            launcher = chance.random() < 0.3
            victim = site.process.pid if launcher else ranks[chance.randrange(count)]
            os.kill(victim, signal.SIGKILL)
            code = site.wait(STOP_S)
            self.assertIn(code, (-signal.SIGKILL,) if launcher else (4, 128 + signal.SIGKILL),
                          f"turn {turn} of seed {seed}\n{self.logs()}")
            self.wait_for(lambda pids=ranks: all(gone(pid) for pid in pids.values()),
                          f"end of all ranks in turn {turn} of seed {seed}")
        site.start("--ranks", "2")
        self.wait_for_round(site, 2)
        for member in (site, stays):
            member.ask_to_stop()
        self.wait_for_end(site, stays, seconds=STOP_S)
        self.assert_one_root_a_round()
        self.assertFalse([entry for entry in self.assert_one_history()
                          if entry["kind"] == "rollback"], f"seed {seed}")

    def test_whoever_of_its_processes_is_asked_it_leaves(self):
        self.swarm(steps=10**6)
        stays = self.member("stays").start()
        leaves = self.member("leaves")
        for number, asked in ((signal.SIGTERM, None), (signal.SIGINT, 1), (signal.SIGHUP, 0)):
            leaves.start("--ranks", "2")
            ranks = self.ranks(leaves, 2)
            self.wait_for_round(leaves, 2)
            os.kill(leaves.process.pid if asked is None else ranks[asked], number)
            self.assert_ends(leaves, 0)
            self.assertEqual(leaves.lines("end")[-1]["reason"], "stopped")
        stays.ask_to_stop()
        self.assert_ends(stays, 0)
        self.assertEqual(len(leaves.lines("end")), 3)
        self.assert_one_root_a_round()
        self.assert_one_history()

    def test_a_rank_that_is_asked_within_a_long_evaluation_ends_it(self):
        for ranks in ("2", "3"):
            self.swarm(steps=20, held_out=50000000 * b"\1\0")
            member = self.member(f"of-{ranks}", "eval.tokens=0").start("--ranks", ranks)
            pids = self.ranks(member, int(ranks))
            self.wait_for(lambda member=member: member.last() >= 2, "last round")
            time.sleep(2)  # and what comes before the last evaluation
            self.assertTrue(member.is_running(), member.log())
            os.kill(pids[1], signal.SIGTERM)
            self.assert_ends(member, 0)
            self.assertFalse(member.lines("eval"))
            self.tracker.kill()

    def test_a_second_wish_ends_all_ranks_at_once(self):
        self.swarm(steps=10**6)
        member = self.member("alone", "stop_within=100").start("--ranks", "2")
        ranks = self.ranks(member, 2)
        self.wait_for_round(member, 1)
        self.tracker.kill()
        self.wait_for(lambda: "the tracker at" in member.log(), "word of the tracker's end")
        member.ask_to_stop()
        self.wait_for(lambda: "leaving the swarm after this round;" in member.log(),
                      "word of leaving")
        time.sleep(0.5)  # what comes at once is the same wish
        member.ask_to_stop()
        self.assert_ends(member, 128 + signal.SIGTERM)
        self.assertTrue(wait_until(lambda: all(gone(pid) for pid in ranks.values()), 20))

    def test_a_rank_that_is_asked_while_rank_0_waits_for_the_tracker_ends_all(self):
        self.swarm()
        self.tracker.kill()
        member = self.member("early").start("--ranks", "2")
        ranks = self.ranks(member, 2)
        self.wait_for(lambda: "retrying until it answers" in member.log(), "patience")
        os.kill(ranks[1], signal.SIGTERM)
        self.assert_ends(member, 0)

    @unittest.skipIf(not COUNTER, "no counter was built")
    def test_no_rank_allocates_after_the_seal(self):
        """Of a member that another launcher starts, through rounds, evaluations, snapshots."""
        self.swarm(steps=100, swarm__codec="int4", eval__every=20)
        ranks = []
        for rank in range(2):
            ranks.append(self.member("site", "snapshot.every=20").start(
                LD_PRELOAD=COUNTER, COUNT_ALLOC_ZMQ="1",
                COUNT_ALLOC_REPORT=str(self.site.path / f"report-{rank}"),
                **place(rank)))
        self.wait_for_end(*ranks)
        self.assertEqual(len(ranks[0].rounds()), 10)
        for rank in range(2):
            first, *callers = (self.site.path / f"report-{rank}").read_text().splitlines()
            self.assertEqual(int(first.split()[1]), 0, "\n".join([f"rank {rank}", *callers]))

    def test_the_report_of_several_ranks_charges_what_one_keeps_once(self):
        self.swarm()
        manifest = self.site.path / "tracker" / "heather.skep"

        def device(*arguments):
            result = self.site.run("plan", manifest, "--json", "data.train=train.u16", "target=cpu",
                                   *arguments)
            document = self.document(result)
            space = document["spaces"][0]
            room = space["capacity_bytes"] - sum(line["bytes"] for line in space["declared"])
            kept = sum(extent["bytes"] for extent in document["extents"]
                       if extent["role"] in KEPT)
            zmq = sum(line["bytes"] for line in space["declared"] if line["name"] == "ZeroMQ")
            return room, kept, zmq

        room, kept, _ = device("--ranks", "1")
        for ranks in (2, 4):
            each, of_site, _ = device("--ranks", str(ranks))
            together = ranks * (each - of_site) + of_site  # all that the ranks may take
            self.assertAlmostEqual(together / room, 1, places=3)
            self.assertGreater(of_site, kept)  # the inner weights
        self.check_takes_the_number_of_ranks(manifest)

    def check_takes_the_number_of_ranks(self, manifest):
        """Of those that it is asked for, and of those that another launcher starts."""
        def report(*arguments, **environment):
            result = self.site.run("join", manifest, "--check", "data.train=train.u16", *arguments,
                                   env={"XDG_CONFIG_HOME": str(self.site.path / "config"),
                                        **environment})
            self.assert_exit(result, 0)
            return result.stdout

        def memory(text):
            return [line for line in text.splitlines() if line.startswith(("device ", "ranks "))]

        asked = memory(report("--ranks", "2"))
        self.assertEqual(len(asked), 2)
        self.assertEqual(memory(report(**place(0))), asked)
        self.assertEqual(report(**place(1)), "")
        self.assertEqual(len(memory(report())), 1)
        self.assertFalse((self.site.path / "state").exists())

    def test_a_site_of_gpus_is_refused_in_words(self):
        self.swarm()
        manifest = self.site.path / "tracker" / "heather.skep"
        for command in (("plan", manifest), ("join", manifest, "--check")):
            result = self.site.run(*command, "--ranks", "2", "--target", "rtx4090-24g",
                                   "data.train=train.u16",
                                   env={"XDG_CONFIG_HOME": str(self.site.path / "config")})
            self.assert_exit(result, 2)
            self.assertRegex(result.stderr,
                             "rtx4090-24g: a member with several ranks .*; start one")


if __name__ == "__main__":
    main()
