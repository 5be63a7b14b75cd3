"""What operators and volunteers get wrong in the first minutes, and what they are told: data that
are missing or differ, keys and files in the place of others, ports, an allow-list and a state
folder."""
import socket
import time

from loopback_swarm import Process, SwarmTest
from small_run import TIMEOUT_S, RunTest, main


class Data(RunTest):
    def test_a_plan_says_that_the_data_are_missing(self):
        folder = self.folder()
        before = folder.run("plan", "run.yaml")
        self.assertNotIn("CANNOT TRAIN", before.stdout)
        self.assertEqual(self.document(folder.run("plan", "run.yaml", "--json"))["data"],
                         {"ok": True})
        for name, key in (("valid.u16", "data.validation"), ("train.u16", "data.train")):
            (folder.path / name).unlink()
            result = folder.run("plan", "run.yaml")
            self.assert_exit(result, 0)  # a plan needs no data
            self.assertRegex(result.stdout, rf"\ndata     CANNOT TRAIN: run.yaml:\d+:\d+: {key}: "
                                            rf"{name} does not exist; put it there")
            data = self.document(folder.run("plan", "run.yaml", "--json"), 0)["data"]
            self.assertFalse(data["ok"])
            self.assertRegex(data["subject"], r"run.yaml:\d+:\d+$")
            self.assertEqual(data["reason"], f"{key}: {name} does not exist")
            self.assertIn("put it there", data["remedy"])

    def test_a_plan_says_that_text_is_no_tokens(self):
        folder = self.folder({"model_type": "llama", "vocab_size": 32000, "hidden_size": 16,
                              "intermediate_size": 32, "num_hidden_layers": 1,
                              "num_attention_heads": 2, "num_key_value_heads": 2,
                              "max_position_embeddings": 64, "rms_norm_eps": 1e-5,
                              "tie_word_embeddings": False}, data__train="book.txt", init="random")
        (folder.path / "book.txt").write_text("It is a truth. " * 1000)
        result = folder.run("plan", "run.yaml")
        self.assertRegex(result.stdout, r"\ndata     CANNOT TRAIN: book.txt: is text, but this "
                                        r"model's tokens are not bytes; .*skep data")

    def test_a_tracker_names_the_key_and_the_line_of_missing_data(self):
        folder = self.folder(swarm__name="heather")
        (folder.path / "train.u16").unlink()
        result = folder.run("track", "run.yaml", "--listen", "tcp://127.0.0.1:0")
        self.assert_exit(result, 2)
        self.assertRegex(result.stderr, r"skep: run.yaml:\d+:\d+: data.train: train.u16 does not "
                                        r"exist; put it there, or correct the path")


class Given(SwarmTest):
    def setUp(self):
        super().setUp()
        self.swarm()

    def close_roster(self):
        self.set_roster("open: false\n")
        self.adds_members = False

    def says(self, words, *command, code=2):
        result = self.site.run(*command)
        self.assert_exit(result, code)
        self.assertIn(words, result.stderr if code else result.stdout)

    def test_a_run_file_or_a_key_is_not_a_swarm(self):
        key = self.join_string.partition("#")[2]
        for command in ("join", "status"):
            self.says("run.yaml: is a run file", command, "run.yaml")
            self.says("is a key, without the tracker's address; pass the whole join string, "
                      "in the form tcp://HOST:PORT#KEY", command, key)

    def test_an_edit_of_the_list_is_confirmed(self):
        key = self.site.run("keys", "--identity", "anna.identity").stdout.split()[-1]
        path = ["--roster", "list.yaml"]
        self.says("added anna; 1 member on the list\n", "roster", "add", key, "--name", "anna",
                  *path, code=0)
        self.says("anna already has this key", "roster", "add", key, *path)
        self.says("removed anna; 0 members on the list\n", "roster", "remove", "anna", *path,
                  code=0)
        self.says("pass the allow-list with --roster FILE", "roster", "list", "list.yaml")
        self.says("start `skep track` first, which creates the folder", "roster", "add", key,
                  "--roster", "none/list.yaml")

    def test_a_second_tracker_speaks_of_no_new_join_string(self):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            other = f"tcp://127.0.0.1:{probe.getsockname()[1]}"
        result = self.site.run("track", "run.yaml", "--state", "tracker", "--roster", "roster.yaml",
                               "--listen", other)
        self.assertNotEqual(result.returncode, 0)
        self.assertNotIn("has changed", result.stderr)
        self.tracker.kill()
        self.start_tracker(other)
        self.wait_for(lambda: "members need the new join string" in self.tracker.log(), "advice")

    def test_a_stranger_in_each_minute_is_one_line_for_each_key(self):
        self.close_roster()
        strangers = [self.member(name).start() for name in ("carl", "dora", "emil")]
        for stranger in strangers:
            self.wait_for(lambda one=stranger: "send the operator this key" in one.log(), "a key")
            stranger.kill()
            stranger.start()
        for name in ("carl", "dora", "emil"):
            key = self.site.run("keys", env={"XDG_CONFIG_HOME": str(
                self.site.path / name / "config")}).stdout.split()[-1]
            self.wait_for(lambda one=key: one in self.tracker.log(), "the key in the log")
            self.assertEqual(self.tracker.log().count(key), 1)

    def test_one_who_was_never_admitted_does_not_leave_after_a_round(self):
        self.close_roster()
        stranger = self.member("carl").start()
        self.wait_for(lambda: "send the operator this key" in stranger.log(), "a key")
        stranger.ask_to_stop()
        self.wait_for_end(stranger)
        self.assertIn("stopped waiting\n", stranger.log())
        self.assertNotIn("leaving the swarm after this round;", stranger.log())


