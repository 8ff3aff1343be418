"""A tiny script that sets knobs itself: by flags, by keys of a file, by variables, and by what a package does."""

import argparse
import contextlib
import json
import os
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

parser = argparse.ArgumentParser()
parser.add_argument("--threads", type=int, default=0)
parser.add_argument("--dtype", default="float32")
parser.add_argument("--channels-last", action="store_true")
parser.add_argument("--deterministic", action="store_true")
args = parser.parse_args()

with contextlib.suppress(ImportError):
    import kit  # noqa: F401 - of the test: sets a knob when it is imported


class Noisy(Dataset):
    """Images that are made noisy in the process that loads them."""

    def __len__(self):
        return 64

    def __getitem__(self, index):
        return images[index] + 0.1 * torch.randn(3, 8, 8)


if args.threads:
    torch.set_num_threads(args.threads)
if args.deterministic:
    torch.use_deterministic_algorithms(True)
torch.set_default_dtype(getattr(torch, args.dtype))
torch.manual_seed(int(os.environ.get("RUN_SEED", "0")))
images = torch.randn(64, 3, 8, 8)
model = nn.Sequential(nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), nn.GELU(), nn.Flatten(), nn.Linear(576, 10))
if args.channels_last:
    model = model.to(memory_format=torch.channels_last)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
workers = json.loads(Path("conf.json").read_text())["workers"]
for batch in DataLoader(Noisy(), 32, num_workers=workers):  # two steps
    loss = model(batch).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
