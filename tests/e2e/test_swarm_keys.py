"""The operator replaces a tracker's key: members and newcomers find the new key with their join
string, and no member follows a tracker with the old one."""
import base64
import json
import time

from loopback_swarm import SwarmTest
from small_ledger import Signer, blake, keys_of, message_pack
from small_run import main


class ReplacedKey(SwarmTest):
    def setUp(self):
        self.swarm(steps=100000)
        self.state = self.site.path / "tracker"
        self.safe = self.site.path / "safe.key"
        (self.state / "operator.key").rename(self.safe)  # the operator keeps it elsewhere

    def delegate(self, key, *more):
        return self.site.run("track", "run.yaml", "--state", "tracker", "--operator-key", self.safe,
                             "--delegate", key, "--json", *more)

    def new_identity(self):
        path = self.state / "identity.new"
        return path, self.site.run("keys", "--identity", path).stdout.strip()

    def wait_for_tracker_to_end(self):
        self.wait_for(lambda: not self.tracker.is_running(), "end of the tracker", 10)
        self.assertEqual(self.tracker.process.returncode, 2, self.tracker.log())

    def test_members_follow_a_new_key_with_the_old_join_string(self):
        join, listen = self.join_string, self.join_string.partition("#")[0]
        members = [self.member("anna").start(), self.member("bert").start()]
        self.wait_for(lambda: min(member.last() for member in members) >= 2, "rounds")
        first = (self.state / "delegation.signed").read_bytes()
        identity, key = self.new_identity()
        signed = self.delegate(key)
        self.assert_exit(signed, 0)
        self.assertEqual(json.loads(signed.stdout)["tracker"], key)
        self.wait_for_tracker_to_end()
        self.assertIn("delegated the swarm to a tracker with another key", self.tracker.log())
        before = max(member.last() for member in members)

        begun = time.monotonic()
        self.start_tracker(listen, "--identity", str(identity))
        self.assertEqual(self.join_string, join)
        self.wait_for(lambda: min(member.last() for member in members) > before + 2, "new rounds")
        print(f"first rounds with the new key after {time.monotonic() - begun:.1f} s")
        late = self.member("carl").start()
        self.wait_for(lambda: late.last() > 0, "rounds of a newcomer")
        status = self.site.run("status", join, "--json")
        self.assert_exit(status, 0)

        # The first delegation, replayed, changes nothing while the tracker runs.
        newest = (self.state / "delegation.signed").read_bytes()
        (self.state / "delegation.signed").write_bytes(first)
        self.wait_for(lambda: "older than the one in use; it is ignored" in self.tracker.log(),
                      "word of the old delegation", 10)
        self.assertTrue(self.tracker.is_running())
        (self.state / "delegation.signed").write_bytes(newest)

        for member in [*members, late]:
            member.ask_to_stop()
        self.wait_for_end(*members, late, seconds=60)
        self.assert_one_root_a_round()
        history = self.assert_one_history()
        named = [entry["delegation"]["tracker"] for entry in history if "delegation" in entry]
        self.assertEqual(len(named), 2)
        self.assertEqual(named[1], key)

        # The old key is delegated no more, so a tracker with it does not start.
        self.tracker.kill()
        self.tracker.start("--listen", listen)
        self.wait_for_tracker_to_end()
        self.assertIn("--delegate", self.tracker.log())

    def test_a_replayed_delegation_is_not_followed_by_a_member_that_saw_a_newer_one(self):
        listen = self.join_string.partition("#")[0]
        member = self.member("anna").start()
        self.wait_for(lambda: member.last() >= 1, "a round")
        first = (self.state / "delegation.signed").read_bytes()
        identity, key = self.new_identity()
        self.assert_exit(self.delegate(key), 0)
        self.wait_for_tracker_to_end()
        store = {path: path.read_bytes() for path in self.state.glob("tracker.db*")}
        self.start_tracker(listen, "--identity", str(identity))
        before = member.last()
        self.wait_for(lambda: member.last() > before + 1, "rounds with the new key")
        # The holder of the old key starts its tracker again, with its old delegation and ledger.
        self.tracker.kill()
        (self.state / "delegation.signed").write_bytes(first)
        self.tracker.start("--listen", listen)  # the newer ledger betrays that it is too old
        self.wait_for_tracker_to_end()
        self.assertIn("contains a newer delegation", self.tracker.log())
        for path in self.state.glob("tracker.db*"):
            path.unlink()
        for path, content in store.items():
            path.write_bytes(content)
        self.start_tracker(listen)
        self.wait_for(lambda: "is older than the newest known one" in member.log(),
                      "word of the replay", 20)
        before = member.last()
        time.sleep(3)
        self.assertEqual(member.last(), before)
        member.kill()
        member.start()  # it knows the newer one from its file
        self.wait_for(lambda: member.log().count("older than the newest known one") > 1,
                      "word of the replay after a restart", 20)
        self.assertEqual(member.last(), before)
        member.kill()

    def test_a_delegation_ends_and_is_renewed(self):
        own = self.site.run("keys", "--identity", self.state / "identity").stdout.strip()
        signed = self.delegate(own, "--days", "1")
        self.assert_exit(signed, 0)
        document = json.loads(signed.stdout)
        self.assertAlmostEqual(document["expires_s"], time.time() + 86400, delta=60)
        self.wait_for(lambda: f"delegation has serial {document['serial']}"
                      in self.tracker.log(), "word of the renewal", 10)
        member = self.member("anna").start()
        self.wait_for(lambda: member.last() >= 2, "rounds")
        member.ask_to_stop()
        self.wait_for_end(member)
        history = [json.loads(line) for line in member.ledger().read_text().splitlines()]
        self.assertEqual([entry["delegation"]["serial"] for entry in history
                          if "delegation" in entry][-1], document["serial"])

    def doctor(self, swarm):
        """The check of the delegation."""
        report = json.loads(self.site.run("doctor", swarm, "--json").stdout)
        check, = (check for check in report["checks"] if check["name"] == "delegation")
        return check["verdict"], check["found"], check["remedy"]

    def test_doctor_says_how_long_the_delegation_is_valid(self):
        own = self.site.run("keys", "--identity", self.state / "identity").stdout.strip()
        sentence = "the operator's delegation to the tracker "
        self.assertEqual(self.doctor("heather.skep"), ("ok", sentence + "does not expire", ""))
        for days, verdict, found in ((30, "ok", r"expires in (29|30) days$"),
                                     (5, "warning",
                                      r"expires in [45] days, and then the tracker ends$")):
            serial = json.loads(self.delegate(own, "--days", str(days)).stdout)["serial"]
            self.wait_for(lambda: f"delegation has serial {serial}"
                          in self.tracker.log(), "renewal", 10)
            got = self.doctor(self.join_string)
            self.assertEqual(got[0], verdict)
            self.assertRegex(got[1], sentence + found)
            self.assertEqual("skep track RUN.yaml --delegate KEY" in got[2], days == 5)
        self.tracker.kill()
        verdict, found, remedy = self.doctor(self.join_string)
        self.assertEqual(verdict, "failed")
        self.assertIn("no answer within 5 s", found)
        self.assertIn("check that the tracker is running", remedy)
        names = [check["name"] for check in
                 json.loads(self.site.run("doctor", "--json").stdout)["checks"]]
        self.assertNotIn("delegation", names)
        self.assert_exit(self.site.run("doctor", "run.yaml"), 2)

    def write_delegation(self, key, expires_s):
        """A delegation for less than a day, which `skep track` does not sign."""
        path = self.state / "delegation.signed"
        text = self.safe.read_text().split()[1].upper()
        operator = Signer(seed=base64.b32decode(text)[33:65])
        curve, sign = keys_of(key)
        document = {"swarm": bytes.fromhex(self.told["hash"]), "serial": int(time.time()) + 1,
                    "expires_s": expires_s, "curve": curve, "sign": sign}
        signature = operator.sign(blake(message_pack(document)), b"skep delegation")
        frame = message_pack({"document": document, "signature": signature})
        beside = self.state / "delegation.new"
        beside.write_bytes(path.read_bytes()[:6] + len(frame).to_bytes(2, "little") + frame)
        beside.replace(path)

    def test_a_delegation_that_expires_ends_the_tracker_and_members_wait(self):
        own = self.site.run("keys", "--identity", self.state / "identity").stdout.strip()
        listen = self.join_string.partition("#")[0]
        expires_s = int(time.time()) + 9
        self.write_delegation(own, expires_s)
        self.wait_for(lambda: "delegation to this tracker expires in" in self.tracker.log(),
                      "a warning", 4)
        member = self.member("anna").start()
        self.wait_for(lambda: member.last() >= 1, "a round", 5)
        self.assertIn(f"--delegate {own}", self.tracker.log())
        status = json.loads(self.site.run("status", self.join_string, "--json").stdout)
        self.assertEqual(status["delegation"]["expires_s"], expires_s)
        self.assertRegex(self.site.run("status", self.join_string).stdout,
                         r"\ndelegation expires in \d s: ")
        self.wait_for_tracker_to_end()
        self.assertGreaterEqual(time.time(), expires_s)
        self.assertIn("has expired; sign a new one with `skep track", self.tracker.log())
        self.wait_for(lambda: "delegation to the tracker has expired; waiting" in member.log(),
                      "word of the expiry", 10)
        self.tracker.start("--listen", listen)
        self.wait_for_tracker_to_end()
        before = member.last()
        self.assert_exit(self.delegate(own), 0)
        self.start_tracker(listen)
        self.wait_for(lambda: member.last() > before + 1, "rounds after the renewal")
        self.assertTrue(member.is_running())
        status = json.loads(self.site.run("status", self.join_string, "--json").stdout)
        self.assertEqual(status["delegation"]["expires_s"], 0)

    def test_what_cannot_delegate_is_refused(self):
        _, key = self.new_identity()
        refused = self.delegate(key[:-1])
        self.assert_exit(refused, 2)
        self.assertIn("112 characters", refused.stderr)
        self.safe.unlink()
        self.site.run("keys", "--identity", self.safe)
        refused = self.delegate(key)
        self.assert_exit(refused, 2)
        self.assertIn("is not the operator's key", refused.stderr)
        refused = self.site.run("track", "run.yaml", "--state", "tracker", "--days", "1")
        self.assert_exit(refused, 2)
        self.assertIn("--delegate", refused.stderr)
        (self.state / "delegation.signed").write_bytes(b"none")
        self.wait_for(lambda: "is not a delegation or a roster epoch of an operator; this "
                      "delegation is ignored" in self.tracker.log(), "word of the damaged file", 10)
        self.assertTrue(self.tracker.is_running())


