"""How the two tensors of the first divergence differ, in one line, and what that looks like."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bisect_diverge.model.address import Phase
from bisect_diverge.model.divergence import DivergenceKind
from bisect_diverge.model.elements import shape_text
from bisect_diverge.model.environment import Layer
from bisect_diverge.report.words import magnitude, printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from bisect_diverge.model.divergence import Divergence, ElementStatistics, Sides

HINTS = {
    "nan": "NaN in one run only, or other NaNs",
    "sign-of-zero": "zeros of another sign",
    "reduction-order": "as small as rounding: another order of summation, or another kernel",
    "permutation": "the same elements in another order",
    "masked": "zero in one run where the other is not: another mask, as of dropout",
    "scaled": "one constant factor apart",
    "shifted": "one constant summand apart",
    "shorter-arithmetic": "as large as rounding errors of {}: perhaps one run computes in it (TF32, autocast)",
    "unrelated": "values that have nothing to do with each other: another seed, or other data",
    "values": "other values",
}
"""What a signature tells a reader; keys are the names of `numerics.signature`."""

SMALL_ULP = 1 << 20
"""Distance up to which the two values of one number are said to be so many ULP apart."""


def elements(divergence: Divergence) -> str:
    """Return how the tensors of the first divergence differ: the first rule that has something to say."""
    return next((text for rule in _RULES if (text := rule(divergence))), "their bytes are not known")


def looks(divergence: Divergence) -> str:
    """Return what the difference looks like, a hint; empty where none can be given."""
    found = divergence.tensor
    if found is None or found.numel == 1 or not found.differing or is_generator(divergence):
        return ""
    hint = HINTS.get(found.signature, "").format(found.rounded_as)
    if found.rounded_as and found.signature == "reduction-order":
        hint = f"as small as rounding in {found.rounded_as} (autocast?): perhaps another order of summation or kernel"
    if divergence.kind is DivergenceKind.DATA and found.signature == "reduction-order":
        return ""
    return f"{found.signature}: {hint}".rstrip(": ") + _code(divergence)


def _code(divergence: Divergence) -> str:
    """Return which code differs between the runs, which a hint at the arithmetic must not hide; empty: none."""
    rows = [inner for row in divergence.environment for inner in (row, *row.resolved)]
    knobs = [row.knob for row in rows if row.layer is Layer.SOURCE]
    return f"; but the code differs too ({printable(knobs[0])}): look there first" if knobs else ""


def is_generator(divergence: Divergence) -> bool:
    """Whether the first divergence is in the state of a random generator, whose elements tell nothing."""
    return divergence.first is not None and divergence.first.address.phase is Phase.RNG


def _states(divergence: Divergence) -> str:
    return "the states differ" if is_generator(divergence) else ""


def _types(divergence: Divergence) -> str:
    types, values = divergence.types, divergence.values
    if types is None or types.a == types.b:
        return ""
    type_a, type_b = (text.partition("[")[0] for text in (types.a, types.b))
    if type_a == type_b == "bytes" and values is not None:
        return _both(values)
    what = [word for word, differ in (("types", type_a != type_b), ("shapes", _shapes_differ(types))) if differ]
    a, b = types.a, types.b
    if values is not None:
        a, b = f"{values.a} ({a})", f"{values.b} ({b})"
    cast = f"; {divergence.cast}" if divergence.cast else ""
    return f"{a} in A, {b} in B: {' and '.join(what)} differ{cast}"


def _shapes_differ(types: Sides) -> bool:
    shapes = [text.partition("[")[1:] for text in (types.a, types.b)]
    return all(bracket for bracket, _ in shapes) and shapes[0] != shapes[1]


def _damaged(divergence: Divergence) -> str:
    found = divergence.tensor
    if found is None or found.differing:
        return ""
    return f"{shape_text(found.dtype, found.shape_a)}: the elements that were kept are equal, the digests differ"


def _values(divergence: Divergence) -> str:
    values, found = divergence.values, divergence.tensor
    if values is None:
        return ""
    kind = f"{divergence.types.a}: " if divergence.types is not None else ""
    if kind.startswith("bytes"):
        kind = ""
    near = found is not None and found.max_ulp is not None and 0 < found.max_ulp <= SMALL_ULP
    ulp = f", {found.max_ulp} ULP apart" if near and found is not None else ""
    return f"{kind}{_both(values)}{', the bits differ' if values.a == values.b else ulp}"


def _both(values: Sides) -> str:
    return f"{values.a} in A, {values.b} in B"


def _digests_only(divergence: Divergence) -> str:
    if divergence.tensor is not None or divergence.first is None:
        return ""
    at = divergence.first.address.step
    return f"only digests were kept: record step {at} with --capture full --steps {at}:{at + 1}"


def _statistics(divergence: Divergence) -> str:
    found = divergence.tensor
    return "" if found is None else f"{shape_text(found.dtype, found.shape_a)}: {', '.join(_parts(found))}"


def _parts(found: ElementStatistics) -> Iterator[str]:
    if found.numel == 1:
        yield "its one element differs"
    else:
        differ = "differs" if found.differing == 1 else "differ"
        yield f"{found.differing} of {found.numel} elements {differ}, first {list(found.first_index)}"
    if found.nan is not None:
        yield f"nan in {found.nan.side.upper()} at {list(found.nan.index)}"
        if not found.max_abs:  # nothing else differs
            return
    if found.max_ulp is not None:
        yield f"at most {found.max_ulp} ULP{' (across zero)' if found.across_zero else ''}"
    if found.max_abs is not None:
        yield f"|a-b| <= {magnitude(found.max_abs)}"
    if found.max_rel is not None:
        yield f"relative {magnitude(found.max_rel)}"


_RULES: tuple[Callable[[Divergence], str], ...] = (_states, _types, _damaged, _values, _digests_only, _statistics)
