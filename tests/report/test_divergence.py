"""The result of a comparison as text and as JSON, against golden files."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from bisect_diverge.diff.notes import SAME_RUN
from bisect_diverge.model.address import Address, Phase
from bisect_diverge.model.divergence import (
    Compared,
    Divergence,
    DivergenceKind,
    LoneNan,
    Place,
    Side,
    Sides,
    Verdict,
)
from bisect_diverge.model.environment import Difference, Layer
from bisect_diverge.numerics.signature import Signature
from bisect_diverge.report.divergence_json import divergence_json
from bisect_diverge.report.divergence_text import ENVIRONMENT_LINES, ENVIRONMENT_LINES_OF_TWO, divergence_text
from bisect_diverge.report.elements_text import HINTS, looks
from tests.helpers.elements import STATISTICS
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
    tensor=STATISTICS,
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
    limited="a recording stops before its run's end",
    compared=Compared(steps=1, records=90, equal=90, only_in_a=12),
    notes=("rank 0 of B was interrupted, after 2 steps",),
)
EQUAL_MODULES = Divergence(
    verdict=Verdict.EQUAL_SO_FAR,
    limited="only the modules that both recordings have were compared (--modules)",
    compared=Compared(steps=1, records=90, equal=90, only_in_a=228),
)
NO_UPDATE = replace(STRUCTURE, structure="B made no update in step 3")
NOT_COMPARABLE = Divergence(
    verdict=Verdict.NOT_COMPARABLE, notes=("the two runs have no rank in common", "only A has rank 0: not compared")
)
RESULTS = {
    "diverged": DIVERGED,
    "structure": STRUCTURE,
    "no-update": NO_UPDATE,
    "equal": EQUAL,
    "equal-so-far": EQUAL_SO_FAR,
    "equal-modules": EQUAL_MODULES,
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


TENSOR = DIVERGED.tensor
STATE = replace(LATER, phase=Phase.RNG, root="-", fqn="", slot="torch.cpu")
assert TENSOR is not None
SCALAR = replace(TENSOR, dtype="float64", shape_a=(), shape_b=(), numel=1, differing=1, first_index=())


def at(address: Address) -> Place:
    """Return a place that both runs have."""
    return Place(address=address, side=Side.BOTH, module_type="", site="")


def unfolded(text: str) -> str:
    """Return a text report with the lines of a second column joined again."""
    return text.replace("\n" + " " * 12, " ")


LINES = {
    "types": (
        {"tensor": None, "types": Sides("bf16[32,16,8,8]", "f32[32,16,8,8]")},
        "bf16[32,16,8,8] in A, f32[32,16,8,8] in B: types differ",
    ),
    "shapes": ({"tensor": None, "types": Sides("f32[3]", "f32[4]")}, "f32[3] in A, f32[4] in B: shapes differ"),
    "both": ({"tensor": None, "types": Sides("f32[3]", "i8[4]")}, "f32[3] in A, i8[4] in B: types and shapes differ"),
    "no gradient": (
        {"tensor": None, "types": Sides("no tensor", "f32[4]")},
        "no tensor in A, f32[4] in B: types differ",
    ),
    "numbers of two types": (
        {"tensor": None, "types": Sides("i64[]", "f64[]"), "values": Sides("0", "0.9")},
        "0 (i64[]) in A, 0.9 (f64[]) in B: types differ",
    ),
    "texts": (
        {"tensor": None, "types": Sides("bytes[4]", "bytes[5]"), "values": Sides("'adam'", "'adamw'")},
        "'adam' in A, 'adamw' in B",
    ),
    "digests": (
        {"tensor": None, "types": Sides("f32[4]", "f32[4]")},
        "only digests were kept: record step 3 with --capture full --steps 3:4",
    ),
    "number": (
        {"tensor": replace(SCALAR, max_ulp=1 << 52), "types": Sides("f64[]", "f64[]"), "values": Sides("0.01", "0.02")},
        "f64[]: 0.01 in A, 0.02 in B",
    ),
    "near number": (
        {"tensor": replace(SCALAR, max_ulp=3), "types": Sides("f64[]", "f64[]"), "values": Sides("0.1", "0.2")},
        "f64[]: 0.1 in A, 0.2 in B, 3 ULP apart",
    ),
    "number from digests": (
        {"tensor": None, "types": Sides("f64[]", "f64[]"), "values": Sides("0.01", "nan")},
        "f64[]: 0.01 in A, nan in B",
    ),
    "other nan": (
        {"tensor": replace(SCALAR, max_ulp=None), "types": Sides("f64[]", "f64[]"), "values": Sides("nan", "nan")},
        "f64[]: nan in A, nan in B, the bits differ",
    ),
    "nan": (
        {"tensor": replace(TENSOR, differing=1, max_ulp=None, max_abs=0.0, max_rel=None, nan=LoneNan("a", (2, 17)))},
        "f32[4,64]: 1 of 256 elements differs, first [2, 17], nan in A at [2, 17]",
    ),
    "generator": ({"first": at(STATE), "types": Sides("u8[5056]", "u8[5056]")}, "the states differ"),
}


@pytest.mark.parametrize("name", list(LINES))
def test_the_line_on_elements(name: str):
    """Types, shapes, values, states and missing bytes are each said as what they are."""
    changes, line = LINES[name]
    text = divergence_text(replace(DIVERGED, **changes), "a", "b")

    assert f"  elements  {line}\n" in unfolded(text)


@pytest.mark.parametrize(
    ("changes", "looks"),
    [
        ({"first": at(STATE)}, None),
        ({"kind": DivergenceKind.DATA}, None),
        ({"tensor": SCALAR}, None),
        ({"tensor": replace(TENSOR, rounded_as="bfloat16")}, "reduction-order: as small as rounding in bfloat16"),
    ],
)
def test_what_a_difference_looks_like(changes: dict[str, object], looks: str | None):
    """No kernel is blamed for a batch, and nothing is said of the bytes of a generator's state."""
    text = divergence_text(replace(DIVERGED, **changes), "a", "b")

    assert ("  looks     " in text) is (looks is not None)
    assert looks is None or looks in text


