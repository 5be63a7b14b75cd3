"""`skep ledger` on ledgers that another implementation made, whole and spoilt in every way."""
import copy
import json
import unittest

from small_ledger import Ledger, Signer, from_checkpoint, hash_of, results
from small_run import RunTest, main, skep


def small(has_roster=True):
    ledger = Ledger(3, has_roster)
    ledger.round(1, [0, 2])
    ledger.round(2, [], end="abort")
    ledger.round(3, [0, 1, 2])
    return ledger


class LedgerTest(RunTest):
    @classmethod
    def setUpClass(cls):
        cls.small = small()

    def setUp(self):
        self.path = self.folder().path / "ledger.jsonl"

    def ledger(self, text, *flags):
        self.path.write_text(text)
        return skep("ledger", str(self.path), *flags)

    def refused(self, lines, number, *words):
        """--verify names the line, and why."""
        text = lines if isinstance(lines, str) else "".join(json.dumps(one) + "\n" for one in lines)
        result = self.ledger(text, "--verify", "--operator", self.small.operator.text())
        self.assert_exit(result, 2)
        self.assertEqual(result.stdout, "")
        self.assertRegex(result.stderr, rf"^skep: \S+ledger.jsonl:{number}(:\d+)*: [^\n]+\n$")
        for word in words:
            self.assertIn(word, result.stderr)

    def resigned(self, index, voters=(0, 1, 2), **changes):
        """The ledger up to an entry that is changed, hashed and signed anew."""
        ledger = copy.deepcopy(self.small)
        line = {**ledger.lines[index], **changes}
        ledger.lines = ledger.lines[:index]
        ledger.sign(line, voters)
        return ledger.lines

    def test_a_ledger_of_another_implementation_is_verified(self):
        text = self.small.text()
        result = self.ledger(text, "--verify")
        self.assert_exit(result, 0)
        self.assertIn(self.small.lines[-1]["hash"], result.stdout)
        self.assertIn("--operator", result.stdout)
        found = self.document(self.ledger(text, "--verify", "--json", "--operator",
                                          self.small.operator.text()))
        self.assertEqual((found["entries"], found["commit"], found["abort"]), (7, 2, 1))
        self.assertEqual(found["root"], self.small.lines[-1]["root"])
        self.assertTrue(found["tracker_verified"])
        self.assertEqual(found["tokens"], 2 * 3 * 40)

    def ledger_with_roster(self, serial=5):
        ledger = Ledger(3)
        ids = [signer.id for signer in ledger.signers]
        ledger.round(1, [0, 2], roster=ledger.roster(ids, serial))
        ledger.round(2, [], end="abort")
        for number in range(3, 7):
            ledger.round(number, [0, 1, 2])
        return ledger

    def test_a_copy_that_begins_with_a_checkpoint(self):
        ledger = self.ledger_with_roster()
        operator = ledger.operator.text()
        lines = from_checkpoint(ledger.lines, 8)
        text = "".join(json.dumps(line) + "\n" for line in lines)
        result = self.ledger(text, "--verify", "--operator", operator)
        self.assert_exit(result, 0)
        self.assertIn("verified from entry 8 on; the 8 entries before are vouched for by the "
                      "votes of 3 of 3 voters under roster epoch 5\n", result.stdout)
        found = self.document(self.ledger(text, "--verify", "--json", "--operator", operator))
        self.assertEqual((found["first_entry"], found["entries"], found["commit"]), (8, 5, 3))
        self.assertTrue(found["tracker_verified"] and found["operator_verified"])
        self.assertEqual(found["head"], ledger.lines[-1]["hash"])
        self.assertIn("begins with a checkpoint: the 8 entries before are not included",
                      self.ledger(text).stdout)
        out = self.path.with_name("out.jsonl")
        self.assert_exit(self.ledger(text, "--export", str(out)), 0)
        self.assertEqual([json.loads(line) for line in out.read_text().splitlines()], lines)
        result = self.ledger(text, "--verify", "--operator", Signer(50).text())
        self.assert_exit(result, 2)
        self.assertIn("has a roster epoch that the operator did not sign", result.stderr)

    def test_a_checkpoint_that_does_not_verify(self):
        ledger = self.ledger_with_roster()
        lines = from_checkpoint(ledger.lines, 8)
        checkpoint = lines[0]
        other = self.ledger_with_roster(serial=4)  # an older epoch
        for first, number, words in (
                (from_checkpoint(other.lines, 8)[0], 2, "does not follow the previous entry"),
                ({**checkpoint, "entry_count": 9}, 1, "is the checkpoint of a different"),
                ({**checkpoint, "state": checkpoint["state"][:-2]}, 1, "state"),
                ({**checkpoint, "state": checkpoint["state"].replace("726f756e64", "726f756e65")},
                 1, "state"),
                ({**checkpoint, "more": 1}, 1, "unknown fields"),
                (from_checkpoint(ledger.lines, 6)[0], 2, "does not follow the previous entry")):
            self.refused([first, *lines[1:]], number, words)
        self.refused([checkpoint, *lines[2:]], 2, "does not follow the previous entry")
        self.refused(lines[:2] + [checkpoint], 3, "kind")
        unsigned = from_checkpoint(small(has_roster=False).lines, 6)
        result = self.ledger("".join(json.dumps(line) + "\n" for line in unsigned), "--verify")
        self.assert_exit(result, 2)
        self.assertIn("begins with a checkpoint, which has no roster epoch", result.stderr)

    def test_rows_without_verification(self):
        lines = copy.deepcopy(self.small.lines)
        lines[3]["round"] = 77
        result = self.ledger("".join(json.dumps(line) + "\n" for line in lines))
        self.assert_exit(result, 0)
        self.assertEqual(len(result.stdout.splitlines()), 8)
        self.assertIn("77  open", result.stdout)

    def test_every_changed_field_is_found(self):
        for index, line in enumerate(self.small.lines):
            for field in ("round", "commits", "incarnation", "prev", "hash", "root", "manifest",
                          "deadline_ms"):
                if field not in line:
                    continue
                lines = copy.deepcopy(self.small.lines)
                old = lines[index][field]
                lines[index][field] = old + 1 if isinstance(old, int) else old[:-1] + (
                    "0" if old[-1] != "0" else "1")
                self.refused(lines, index + 1)
        for index, changed in ((1, ("members", 0, "session")), (2, ("members", 1, "tokens")),
                               (2, ("slices", 2, "epoch")), (2, ("slices", 1, "end"))):
            lines = copy.deepcopy(self.small.lines)
            place = lines[index]
            for key in changed[:-1]:
                place = place[key]
            place[changed[-1]] += 1
            self.refused(lines, index + 1)

    def test_signatures_and_quorums(self):
        self.refused(self.resigned(2, voters=(1,)), 3, "quorum")
        self.refused(self.resigned(2, voters=()), 3, "quorum")
        self.refused(self.resigned(2, voters=(2, 0)), 3, "order")
        self.refused(self.resigned(2, voters=(1, 1)), 3, "order")
        lines = self.resigned(2, voters=(0, 1))
        lines[2]["signatures"][1]["signature"] = lines[2]["signatures"][0]["signature"]
        self.refused(lines, 3, "does not verify with its member's key")
        lines = self.resigned(2, voters=(0, 1))
        lines[2]["signatures"][1]["id"] = Signer(50).id.hex()
        self.refused(lines, 3, "roster")
        lines = copy.deepcopy(self.small.lines)
        lines[1]["signatures"] = [{"signature": Signer(50).sign(hash_of(lines[1])).hex()}]
        self.refused(lines, 2, "tracker")
        lines[1]["signatures"] = []
        self.refused(lines, 2, "tracker")

    def test_what_does_not_follow(self):
        lines = self.small.lines
        self.refused(lines[1:], 1, "genesis")
        self.refused(lines[:2] + lines[3:], 3, "prev")
        self.refused(lines[:3] + lines[2:], 4, "prev")
        self.refused(self.resigned(5, round=2), 6, "has already ended")
        self.refused(self.resigned(6, round=4), 7, "not open")
        self.refused(self.resigned(5, incarnation=0), 6, "incarnation")
        self.refused(self.resigned(5, commits=2), 6, "commit count")
        self.refused(self.resigned(6, commits=1), 7, "commit count")
        self.refused(self.resigned(0, commits=1), 1, "genesis")
        self.refused(self.resigned(2, commits=0), 3, "has a commit count of 0")
        self.refused(self.resigned(5, root="00" * 32), 6, "root")
        self.refused(self.resigned(6, members=lines[2]["members"]), 7, "roster")
        self.refused(self.resigned(5, reference_norm=0.2), 6, "changes the reference norm")
        self.refused(self.resigned(6, reference_norm=0.2), 7, "does not follow from")
        self.refused(self.resigned(6, reference_norm=-0.1), 7,
                     "is not a finite number of at least 0")
        members = copy.deepcopy(lines[6]["members"])
        members[0]["norm"] = 0.9
        self.refused(self.resigned(6, members=members), 7, "gives a weight to a member whose norm")
        members[0]["norm"] = -1.0
        self.refused(self.resigned(6, members=members), 7, "finite number")
        again = {**lines[5], "members": lines[1]["members"], "cursor": lines[3]["cursor"]}
        self.refused(self.resigned(5, **again), 6, "samples that were not free")
        members = copy.deepcopy(lines[5]["members"])
        members[1]["ranges"] = members[0]["ranges"]
        self.refused(self.resigned(5, members=members), 6, "samples that were not free")
        kept = {"position": lines[4]["cursor"]["position"], "returned": []}
        self.refused(self.resigned(4, cursor=kept), 5, "has a data cursor that does not")
        kept = {"position": lines[6]["cursor"]["position"], "returned": [[30, 80]]}
        self.refused(self.resigned(6, cursor=kept), 7, "has a data cursor that does not")
        slices = copy.deepcopy(lines[6]["slices"])
        slices[1]["weight"] += 1
        self.refused(self.resigned(6, **results(lines[6]["members"], slices)), 7, "weight")
        self.refused(self.resigned(6, slices=slices[:2]), 7, "lists only some of its slices")

    def test_the_slices_of_a_commit_are_proven_by_its_root(self):
        lines = copy.deepcopy(self.small.lines)
        for line in lines:
            line |= {"slices": []} if line["kind"] == "commit" else {}
        text = "".join(json.dumps(line) + "\n" for line in lines)
        self.assert_exit(self.ledger(text, "--verify"), 0)
        slices = copy.deepcopy(lines := self.small.lines)[6]["slices"]
        slices[2]["hash"] = "00" * 32
        self.refused([*lines[:6], {**lines[6], "slices": slices}], 7,
                     "has a list of slices that does not")
        slices = copy.deepcopy(lines[6]["slices"])
        slices[1]["owner"] = 2
        self.refused([*lines[:6], {**lines[6], "slices": slices}], 7,
                     "has a member whose number of contributed or owned slices")
        members = copy.deepcopy(lines[6]["members"])
        members[0]["contributed"] += 1
        self.refused(self.resigned(6, members=members), 7,
                     "has a member whose number of contributed or owned slices")
        members[0]["contributed"] = 4
        self.refused(self.resigned(6, members=members, slices=[]), 7,
                     "has a member that contributed to more")
        members[0] |= {"contributed": 3, "owned": 2}
        self.refused(self.resigned(6, members=members, slices=[]), 7,
                     "has members whose numbers of owned slices do not add up")
        self.refused(self.resigned(6, slice_count=0, slices=[]), 7, "more slices than")

    def test_a_commit_has_the_state_of_its_chain(self):
        self.refused(self.resigned(6, chain="00" * 32), 7,
                     "has a hash of the chain state that")
        self.refused(self.resigned(6, chain=self.small.lines[2]["chain"]), 7,
                     "has a hash of the chain state that")

    def with_documents(self, change=None):
        """A ledger whose fourth entry, an OPEN, has a new tracker key and a roster epoch."""
        ledger = copy.deepcopy(self.small)
        head = copy.deepcopy(ledger.lines[3])
        ledger.lines = ledger.lines[:3]
        ledger.tracker = Signer(102)
        head["delegation"] = ledger.delegation(ledger.tracker, 2)
        head["roster"] = ledger.roster([signer.id for signer in ledger.signers], 5)
        if change:
            change(ledger, head)
        ledger.sign(head)
        return ledger.lines

    def test_documents_of_the_operator_are_verified(self):
        def accepted(lines):
            return self.ledger("".join(json.dumps(line) + "\n" for line in lines), "--verify",
                               "--operator", self.small.operator.text())

        def invent(ledger, head):
            head["members"][1]["id"] = Signer(77).id.hex()

        def forge(ledger, head):
            ledger.operator = ledger.tracker
            head["delegation"] = ledger.delegation(ledger.tracker, 2)

        def repeat(ledger, head):
            head["delegation"] = ledger.delegation(ledger.tracker, 1)

        def keep_key(ledger, head):
            ledger.tracker = self.small.tracker

        self.assert_exit(accepted(self.with_documents()), 0)
        unsigned = small(has_roster=False).lines
        result = accepted(unsigned)
        self.assert_exit(result, 2)
        self.assertIn("the operator has not signed a roster epoch", result.stderr)
        self.refused(self.with_documents(invent), 4, "roster epoch does not list")
        self.refused(self.with_documents(forge), 4, "operator did not sign")
        self.refused(self.with_documents(repeat), 4, "not newer")
        self.refused(self.with_documents(keep_key), 4, "does not have a valid signature of")

    def test_what_is_no_ledger(self):
        text = self.small.text()
        self.refused(text[:-1], 7, "middle")
        self.refused(text[:len(text) // 2], text[:len(text) // 2].count("\n") + 1, "middle")
        self.refused(text + "\n", 8)
        self.refused("{}\n", 1, "kind")
        self.refused("x\n", 1)
        self.refused(json.dumps({**self.small.lines[0], "note": 1}) + "\n", 1, "fields")
        self.assert_exit(self.ledger(""), 2)
        self.assertIn("no entries", self.ledger("", "--verify").stderr)
        self.assert_exit(skep("ledger", str(self.path) + "x"), 2)
        self.assert_exit(self.ledger(text, "--verify", "--operator", "x"), 2)
        self.assert_exit(skep("ledger"), 2)


if __name__ == "__main__":
    main()
