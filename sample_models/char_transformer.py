"""Train a small causal transformer on the characters of a few standard library modules.

Usage: python sample_models/char_transformer.py --seed 0 --steps 100
"""

import argparse
import importlib
import inspect
import math
import random

import numpy as np
import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset

MODULES = ("bisect", "heapq", "random", "statistics", "string", "textwrap")
"""Their sources, one after the other, are the text: the same for one version of Python."""


class Windows(Dataset):
    """Pieces of a text with, for each character, the one that follows it."""

    def __init__(self, tokens, context: int):
        self.tokens = tokens
        self.context = context

    def __len__(self):
        return (len(self.tokens) - 1) // self.context

    def __getitem__(self, index):
        start = index * self.context
        piece = self.tokens[start : start + self.context + 1]
        return piece[:-1], piece[1:]


class Attention(nn.Module):
    def __init__(self, width: int, heads: int, dropout: float):
        super().__init__()
        self.heads = heads
        self.dropout = dropout
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)

    def forward(self, x):
        batch, length, width = x.shape
        qkv = self.qkv(x).view(batch, length, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        dropout = self.dropout if self.training else 0.0
        y = functional.scaled_dot_product_attention(q, k, v, dropout_p=dropout, is_causal=True)
        return self.proj(y.transpose(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    def __init__(self, width: int, heads: int, dropout: float):
        super().__init__()
        self.ln1 = nn.LayerNorm(width)
        self.attn = Attention(width, heads, dropout)
        self.ln2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width), nn.Dropout(dropout)
        )

    def forward(self, x):
        x = x + self.attn(self.ln1(x))
        return x + self.mlp(self.ln2(x))


class Transformer(nn.Module):
    def __init__(self, vocabulary: int, context: int, *, width=64, heads=4, layers=2, dropout=0.1):
        super().__init__()
        self.token = nn.Embedding(vocabulary, width)
        self.position = nn.Embedding(context, width)
        self.drop = nn.Dropout(dropout)
        self.blocks = nn.ModuleList(Block(width, heads, dropout) for _ in range(layers))
        self.ln = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens):
        positions = torch.arange(tokens.shape[1])
        x = self.drop(self.token(tokens) + self.position(positions))
        for block in self.blocks:
            x = block(x)
        return self.head(self.ln(x))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=100, help="optimizer updates (default: %(default)s)")
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--workers", type=int, default=0, help="data loader processes")
    parser.add_argument("--out", help="save the final weights there")
    args = parser.parse_args()

    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)

    text = "".join(inspect.getsource(importlib.import_module(name)) for name in MODULES)
    alphabet = sorted(set(text))  # a set's own order would change with PYTHONHASHSEED
    tokens = torch.tensor([alphabet.index(character) for character in text])
    split = len(tokens) * 9 // 10
    context = 64
    train_set = Windows(tokens[:split], context)
    valid_set = Windows(tokens[split:], context)
    train_loader = DataLoader(train_set, args.batch_size, shuffle=True, drop_last=True, num_workers=args.workers)
    valid_loader = DataLoader(valid_set, 64)

    model = Transformer(len(alphabet), context)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    warmup = torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=0.1, total_iters=20)

    step = 0
    while step < args.steps:
        for inputs, targets in train_loader:
            logits = model(inputs)
            loss = functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            warmup.step()
            if step % 10 == 0:
                print(f"step {step:4d}  loss {loss.item():.6f}", flush=True)
            step += 1
            if step == args.steps:
                break

    model.eval()
    total_loss = 0.0
    with torch.no_grad():
        for inputs, targets in valid_loader:
            logits = model(inputs)
            total_loss += functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="sum").item()
    loss = total_loss / (len(valid_set) * context)
    print(f"validation loss {loss:.9f}  bits per character {loss / math.log(2):.4f}")

    if args.out:
        torch.save(model.state_dict(), args.out)


if __name__ == "__main__":
    main()
