"""A tiny training script that a trial can change in many ways; it sets kernels itself, and writes files."""

import argparse
import random
import sys
from pathlib import Path

import torch
from torch import nn, set_num_threads
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=0.1)
parser.add_argument("--steps", type=int, default=4)
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--fail", action="store_true")
parser.add_argument("--sleep", type=float, default=0)
parser.add_argument("--out", default="final.pt")
args = parser.parse_args()

set_num_threads(1)
torch.set_float32_matmul_precision("highest")
torch.use_deterministic_algorithms(False)
torch.backends.mkldnn.enabled = True
torch.manual_seed(args.seed)
random.seed(args.seed)
Path("logs").mkdir(exist_ok=True)
if Path(args.out).exists():
    sys.exit("would resume")

model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
loader = DataLoader(TensorDataset(torch.randn(64, 8)), batch_size=16, shuffle=True, num_workers=0)
step = 0
while step < args.steps:
    for (batch,) in loader:
        if args.fail and step == 1:
            raise RuntimeError("out of luck")
        loss = model(batch).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with open("logs/loss.txt", "a") as file:
            file.write(f"{loss.item()}\n")
        torch.save(model.state_dict(), "logs/last.pt")
        step += 1
        if args.sleep:
            import time

            time.sleep(args.sleep)
        if step == args.steps:
            break
torch.save(model.state_dict(), args.out)
