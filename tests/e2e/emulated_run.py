"""Runs on a GPU that is emulated, in an order drawn from a seed among all that its streams allow,
and the same on the processor."""
import os

from small_run import RunTest

CPU = os.environ["CPU_SKEP"]
DEVICE = {"SKEP_EMULATED_MIB": "512"}
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


class GpuTest(RunTest):
    """A test whose folders have a GPU's profile, ./gpu.yaml."""

    def gpu_folder(self, config=None, **settings):
        folder = self.folder(config, **{"steps": STEPS, "batch__tokens": 64, **settings})
        (folder.path / "gpu.yaml").write_text(PROFILE)
        return folder

    def train(self, folder, *arguments, seed=1):
        result = folder.train("target=./gpu.yaml", *arguments,
                              env={"SKEP_EMULATED_SEED": str(seed), **DEVICE})
        self.assert_exit(result, 0)
        return result

    def on_cpu(self, folder, *arguments):
        """The same command of the program that knows no emulated device."""
        gpu = folder.command
        folder.command = lambda *of: [CPU, *map(str, of)]
        result = folder.run(*arguments)
        folder.command = gpu
        self.assert_exit(result, 0)
        return result

    def losses(self, folder):
        steps = {line["step"]: line["loss"] for line in folder.metrics("step")}
        return [steps[step] for step in sorted(steps)]

    def assert_all_near(self, found, wanted, delta):
        self.assertEqual(len(found), len(wanted))
        for here, there in zip(found, wanted, strict=True):
            self.assertAlmostEqual(here, there, delta=delta)
