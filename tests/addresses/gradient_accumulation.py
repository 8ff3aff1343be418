"""Two micro-batches for each update, drawn by a shuffling loader."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))
opt = torch.optim.SGD(model.parameters(), lr=0.1)
train = DataLoader(TensorDataset(torch.randn(8, 2), torch.randn(8, 1)), batch_size=2, shuffle=True)

for number, (features, target) in enumerate(train):
    loss = (model(features) - target).square().mean() / 2
    loss.backward()
    if number % 2 == 1:
        opt.step()
        opt.zero_grad()
