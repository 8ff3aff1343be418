"""What a search would do, as text."""

import json
from dataclasses import replace

from bisect_diverge.model.address import Address
from bisect_diverge.model.environment import Layer
from bisect_diverge.model.trial import Unit, Untested
from bisect_diverge.report.plan_text import START_SECONDS, Plan, plan_json, plan_text

LONG = Unit(layer=Layer.CONFIGURATION, knob="argv.--name", a="a" * 200, b="b" * 200)
PLAN = Plan(
    first=Address.parse("r0/3/0/forward/model:1#0:output.0"),
    units=(LONG,),
    ways=("argument",),
    untestable=(Untested(unit=LONG, reason="belongs to the machine that it was recorded on, " * 3),),
    least=4,
    typical=6,
    most=9,
    unrecorded=2,
    last_step=4,
    steps=10,
    seconds=20.0,
)


def test_the_time_is_told():
    """Each run starts, and makes A's steps up to the last."""
    expected = 8 * (START_SECONDS + 10)
    assert f"about {expected:.0f} s in all" in plan_text(PLAN)
    assert json.loads(plan_json(PLAN))["seconds"] == expected


def test_a_search_by_repeats_is_priced():
    """Only where one was asked for."""
    assert "--confidence" not in plan_text(PLAN)
    text = " ".join(plan_text(replace(PLAN, samples=31)).split())
    assert "if A or B does not repeat itself, 31 runs or more instead" in text
    assert json.loads(plan_json(replace(PLAN, samples=31)))["samples"] == 31


def test_it_fits_80_columns():
    """Like every report."""
    assert max(map(len, plan_text(PLAN).splitlines())) <= 80


def test_what_it_is_about_comes_first():
    """The divergence, what can be moved and how, what cannot and why, and what that takes."""
    lines = plan_text(PLAN).splitlines()
    assert lines[0] == "to explain: the divergence at step 3, micro-batch 0, forward, output.0 of"
    assert "1 unit to move: each can be given B's value here" in lines
    assert "what that takes" in lines
    nothing = replace(PLAN, units=(), ways=())
    assert "nothing that differs can be moved here" in plan_text(nothing).splitlines()
