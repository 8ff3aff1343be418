"""Train a small multi-layer perceptron on scikit-learn's handwritten digits.

Usage: python sample_models/digits_mlp.py --seed 0 --steps 200
"""

import argparse
import random

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

TRAINING_IMAGES = 1500
"""Of 1797; the others, by different writers, are the validation set."""


class Perceptron(nn.Module):
    def __init__(self, hidden: int):
        super().__init__()
        self.norm = nn.LayerNorm(64)
        self.up = nn.Linear(64, hidden)
        self.act = nn.GELU()
        self.hidden_norm = nn.LayerNorm(hidden)
        self.mix = nn.Linear(hidden, hidden)
        self.out_norm = nn.LayerNorm(hidden)
        self.head = nn.Linear(hidden, 10)

    def forward(self, pixels):
        x = self.hidden_norm(self.act(self.up(self.norm(pixels))))
        x = x + self.act(self.mix(x))
        return self.head(self.out_norm(x))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=200, help="optimizer updates (default: %(default)s)")
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--workers", type=int, default=0, help="data loader processes")
    parser.add_argument("--out", help="save the final weights there")
    args = parser.parse_args()

    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)

    digits = load_digits()
    pixels = torch.tensor(digits.data / 16, dtype=torch.float32)
    labels = torch.tensor(digits.target)
    train_set = TensorDataset(pixels[:TRAINING_IMAGES], labels[:TRAINING_IMAGES])
    train_loader = DataLoader(train_set, args.batch_size, shuffle=True, drop_last=True, num_workers=args.workers)

    model = Perceptron(hidden=128)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)

    step = 0
    while step < args.steps:
        for inputs, targets in train_loader:
            loss = criterion(model(inputs), targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if step % 20 == 0:
                print(f"step {step:4d}  loss {loss.item():.6f}", flush=True)
            step += 1
            if step == args.steps:
                break

    model.eval()
    with torch.no_grad():
        logits = model(pixels[TRAINING_IMAGES:])
        loss = criterion(logits, labels[TRAINING_IMAGES:]).item()
        accuracy = (logits.argmax(1) == labels[TRAINING_IMAGES:]).float().mean().item()
    print(f"validation accuracy {accuracy:.4f}  loss {loss:.9f}")

    if args.out:
        torch.save(model.state_dict(), args.out)


if __name__ == "__main__":
    main()
