"""A compiled model: one region without inner rows."""

import torch
from torch import nn

torch.manual_seed(0)
model = torch.compile(nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1)), backend="aot_eager_decomp_partition")
opt = torch.optim.SGD(model.parameters(), lr=0.1)
features, target = torch.randn(4, 2), torch.randn(4, 1)

for _ in range(2):
    opt.zero_grad()
    (model(features) - target).square().mean().backward()
    opt.step()
