"""The result of a comparison as text and as JSON, against golden files."""

import json
from pathlib import Path

import pytest

from bisect_diverge.model.address import Address, Phase
from bisect_diverge.model.divergence import (
    Compared,
    Divergence,
    DivergenceKind,
    ElementStatistics,
    Place,
    Side,
    Verdict,
)
from bisect_diverge.model.environment import Difference, Layer
from bisect_diverge.numerics.signature import Signature
from bisect_diverge.report.divergence_json import divergence_json
from bisect_diverge.report.divergence_text import ENVIRONMENT_LINES, HINTS, divergence_text
from tests.helpers.golden import check_golden

ADDRESS = Address(
    rank=0, step=3, micro_batch="1", phase=Phase.FORWARD, root="model", fqn="blocks.2.attn", call=0, slot="output.0"
)
LATER = Address(rank=0, step=3, micro_batch="-", phase=Phase.OPTIMIZER, root="opt", fqn="group0", call=0, slot="lr")
DIFFERENCES = (
    Difference(
        layer=Layer.HARDWARE,
        knob="OMP_NUM_THREADS",
        a="2",
        b="1",
        resolved=(Difference(layer=Layer.HARDWARE, knob="threads.intra_op", a="2", b="1"),),
    ),
)

DIVERGED = Divergence(
    verdict=Verdict.DIVERGED,
    kind=DivergenceKind.COMPUTATION,
    first=Place(address=ADDRESS, side=Side.BOTH, module_type="Attention", site="train.py:41"),
    is_origin=True,
    origin_reason="its 1 input and everything recorded inside that call are equal",
    origins_in_first_step=(ADDRESS, LATER),
    tensor=ElementStatistics(
        dtype="float32",
        shape_a=(4, 64),
        shape_b=(4, 64),
        numel=256,
        differing=2,
        max_ulp=3,
        max_abs=2.4e-07,
        max_rel=1.1e-06,
        first_index=(2, 17),
        signature="reduction-order",
    ),
    compared=Compared(steps=10, records=5490, equal=3120, differing=2370),
    environment=DIFFERENCES,
    notes=("generators that neither run draws from differ in 11 records, which do not count: python",),
)
STRUCTURE = Divergence(
    verdict=Verdict.DIVERGED,
    kind=DivergenceKind.STRUCTURE,
    first=Place(address=ADDRESS, side=Side.B, module_type="", site=""),
    origin_reason="it has no counterpart in the other run that could be compared",
    compared=Compared(steps=1, records=1, equal=1, only_in_b=3),
)
EQUAL = Divergence(verdict=Verdict.EQUAL, compared=Compared(steps=10, records=5490, equal=5490))
EQUAL_SO_FAR = Divergence(
    verdict=Verdict.EQUAL_SO_FAR,
    compared=Compared(steps=1, records=90, equal=90, only_in_a=12),
    notes=("rank 0 of B was interrupted, after 2 steps",),
)
NOT_COMPARABLE = Divergence(
    verdict=Verdict.NOT_COMPARABLE, notes=("the two runs have no rank in common", "only A has rank 0: not compared")
)
RESULTS = {
    "diverged": DIVERGED,
    "structure": STRUCTURE,
    "equal": EQUAL,
    "equal-so-far": EQUAL_SO_FAR,
    "not-comparable": NOT_COMPARABLE,
}


@pytest.mark.parametrize("name", list(RESULTS))
def test_text_of_each_verdict(request: pytest.FixtureRequest, name: str):
    """Each verdict is a sentence first, with what supports it below."""
    check_golden(request, f"report/{name}.txt", divergence_text(RESULTS[name], "runs/a", "runs/b"))


@pytest.mark.parametrize("name", list(RESULTS))
def test_json_of_each_verdict(request: pytest.FixtureRequest, name: str):
    """The JSON has every field of the design's example, in its order."""
    check_golden(request, f"report/{name}.json", divergence_json(RESULTS[name]))


def test_json_has_the_fields_of_the_design():
    """Programs find what the contract promises."""
    document = json.loads(divergence_json(DIVERGED))

    assert document["schema"] == 1
    assert document["verdict"] == "diverged"
    assert document["first"]["address"] == "r0/3/1/forward/model:blocks.2.attn#0:output.0"
    assert document["tensor"]["first_index"] == [2, 17]
    assert document["compared"]["differing"] == 2370
    assert document["environment"][0]["resolved"] == [{"knob": "threads.intra_op", "a": "2", "b": "1"}]


def test_every_signature_has_a_hint():
    """A reader is told what each signature means."""
    assert set(HINTS) == set(map(str, Signature)) - {"equal"}


def test_a_long_environment_is_cut_and_says_so():
    """What is left out is counted, and the command that prints it is named."""
    many = tuple(Difference(layer=Layer.DEPENDENCIES, knob=f"package{n}", a="1", b="2") for n in range(50))
    result = Divergence(verdict=Verdict.EQUAL, environment=many)
    text = divergence_text(result, "a dir", "b")

    assert f"... {51 - ENVIRONMENT_LINES} more lines: bd env 'a dir' b" in text


def test_terminal_control_characters_of_a_run_are_not_printed():
    """Names come from the user's code; none of them can move the cursor."""
    address = Address(
        rank=0, step=0, micro_batch="0", phase=Phase.FORWARD, root="m\x1b[2J", fqn="", call=0, slot="output.0"
    )
    first = Place(address=address, side=Side.BOTH, module_type="X\x1b", site="a\x07.py:1")
    text = divergence_text(Divergence(verdict=Verdict.DIVERGED, first=first, notes=("\x1b[31m",)), "a", "b")

    assert text.isprintable() or set(filter(lambda c: not c.isprintable(), text)) == {"\n"}


def test_paint_is_only_an_addition(tmp_path: Path):
    """With looks taken away the text is the plain one: nothing is said by colour alone."""
    roles = []

    def paint(text: str, role: str) -> str:
        roles.append(role)
        return f"<{text}>"

    painted = divergence_text(DIVERGED, "runs/a", "runs/b", paint)
    stripped = "\n".join(
        line[1:-1] if line.startswith("<") and line.endswith(">") else line for line in painted.splitlines()
    )

    assert stripped == divergence_text(DIVERGED, "runs/a", "runs/b")
    assert "bad" in roles
