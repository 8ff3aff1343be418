"""A validation pass after each epoch."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.Linear(3, 1))
opt = torch.optim.AdamW(model.parameters(), lr=0.01)
train = DataLoader(TensorDataset(torch.randn(8, 2)), batch_size=4, shuffle=True)
val = DataLoader(torch.randn(4, 2), batch_size=2)

for _ in range(2):
    model.train()
    for (features,) in train:
        opt.zero_grad()
        model(features).square().mean().backward()
        opt.step()
    model.eval()
    with torch.no_grad():
        for held_out in val:
            model(held_out)
