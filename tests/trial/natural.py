"""A tiny net whose bits depend on threads, instruction sets and loader workers; with ``--race`` on luck as well."""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

parser = argparse.ArgumentParser()
parser.add_argument("--workers", type=int, default=0)
parser.add_argument("--race", action="store_true")
args = parser.parse_args()


class Noisy(Dataset):
    """Images that are made noisy anew, in the process that loads them."""

    def __len__(self):
        return 256

    def __getitem__(self, index):
        return images[index] + 0.1 * torch.randn(1, 8, 8), index % 10


class Gather(nn.Module):
    """Rows of a table, each taken many times: threads race for the sums of its gradient."""

    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(torch.randn(7, 10))

    def forward(self, scores):
        """Return the scores with the mean of the weighted rows added."""
        rows = torch.arange(200_000) % 7
        return scores + (self.table[rows] * torch.linspace(-1, 1, 200_000).unsqueeze(1)).mean(0)


torch.manual_seed(0)
images = torch.randn(256, 1, 8, 8)
layers = [nn.Conv2d(1, 16, 3), nn.GELU(), nn.Flatten(), nn.LayerNorm(576), nn.Linear(576, 64), nn.Linear(64, 10)]
model = nn.Sequential(*layers, *([Gather()] if args.race else []))
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for inputs, targets in DataLoader(Noisy(), 128, shuffle=True, num_workers=args.workers):  # two steps
    loss = criterion(model(inputs), targets)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
