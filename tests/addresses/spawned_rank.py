"""Two ranks started with torch.multiprocessing.spawn; variables are locals of the worker."""

import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def work(rank, store):
    """Train as one of two ranks."""
    torch.manual_seed(rank)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1)))
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    features = torch.randn(4, 2)
    for _ in range(2):
        opt.zero_grad()
        model(features).square().mean().backward()
        opt.step()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(work, args=(f"{folder}/store",), nprocs=2)
