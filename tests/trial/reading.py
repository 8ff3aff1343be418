"""A tiny script that reads a configuration file and a folder of data, and seeds its generators in several ways."""

import argparse
import json
import os
import random
from pathlib import Path

import numpy as np
import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--unseeded", action="store_true")
parser.add_argument("--sort", action="store_true")
parser.add_argument("--workers", type=int, default=0)
parser.add_argument("--optional", default="extra.json")
args = parser.parse_args()

config = json.loads(Path("conf.json").read_text())
names = [path.name for path in Path("data").iterdir()]
if args.sort:
    names.sort()
noise = random.random() + np.random.rand() if args.unseeded else 0.0
torch.manual_seed(args.seed)
torch.rand(1)
torch.manual_seed(int(os.environ.get("SEED", "1")))
extra = json.loads(Path(args.optional).read_text()) if Path(args.optional).exists() else 0.0


class Data(torch.utils.data.Dataset):
    """Rows that lie in a file each."""

    def __len__(self):
        return len(names)

    def __getitem__(self, index):
        return torch.from_numpy(np.load(Path("data") / names[index])) + noise + extra


model = nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=config["train"]["lr"])
for batch in torch.utils.data.DataLoader(Data(), batch_size=2, num_workers=args.workers):
    loss = model(batch).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
