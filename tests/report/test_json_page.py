"""``docs/json.md`` against the documents that the verbs print: neither has a key that the other lacks."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from bisect_diverge.cli.check import command as check
from bisect_diverge.cli.env import command as env
from bisect_diverge.cli.show import command as show
from bisect_diverge.model.divergence import LoneNan, Sides
from bisect_diverge.model.environment import Difference, Environment, Layer, Setting
from bisect_diverge.model.findings import Batches, BatchRelation, Stretch
from bisect_diverge.model.neutrality import Change, Finding, Item, Neutrality, Repetition
from bisect_diverge.model.run import RunRecord
from bisect_diverge.model.sampling import Decision, Sampling
from bisect_diverge.model.trial import Budget, Unit, Untested
from bisect_diverge.report.plan_text import plan_json
from bisect_diverge.report.trial_text import trial_json
from bisect_diverge.report.vary_json import variation_plan_json
from bisect_diverge.study.vary import vary
from tests.helpers.command import REPOSITORY
from tests.helpers.runs import training_rows, write_run
from tests.report.test_bisection import CASES
from tests.report.test_divergence import RESULTS
from tests.report.test_pages import WHOLE
from tests.report.test_plan import PLAN
from tests.report.test_replay import REPLAY
from tests.study.test_vary import UNITS, oracle

PAGE = REPOSITORY / "docs" / "json.md"
PRIMITIVES: dict[str, tuple[type, ...]] = {"text": (str,), "number": (int, float), "boolean": (bool,), "map": (dict,)}
KNOBS = ((Layer.KERNELS, "MKL_CBWR"), (Layer.HARDWARE, "OMP_NUM_THREADS"))
FOUND = Difference(layer=Layer.KERNELS, knob="MKL_CBWR", a=None, b="AVX2")


def tables() -> dict[str, dict[str, str]]:
    """Return the tables of the page: heading to key to type."""
    found: dict[str, dict[str, str]] = {}
    for part in re.split(r"^## ", PAGE.read_text("utf-8"), flags=re.MULTILINE)[1:]:
        rows = re.findall(r"^\| `(\w+)` \| ([a-z_ ]+?) \| (.*?) \|$", part, re.MULTILINE)
        found[part.splitlines()[0]] = {key: kind + "?" * meaning.startswith("optional") for key, kind, meaning in rows}
    found["document of `bd trial`"] |= found["trial"]
    return found


TABLES = tables()


class Reading:
    """Compares documents with the page, and remembers which of its keys were there."""

    def __init__(self) -> None:
        self.seen: set[tuple[str, str]] = set()

    def document(self, title: str, text: str | dict[str, Any]) -> None:
        """Compare what a verb prints."""
        value = json.loads(text) if isinstance(text, str) else json.loads(json.dumps(text))
        assert value["schema"] == 1
        self._table(value, f"document of `bd {title}`", title)

    def _value(self, value: Any, kind: str, where: str) -> None:
        if kind.startswith("list of ") and not (value is None and kind.endswith(" or null")):
            assert isinstance(value, list), where
            for each in value:
                self._value(each, kind.removeprefix("list of ").removesuffix(" or null") + " or null", f"{where}[]")
            return
        words = kind.split(" or ")
        if value is None:
            assert "null" in words, f"{where} is null"
        elif words[0] in PRIMITIVES:
            allowed = tuple(kind for word in words if word != "null" for kind in PRIMITIVES[word])
            assert isinstance(value, allowed), f"{where} is {value!r}"
            assert isinstance(value, bool) == (words[0] == "boolean"), f"{where} is {value!r}"
        else:
            assert isinstance(value, dict), where
            self._table(value, words[0], where)

    def _table(self, value: dict[str, Any], title: str, where: str) -> None:
        known = TABLES[title]
        assert set(value) <= set(known), f"{where}: not in {PAGE.name}: {sorted(set(value) - set(known))}"
        missing = {key for key, kind in known.items() if not kind.endswith("?")} - set(value)
        assert not missing, f"{where}: the page promises {sorted(missing)}"
        for key, each in value.items():
            self.seen.add((title, key))
            self._value(each, known[key].removesuffix("?"), f"{where}.{key}")


@pytest.fixture(scope="module")
def reading() -> Reading:
    """Return what has seen the documents of all tests of this module."""
    return Reading()


def test_comparisons(reading: Reading) -> None:
    """Of each verdict, and with every optional part."""
    tensor = WHOLE.tensor
    assert tensor is not None
    assert WHOLE.first is not None
    everything = replace(
        WHOLE,
        first=replace(WHOLE.first, module_type_b="Other"),
        tensor=replace(tensor, rounded_as="bfloat16", across_zero=True, nan=LoneNan("a", (1, 2))),
        types=Sides("float32[4]", "float64[4]"),
        values=Sides("1", "2"),
        cast="rounding to bfloat16",
        stretch=Stretch(inside="m", module_type="M", after="a", before="b", site="x.py:1"),
        batches=Batches(relation=BatchRelation.OTHER, sentence="none is shared", samples_a=1, samples_b=2, shared=0),
        compared=replace(WHOLE.compared, unreadable=1),
        offset_b=2,
    )
    for divergence in (*RESULTS.values(), everything):
        reading.document("diff", divergence.to_json())


def test_bisections(reading: Reading) -> None:
    """Of each verdict; with a search by repeats, and with the kind of the divergence."""
    decision = Decision(trials=(3, 4), like="A", chance_a=0.5, chance_b=0.01)
    sampling = Sampling(
        asked=0.95, confidence=0.95, replays=30, runs=60, chance=0.001, apart=True, decisions=(decision,)
    )
    for make in CASES.values():
        reading.document("bisect", make().to_json())
    whole = CASES["one_cause"]()
    noisy = replace(whole.trials[0], nearness=0.5, numbers=(1.0, math.inf), overridden=("the script sets it",))
    measured = (noisy, *whole.trials[1:])
    reading.document("bisect", replace(whole, trials=measured, divergence=WHOLE, sampling=sampling).to_json())
    reading.document("bisect --plan", plan_json(PLAN))
    source = Unit(layer=Layer.SOURCE, knob="commit", a="1f3c9e", b="77aa01", files=("net.py",))
    untested = (Untested(unit=source, reason="no"),)
    named = replace(whole, innocent=(source,), untestable=untested, taken_apart=((source, (source,)),))
    reading.document("bisect", named.to_json())
    reading.document("bisect --plan", plan_json(replace(PLAN, units=(source,), ways=["source"])))


def test_trials_and_variations(reading: Reading) -> None:
    """A trial by hand, and each knob alone."""
    unit = Unit(layer=Layer.KERNELS, knob="MKL_CBWR", a=None, b="AVX2")
    trial = oracle(frozenset({UNITS[0]}))
    reading.document(
        "trial", trial_json(replace(trial, consequences=(FOUND,), inert=(unit,), nearness=1.0, overridden=("x",)))
    )
    found = vary(UNITS, oracle, Budget(repeats=2), inapplicable=[Untested(unit=unit, reason="no")])
    moved = tuple(replace(each, consequences=(FOUND,)) for each in found.trials)
    reading.document("vary", replace(found, trials=moved, left=(unit,)).to_json())
    reading.document("vary --plan", variation_plan_json((unit,), (Untested(unit=unit, reason="no"),), 3, 9.0))


def test_replays_and_neutrality(reading: Reading) -> None:
    """A step in place, and recording against not recording."""
    reading.document("replay", replace(REPLAY, inert=REPLAY.swapped, consequences=(FOUND,)).to_json())
    item = Item(
        name="files", finding=Finding.CHANGED, changed=(Change(part="x", unrecorded=None, recorded="1"),), reason=""
    )
    runs = (Repetition(capture="", seconds=1.0), Repetition(capture="digest", seconds=1.2))
    reading.document("neutral", Neutrality(items=(item,), runs=runs).to_json())


def test_runs(reading: Reading, tmp_path: Path) -> None:
    """What the verbs that read runs print."""

    def run(name: str, *settings: Setting) -> str:
        record = RunRecord(command=("python", "t.py"), environment=Environment(settings))
        return str(write_run(tmp_path / name, training_rows(2), record=record))

    masked = Setting(layer=Layer.CONFIGURATION, knob="TOKEN", value="x", resolved=False, masked=True)
    seed = Setting(layer=Layer.SEEDS, knob="hash.randomization", value="True", resolved=True)
    pair = [
        run(n, *(Setting(layer=layer, knob=k, value=n, resolved=False) for layer, k in KNOBS), masked, seed)
        for n in "ab"
    ]

    def printed(command: Any, *words: str) -> str:
        return CliRunner().invoke(command, [*words, "--format", "json"]).stdout

    reading.document("env RUN", printed(env, pair[0]))
    reading.document("env RUN RUN_B", printed(env, *pair))
    reading.document("show RUN", printed(show, pair[0]))
    reading.document("show RUN ADDRESS", printed(show, pair[0], "r0/0/0/forward/model:#0:output.0"))
    reading.document("show RUN PART", printed(show, pair[0], "output"))
    reading.document("check", printed(check, pair[0]))


def test_the_page_promises_nothing_that_no_document_has(reading: Reading) -> None:
    """Every key of the page was in a document of the tests above."""
    documents = {title for title in TABLES if title.startswith("document")}
    if documents - {title for title, _ in reading.seen}:
        pytest.skip("not all documents were read")
    assert {(title, key) for title, keys in TABLES.items() for key in keys} - reading.seen == set()
