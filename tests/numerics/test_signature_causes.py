"""Hints at the cause on what torch computes where exactly that cause is at work."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch.nn import functional

from bisect_diverge.numerics.signature import Hint, Signature, hint

CAUSES: dict[str, tuple[Callable[[], tuple[torch.Tensor, torch.Tensor]], Hint]] = {}


@dataclass(frozen=True)
class cause:  # noqa: N801, a decorator
    """Puts a function that returns the tensors of both runs into the table, with the hint that is expected."""

    expected: Signature
    rounded_as: str = ""

    def __call__(self, make: Callable[[], tuple[torch.Tensor, torch.Tensor]]) -> Callable[..., object]:
        """Add the function."""
        CAUSES[make.__name__] = make, Hint(self.expected, self.rounded_as)
        return make


def matrices() -> tuple[torch.Tensor, torch.Tensor]:
    """Return two matrices."""
    generator = torch.Generator().manual_seed(3)
    return tuple(torch.randn(shape, generator=generator) for shape in ((64, 512), (512, 32)))  # type: ignore[return-value]


def tf32(tensor: torch.Tensor) -> torch.Tensor:
    """Return values rounded to the 10 bits of mantissa that a tensor core takes of a float32."""
    pattern = tensor.numpy().view(np.uint32) + np.uint32(0x1000) & np.uint32(0xFFFFE000)
    return torch.from_numpy(pattern.view(np.float32))


@cause(Signature.REDUCTION_ORDER)
def a_sum_in_another_order():
    """Columns added from the other end."""
    x, _ = matrices()
    return x.sum(1), x.flip(1).sum(1)


@cause(Signature.REDUCTION_ORDER)
def a_product_of_matrices_in_two_parts():
    """A split sum, as of another number of threads."""
    x, w = matrices()
    return x @ w, x[:, 100:] @ w[100:] + x[:, :100] @ w[:100]


@cause(Signature.REDUCTION_ORDER)
def bfloat16_sums_in_two_parts():
    """The same in a short type."""
    x, w = (matrix.bfloat16() for matrix in matrices())
    return x @ w, x[:, 500:] @ w[500:] + x[:, :500] @ w[:500]


@cause(Signature.SHORTER_ARITHMETIC, "bfloat16")
def a_product_in_bfloat16():
    """Short inputs and a short result, cast back."""
    x, w = matrices()
    return x @ w, (x.bfloat16() @ w.bfloat16()).float()


@cause(Signature.SHORTER_ARITHMETIC, "bfloat16")
def a_product_of_bfloat16_with_a_long_result():
    """Only the inputs are rounded."""
    x, w = matrices()
    return x.bfloat16().float() @ w.bfloat16().float(), x @ w


@cause(Signature.SHORTER_ARITHMETIC, "bfloat16")
def a_convolution_under_autocast():
    """What torch's autocast makes of a layer."""
    torch.manual_seed(0)
    layer, images = torch.nn.Conv2d(3, 8, 3), torch.randn(4, 3, 12, 12)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        short = layer(images).float()
    return layer(images).detach(), short


@cause(Signature.SHORTER_ARITHMETIC, "float16")
def a_product_in_float16():
    """The values of the result are those of the short type."""
    x, w = matrices()
    return x @ w, (x.half() @ w.half()).float()


@cause(Signature.SHORTER_ARITHMETIC, "tf32 or float16")
def a_product_of_float16_with_a_long_result():
    """Then float16 and TF32 look alike: both have 10 bits."""
    x, w = matrices()
    return x @ w, x.half().float() @ w.half().float()


@cause(Signature.SHORTER_ARITHMETIC, "tf32 or float16")
def a_product_in_tf32():
    """A tensor core rounds the inputs and adds the products in float32."""
    x, w = matrices()
    return x @ w, tf32(x) @ tf32(w)


@cause(Signature.MASKED)
def dropout_with_another_seed():
    """Each run sets other elements to zero."""
    x, _ = matrices()
    out = []
    for seed in (0, 1):
        torch.manual_seed(seed)
        out.append(functional.dropout(x, 0.3))
    return out[0], out[1]


@cause(Signature.PERMUTATION)
def samples_in_another_order():
    """Rows shuffled with another seed."""
    x, _ = matrices()
    return x, x[torch.randperm(64, generator=torch.Generator().manual_seed(1))]


@cause(Signature.SCALED)
def a_mean_over_another_batch_size():
    """The gradient of a mean over twice as many elements is half as large."""
    x, w = matrices()
    out = []
    for count in (64, 128):
        weight = w.clone().requires_grad_()
        ((x @ weight).sum() / count).backward()
        assert weight.grad is not None
        out.append(weight.grad)
    return out[0], out[1] * 1.5


@cause(Signature.SHIFTED)
def another_bias():
    """One number added everywhere."""
    x, _ = matrices()
    return x, x + 0.5


@cause(Signature.UNRELATED)
def weights_of_another_seed():
    """Two initializations of one layer."""
    out = []
    for seed in (0, 1):
        torch.manual_seed(seed)
        out.append(torch.nn.Linear(64, 64).weight.detach())
    return out[0], out[1]


@pytest.mark.parametrize("name", list(CAUSES))
def test_the_real_cause_gives_the_hint(name: str):
    """Whichever run is the baseline."""
    make, expected = CAUSES[name]
    a, b = (_stored(tensor) for tensor in make())
    dtype = "bfloat16" if a.dtype == np.uint16 else "float32"

    assert hint(a, b, dtype) == expected
    assert hint(b, a, dtype) == expected


def _stored(tensor: torch.Tensor) -> np.ndarray:
    tensor = tensor.contiguous()
    return tensor.view(torch.uint16).numpy() if tensor.dtype is torch.bfloat16 else tensor.numpy()


def test_weights_are_not_said_to_be_made_by_shorter_arithmetic():
    """After an update with another learning rate they differ a little, by no simple rule."""
    x, w = matrices()
    gradient = x.T @ torch.sin(x @ w)
    a, b = (w - rate * gradient for rate in (0.001, 0.0013))

    assert hint(a.numpy(), b.numpy(), "float32", products=False) == Hint(Signature.VALUES)


@pytest.mark.parametrize("seed", range(20))
def test_drift_of_weights_is_not_called_shorter_arithmetic(seed: int):
    """Differences that grow with training have a long tail or another size; few elements tell nothing."""
    random = np.random.default_rng(seed)
    a = random.standard_normal(500).astype(np.float32)
    b = a + (random.standard_cauchy(500) * 1e-3).astype(np.float32)

    assert hint(a, b, "float32").signature is not Signature.SHORTER_ARITHMETIC
    assert hint(a[:9], b[:9], "float32").signature is not Signature.SHORTER_ARITHMETIC