class SignedRoster(SwarmTest):
    def setUp(self):
        self.swarm(steps=100000, roster="open: false\nmembers:\n")
        self.state = self.site.path / "tracker"
        self.safe = self.site.path / "safe.key"
        (self.state / "operator.key").rename(self.safe)

    def add(self, member, *more):
        return self.site.run("roster", "add", self.key_of(f"{member.name}/config"), "--roster",
                             self.roster, *more)

    def epochs(self, member):
        return [json.loads(line)["roster"] for line in member.ledger().read_text().splitlines()
                if "roster" in json.loads(line)]

    def test_only_members_that_the_operator_signed_have_a_seat(self):
        anna, bert = self.member("anna"), self.member("bert")
        self.assert_exit(self.add(anna, "--operator-key", self.safe), 0)
        anna.start()
        self.wait_for(lambda: anna.last() >= 1, "rounds of the first member")
        self.assert_exit(self.add(bert), 0)  # whoever edits the list has no key to sign it
        self.wait_for(lambda: "the operator has not signed it" in self.tracker.log(),
                      "word of the unsigned list", 10)
        bert.start()
        self.wait_for(lambda: "is not yet admitted" in bert.log(), "refusal", 20)
        signed = self.site.run("roster", "sign", "--roster", self.roster, "--operator-key",
                               self.safe)
        self.assert_exit(signed, 0)
        self.wait_for(lambda: bert.last() >= 2, "rounds of the second member")
        self.restart_tracker()
        before = bert.last()
        self.wait_for(lambda: bert.last() > before + 1, "rounds after a restart")
        for member in (anna, bert):
            member.ask_to_stop()
        self.wait_for_end(anna, bert, seconds=60)
        self.assert_one_history()
        epochs = self.epochs(bert)
        self.assertEqual([len(epoch["members"]) for epoch in epochs], [1, 2])
        self.assertLess(epochs[0]["serial"], epochs[1]["serial"])

    def test_a_list_is_signed_by_its_operator_only(self):
        anna = self.member("anna")
        other = self.site.path / "other.key"
        self.site.run("keys", "--identity", other)
        refused = self.add(anna, "--operator-key", other)
        self.assert_exit(refused, 2)
        self.assertIn("is signed with a key other than", refused.stderr)
        refused = self.site.run("roster", "sign", "--roster", self.roster)
        self.assert_exit(refused, 2)
        self.assertIn("operator.key", refused.stderr)
        self.roster.write_text("open: true\nmembers:\n")
        refused = self.site.run("roster", "sign", "--roster", self.roster, "--operator-key",
                                self.safe)
        self.assert_exit(refused, 2)
        self.assertIn("three members", refused.stderr)


if __name__ == "__main__":
    main()
