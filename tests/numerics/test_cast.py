"""Tensors of different types that hold the same values."""

import numpy as np
import pytest
import torch

from bisect_diverge.numerics.cast import cast_between

X = torch.randn(500, generator=torch.Generator().manual_seed(0))


def stored(tensor: torch.Tensor) -> tuple[np.ndarray, str]:
    """Return a tensor as it is read from a recording, and its type."""
    name = str(tensor.dtype).removeprefix("torch.")
    plain = {"bfloat16": torch.uint16, "float8_e4m3fn": torch.uint8, "bool": torch.uint8}.get(name)
    return (tensor.view(plain) if plain else tensor).numpy(), name


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        (X, X.double(), "same"),
        (X, X.bfloat16(), "rounded"),
        (X, X.half(), "rounded"),
        (X.double() / 3, (X.double() / 3).float(), "rounded"),
        (X.bfloat16(), X.bfloat16().float(), "same"),
        (X / 16, (X / 16).to(torch.float8_e4m3fn), "rounded"),
        (torch.arange(9), torch.arange(9).float(), "same"),
        (torch.arange(9), torch.arange(9, dtype=torch.int32), "same"),
        (torch.tensor([1.0, torch.nan]), torch.tensor([1.0, torch.nan]).double(), "same"),
        (torch.tensor([True, False]), torch.tensor([1.0, 0.0]), "same"),
        (X, X.bfloat16() * 2, ""),
        (X, X.flip(0).double(), ""),
        (torch.tensor([1e30]), torch.tensor([1e30]).half(), ""),
        (X, X.to(torch.complex64), ""),
        (torch.zeros(0), torch.zeros(0).double(), ""),
    ],
)
def test_the_same_values_in_another_type(a: torch.Tensor, b: torch.Tensor, expected: str):
    """Made by torch's own conversions, in both directions."""
    assert cast_between(*stored(a), *stored(b)) == expected
    assert cast_between(*stored(b), *stored(a)) == expected
