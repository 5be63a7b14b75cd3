"""One rank of gloo's all-reduce, for exchange.py.

For each number of bytes on standard input it runs an all-reduce of that size and prints the
seconds.
"""
import os
import sys
import time

import torch
import torch.distributed as dist


def main():
    dist.init_process_group("gloo", rank=int(os.environ["RANK"]),
                            world_size=int(os.environ["WORLD_SIZE"]))
    print("ready", flush=True)
    for line in sys.stdin:
        values = torch.ones(int(line), dtype=torch.uint8)
        dist.barrier()
        began = time.perf_counter()
        dist.all_reduce(values)
        print(time.perf_counter() - began, flush=True)


main()
