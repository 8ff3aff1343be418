"""A criterion that is a module, and a model with buffers."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
criterion = nn.CrossEntropyLoss()
opt = torch.optim.Adam(model.parameters(), lr=0.01)
features, labels = torch.randn(6, 2), torch.tensor([0, 1, 2, 0, 1, 2])

for _ in range(2):
    opt.zero_grad()
    criterion(model(features), labels).backward()
    opt.step()
