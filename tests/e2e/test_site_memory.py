"""Memory of a site's ranks: each uses the plan to the byte, receives what the formulas say, holds
little more, and once sealed asks nobody for memory."""
import os
import random
import shutil
import unittest

from small_run import GPT2, LLAMA, LONG, SANITIZED, RunTest, launched, main

COUNTER = os.environ.get("COUNT_ALLOC", "")

QWEN2 = {**LLAMA, "model_type": "qwen2", "tie_word_embeddings": True}
QWEN3 = {**LLAMA, "model_type": "qwen3", "head_dim": 16}


def drawn(chance):
    """Model and settings of one run, all of them legal together."""
    shard, replicate = chance.choice([(2, 1), (3, 1), (4, 1), (2, 2), (1, 3), (5, 1)])
    zero = chance.randrange(4)
    late = zero < 2 and chance.random() < 0.3
    dtype = chance.choice(["f32", "bf16"])
    settings = {
        "strategy.zero": zero, "strategy.replicate": replicate,
        "strategy.prefetch": chance.randrange(4), "strategy.live": chance.choice([0, 1, 2, 3]),
        "strategy.keep_gathered": chance.choice(["true", "false"]),
        "strategy.reduce_at": "step" if late else "microbatch",
        "strategy.recompute": chance.choice(["none", "selective", "block"]),
        "strategy.offload": chance.choice(["none", "none", "activations", "optimizer"]),
        "strategy.units": chance.choice(["block", "block", "root", "size:20000"]),
        "precision.params": dtype, "precision.compute": dtype,
        "precision.reduce": chance.choice(["f32", "bf16"]),
        "precision.moments": chance.choice(["f32", "bf16"]),
        "batch.microbatch": chance.choice([1, 2]), "batch.tokens": 16 * chance.choice([6, 12, 20]),
    }
    return chance.choice([LLAMA, QWEN2, QWEN3, GPT2]), shard * replicate, settings


class SiteMemory(RunTest):
    def check_footprint(self, folder, ranks, settings):
        arguments = [f"{key}={value}" for key, value in settings.items()]
        plan = self.document(folder.run("plan", "run.yaml", "--json", "--ranks", ranks, *arguments))
        folder.forget()
        self.assert_exit(folder.train("--ranks", ranks, *arguments), 0)
        peaks = {space["name"]: space["peak_bytes"] for space in plan["spaces"]
                 if space["name"] != "disk" and space["peak_bytes"] > 0}
        line = folder.metrics("memory")[-1]
        self.assertEqual([rank["rank"] for rank in line["ranks"]], list(range(ranks)))
        for rank in line["ranks"]:
            self.assertEqual(rank["high_water_bytes"], peaks, f"{ranks} ranks, {settings}")
        self.assertEqual(folder.metrics("start")[0]["plan"], plan["hash"])
        received = {step["received_bytes"] for step in folder.metrics("step")}
        self.assertEqual(received, {plan["volumes"]["total"]}, f"{ranks} ranks, {settings}")

    def test_every_rank_uses_the_plan_to_the_byte_and_receives_what_the_formulas_say(self):
        chance = random.Random(17)
        for _ in range(110 if LONG else 8):
            config, ranks, settings = drawn(chance)
            folder = self.folder(config, steps=2)
            self.check_footprint(folder, ranks, settings)
            folder.remove()

    @unittest.skipIf(SANITIZED, "a sanitizer holds memory of its own")
    def test_a_rank_holds_its_plan_and_little_more(self):
        config = dict(GPT2, n_embd=480, n_layer=2)
        folder = self.folder(config, steps=3)
        self.assert_exit(folder.train("--ranks", 2), 0)
        line = folder.metrics("memory")[-1]
        planned = sum(space["planned_bytes"] for space in line["spaces"])
        for rank in line["ranks"]:
            # what a rank reads of the other's memory is mapped into it too, and counted twice
            self.assertLessEqual(rank["process_bytes"], 2 * planned + (16 << 20))

    @unittest.skipIf(not COUNTER, "no counter was built")
    def test_no_rank_allocates_after_the_seal(self):
        folder = self.folder(steps=60, eval__every=20, snapshot__every=20)
        outcomes = launched(folder, 3, ("trace=trace.json",), lambda rank: {
            "LD_PRELOAD": COUNTER, "COUNT_ALLOC_REPORT": str(folder.path / f"report{rank}")})
        self.assertEqual([code for code, _ in outcomes], [0, 0, 0], outcomes)
        for rank in range(3):
            lines = (folder.path / f"report{rank}").read_text().splitlines()
            self.assertEqual(lines[0].split()[:2], ["count", "0"], "\n".join(lines))
        self.assertGreater(int((folder.path / "report0").read_text().split()[3]), 60)

    @unittest.skipIf(SANITIZED or shutil.which("strace") is None, "strace is not there")
    def test_the_kernel_is_asked_for_no_memory_by_any_rank(self):
        folder = self.folder(steps=20, eval__every=10, snapshot__every=10)
        result = folder.train("--ranks", 2, prefix=["strace", "-ff", "-qq", "-s", "80", "-o",
                                                    str(folder.path / "trace"), "-e",
                                                    "trace=mmap,munmap,mremap,brk,write"])
        if "ptrace" in result.stderr.lower() and result.returncode != 0:
            self.skipTest("tracing is not permitted")
        self.assert_exit(result, 0)
        sealed = 0
        for trace in folder.path.glob("trace.*"):
            lines = trace.read_text().splitlines()
            begins = [i for i, line in enumerate(lines) if r'{\"kind\": \"start\"' in line]
            ends = [i for i, line in enumerate(lines) if r'{\"kind\": \"end\"' in line]
            if begins and ends:
                sealed += 1
                calls = [line for line in lines[begins[0] + 1:ends[0]]
                         if line.startswith(("mmap(", "munmap(", "mremap(", "brk("))]
                self.assertEqual(calls, [])
        self.assertEqual(sealed, 1, "rank 0 writes the metrics")


if __name__ == "__main__":
    main()
