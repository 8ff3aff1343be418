"""An optimizer that calls the model itself: exactly twice in each update."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(2, 1)
# max_iter=2 makes max_eval 2: an update ends after the second evaluation; zero tolerances end none earlier.
opt = torch.optim.LBFGS(
    model.parameters(), lr=0.1, max_iter=2, tolerance_grad=0.0, tolerance_change=0.0, history_size=3
)
features, target = torch.randn(8, 2), torch.randn(8, 1)


def closure():
    """Evaluate the loss and its gradients."""
    opt.zero_grad()
    loss = (model(features) - target).square().mean()
    loss.backward()
    return loss


for _ in range(2):
    opt.step(closure)
