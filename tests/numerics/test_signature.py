"""Hints at the cause, each from a pair of tensors that has exactly that cause."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from bisect_diverge.numerics.bits import FORMATS
from bisect_diverge.numerics.signature import Hint, Signature, hint, rounding, signature

RANDOM = np.random.default_rng(7)
BASE = RANDOM.standard_normal(1000).astype(np.float32)


def other_order() -> tuple[np.ndarray, np.ndarray]:
    """Return the same sums of a thousand terms each, added forwards and backwards."""
    terms = RANDOM.standard_normal((64, 1000)).astype(np.float32)
    forwards, backwards = np.zeros(64, np.float32), np.zeros(64, np.float32)
    for column in range(1000):
        forwards += terms[:, column]
        backwards += terms[:, 999 - column]
    return forwards, backwards


def masks() -> tuple[np.ndarray, np.ndarray]:
    """Return a tensor after dropout with two masks."""
    return BASE * (RANDOM.random(1000) > 0.3), BASE * (RANDOM.random(1000) > 0.3)


def nan_in_one() -> np.ndarray:
    """Return the base with one NaN."""
    out = BASE.copy()
    out[3] = np.nan
    return out


def in_bfloat16() -> tuple[np.ndarray, np.ndarray]:
    """Return the same products of matrices from inputs with all their bits and rounded to bfloat16."""
    x, w = (RANDOM.standard_normal(shape).astype(np.float32) for shape in ((40, 64), (64, 25)))
    return (x @ w).reshape(-1), (as_bfloat16(x) @ as_bfloat16(w)).reshape(-1)


def as_bfloat16(values: np.ndarray) -> np.ndarray:
    """Return float32 values rounded to bfloat16, upwards."""
    return (values.astype(np.float32).view(np.uint32) + 0x8000 & 0xFFFF0000).view(np.float32)


PAIRS = {
    Signature.EQUAL: (BASE, BASE.copy()),
    Signature.NAN: (BASE, nan_in_one()),
    Signature.SIGN_OF_ZERO: (np.zeros(4, np.float32), -np.zeros(4, np.float32)),
    Signature.REDUCTION_ORDER: other_order(),
    Signature.PERMUTATION: (BASE, RANDOM.permutation(BASE)),
    Signature.MASKED: masks(),
    Signature.SCALED: (BASE, BASE * np.float32(1.3)),
    Signature.SHIFTED: (BASE, BASE + np.float32(8)),
    Signature.SHORTER_ARITHMETIC: in_bfloat16(),
    Signature.UNRELATED: (BASE, RANDOM.standard_normal(1000).astype(np.float32)),
    Signature.VALUES: (BASE, BASE + RANDOM.standard_normal(1000).astype(np.float32) / 4),
}


@pytest.mark.parametrize("expected", list(Signature))
def test_each_cause_is_recognised(expected):
    """A pair made by one cause gets that hint, whichever run is the baseline."""
    a, b = PAIRS[expected]

    assert signature(a, b, "float32") == expected
    assert signature(b, a, "float32") == expected


@pytest.mark.parametrize("expected", list(Signature))
def test_one_row_is_enough(expected):
    """The hint is the same when the rest of the tensor is equal."""
    a, b = PAIRS[expected]
    rest = RANDOM.standard_normal(300).astype(np.float32)

    assert signature(np.concatenate([rest, a]), np.concatenate([rest, b]), "float32") == expected


def test_nan_payloads_are_a_nan_difference():
    """Two NaNs of different payload differ as NaNs."""
    a, b = (np.array([pattern], "<u4").view("<f4") for pattern in (0x7FC00000, 0x7FC00001))

    assert signature(a, b, "float32") is Signature.NAN


def test_integers_know_permutation_and_shift():
    """Token ids in another order are a permutation; off by one everywhere is a shift, also across zero."""
    ids = np.array([5, 0, 9, 2], "<i8")

    assert signature(ids, ids[::-1].copy(), "int64") is Signature.PERMUTATION
    assert signature(ids, ids - 1, "int64") is Signature.SHIFTED
    assert signature(ids, ids * 3 + 1, "int64") is Signature.VALUES
    assert signature(np.array([255], "<u1"), np.array([0], "<u1"), "uint8") is Signature.VALUES


def test_masks_of_booleans_are_values_or_permutations():
    """Truth values are compared like integers, without the rules for real numbers."""
    a, b = np.array([0, 1, 1], "<u1"), np.array([0, 0, 1], "<u1")

    assert signature(a, b, "bool") is Signature.VALUES


def test_short_types_allow_fewer_units_of_rounding():
    """bfloat16 results one unit apart are rounding, a quarter apart are not."""
    one, next_one, quarter = (np.full(4, pattern, "<u2") for pattern in (0x3F80, 0x3F81, 0x3FA0))
    quarter[0] = 0x3FB0

    assert signature(one, next_one, "bfloat16") is Signature.REDUCTION_ORDER
    assert signature(one, quarter, "bfloat16") is Signature.VALUES
    assert rounding(FORMATS["bfloat16"]) == 4 / 128


def test_complex_numbers_have_signatures():
    """Complex tensors follow the rules of real ones."""
    base = (BASE[:500] + 1j * BASE[500:]).astype(np.complex64)

    assert signature(base, RANDOM.permutation(base), "complex64") is Signature.PERMUTATION
    assert signature(base, base * np.complex64(2j), "complex64") is Signature.SCALED


@given(hnp.arrays("<f4", st.integers(2, 30)), st.randoms(use_true_random=False))
def test_equal_multisets_are_never_called_other_values(array, random):
    """Whatever the elements, a reordering is equal, NaN, a zero's sign, rounding or a permutation."""
    order = list(range(len(array)))
    random.shuffle(order)
    allowed = {
        Signature.EQUAL,
        Signature.NAN,
        Signature.SIGN_OF_ZERO,
        Signature.REDUCTION_ORDER,
        Signature.PERMUTATION,
    }

    assert signature(array, array[order], "float32") in allowed


