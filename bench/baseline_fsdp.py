#!/usr/bin/env python3
"""One rank of PyTorch's FSDP2 over gloo for bench/site.py, with the protocol of baseline.py.

The argument is JSON: {"case": NAME}; the environment sets RANK, WORLD_SIZE, MASTER_ADDR and
MASTER_PORT. Each rank trains on its own part of the rows. Each block and the root are wrapped.
"""

import json
import os
import resource
import sys
import time

import baseline


class ShardedTrainer:
    def __init__(self, case):
        import torch
        import torch.distributed as distributed
        import transformers
        from torch.distributed.fsdp import fully_shard

        self.torch = torch
        torch.set_num_threads(1)
        distributed.init_process_group("gloo")
        world = distributed.get_world_size()
        torch.manual_seed(1)
        fields, rows, length = baseline.CASES[case]
        config = transformers.AutoConfig.for_model(**fields)
        model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="sdpa")
        model.train()
        mesh = distributed.device_mesh.init_device_mesh("cpu", (world,))
        for block in model.model.layers:
            fully_shard(block, mesh=mesh)
        fully_shard(model, mesh=mesh)
        self.model = model
        self.parameters = list(model.parameters())
        self.optimizer = torch.optim.AdamW(
            [
                {"params": [p for p in self.parameters if p.ndim >= 2], "weight_decay": 0.1},
                {"params": [p for p in self.parameters if p.ndim < 2], "weight_decay": 0.0},
            ],
            lr=baseline.LEARNING_RATE,
            betas=(0.9, 0.95),
            fused=True,
        )
        torch.manual_seed(2 + distributed.get_rank())
        self.ids = torch.randint(0, fields["vocab_size"], (64, rows // world, length))
        self.steps_done = 0

    def step(self):
        ids = self.ids[self.steps_done % len(self.ids)]
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.model(input_ids=ids, labels=ids, use_cache=False).loss
        loss.backward()
        self.torch.nn.utils.clip_grad_norm_(self.parameters, 1.0)
        self.optimizer.step()
        self.steps_done += 1
        return loss.item()


def main():
    trainer = ShardedTrainer(json.loads(sys.argv[1])["case"])
    for line in sys.stdin:
        times, losses = [], []
        for _ in range(int(line)):
            begin = time.perf_counter()
            losses.append(trainer.step())
            times.append((time.perf_counter() - begin) * 1e3)
        rss_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        print(json.dumps({"ms": times, "rss_bytes": rss_bytes, "first_loss": losses[0]}),
              flush=True)


if __name__ == "__main__":
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    main()
