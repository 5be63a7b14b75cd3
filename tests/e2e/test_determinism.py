"""The same bits, whatever a run's history: twice, on one thread and on two, stopped anywhere,
killed anywhere, with or without recompute."""
import random
import time

from small_run import GPT2, LONG, RunTest, kill_group, main, tensors_of, wait_until

STEPS = 20
STOCHASTIC = {"precision__moments": "bf16", "precision__rounding": "stochastic"}


def losses(folder):
    """Loss of every step; of a repeated one the later line counts."""
    return {line["step"]: line["loss"] for line in folder.metrics("step")}


class Determinism(RunTest):
    def finished(self, folder, *arguments):
        """Run to the end; the newest snapshot's tensors."""
        self.assert_exit(folder.train(*arguments), 0)
        return folder.state()

    def assert_same_state(self, state, other, what):
        self.assertEqual(sorted(state), sorted(other))
        self.assertTrue({"weights.safetensors", "optimizer.safetensors"} <= set(state))
        for name, content in state.items():
            self.assertTrue(content == other[name], f"{what}: {name} differs")

    def test_two_runs_and_any_number_of_threads_give_the_same_bits(self):
        for settings in ({}, {"precision__params": "bf16", "precision__compute": "bf16"},
                         STOCHASTIC):
            folder = self.folder(**settings)
            state = self.finished(folder)
            for threads in (1, 2, 3):
                folder.forget()
                self.assert_same_state(state, self.finished(folder, f"threads={threads}"),
                                       f"{threads} threads, {settings}")

    def test_another_seed_gives_other_bits(self):
        folder = self.folder(steps=2)
        state = self.finished(folder)
        folder.forget()
        other = self.finished(folder, "seed=4")
        self.assertNotEqual(state["weights.safetensors"], other["weights.safetensors"])

    def test_recompute_changes_no_bit(self):
        for config in (None, GPT2):
            folder = self.folder(config, steps=8)
            state = self.finished(folder)
            for kind in ("selective", "block", "[block, none]"):
                folder.forget()
                folder.write_run(strategy__recompute=kind)
                self.assert_same_state(state, self.finished(folder), kind)

    def test_offload_changes_no_bit(self):
        """Rows long enough that activations are worth their copies."""
        settings = {"steps": 8, "batch__sequence": 32, "batch__microbatch": 2}
        for config in (None, GPT2):
            for precision in ("f32", "bf16"):
                folder = self.folder(config, precision__params=precision,
                                     precision__compute=precision, **settings)
                state = self.finished(folder)
                for offload in ("activations", "optimizer", "[optimizer, activations]"):
                    for recompute in ("none", "block"):
                        folder.forget()
                        folder.write_run(strategy__offload=offload,
                                         strategy__recompute=recompute)
                        self.assert_same_state(state, self.finished(folder),
                                               f"{offload}, {recompute}, {precision}")

    def test_offload_and_resume_change_no_bit(self):
        """A snapshot knows nothing of where its tensors lay: stopped with, resumed without."""
        for settings in ({}, STOCHASTIC):
            whole = self.folder(steps=6, **settings)
            state = self.finished(whole)
            pieces = self.folder(steps=6, **settings)
            for step, offload in ((2, "optimizer"), (4, "none"), (6, "[activations, optimizer]")):
                self.assert_exit(pieces.train(f"pause_at={step}", f"strategy.offload={offload}"), 0)
            self.assert_same_state(state, pieces.state(), f"other offloads, {settings}")

    def test_pausing_at_every_step_changes_no_bit(self):
        whole = self.folder(steps=STEPS, snapshot__every=1, snapshot__keep=STEPS)
        self.finished(whole)
        pieces = self.folder(steps=STEPS, snapshot__keep=STEPS)
        for step in range(1, STEPS + 1):
            self.assert_exit(pieces.train(f"pause_at={step}"), 0)
            self.assertEqual(pieces.snapshots()[-1].name, f"step-{step:09d}")
        self.assertEqual([path.name for path in whole.snapshots()],
                         [path.name for path in pieces.snapshots()])
        for one, other in zip(whole.snapshots(), pieces.snapshots()):
            for name in ("weights.safetensors", "optimizer.safetensors"):
                self.assertTrue((one / name).read_bytes() == (other / name).read_bytes(),
                                f"{one.name}/{name} differs")
        self.assertEqual(losses(whole), losses(pieces))
        exported = [tensors_of(folder.path / "run" / "model" / "model.safetensors")
                    for folder in (whole, pieces)]
        self.assertEqual(exported[0], exported[1])

    def test_kills_at_any_moment_change_no_bit(self):
        whole = self.folder(steps=STEPS, snapshot__every=1)
        began = time.monotonic()
        state = self.finished(whole)
        usual = time.monotonic() - began
        chance = random.Random(11)
        killed = self.folder(steps=STEPS, snapshot__every=1)
        kills = 0
        for _ in range(40 if LONG else 8):
            process = killed.start()
            time.sleep(chance.uniform(0, usual))
            kills += process.poll() is None
            kill_group(process)
            self.assertIn(process.returncode, (0, -9), killed.log())
            if process.returncode == 0:
                self.assert_same_state(state, killed.state(), "killed before")
                killed.forget()
        self.assertGreater(kills, 0)
        self.assert_same_state(state, self.finished(killed), "killed")
        self.assertEqual(losses(whole)[STEPS], losses(killed)[STEPS])

    def test_kills_during_the_first_snapshots_leave_no_damage(self):
        folder = self.folder(steps=STEPS, snapshot__every=1)
        process = folder.start()
        snapshots = folder.path / "run" / "snapshots"
        self.assertTrue(wait_until(lambda: snapshots.exists() and any(snapshots.iterdir())))
        kill_group(process)
        self.assert_exit(folder.train(), 0)
        self.assert_exit(folder.run("snapshot", "verify", "run/snapshots"), 0)

    def test_microbatches_of_any_size_give_equal_losses(self):
        """The same sums in another order: equal to rounding, as long as steps stay small."""
        found = []
        for rows in (1, 2, 4):
            folder = self.folder(steps=10, optimizer__lr=1e-4, batch__microbatch=rows)
            self.finished(folder)
            found.append(losses(folder))
        for other in found[1:]:
            for step, loss in found[0].items():
                self.assertLessEqual(abs(other[step] - loss), 1e-6 * loss, f"step {step}")


if __name__ == "__main__":
    main()
