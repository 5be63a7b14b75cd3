"""A swarm has one history: a member that was started again follows no tracker to another one."""
import shutil

from loopback_swarm import SwarmTest
from small_run import main

OTHER = "this tracker's ledger is not the one that this member followed"


class History(SwarmTest):
    def swarm_of_two(self):
        self.swarm(steps=10**6)
        members = [self.member(name, "snapshot.every=50").start() for name in ("first", "second")]
        self.wait_for_rounds(members, 4)
        return members

    def wait_for_rounds(self, members, more):
        last = max(member.last() for member in members)
        self.wait_for(lambda: min(member.last() for member in members) >= last + more, "rounds")

    def stores(self):
        return list((self.site.path / "tracker").glob("tracker.db*"))

    def end_tracker(self):
        self.tracker.ask_to_stop()
        self.assertEqual(self.tracker.wait(), 0, self.tracker.log())

    def keep_store(self, name):
        folder = self.site.path / name
        folder.mkdir()
        for path in self.stores():
            shutil.copy(path, folder)
        return folder

    def put_store_back(self, folder):
        for path in self.stores():
            path.unlink()
        for path in folder.iterdir():
            shutil.copy(path, self.site.path / "tracker")

    def start_tracker_again(self, *more):
        self.start_tracker(self.join_string.partition("#")[0], *more)

    def end_well(self, members):
        for member in members:
            member.ask_to_stop()
        self.wait_for_end(*members, seconds=30)
        self.assert_one_root_a_round()
        return self.assert_one_history()

    def test_an_older_ledger_of_the_tracker_leads_nobody_astray(self):
        """Members that were started again, one of them without an orderly end."""
        members = self.swarm_of_two()
        self.end_tracker()
        older = self.keep_store("older")
        self.start_tracker_again()
        self.wait_for_rounds(members, 4)
        members[0].kill()
        members[1].ask_to_stop()
        self.wait_for_end(members[1], seconds=30)
        self.end_tracker()
        newest = self.keep_store("newest")
        stood = [member.last() for member in members]
        ledgers = [member.ledger().read_bytes() for member in members]

        self.put_store_back(older)
        self.start_tracker_again()
        for member in members:
            member.start()
        self.wait_for(lambda: all(OTHER in member.log() for member in members), "refusal")
        self.assertEqual([member.last() for member in members], stood, self.logs())
        self.assertEqual([member.ledger().read_bytes() for member in members], ledgers)
        for member in members:
            self.assertTrue(member.is_running(), member.log())
            _, _, since = member.log().rpartition("resuming from")
            admitted = since.count("joined heather") + since.count("reconnected to the tracker")
            self.assertLessEqual(since.count(OTHER), admitted, member.log())
            self.assertIn("restore the newest state of the tracker", member.log())
        self.end_tracker()
        self.put_store_back(newest)
        self.start_tracker_again()
        self.wait_for_rounds(members, 2)
        self.assertFalse([entry for entry in self.end_well(members)
                          if entry["kind"] == "rollback"])

    def test_a_copy_that_was_cut_short_goes_on_and_one_that_was_changed_does_not(self):
        members = self.swarm_of_two()
        cut, changed = members
        for member in members:
            member.kill()
        whole = changed.ledger().read_text()
        lines = whole.splitlines(keepends=True)
        cut.ledger().write_text(cut.ledger().read_text() + lines[2][:len(lines[2]) // 2])
        root = lines[2].index('"root": "') + len('"root": "')
        other = "0" if lines[2][root] != "0" else "1"
        lines[2] = lines[2][:root] + other + lines[2][root + 1:]
        changed.ledger().write_text("".join(lines))
        cut.start()
        changed.start()
        self.assertEqual(changed.wait(), 2, changed.log())
        self.assertRegex(changed.log(),
                         r"skep: [^\n]+ledger\.jsonl:3: the entry [^\n]+; restore [^\n]+\n$")
        self.assertEqual(changed.ledger().read_text(), "".join(lines))
        changed.ledger().write_text(whole)
        changed.start()
        self.wait_for_rounds(members, 2)
        self.end_well(members)

    def test_a_copy_that_was_lost_does_not_let_the_state_go_back(self):
        """The ledger of the tracker must at least reach the state that is there."""
        members = self.swarm_of_two()
        self.end_tracker()
        older = self.keep_store("older")
        self.start_tracker_again()
        self.wait_for_rounds(members, 4)
        for member in members:
            member.kill()
        self.end_tracker()
        newest = self.keep_store("newest")
        for member in members:
            member.ledger().unlink()
        stood = [member.last() for member in members]
        self.put_store_back(older)
        self.start_tracker_again()
        for member in members:
            member.start()
        self.wait_for(lambda: all(OTHER in member.log() for member in members), "refusal")
        self.end_tracker()
        self.assertEqual([member.last() for member in members], stood, self.logs())
        self.put_store_back(newest)
        self.start_tracker_again()
        self.wait_for_rounds(members, 2)
        self.end_well(members)

    def lose_store(self):
        self.tracker.kill()
        for path in self.stores():
            path.unlink()

    def refused(self, *more, place="tracker.db"):
        result = self.site.run("track", "run.yaml", "--state", "tracker", "--roster", "roster.yaml",
                               "--listen", self.join_string.partition("#")[0], *more)
        self.assert_exit(result, 2)
        self.assertRegex(result.stderr, rf"^skep: [^\n]*{place}: [^\n]+; [^\n]+\n$")
        return result.stderr

    def test_a_tracker_that_lost_its_ledger_goes_on_from_a_members(self):
        """One member runs all the time, the other is started again."""
        members = stays, dies = self.swarm_of_two()
        self.lose_store()
        dies.kill()
        stood = max(member.last() for member in members)
        said = self.refused()
        self.assertIn("--ledger FILE", said)
        self.assertIn("heather.skep", said)
        self.assertEqual(self.stores(), [])
        (self.site.path / "tracker" / "tracker.db").touch()  # as a disk leaves what it lost
        self.refused()
        longest = max((member.ledger() for member in members), key=lambda path: path.stat().st_size)
        copy = self.site.path / "copy.jsonl"
        lines = longest.read_text().splitlines(keepends=True)
        lines = [line for line in lines if line.endswith("\n")]  # one was cut short by the kill
        copy.write_text("".join(lines))
        (self.site.path / "changed.jsonl").write_text(
            "".join([*lines[:2], lines[2].replace('"prev": "', '"prev": "0', 1), *lines[3:]]))
        self.refused("--ledger", "changed.jsonl", place=r"changed\.jsonl:3")
        self.refused()
        self.start_tracker_again("--ledger", str(copy))
        dies.start()
        self.wait_for(lambda: min(member.last() for member in members) >= stood + 3, "rounds")
        self.end_tracker()
        self.assertIn("start without", self.refused("--ledger", "copy.jsonl"))
        self.start_tracker_again()
        self.wait_for_rounds(members, 2)
        self.assertTrue(stays.is_running())
        self.assertFalse([entry for entry in self.end_well(members)
                          if entry["kind"] == "rollback"])

    def test_a_folder_of_another_swarm_of_that_name_is_refused(self):
        """What says whose it is may be lost, but not all of it."""
        members = self.swarm_of_two()
        for process in [*members, self.tracker]:
            process.kill()
        before = {path: path.read_bytes() for path in (members[0].folder / "state").rglob("*")
                  if path.is_file() and path.name != "lock" and path.suffix != ".new"}
        (self.site.path / "tracker").rename(self.site.path / "tracker-before")
        (self.site.path / "heather.skep").unlink()
        self.tracker.folder.mkdir()
        self.start_tracker("tcp://127.0.0.1:0")
        state = members[0].folder / "state"
        for lost in ([], ["ledger.jsonl"], ["swarm"], ["swarm", "ledger.jsonl"]):
            for name in lost:
                (state / name).unlink()
            again = self.member("first")
            self.assertEqual(again.start().wait(), 2, again.log())
            self.assertRegex(again.log(), rf"skep: {state}: [^\n]+; set XDG_STATE_HOME[^\n]+\n$")
            for path, content in before.items():
                self.assertEqual(path.read_bytes() if path.exists() else b"",
                                 b"" if path.name in lost else content, path.name)
                path.write_bytes(content)
        fresh = self.member("fresh").start()
        self.wait_for(lambda: fresh.last() >= 2, "rounds of the new swarm")


if __name__ == "__main__":
    main()
