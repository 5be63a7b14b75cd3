"""Whole runs on a GPU that is emulated, in an order drawn from a seed among all that its streams
allow: the losses of the CPU, the same bits in every order, and all that files need."""
from emulated_run import DEVICE, STEPS, GpuTest
from small_run import GPT2, LLAMA, main, tensors_of

# Of a loss near 4.6: sums in another order; bf16 rounds every tensor on the way to 8 bits.
TOLERANCES = {"f32": 2e-4, "bf16": 4e-2}


class Emulated(GpuTest):
    def cpu_losses(self, folder, *arguments):
        self.on_cpu(folder, "train", "run.yaml", *arguments)
        losses = self.losses(folder), [line["loss"] for line in folder.metrics("eval")]
        folder.forget()
        return losses

    def test_losses_are_those_of_the_cpu(self):
        for config in (LLAMA, GPT2):
            for precision in ("f32", "bf16"):
                folder = self.gpu_folder(config, precision__params=precision,
                                         precision__compute=precision)
                steps, evaluations = self.cpu_losses(folder)
                self.train(folder)
                self.assertEqual(len(steps), STEPS)
                self.assert_all_near(self.losses(folder), steps, TOLERANCES[precision])
                self.assert_all_near([line["loss"] for line in folder.metrics("eval")],
                                     evaluations, TOLERANCES[precision])

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
        self.assert_all_near(self.losses(folder), steps, TOLERANCES["f32"])

    def test_a_snapshot_of_one_goes_on_on_the_other(self):
        folder = self.gpu_folder()
        steps, _ = self.cpu_losses(folder)
        self.train(folder, "pause_at=1")
        self.on_cpu(folder, "train", "run.yaml", "pause_at=2")
        self.train(folder, "pause_at=3")
        self.on_cpu(folder, "train", "run.yaml")
        self.assert_all_near(self.losses(folder), steps, TOLERANCES["f32"])

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
                                  env={**DEVICE, "SKEP_EMULATED_LOSE_AT": str(lost_at)})
            self.assert_exit(result, 1)
            self.assertIn("CUDA_ERROR_LAUNCH_FAILED", result.stderr)
            if "snapshot of step 2" in result.stderr:
                break
            lost_at *= 2
        self.assertIn("start again: the run resumes from the snapshot of step 2", result.stderr)
        self.assertEqual(folder.state(), saved)
        self.train(folder, "pause_at=3")

    def test_a_verbose_start_names_the_instruction_at_which_a_device_fails(self):
        folder = self.gpu_folder(steps=1)
        verbose = {**DEVICE, "SKEP_LOG": "debug"}
        result = folder.train("target=./gpu.yaml", env={**verbose, "SKEP_EMULATED_LOSE_AT": "20"})
        self.assert_exit(result, 1)
        self.assertRegex(result.stderr, r"the device failed while it executed instruction "
                                        r"+\d+ (compute|copy) ")
        self.train(folder)
        quiet = folder.state()
        folder.forget()
        self.assert_exit(folder.train("target=./gpu.yaml", env=verbose), 0)
        self.assertEqual(folder.state(), quiet)

    def test_a_trace_is_refused_in_words(self):
        folder = self.gpu_folder(steps=1, trace="trace.json", trace_steps="1:1")
        result = folder.train("target=./gpu.yaml", env=DEVICE)
        self.assert_exit(result, 2)
        self.assertIn("a device executes each segment as a", result.stderr)

    def test_text_is_generated_as_on_the_cpu(self):
        folder = self.gpu_folder(steps=1)
        self.train(folder)
        arguments = ("generate", "run.yaml", "--ids", "--prompt", "5 9 17", "--tokens", "6",
                     "--temperature", "0")
        here = folder.run(*arguments, "target=./gpu.yaml", env=DEVICE)
        self.assert_exit(here, 0)
        self.assertEqual(here.stdout, self.on_cpu(folder, *arguments).stdout)


if __name__ == "__main__":
    main()
