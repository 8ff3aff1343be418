"""An encoder and a decoder called from the script, one optimizer for both, outputs with names."""

import torch
from torch import nn


class Encoder(nn.Module):
    """Returns a mapping."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(3, 2)

    def forward(self, features):
        """Return the code of the features."""
        return {"code": self.inner(features)}


class Decoder(nn.Module):
    """Returns a tuple."""

    def __init__(self):
        super().__init__()
        self.outer = nn.Linear(2, 3)

    def forward(self, code):
        """Return features for a code, and the code."""
        return self.outer(code), code


torch.manual_seed(0)
encoder, decoder = Encoder(), Decoder()
opt = torch.optim.SGD([{"params": encoder.parameters()}, {"params": decoder.parameters(), "lr": 0.2}], lr=0.1)
features = torch.randn(4, 3)

for _ in range(2):
    opt.zero_grad()
    restored, _code = decoder(**encoder(features))
    (restored - features).square().mean().backward()
    opt.step()
