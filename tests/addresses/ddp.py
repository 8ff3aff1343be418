"""One process of DistributedDataParallel."""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

torch.manual_seed(0)
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
model = DistributedDataParallel(nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1)))
opt = torch.optim.SGD(model.parameters(), lr=0.1)
features, target = torch.randn(4, 2), torch.randn(4, 1)

for _ in range(2):
    opt.zero_grad()
    (model(features) - target).square().mean().backward()
    opt.step()
dist.destroy_process_group()