@given(st.data())
def test_any_pair_has_a_signature(data):
    """No pair of patterns raises or warns, in any type."""
    dtype = data.draw(st.sampled_from(["float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "int8", "uint64"]))
    storage = {"bfloat16": "<u2", "float8_e4m3fn": "<u1"}.get(dtype, dtype)
    shape = data.draw(hnp.array_shapes(min_dims=0, max_dims=2, min_side=0, max_side=5))
    a, b = (data.draw(hnp.arrays(storage, shape)) for _ in range(2))

    assert signature(a, b, dtype) in Signature


def next_unit(values: np.ndarray, mantissa: int) -> np.ndarray:
    """Return values moved by one unit of a shorter type."""
    return (values.view(np.uint32) + np.uint32(1 << (23 - mantissa))).view(np.float32)


@pytest.mark.parametrize(
    ("mantissa", "name", "changed"),
    [(7, "bfloat16", slice(None, None, 3)), (7, "bfloat16", slice(0, 9)), (10, "float16", slice(0, 9))],
)
def test_float32_that_holds_values_of_a_shorter_type(mantissa: int, name: str, changed: slice):
    """Under autocast a float32 tensor may hold bfloat16 numbers: one unit of that type is rounding."""
    a = as_bfloat16(BASE)
    b = a.copy()
    b[changed] = next_unit(a, mantissa)[changed]

    assert hint(a, b, "float32") == hint(b, a, "float32") == Hint(Signature.REDUCTION_ORDER, name)


def test_a_unit_of_a_shorter_type_in_a_few_elements_of_float32():
    """Values with all their bits that differ by less than a unit of bfloat16 in few places look like its rounding."""
    b = BASE.copy()
    b[10:20] *= np.float32(1 + 2**-9)
    b[15] *= np.float32(1 + 2**-10)

    assert hint(BASE, b, "float32") == Hint(Signature.REDUCTION_ORDER, "bfloat16")


@pytest.mark.parametrize("factor", [1.1, 1.5])
def test_larger_differences_are_no_rounding_of_a_shorter_type(factor: float):
    """Nor are small ones in most elements of a tensor with all its bits."""
    few, many = BASE.copy(), BASE.copy()
    few[10:20] *= RANDOM.uniform(factor, 2, 10).astype(np.float32)
    many *= (1 + RANDOM.random(1000) * 2**-9).astype(np.float32)

    assert hint(BASE, few, "float32") == Hint(Signature.VALUES)
    assert hint(BASE, many, "float32") == Hint(Signature.VALUES)


def test_what_was_fed_in_is_never_reduction_order():
    """No kernel made a batch."""
    a, b = PAIRS[Signature.REDUCTION_ORDER]

    assert hint(a, b, "float32", computed=False) == Hint(Signature.VALUES)
