"""A step replayed in place, as text and as JSON."""

import json
from dataclasses import replace

import pytest

from bisect_diverge.model.address import Address
from bisect_diverge.model.environment import Layer
from bisect_diverge.model.replay import Moved, Own, Part, Replay, ReplayVerdict
from bisect_diverge.model.trial import Unit, Untested
from bisect_diverge.report.replay_json import replay_json
from bisect_diverge.report.replay_text import MOST_ROWS, replay_text
from tests.helpers.elements import STATISTICS
from tests.helpers.golden import check_golden

THREADS = Unit(layer=Layer.HARDWARE, knob="OMP_NUM_THREADS", a="2", b="1")
DEVICE = Unit(layer=Layer.HARDWARE, knob="cpu.model", a="one", b="another")


def own(part: Part, address: str, kind: str = "", *, inside: str = "", moved: str = "", reason: str = "") -> Own:
    """Return something that was replayed; `moved` is the address of a record that differs."""
    records = (Moved(address=Address.parse(moved), inside=inside, statistics=STATISTICS),) if moved else ()
    return Own(part=part, address=Address.parse(address), module_type=kind, moved=records, reason=reason)


OWNS = (
    own(Part.MODULE, "r0/3/0/forward/model:#0:input.0", "Net"),
    own(
        Part.MODULE,
        "r0/3/0/forward/model:attn#1:input.0",
        "Attention",
        inside="between qkv and proj",
        moved="r0/3/0/forward/model:attn.proj#1:input.0",
    ),
    own(Part.MODULE, "r1/3/1/forward/model:act#0:input.0", "GELU", moved="r1/3/1/forward/model:act#0:output.0"),
    own(Part.MODULE, "r0/3/0/forward/model:drop#0:input.0", "Dropout", reason="the replay did not make this call"),
    own(Part.OUTSIDE, "r0/3/0/forward/model:loss#0:value"),
    own(
        Part.GRADIENT,
        "r0/3/0/backward/model:act#0:grad_output.0",
        "GELU",
        inside="used by head",
        moved="r0/3/0/backward/model:act#0:grad_output.0",
    ),
    own(Part.UPDATE, "r0/3/-/optimizer/opt:act.weight#0:grad", moved="r0/3/-/optimizer/opt:act.weight#0:param"),
)
REPLAY = Replay(
    step=3,
    owns=OWNS,
    swapped=(THREADS,),
    untestable=(Untested(unit=DEVICE, reason="a device cannot be swapped"),),
    written=7,
    notes=("the steps before 3 ran as they are",),
    seconds=3.25,
)


def test_text(request: pytest.FixtureRequest):
    """The answer first, then what differs part by part, what is equal, what cannot be told and why."""
    assert REPLAY.verdict is ReplayVerdict.DIFFERS
    check_golden(request, "report/replay.txt", replay_text(REPLAY))


def test_verdicts():
    """Equal only if something was replayed; a long list is cut, and says so."""
    same = replace(REPLAY, owns=(OWNS[0], OWNS[3]))
    assert replay_text(same).startswith("= nothing of step 3 computes otherwise: 1 module call replayed\n")
    nothing = replace(REPLAY, owns=(OWNS[3], OWNS[4]))
    assert nothing.verdict is ReplayVerdict.INCONCLUSIVE
    assert replay_text(nothing).startswith("? no module call of step 3 could be replayed in place\n")
    many = replace(REPLAY, owns=(OWNS[1],) * (MOST_ROWS + 2))
    assert "  and 2 more (--format json lists all)\n" in replay_text(many)
    assert "(inert: no resolved value moved)" in replay_text(replace(REPLAY, inert=(THREADS,)))


def test_long_values_are_cut():
    """A value as long as a configuration file takes no page."""
    long = Unit(layer=Layer.CONFIGURATION, knob="LONG", a="x" * 2000, b=None)
    text = replay_text(replace(REPLAY, swapped=(long,)))
    assert f"{'x' * 40}..." in text.replace("\n", "").replace(" ", "")
    assert text.count("x" * 30) < 4


def test_a_distance_across_zero_says_so():
    """Its number alone would look like a large difference."""
    assert STATISTICS.to_json().get("across_zero") is None
    statistics = replace(STATISTICS, max_ulp=1671430144, across_zero=True)
    moved = replace(OWNS[1].moved[0], statistics=statistics)
    text = replay_text(replace(REPLAY, owns=(replace(OWNS[1], moved=(moved,)),)))
    assert "at most 1671430144 ULP (across zero)" in " ".join(text.split())
    assert statistics.to_json()["across_zero"] is True


def test_json():
    """Everything is in it, once."""
    found = json.loads(replay_json(REPLAY))
    assert (found["verdict"], found["step"], found["written"]) == ("differs", 3, 7)
    assert [row["address"] for row in found["differing"]] == [str(row.address) for row in OWNS if row.moved]
    assert found["differing"][0]["moved"][0]["tensor"]["max_ulp"] == 3
    assert found["equal"] == {
        "module call": 1,
        "code outside of modules": 1,
        "gradient": 0,
        "buffer": 0,
        "update": 0,
    }
    assert found["cannot_be_replayed"][0]["reason"] == "the replay did not make this call"
    assert found["untestable"][0]["reason"] == "a device cannot be swapped"