def test_another_class_is_said_in_the_first_line():
    """The reader sees at once that a module was replaced."""
    assert DIVERGED.first is not None
    first = replace(DIVERGED.first, module_type="ReLU", module_type_b="GELU")
    text = divergence_text(replace(DIVERGED, first=first), "a", "b")

    head = " ".join(text.partition("kind")[0].split())

    assert head.endswith("output.0 of model:blocks.2.attn, ReLU in A, GELU in B")


def test_equal_environments_are_said_to_be_so():
    """A reader who looks for the cause learns that none was recorded, and how to record more."""
    text = divergence_text(replace(DIVERGED, environment=()), "a", "b")

    assert "what differs in the environment: nothing that was recorded (bd record --env\n" in text


def test_every_signature_has_a_hint():
    """A reader is told what each signature means."""
    assert set(HINTS) == set(map(str, Signature)) - {"equal"}


def test_a_hint_says_that_the_code_differs_too():
    """Whatever the elements look like, other code is the nearer cause."""
    module = Difference(layer=Layer.SOURCE, knob="module:net.py", a="xxh3:1", b="xxh3:2")
    tensor = replace(STATISTICS, signature="shorter-arithmetic", rounded_as="tf32")
    found = replace(DIVERGED, tensor=tensor, environment=(replace(DIFFERENCES[0], resolved=(module,)),))

    assert "the code differs too (module:net.py): look there first" in looks(found)
    assert "code differs" not in looks(replace(found, environment=DIFFERENCES))


def test_two_scripts_are_called_that_at_once():
    """Right behind the headline, and of the long list of what differs only the begin is shown."""
    program = Difference(layer=Layer.CONFIGURATION, knob="argv.program", a="train.py", b="aug.py")
    many = [Difference(layer=Layer.HARDWARE, knob=f"K{n}", a="1", b="2") for n in range(30)]
    lines = divergence_text(replace(DIVERGED, environment=(program, *many)), "a", "b").splitlines()

    assert any("these are different scripts (train.py, aug.py)" in line for line in lines[1:3])
    assert sum(line.lstrip().startswith("K") for line in lines) < ENVIRONMENT_LINES_OF_TWO


def test_the_same_recording_is_said_in_the_first_line():
    """Instead of an equality that proves nothing; the note is not repeated."""
    text = divergence_text(replace(EQUAL, notes=(SAME_RUN,)), "a", "a")

    assert text.startswith("= A and B are one and the same recording")
    assert text.count("same recording") == 1


def test_the_next_commands_have_the_options_that_they_need():
    """An offset that is proposed, or was given, is part of both; other options are no options of a search."""
    proposed = divergence_text(replace(DIVERGED, offset_b=3), "a", "b")
    given = divergence_text(DIVERGED, "a", "b", options=("--ignore", "x", "--offset-b", "4"))

    assert proposed.endswith("next: bd walk a b --offset-b 3\n      bd bisect a b --offset-b 3")
    assert given.endswith("next: bd walk a b --ignore x --offset-b 4\n      bd bisect a b --offset-b 4")


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
    stripped = re.sub(r"<(?!=)|(?<!-)>$", "", painted, flags=re.MULTILINE)

    assert stripped == divergence_text(DIVERGED, "runs/a", "runs/b")
    assert "bad" in roles
