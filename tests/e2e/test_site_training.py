"""Ranks of a site: N of them do what one does, and how they share the work changes no bit."""
import array
import itertools
import math
import random
import shutil

from small_run import GPT2, LLAMA, LONG, RunTest, main, safetensors, tensors_of

STEPS = 20
TIED = {**LLAMA, "tie_word_embeddings": True}
QWEN2 = {**LLAMA, "model_type": "qwen2", "tie_word_embeddings": True}
# 12 rows a step: 8 ranks of one row have four rows without labels in their second microbatch.
ROWS = {"batch__tokens": 12 * 16, "batch__microbatch": 1, "optimizer__lr": 1e-3}


def losses(folder):
    return {line["step"]: line["loss"] for line in folder.metrics("step")}


def floats(tensor):
    kind, _, content = tensor
    assert kind == "F32", kind
    values = array.array("f")
    values.frombytes(content)
    return values


def relative_l2(a, b):
    distance = math.fsum((x - y) ** 2 for x, y in zip(a, b))
    size = math.fsum(y * y for y in b)
    return math.sqrt(distance / size) if size > 0 else math.sqrt(distance)


def parts_of(name, tensor):
    """A tensor in parts with their bounds. A key bias shifts all scores of a query alike: where
    positions do not turn it, its gradient is rounding alone."""
    values = floats(tensor)
    if name.endswith("attn.c_attn.bias"):  # queries, keys, values
        third = len(values) // 3
        return [(values[i * third:(i + 1) * third], 1e-3 if i == 1 else 1e-5) for i in range(3)]
    return [(values, 1e-3 if name.endswith("k_proj.bias") else 1e-5)]


