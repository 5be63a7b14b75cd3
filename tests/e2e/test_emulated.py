"""Whole runs on a GPU that is emulated, in an order drawn from a seed among all that its streams
allow: the losses of the CPU, the same bits in every order, and all that files need."""
import os

from small_run import GPT2, LLAMA, Folder, RunTest, main, tensors_of

CPU = os.environ["CPU_SKEP"]
STEPS = 4
PROFILE = """name: emulated
description: a GPU that is emulated
kind: cuda
unified: false
alignment: 256
threads: 1
memory:
  device: {capacity: 256 MiB, source: "the emulated driver", declared: []}
  pinned: {capacity: 64 MiB, source: "assumption", declared: []}
  host: {capacity: 1 GiB, source: "assumption", declared: []}
speeds:
  f32_flops: {value: 1e12, source: "assumption"}
  bf16_flops: {value: 1e13, source: "assumption"}
  memory_bandwidth: {value: 1e12, source: "assumption"}
  host_link_bandwidth: {value: 1e10, source: "assumption"}
  peer_link_bandwidth: {value: 1e10, source: "assumption"}
efficiency:
  matmul: {value: 0.5, source: "assumption"}
  memory: {value: 0.5, source: "assumption"}
  link: {value: 0.5, source: "assumption"}
capabilities:
  compute_capability: "9.0"
  multiprocessors: 4
"""
SMALL = {"steps": STEPS, "batch__tokens": 32, "batch__sequence": 8, "data__documents": None}
# Of a loss near 4.6: sums in another order; bf16 rounds every tensor on the way to 8 bits.
TOLERANCES = {"f32": 2e-4, "bf16": 4e-2}


class Emulated(RunTest):
    def gpu_folder(self, config=None, **settings):
        folder = self.folder(config, **{"steps": STEPS, "batch__tokens": 64, **settings})
        (folder.path / "gpu.yaml").write_text(PROFILE)
        return folder

    def train(self, folder, *arguments, seed=1):
        result = folder.train("target=./gpu.yaml", *arguments,
                              env={"SKEP_EMULATED_SEED": str(seed), "SKEP_EMULATED_MIB": "512"})
        self.assert_exit(result, 0)
        return result

    def losses(self, folder):
        steps = {line["step"]: line["loss"] for line in folder.metrics("step")}
        return [steps[step] for step in sorted(steps)]

    def cpu_losses(self, folder, *arguments):
        gpu = folder.command
        folder.command = lambda *arguments: [CPU, *map(str, arguments)]
        self.assert_exit(folder.train(*arguments), 0)
        losses = self.losses(folder), [line["loss"] for line in folder.metrics("eval")]
        folder.command = gpu
        folder.forget()
        return losses

    def test_losses_are_those_of_the_cpu(self):
        for config in (LLAMA, GPT2):
            for precision in ("f32", "bf16"):
                folder = self.gpu_folder(config, precision__params=precision,
                                         precision__compute=precision)
                steps, evaluations = self.cpu_losses(folder)
                self.train(folder)
                found = self.losses(folder)
                self.assertEqual(len(found), STEPS)
                for here, there in zip(found, steps, strict=True):
                    self.assertAlmostEqual(here, there, delta=TOLERANCES[precision])
                for here, there in zip([line["loss"] for line in folder.metrics("eval")],
                                       evaluations, strict=True):
                    self.assertAlmostEqual(here, there, delta=TOLERANCES[precision])

    def test_every_order_that_is_allowed_gives_the_same_bits(self):
        for config in (LLAMA, GPT2):
            folder = self.gpu_folder(config, steps=2, strategy__offload="activations",
                                     batch__sequence=32)
            states = []
            for seed in (1, 2, 3):
                folder.forget()
                self.train(folder, seed=seed)
                states.append(folder.state())
            self.assertEqual(states[0], states[1])
            self.assertEqual(states[0], states[2])

    def test_stopping_and_going_on_changes_no_bit(self):
        folder = self.gpu_folder(precision__params="bf16", precision__compute="bf16")
        self.train(folder)
        whole = folder.state()
        folder.forget()
        for step in range(1, STEPS):
            self.train(folder, f"pause_at={step}", seed=step)
        self.train(folder)
        self.assertEqual(folder.state(), whole)

    def test_recompute_and_offload_change_no_bit(self):
        folder = self.gpu_folder(steps=2, batch__sequence=32)
        self.train(folder)
        whole = folder.state()
        for setting in ("strategy.recompute=block", "strategy.offload=activations"):
            folder.forget()
            self.train(folder, setting)
            self.assertEqual(folder.state(), whole, setting)

    def test_an_optimizer_in_host_memory_trains_as_well(self):
        folder = self.gpu_folder()
        steps, _ = self.cpu_losses(folder)
        self.train(folder, "strategy.offload=optimizer")
        for here, there in zip(self.losses(folder), steps, strict=True):
            self.assertAlmostEqual(here, there, delta=TOLERANCES["f32"])

    def test_a_snapshot_of_one_goes_on_on_the_other(self):
        folder = self.gpu_folder()
        steps, _ = self.cpu_losses(folder)
        self.train(folder, "pause_at=2")
        folder.command = lambda *arguments: [CPU, *map(str, arguments)]
        self.assert_exit(folder.train(), 0)
        for here, there in zip(self.losses(folder), steps, strict=True):
            self.assertAlmostEqual(here, there, delta=TOLERANCES["f32"])

    def test_the_exported_model_is_the_snapshot(self):
        folder = self.gpu_folder(steps=1)
        self.train(folder)
        exported = tensors_of(folder.path / "run" / "model" / "model.safetensors")
        saved = tensors_of(folder.snapshots()[-1] / "weights.safetensors")
        self.assertEqual(exported, saved)

    def test_a_lost_device_ends_the_run_and_names_the_snapshot_that_is_left(self):
        folder = self.gpu_folder(steps=400)
        self.train(folder, "pause_at=2")
        saved = folder.state()
        lost_at = 500  # grows until it is behind what binding runs
        while lost_at < 200000:
            result = folder.train("target=./gpu.yaml", "pause_at=50",
                                  env={"SKEP_EMULATED_MIB": "512",
                                       "SKEP_EMULATED_LOSE_AT": str(lost_at)})
            self.assert_exit(result, 1)
            self.assertIn("CUDA_ERROR_LAUNCH_FAILED", result.stderr)
            if "snapshot of step 2" in result.stderr:
                break
            lost_at *= 2
        self.assertIn("start again: it goes on from the snapshot of step 2", result.stderr)
        self.assertEqual(folder.state(), saved)
        self.train(folder, "pause_at=3")

    def test_a_trace_is_refused_in_words(self):
        folder = self.gpu_folder(steps=1, trace="trace.json", trace_steps="1:1")
        result = folder.train("target=./gpu.yaml", env={"SKEP_EMULATED_MIB": "512"})
        self.assert_exit(result, 2)
        self.assertIn("a device runs each segment as a whole", result.stderr)

    def test_text_is_generated_as_on_the_cpu(self):
        folder = self.gpu_folder(steps=1)
        self.train(folder)
        arguments = ("generate", "run.yaml", "--ids", "--prompt", "5 9 17", "--tokens", "6",
                     "--temperature", "0")
        here = folder.run(*arguments, "target=./gpu.yaml", env={"SKEP_EMULATED_MIB": "512"})
        self.assert_exit(here, 0)
        folder.command = lambda *arguments: [CPU, *map(str, arguments)]
        there = folder.run(*arguments)
        self.assert_exit(there, 0)
        self.assertEqual(here.stdout, there.stdout)


if __name__ == "__main__":
    main()
