"""The model that the recorder's cost is measured on: a causal transformer of 5 M parameters, one training step."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.ln_1 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)
        self.ln_2 = nn.LayerNorm(width)
        self.fc = nn.Linear(width, 4 * width)
        self.act = nn.GELU()
        self.out = nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, t, d = x.shape
        q, k, v = self.qkv(self.ln_1(x)).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).reshape(b, t, d))
        return x + self.out(self.act(self.fc(self.ln_2(x))))


class Transformer(nn.Module):
    """Six blocks of width 256: 5.1 M parameters with a vocabulary of 512."""

    def __init__(self, vocabulary: int = 512, width: int = 256, layers: int = 6, context: int = 128) -> None:
        super().__init__()
        self.tok = nn.Embedding(vocabulary, width)
        self.pos = nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(width, 8) for _ in range(layers))
        self.ln = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.tok(ids) + self.pos.weight[: ids.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.head(self.ln(x))


def training(batch: int = 8, context: int = 128) -> tuple[Transformer, torch.optim.Optimizer, torch.Tensor]:
    """Return model, optimizer and token ids ``int64[batch, context + 1]``, seeded."""
    torch.manual_seed(0)
    model = Transformer(context=context)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    ids = torch.randint(0, 512, (batch, context + 1))
    return model, optimizer, ids


def step(model: Transformer, optimizer: torch.optim.Optimizer, ids: torch.Tensor) -> float:
    """Do one training step and return the loss."""
    logits = model(ids[:, :-1])
    loss = functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()
