"""Rates that follow from the number of members: what members compute with them is compared with
AdamW and Nesterov's step in double precision, and with the same rates written down."""
import json
import math
import struct

from loopback_swarm import SwarmTest
from small_run import main, tensors_of

LR, EPS, BETAS, DECAY = 0.01, 1e-8, (0.8, 0.9), 0.3
OUTER_LR, GAIN = 0.5, 0.6
STEADY = {"swarm__members_min": 2, "swarm__patience": 50, "swarm__codec": "fp32",
          "schedule__kind": "constant"}


def floats(data):
    return struct.unpack(f"<{len(data) // 4}f", data)


def flat(tensors, prefix, names):
    return [value for name in names for value in floats(tensors[prefix + name][2])]


class Rates(SwarmTest):
    def commits(self, member):
        lines = [json.loads(line) for line in member.ledger().read_text().splitlines()]
        return {line["round"]: line for line in lines if line["kind"] == "commit"}

    # ---- the same rates written down ----

    def roots_of(self, **settings):
        """The roots of a swarm of two."""
        self.swarm(steps=60, swarm__inner_steps=5, **STEADY, **settings)
        members = [self.member(name).start() for name in ("first", "second")]
        self.wait_for_end(*members)
        self.assert_one_history()
        commits = self.commits(members[0])
        self.tracker.kill()
        self.assertEqual({len(commit["members"]) for commit in commits.values()}, {2})
        return [commits[number]["root"] for number in sorted(commits)]

    def test_auto_gives_the_bits_of_the_rates_that_it_stands_for(self):
        """All of them are exact in binary."""
        auto = self.roots_of(optimizer__betas="[0.5, 0.75]", optimizer__weight_decay=0.5,
                             swarm__member_betas="auto", swarm__member_decay="auto")
        fixed = self.roots_of(optimizer__betas="[0.75, 0.875]", optimizer__weight_decay=0.25)
        self.assertEqual(len(fixed), 12)
        self.assertEqual(auto, fixed)

    # ---- what is printed ----

    def test_plan_and_check_print_the_rates(self):
        self.swarm(steps=100000, swarm__outer_lr=1, swarm__outer_gain=1, swarm__members_max=8,
                   swarm__member_betas="auto", swarm__member_decay="auto",
                   swarm__member_variance="auto",
                   optimizer__betas=[0.9, 0.99], optimizer__weight_decay=0.1)
        plan = self.site.run("plan", "run.yaml")
        self.assert_exit(plan, 0)
        rows = [line for line in plan.stdout.splitlines() if "outer momentum" in line]
        self.assertEqual(rows[0], "rates    1 member: betas 0.9 and 0.99, weight decay 0.1, "
                                  "mean share 0, outer momentum 0")
        self.assertEqual([row.split()[0] for row in rows[1:]], ["2", "4", "8"])
        self.assertIn("betas 0.975 and 0.9975, weight decay 0.025, mean share 0.75, "
                      "outer momentum 0.5", rows[2])
        document = self.document(self.site.run("plan", "run.yaml", "--json"))
        self.assertEqual(document["rates"][2], {"members": 4, "beta1": 0.975, "beta2": 0.9975,
                                                "weight_decay": 0.025, "mean_share": 0.75,
                                                "outer_momentum": 0.5})
        members = [self.member(name).start() for name in ("first", "second")]
        self.wait_for(lambda: any(line["members"] == 2 for line in members[0].lines("round")),
                      "rounds of two")
        check = self.site.run("join", self.join_string, "--check", "data.train=train.u16",
                              "data.validation=valid.u16")
        self.assert_exit(check, 0)
        self.assertIn("rates    2 members at present: betas 0.95 and 0.995, weight decay 0.05, "
                      "mean share 0.5, outer momentum 0.2929\n", check.stdout)
        check = self.document(self.site.run("join", self.join_string, "--check", "--json",
                                            "data.train=train.u16", "data.validation=valid.u16"))
        self.assertEqual([row["members"] for row in check["rates"]], [2])

    # ---- a reference ----

    def test_rates_follow_a_swarm_that_grows_and_shrinks(self):
        self.swarm(steps=100000, swarm__inner_steps=1, **STEADY, swarm__outer_lr=OUTER_LR,
                   swarm__outer_gain=GAIN, swarm__member_betas="auto", swarm__member_decay="auto",
                   swarm__member_variance="auto",
                   optimizer__betas=list(BETAS), optimizer__weight_decay=DECAY,
                   optimizer__lr=LR, optimizer__eps=EPS, optimizer__clip_norm=0)
        first = self.member("first", "swarm.record=record", "snapshot.every=1",
                            "snapshot.keep=1000").start()
        second = self.member("second").start()
        self.wait_for(lambda: first.last() >= 6, "rounds of two")
        third = self.member("third").start()
        self.wait_for(lambda: third.last() >= first.last() - 3 and len(third.rounds()) >= 6,
                      "rounds of three")
        for member in (third, first):  # one resumes, after rounds of two and of three
            member.ask_to_stop()
            self.wait_for_end(member, seconds=30)
        left = first.last()
        first.start()
        self.wait_for(lambda: first.last() >= left + 6, "rounds of two again")
        for member in (first, second):
            member.ask_to_stop()
        self.wait_for_end(first, second, seconds=30)
        self.assert_one_root_a_round()
        self.assert_one_history()
        counts = self.check_rounds(first)
        self.assertEqual([count for count, before in zip(counts, [0, *counts])
                          if count != before], [2, 3, 2], counts)

    def check_rounds(self, member):
        """Compare each round in which the member took a step with the one before; the numbers of
        members that were compared."""
        commits = self.commits(member)
        counts, products = [], [1.0, 1.0]
        before = None
        for number in sorted(commits):
            state = self.state_after(member, number, commits[number]["commits"])
            members = len(commits[number]["members"])
            before = before or self.zero_state(members, state)
            if state["updates"] > before["updates"]:  # none in the round in which it stopped
                self.assertEqual(state["updates"], before["updates"] + 1, number)
                products = [product * (1 - (1 - beta) / members)
                            for product, beta in zip(products, BETAS)]
                self.check_inner_step(before, state, members, products)
                counts.append(members)
                self.check_outer_step(before, state, members)
            before = state
        return counts

    def state_after(self, member, number, commits):
        snapshot = member.folder / "state" / "snapshots" / f"step-{commits:09}"
        record = self.site.path / "record" / f"round-{number}"
        weights = tensors_of(snapshot / "weights.safetensors")
        moments = tensors_of(snapshot / "optimizer.safetensors")
        outer = tensors_of(record / "outer.safetensors")
        values = json.loads((snapshot / "snapshot.json").read_text())["values"]
        return {"updates": int(values["updates"]),
                "decayed": [len(weights[name][1]) > 1 for name in weights
                            for _ in range(len(weights[name][2]) // 4)],
                "params": flat(weights, "", weights),
                "m": flat(moments, "exp_avg.", weights),
                "v": flat(moments, "exp_avg_sq.", weights),
                "outer": floats(outer["params"][2]), "momentum": floats(outer["momentum"][2]),
                "declared": record / "declared.safetensors"}

    def zero_state(self, members, state):
        """Before the first round; its outer weights follow from the step after it."""
        zeros = [0.0] * len(state["m"])
        momentum = max(0, 1 - OUTER_LR / (GAIN * math.sqrt(members)))
        first = [param + OUTER_LR * (1 + momentum) * mean
                 for param, mean in zip(state["outer"], state["momentum"])]
        return {"updates": 0, "m": zeros, "v": zeros, "outer": first, "momentum": zeros}

    def check_inner_step(self, before, state, members, products):
        """The gradient follows from the first moments; the second ones and the step from it."""
        beta1, beta2 = (1 - (1 - beta) / members for beta in BETAS)
        sent = floats(tensors_of(state["declared"])["contribution"][2])
        self.assertEqual(len(sent), len(state["m"]))
        wrong = [0.0, 0.0]
        for i, m in enumerate(state["m"]):
            gradient = (m - beta1 * before["m"][i]) / (1 - beta1)
            v = beta2 * before["v"][i] + (1 - beta2) * gradient**2
            mean = m / (1 - products[0])
            root = math.sqrt(v / (1 - products[1]) / members + (1 - 1 / members) * mean**2) + EPS
            step = LR * mean / root
            step += LR * DECAY / members * before["outer"][i] if state["decayed"][i] else 0
            if root > 1e-5:  # smaller ones are mostly rounding errors of m
                wrong[0] = max(wrong[0], abs(state["v"][i] / v - 1))
                wrong[1] = max(wrong[1], abs(sent[i] - step) / LR)
        self.assertLess(wrong[0], 2e-3)
        self.assertLess(wrong[1], 2e-3)

    def check_outer_step(self, before, state, members):
        """The momentum that explains all elements best."""
        above, below = 0.0, 0.0
        for i, moment in enumerate(state["momentum"]):
            travelled = (before["outer"][i] - state["outer"][i]) / OUTER_LR - moment
            grown = moment - before["momentum"][i]
            above, below = above + travelled * grown, below + grown * grown
        expected = max(0, 1 - OUTER_LR / (GAIN * math.sqrt(members)))
        self.assertAlmostEqual(above / below, expected, delta=1e-4)


if __name__ == "__main__":
    main()