class SiteTraining(RunTest):
    def trained(self, folder, *arguments):
        folder.forget()
        self.assert_exit(folder.train(*arguments), 0)
        return folder.state()

    def assert_equal_training(self, folder, reference, what):
        """Losses and weights of the run now in `folder` against (losses, weights)."""
        found = losses(folder)
        self.assertEqual(sorted(found), sorted(reference[0]), what)
        for step, loss in reference[0].items():
            self.assertLessEqual(abs(found[step] - loss), 1e-6 * abs(loss), f"{what}: step {step}")
        weights = tensors_of(folder.snapshots()[-1] / "weights.safetensors")
        self.assertEqual(sorted(weights), sorted(reference[1]))
        for name, tensor in weights.items():
            pairs = zip(parts_of(name, tensor), parts_of(name, reference[1][name]))
            for (values, bound), (expected, _) in pairs:
                self.assertLessEqual(relative_l2(values, expected), bound, f"{what}: {name}")

    def reference(self, folder):
        self.trained(folder)
        return losses(folder), tensors_of(folder.snapshots()[-1] / "weights.safetensors")

    def start_from_biases(self, folder):
        """Begin from weights whose biases are as large as a trained model's: fresh ones are zero,
        and nothing is small beside zero."""
        self.trained(folder, "steps=1")
        model = folder.path / "run" / "model"
        tensors = tensors_of(model / "model.safetensors")
        chance = random.Random(7)
        for name, (kind, shape, content) in tensors.items():
            if name.endswith(".bias"):
                values = array.array("f", (chance.gauss(0, 0.5) for _ in range(len(content) // 4)))
                tensors[name] = (kind, shape, values.tobytes())
        (folder.path / "model" / "model.safetensors").write_bytes(safetensors(tensors))
        folder.write_run(init="weights")

    def test_any_number_of_ranks_trains_what_one_rank_trains(self):
        worlds = (2, 3, 4, 8) if LONG else (3, 8)
        for name, config in (("llama", LLAMA), ("qwen2 tied", QWEN2), ("gpt2", GPT2)):
            folder = self.folder(config, **ROWS)
            if config is GPT2:
                self.start_from_biases(folder)
            reference = self.reference(folder)
            for ranks, zero in itertools.product(worlds, (0, 1, 2, 3)):
                self.trained(folder, "--ranks", ranks, f"strategy.zero={zero}")
                self.assert_equal_training(folder, reference, f"{name}, {ranks} ranks, ZeRO {zero}")

    def test_reducing_once_a_step_trains_the_same_to_rounding(self):
        folder = self.folder(**ROWS)
        reference = self.reference(folder)
        for ranks, zero in itertools.product((2, 3), (0, 1)):
            self.trained(folder, "--ranks", ranks, f"strategy.zero={zero}",
                         "strategy.reduce_at=step")
            self.assert_equal_training(folder, reference, f"{ranks} ranks, ZeRO {zero}")

    def test_hybrid_sharding_equals_flat_sharding_to_rounding(self):
        folder = self.folder(TIED, **ROWS)
        reference = self.reference(folder)
        for ranks, replicate in ((4, 2), (4, 4), (6, 2), (6, 3), (8, 2)):
            self.trained(folder, "--ranks", ranks, f"strategy.replicate={replicate}")
            self.assert_equal_training(folder, reference, f"{ranks} ranks, {replicate} replicas")

    def assert_same_bits(self, folder, meshes, variants):
        for mesh in meshes:
            expected = self.trained(folder, *mesh)
            found = losses(folder)
            norms = [line["grad_norm"] for line in folder.metrics("step")]
            held_out = folder.metrics("eval")[-1]["loss"]
            for variant in variants:
                state = self.trained(folder, *mesh, *variant)
                self.assertEqual(losses(folder), found, f"{mesh} {variant}")
                self.assertEqual([line["grad_norm"] for line in folder.metrics("step")], norms)
                self.assertEqual(folder.metrics("eval")[-1]["loss"], held_out, f"{mesh} {variant}")
                for name, content in expected.items():
                    self.assertTrue(content == state[name], f"{mesh} {variant}: {name} differs")

    def test_on_one_mesh_no_strategy_changes_a_bit(self):
        meshes = [("--ranks", 3), ("--ranks", 4, "strategy.replicate=2")]
        variants = [(f"strategy.zero={zero}",) for zero in (0, 1, 2)]
        variants += [(f"strategy.prefetch={depth}",) for depth in (0, 2, 3)]
        variants += [("strategy.live=1",), ("strategy.keep_gathered=true",), ("threads=2",),
                     ("strategy.recompute=block",), ("strategy.recompute=selective",),
                     ("strategy.units=root",), ("strategy.zero=0", "strategy.recompute=block"),
                     ("strategy.overrides=embed=zero:1,layers.1=zero:2",)]
        variants += [("strategy.offload=activations",),
                     ("strategy.offload=optimizer", "strategy.recompute=block"),
                     ("strategy.offload=activations,optimizer", "strategy.zero=2"),
                     ("strategy.offload=params,optimizer",),
                     ("strategy.offload=params,optimizer,activations", "strategy.prefetch=0",
                      "strategy.overrides=layers.0=zero:1"),
                     ("strategy.offload=activations,optimizer", "strategy.zero=0")]
        for config in (LLAMA, QWEN2) if LONG else (QWEN2,):
            # Wide enough that a row's activations are worth their copies to the host.
            folder = self.folder({**config, "intermediate_size": 80}, steps=6, **ROWS)
            self.assert_same_bits(folder, meshes, variants)

    def test_bf16_on_the_wire_is_the_same_for_every_strategy(self):
        folder = self.folder(steps=6, precision__reduce="bf16", precision__params="bf16",
                             precision__compute="bf16", **ROWS)
        meshes = [("--ranks", 3), ("--ranks", 4, "strategy.replicate=2")]
        self.assert_same_bits(folder, meshes, [(f"strategy.zero={zero}",) for zero in (0, 1, 2)])

    def test_two_runs_of_a_site_give_the_same_bits(self):
        folder = self.folder(steps=6, **ROWS)
        self.assert_same_bits(folder, [("--ranks", 4)], [()] * (20 if LONG else 3))

    def test_a_snapshot_of_any_site_goes_on_at_any_other(self):
        worlds = (1, 2, 3, 4, 8) if LONG else (1, 3, 4)
        folder = self.folder(TIED, steps=10, snapshot__every=5, **ROWS)
        reference = self.reference(folder)
        for before in worlds:
            folder.forget()
            self.assert_exit(folder.train("--ranks", before, "pause_at=5"), 0)
            saved = folder.path / "saved"
            (folder.path / "run").rename(saved)
            for after in worlds:
                self.assert_exit(folder.run("snapshot", "verify", "saved/snapshots"), 0)
                saved_run = self.copy(saved, folder.path / "run")
                self.assert_exit(folder.train("--ranks", after), 0)
                self.assert_equal_training(folder, reference, f"{before} ranks, then {after}")
                self.forget(saved_run)
            self.forget(saved)

    def test_stopping_and_going_on_changes_no_bit(self):
        """Nor does where the tensors lie each time."""
        offloads = ("none", "optimizer", "optimizer,params", "optimizer,params,activations")
        folder = self.folder(steps=8, **ROWS)
        whole = self.trained(folder, "--ranks", 3)
        folder.forget()
        for step in range(1, 9):
            self.assert_exit(folder.train("--ranks", 3, f"pause_at={step}",
                                          f"strategy.offload={offloads[step % 4]}",
                                          f"strategy.zero={3 - step // 5}"), 0)
        self.assertEqual(whole, folder.state())

    def test_frozen_parameters_stay_and_the_others_train_as_on_one_rank(self):
        frozen = "model.embed_tokens,model.layers.0.mlp"
        for dtype in ("f32", "bf16"):
            folder = self.folder(steps=6, frozen=f'"{frozen}"', precision__params=dtype,
                                 precision__compute=dtype, **ROWS)
            self.assert_exit(folder.train("pause_at=1"), 0)
            before = tensors_of(folder.snapshots()[-1] / "weights.safetensors")
            self.assert_exit(folder.train(), 0)
            alone = tensors_of(folder.snapshots()[-1] / "weights.safetensors")
            losses = [line["loss"] for line in folder.metrics("step")][-5:]
            moments = tensors_of(folder.snapshots()[-1] / "optimizer.safetensors")
            for name, tensor in alone.items():
                stays = name.startswith("model.embed_tokens") or ".layers.0.mlp." in name
                self.assertEqual(before[name] == tensor, stays, name)
                self.assertEqual(f"exp_avg.{name}" in moments, not stays, name)
            for ranks, zero in ((2, 3), (3, 1)):
                folder.forget()
                self.assert_exit(folder.train("--ranks", ranks, f"strategy.zero={zero}"), 0)
                here = tensors_of(folder.snapshots()[-1] / "weights.safetensors")
                self.assertEqual({name: here[name] for name in before if before[name] ==
                                  alone[name]},
                                 {name: before[name] for name in before if before[name] ==
                                  alone[name]})
                for expected, line in zip(losses, folder.metrics("step")[1:]):
                    self.assertLess(abs(line["loss"] - expected),
                                    (1e-6 if dtype == "f32" else 1e-3) * expected)
                self.assert_exit(folder.train("--ranks", 2, "steps=7"), 0)

    def test_evaluation_counts_every_row_once(self):
        folder = self.folder(steps=2, eval__tokens=0, **ROWS)
        self.trained(folder)
        alone = folder.metrics("eval")[-1]["loss"]
        for ranks in (2, 3, 5):
            self.trained(folder, "--ranks", ranks)
            loss = folder.metrics("eval")[-1]["loss"]
            self.assertLessEqual(abs(loss - alone), 1e-6 * alone, f"{ranks} ranks")

    def test_dump_compares_ranks_with_one(self):
        folder = self.folder()
        self.assert_exit(folder.train("steps=1"), 0)
        rows, time = 5, 16
        ids = array.array("i", ((7 * i * i + 3) % 97 for i in range(rows * time)))
        (folder.path / "batch.safetensors").write_bytes(
            safetensors({"input_ids": ("I32", [rows, time], ids.tobytes())}))
        results = {}
        for ranks in (1, 2, 3, 8):
            out = folder.path / f"out{ranks}.safetensors"
            result = folder.run("dump", "run/model", "batch.safetensors", "-o", out.name,
                                "--gradients", "--steps", 5, "--ranks", ranks, "optimizer.lr=1e-3")
            self.assert_exit(result, 0)
            results[ranks] = tensors_of(out)
        for ranks in (2, 3, 8):
            self.assertEqual(sorted(results[ranks]), sorted(results[1]))
            for name, tensor in results[1].items():
                self.assertEqual(tensor[1], results[ranks][name][1], name)
                distance = relative_l2(floats(results[ranks][name]), floats(tensor))
                self.assertLessEqual(distance, 1e-5, f"{ranks} ranks: {name}")

    @staticmethod
    def copy(source, target):
        shutil.copytree(source, target)
        return target

    @staticmethod
    def forget(path):
        shutil.rmtree(path)


if __name__ == "__main__":
    main()
