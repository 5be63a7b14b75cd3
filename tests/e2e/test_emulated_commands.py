"""Every command that computes, on a GPU that is emulated, held against the processor's; and what a
person is told when the device is not what the plan was made for."""
import json
import os
import pathlib
import re
import signal
import struct

from emulated_run import CPU, DEVICE, GpuTest
from small_run import main, safetensors, tensors_of, wait_until

PATIENCE_S = 600  # a machine that does other work, too
NEAR = 2e-4  # of values near 1: sums in another order
# With NVML the driver's own version stands before that of CUDA.
OLD_DRIVER = (r"libcuda\.so\.1: NVIDIA's driver [^\n(]*\(CUDA 11\.4\) is too old: this build "
              r"needs \d+ \(CUDA 1\d\.0\); install NVIDIA's driver \d+ or newer[^\n]*, "
              r"or use a cpu target")


def floats(tensor):
    _, _, data = tensor
    return struct.unpack(f"<{len(data) // 4}f", data)


class Commands(GpuTest):
    def on_gpu(self, folder, *arguments, code=0, **environment):
        result = folder.run(*arguments, "target=./gpu.yaml", env={**DEVICE, **environment})
        self.assert_exit(result, code)
        return result

    def test_held_out_text_has_the_processors_loss(self):
        folder = self.gpu_folder(steps=1)
        self.train(folder)
        arguments = ("eval", "run.yaml", "--data", "valid.u16", "--json", "eval.tokens=64")
        here = json.loads(self.on_gpu(folder, *arguments).stdout)
        there = json.loads(self.on_cpu(folder, *arguments).stdout)
        self.assertAlmostEqual(here["loss"], there["loss"], delta=NEAR)

    def test_a_dump_has_the_processors_logits_gradients_and_weights(self):
        folder = self.gpu_folder(steps=1)
        self.train(folder)
        ids = struct.pack("<16i", *range(3, 19))
        (folder.path / "batch.safetensors").write_bytes(
            safetensors({"input_ids": ("I32", [1, 16], ids)}))
        dumps = []
        for name, run in (("gpu", self.on_gpu), ("cpu", self.on_cpu)):
            out = folder.path / f"{name}.safetensors"
            run(folder, "dump", "run/model", "batch.safetensors", "-o", out, "--gradients",
                "--steps", "1", "batch.sequence=16")
            dumps.append(tensors_of(out))
        here, there = dumps
        self.assertEqual(sorted(here), sorted(there))
        self.assertTrue(any(name.startswith("gradients.") for name in here))
        for name, tensor in here.items():
            self.assertEqual(tensor[:2], there[name][:2], name)
            self.assert_all_near(floats(tensor), floats(there[name]), NEAR)

    def test_a_plan_is_of_three_memories_and_the_same_without_the_device(self):
        folder = self.gpu_folder()
        arguments = ("plan", "run.yaml", "--json", "target=./gpu.yaml")
        here = self.document(folder.run(*arguments, env=DEVICE))
        there = json.loads(self.on_cpu(folder, *arguments).stdout)
        self.assertEqual(here, there)
        spaces = {space["name"] for space in here["spaces"]}
        self.assertLessEqual({"device", "pinned", "host"}, spaces)
        staged = {extent["name"]: extent["space"] for extent in here["extents"]}
        self.assertEqual(staged["batch.ids.staged"], "pinned")

    def test_a_wish_to_stop_is_followed_and_the_run_goes_on_from_there(self):
        folder = self.gpu_folder(steps=4000)
        process = folder.start("target=./gpu.yaml", env={**os.environ, **DEVICE})
        self.addCleanup(process.kill)
        self.assertTrue(wait_until(lambda: folder.metrics("step"), PATIENCE_S), folder.log())
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(timeout=PATIENCE_S), 0, folder.log())
        self.assertEqual(folder.metrics("end")[-1]["reason"], "stopped")
        last = folder.metrics("step")[-1]["step"]
        result = self.train(folder, f"pause_at={last + 1}")
        self.assertIn(f"step {last}", result.stderr.partition("resuming from")[2] or result.stderr)
        self.assertEqual(folder.metrics("step")[-1]["step"], last + 1)

    def test_a_device_with_less_memory_than_its_profile_says_is_refused(self):
        folder = self.gpu_folder(steps=1)
        result = folder.train("target=./gpu.yaml", env={"SKEP_EMULATED_MIB": "1"})
        self.assert_exit(result, 3)
        self.assertRegex(result.stderr, r"skep: [^\n]+: [^\n]+; [^\n]+\n$")
        self.assertFalse((folder.path / "run" / "snapshots").exists())

    def test_a_plan_of_a_device_with_a_display_names_its_headroom(self):
        folder = self.gpu_folder(steps=1)
        screen = {"SKEP_EMULATED_MIB": "8192", "SKEP_EMULATED_DISPLAY": "1"}
        plan = folder.run("plan", "run.yaml", env=screen)
        self.assert_exit(plan, 0)
        self.assertRegex(plan.stdout, r"\n +headroom for the display +1\.00 GiB  the device drives "
                                      r"a display: 5 % of its memory, at least 1 GiB\n")
        device, *_ = self.document(folder.run("plan", "run.yaml", "--json", env=screen))["spaces"]
        sources = {line["name"]: line["source"] for line in device["declared"]}
        self.assertIn("drives a display", sources["headroom for the display"])
        without = self.document(folder.run("plan", "run.yaml", "--json",
                                           env={"SKEP_EMULATED_MIB": "8192"}))
        self.assertNotIn("display", str(without["spaces"]))

    def test_a_plan_that_is_too_large_for_the_profile_is_refused(self):
        folder = self.gpu_folder(steps=1)
        result = folder.train("target=./gpu.yaml", "limits.device=1MiB", env=DEVICE)
        self.assert_exit(result, 3)
        self.assertIn("device arena", result.stderr)

    def test_a_device_of_an_older_kind_than_its_profile_is_refused(self):
        folder = self.gpu_folder(steps=1)
        profile = folder.path / "gpu.yaml"
        profile.write_text(profile.read_text().replace('"9.0"', '"12.0"'))
        result = folder.train("target=./gpu.yaml", env=DEVICE)
        self.assert_exit(result, 2)
        self.assertIn("12.0", result.stderr)

    def test_a_driver_that_is_too_old_is_refused_and_planned_without(self):
        folder = self.gpu_folder(steps=1)
        old = {"LD_LIBRARY_PATH": str(pathlib.Path(os.environ["OLD_DRIVER"]).parent)}
        folder.command = lambda *of: [CPU, *map(str, of)]
        result = folder.train("target=./gpu.yaml", env=old)
        self.assert_exit(result, 2)
        self.assertRegex(result.stderr, "skep: " + OLD_DRIVER + r"\n$")
        self.assert_exit(folder.run("plan", "run.yaml", "target=./gpu.yaml", env=old), 0)
        result = folder.train(env=old)
        self.assert_exit(result, 0)
        warning = "no GPU is used: " + OLD_DRIVER + "\n"
        self.assertEqual(len(re.findall(warning, result.stderr)), 1, result.stderr)
        plan = folder.run("plan", "run.yaml", "target=auto", env=old)
        self.assertEqual(len(re.findall(warning, plan.stderr)), 1, plan.stderr)
        ranks = folder.train("--ranks", "2", "--fresh", env=old)
        self.assert_exit(ranks, 0)
        self.assertEqual(len(re.findall(warning, ranks.stderr)), 1, ranks.stderr)

    def test_an_old_version_of_the_driver_is_refused_although_it_has_all_functions(self):
        folder = self.gpu_folder(steps=1)
        result = folder.train("target=./gpu.yaml", env={**DEVICE, "SKEP_EMULATED_CUDA": "11040"})
        self.assert_exit(result, 2)
        self.assertRegex(result.stderr, "skep: " + OLD_DRIVER + r"\n$")

    def test_a_device_that_computes_in_the_hosts_memory_is_planned_for_and_refused(self):
        folder = self.gpu_folder(steps=1)
        self.assert_exit(folder.run("plan", "run.yaml", "target=jetson-orin-64g"), 0)
        result = folder.train("target=jetson-orin-64g", env=DEVICE)
        self.assert_exit(result, 2)
        self.assertIn("the GPU shares its memory with the", result.stderr)


if __name__ == "__main__":
    main()
