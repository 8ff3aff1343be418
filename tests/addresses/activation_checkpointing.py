"""A block that is run again during backward."""

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


class Net(nn.Module):
    """A checkpointed block and a head."""

    def __init__(self):
        super().__init__()
        self.block = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 2))
        self.head = nn.Linear(2, 1)

    def forward(self, features):
        """Keep nothing of the block for backward."""
        return self.head(checkpoint(self.block, features, use_reentrant=False))


torch.manual_seed(0)
model = Net()
opt = torch.optim.SGD(model.parameters(), lr=0.1)
features, target = torch.randn(4, 2), torch.randn(4, 1)

for _ in range(2):
    opt.zero_grad()
    (model(features) - target).square().mean().backward()
    opt.step()
