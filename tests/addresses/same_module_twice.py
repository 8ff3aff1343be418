"""One layer called twice in a forward, with a draw in between and one outside of any layer."""

import torch
from torch import nn


class Net(nn.Module):
    """A layer applied twice."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 2)
        self.drop = nn.Dropout(0.5)

    def forward(self, features, gain):
        """Return the layer's second output."""
        hidden = self.drop(self.layer(features))
        return self.layer(hidden + gain * torch.rand(2))


torch.manual_seed(0)
net = Net()
opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9, nesterov=True)
features = torch.randn(4, 2)

for _ in range(2):
    opt.zero_grad()
    net(features, gain=0.5).square().mean().backward()
    opt.step()
