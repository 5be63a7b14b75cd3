"""Plans of a site of GPUs, held against files: what is declared beside the arena, NCCL's lines
among it, every extent, the staging between host and device and that of exact sums, and what moves
between ranks. SKEP_GOLDEN_WRITE=1 makes the files anew: read the difference before committing."""
import json
import os
import pathlib
import subprocess
import unittest

FOLDER = pathlib.Path(__file__).parent
MIB = 1 << 20
RUN = ["small_llama.json", "--target", "./gpu.yaml", "--ranks", "4", "strategy.zero=3",
       "strategy.replicate=2", "precision.params=bf16", "precision.compute=bf16",
       "batch.sequence=8", "batch.microbatch=2", "batch.tokens=128"]
# The stem of the file, and what tells the run from the others.
PLANS = {"site_gpu_exact": [], "site_gpu_ring": ["precision.wire_sum=ring"],
         "site_gpu_ring_bf16": ["precision.wire_sum=ring", "precision.reduce=bf16"]}


def plan_of(arguments):
    result = subprocess.run([os.environ["SKEP"], "plan", *RUN, *arguments, "--json"], cwd=FOLDER,
                            capture_output=True, text=True, check=True)
    return json.loads(result.stdout)


def lines_of(plan):
    """Without the disk, which is the machine's."""
    yield f"hash {plan['hash']}"
    yield f"ranks {plan['ranks']} fits {plan['fits']} program_steps {plan['program_steps']}"
    for name, size in plan["mesh"].items():
        yield f"mesh {name} {size}"
    for space in plan["spaces"]:
        if space["name"] == "disk":
            continue
        yield (f"space {space['name']} capacity {space['capacity_bytes']} peak "
               f"{space['peak_bytes']} bound {space['bound_bytes']}")
        for line in space["declared"]:
            yield f"  declared {line['bytes']} {line['name']}"
    for name, received in plan["volumes"].items():
        yield f"received {name} {received}"
    for extent in plan["extents"]:
        yield ("{space} {offset}+{bytes} align {align} life {first}..{last} {role} {name}"
               .format(**extent))


class Plans(unittest.TestCase):
    maxDiff = None

    def test_plans_are_those_of_their_files(self):
        for stem, arguments in PLANS.items():
            with self.subTest(plan=stem):
                path = FOLDER / f"{stem}.txt"
                text = "".join(line + "\n" for line in lines_of(plan_of(arguments)))
                if "SKEP_GOLDEN_WRITE" in os.environ:
                    path.write_text(text)
                self.assertEqual(text, path.read_text())

    def test_each_rank_is_in_three_groups_and_stages_its_exact_sums(self):
        """What the files must say, whatever else is in them."""
        for stem, arguments in PLANS.items():
            plan = plan_of(arguments)
            device, = (space for space in plan["spaces"] if space["name"] == "device")
            declared = {line["name"]: line["bytes"] for line in device["declared"]}
            self.assertEqual(declared["NCCL channels and proxies"], 100 * MIB)
            self.assertEqual(declared["NCCL, further groups"], 2 * 11 * MIB)
            staged = {extent["name"]: extent["space"] for extent in plan["extents"]
                      if extent["role"] == "staging"}
            self.assertEqual(staged["device.staging"], "pinned")
            self.assertEqual(staged["batch.ids.staged"], "pinned")
            # Rings sum f32; what travels as bf16 is always summed exactly.
            self.assertEqual("gradients.summed" in staged, stem != "site_gpu_ring")


if __name__ == "__main__":
    unittest.main()