class StateFolder(RunTest):
    LEDGER = "contains the ledger of a different swarm"

    def setUp(self):
        self.site = self.folder(swarm__name="heather")
        self.run_tracker()

    def run_tracker(self, *arguments):
        """Starts the tracker and stops it once it serves."""
        tracker = Process(self.site, "tracker", self.site.command(
            "track", "run.yaml", "--listen", "tcp://127.0.0.1:0", *arguments))
        self.addCleanup(tracker.kill)
        earlier = tracker.log().count("listening on")
        tracker.start()
        until = time.monotonic() + TIMEOUT_S
        while tracker.log().count("listening on") == earlier:
            self.assertLess(time.monotonic(), until, tracker.log())
            self.assertTrue(tracker.is_running(), tracker.log())
            time.sleep(0.05)
        tracker.ask_to_stop()
        self.assertEqual(tracker.wait(), 0, tracker.log())

    def files(self):
        """The bytes of each file in the working folder and the state folder."""
        return {str(path.relative_to(self.site.path)): path.read_bytes() if path.is_file() else None
                for path in self.site.path.rglob("*")}

    def refuses(self, file, words, *arguments):
        """The start is refused with a message about the file, and changes no byte."""
        before = self.files()
        result = self.site.run("track", "run.yaml", "--listen", "tcp://127.0.0.1:0", *arguments)
        self.assert_exit(result, 2)
        after = self.files()
        self.assertEqual([name for name in before.keys() | after.keys()
                          if before.get(name, 0) != after.get(name, 0)], [], result.stderr)
        self.assertIn(f"{file}: {words}", result.stderr)

    def test_a_folder_with_the_ledger_of_another_swarm_stays_as_it_is(self):
        self.refuses("tracker.db", self.LEDGER, "swarm.name=other")
        self.run_tracker()
        (self.site.path / "run" / "identity").unlink()
        self.refuses("tracker.db", self.LEDGER, "swarm.name=other")  # and no new identity

    def test_a_folder_of_a_swarm_whose_ledger_is_lost_stays_as_it_is(self):
        store = self.site.path / "run" / "tracker.db"
        safe = self.site.path / "tracker.copy"
        store.rename(safe)
        self.refuses("delegation.signed", "is the delegation of another swarm than other",
                     "swarm.name=other")
        safe.rename(store)
        self.run_tracker()

    def test_the_ledger_of_another_swarm_in_the_place_of_the_own_stays_as_it_is(self):
        self.run_tracker("swarm.name=other", "--state", "other")
        (self.site.path / "other" / "tracker.db").replace(self.site.path / "run" / "tracker.db")
        self.refuses("tracker.db", self.LEDGER)


class Ports(SwarmTest):
    def test_another_public_port_than_that_listened_on_is_warned_of(self):
        self.site = self.folder(swarm__name="heather")
        self.tracker = Process(self.site, "tracker", self.site.command(
            "track", "run.yaml", "--public", "tcp://127.0.0.1:17700"))
        self.addCleanup(self.tracker.kill)
        self.members = {}
        self.tracker.start()
        self.wait_for(lambda: "7700" in self.tracker.log() or "cannot listen" in self.tracker.log(),
                      "outcome")
        if "Address already in use" in self.tracker.log():
            self.skipTest("port 7700 is in use on this machine")
        self.wait_for(lambda: "unless a router forwards it and the next one, add --listen "
                              "tcp://*:17700" in self.tracker.log(), "warning")


if __name__ == "__main__":
    main()
