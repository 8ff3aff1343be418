"""A gradient that is infinite in the first step, so that its update is skipped."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.Linear(3, 1))
opt = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
features = torch.randn(4, 2)

for factor in (float("inf"), 1.0):
    opt.zero_grad()
    loss = model(features).square().mean() * factor
    scaler.scale(loss).backward()
    scaler.step(opt)
    scaler.update()
