"""Seeds of several ranks: each gets its own, and where one rank's differs alone the unit names it."""

import json
import sys
from pathlib import Path

import pytest

from bisect_diverge.environment.hashing import hash_bytes
from bisect_diverge.environment.inputs import Keeper
from bisect_diverge.environment.seeds import by_rank, of_ranks
from bisect_diverge.model.environment import Environment, Layer, Setting
from bisect_diverge.model.run import RunRecord
from bisect_diverge.model.trial import Unit
from bisect_diverge.trial.draft import Sides, draft_of_a
from bisect_diverge.trial.parts import parts_of
from bisect_diverge.trial.swap_seed import held_in, moved, named, of_all_ranks, stands_alone, swap, why_not
from tests.helpers.command import bd

SETTER = "torch.manual_seed"
FIRST = "initial-state.python"


def seed(knob, value):
    """Return the row of a seed."""
    return Setting(layer=Layer.SEEDS, knob=knob, value=value, resolved=False)


def merged(folder, *ranks, process=()):
    """Return the record of a run with these rows, rank by rank."""
    environments = {}
    for rank, rows in enumerate(ranks):
        name = [Setting(layer=Layer.SEEDS, knob="process", value=process[rank], resolved=True)] if process else []
        environments[rank] = Environment((*(seed(knob, value) for knob, value in rows.items()), *name))
    environment = environments[0].merged(of_all_ranks(environments))
    command = ("python", "t.py")
    return RunRecord(
        command=command, cwd=str(folder), place=str(folder), environment=environment, world_size=len(ranks)
    )


def unit_between(a, b, knob):
    """Return the unit of a seed, as a search names it."""
    x, y = (record.environment.value(Layer.SEEDS, knob) for record in (a, b))
    return named(Unit(layer=Layer.SEEDS, knob=knob, a=x, b=y))


@pytest.mark.parametrize(
    ("values", "world", "text"),
    [
        ({0: "5", 1: "5"}, 2, "5"),
        ({0: "5"}, 1, "5"),
        ({1: "5, 6 (2 calls)", 0: "5, 7 (2 calls)"}, 2, "rank 0: 5, 7 (2 calls); rank 1: 5, 6 (2 calls)"),
        ({1: "'a; b'"}, 2, "rank 1: 'a; b'"),
    ],
)
def test_the_text_of_several_ranks(values, world, text):
    """One text where all have the same; else each with its number, and read back."""
    assert of_ranks(values, world) == text
    assert by_rank(text, world) == values


def test_the_rank_that_differs_alone_is_named(tmp_path):
    """The unit is that rank's, in a setter as in a first state; where both differ it is the setter's."""
    a = merged(tmp_path, {SETTER: "0"}, {SETTER: "1", FIRST: "xxh3:1"})
    b = merged(tmp_path, {SETTER: "0"}, {SETTER: "9", FIRST: "xxh3:2"})
    for knob, x, y in ((SETTER, "1", "9"), (FIRST, "xxh3:1", "xxh3:2")):
        assert unit_between(a, b, knob) == Unit(layer=Layer.SEEDS, knob=f"{knob}@rank1", a=x, b=y)
    both = merged(tmp_path, {SETTER: "8"}, {SETTER: "9"})
    assert unit_between(a, both, SETTER).knob == SETTER
    alone = unit_between(merged(tmp_path, {SETTER: "1"}), merged(tmp_path, {SETTER: "2"}), SETTER)
    assert alone.knob == SETTER


def test_each_rank_gets_its_own_seed(tmp_path):
    """B's seed for one rank, or for each; a process knows its rank by a variable, or by its name."""
    a = merged(tmp_path, {SETTER: "0, 5 (2 calls)"}, {SETTER: "0, 6 (2 calls)"}, process=("P-1", "P-2"))
    b = merged(tmp_path, {SETTER: "0, 8 (2 calls)"}, {SETTER: "0, 9 (2 calls)"})
    sides = Sides(a=a, b=b, last_step=1)
    whole = unit_between(a, b, SETTER)
    pins = swap(sides, [whole], draft_of_a(sides, tmp_path)).pins
    of_0, of_1 = json.dumps(["0", "8"]), json.dumps(["0", "9"])
    assert pins == {
        f"seeds.{SETTER}@P-1": of_0,
        f"seeds.{SETTER}": of_0,
        f"seeds.{SETTER}@P-2": of_1,
        f"seeds.{SETTER}@rank1": of_1,
    }
    (second,) = [Unit(layer=Layer.SEEDS, knob=f"{SETTER}@rank1#2", a="6", b="9")]
    pins = swap(sides, [second], draft_of_a(sides, tmp_path)).pins
    assert set(pins.values()) == {json.dumps([None, "9"])}
    assert set(pins) == {f"seeds.{SETTER}@P-2", f"seeds.{SETTER}@rank1"}
    assert why_not(whole) == ""


def test_calls_are_told_apart_on_all_ranks_at_once(tmp_path):
    """The second call differs on both ranks: one unit; rank 1's own calls where that rank differs alone."""
    a = merged(tmp_path, {SETTER: "0, 5, 7 (3 calls)"}, {SETTER: "0, 6, 7 (3 calls)"})
    b = merged(tmp_path, {SETTER: "0, 8, 1 (3 calls)"}, {SETTER: "0, 9, 1 (3 calls)"})
    parts = parts_of(a, b, unit_between(a, b, SETTER))
    assert [(u.knob, u.a, u.b) for u in parts] == [
        (f"{SETTER}#2", "rank 0: 5; rank 1: 6", "rank 0: 8; rank 1: 9"),
        (f"{SETTER}#3", "7", "1"),
    ]
    sides = Sides(a=a, b=b, last_step=1)
    pins = swap(sides, parts, draft_of_a(sides, tmp_path)).pins
    assert pins == {
        f"seeds.{SETTER}": json.dumps([None, "8", "1"]),
        f"seeds.{SETTER}@rank1": json.dumps([None, "9", "1"]),
    }


def test_first_states_are_held_rank_by_rank(tmp_path):
    """A's, whatever is swapped; B's on the one rank of which the unit is."""
    runs = {}
    for name in "ab":
        folder = tmp_path / name
        folder.mkdir()
        for rank in (0, 1):
            data = f"{name if rank else 'both'}{rank}".encode()
            Keeper(folder).text(data, hash_bytes(data))
        ranks = ({FIRST: hash_bytes(b"both0")}, {FIRST: hash_bytes(f"{name}1".encode())})
        runs[name] = merged(folder, *ranks)
    sides = Sides(a=runs["a"], b=runs["b"], last_step=1)
    unit = unit_between(runs["a"], runs["b"], FIRST)
    assert unit.knob == f"{FIRST}@rank1"
    assert stands_alone(unit)
    assert held_in(runs["a"]) == (FIRST,)
    for units, content in (((), "a1"), ((unit,), "b1")):
        pins = swap(sides, units, draft_of_a(sides, tmp_path)).pins
        read = {knob: Path(place).read_text() for knob, place in pins.items()}
        assert read == {f"seeds.{FIRST}": "both0", f"seeds.{FIRST}@rank1": content}


def test_a_seed_that_moves_on_one_rank_is_seen(tmp_path):
    """A replay that was ended earlier has fewer calls, which is no other seed."""
    a = merged(tmp_path, {SETTER: "0, 5 (2 calls)"}, {SETTER: "17"})
    assert moved(a, {SETTER: "rank 0: 0; rank 1: 18"}) == (SETTER,)
    assert moved(a, {SETTER: "rank 0: 0; rank 1: 17"}) == ()
    fresh = Unit(
        layer=Layer.SEEDS, knob=SETTER, a="rank 0: 3; rank 1: 1 (the time)", b="rank 0: 3; rank 1: 2 (the time)"
    )
    assert stands_alone(fresh)


SCRIPT = """
import os, random, sys, torch
rank = int(os.environ["RANK"])
torch.manual_seed(rank)
noise = random.random() if rank else 0.0
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(2):
    model(torch.ones(2, 4) + noise).sum().backward()
    optimizer.step()
"""


@pytest.mark.matrix
def test_one_unseeded_rank_of_two(tmp_path):
    """Rank 1 draws without a seed: it is named, with the two trials that prove it; rank 0 keeps its own seed."""
    (tmp_path / "t.py").write_text(SCRIPT)
    command = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2", "t.py")
    for name in "ab":
        bd("record", "-o", name, "--", *command, cwd=tmp_path)
    words = ("bisect", "a", "b", "--no-observer-check", "--format", "json")
    found = json.loads(bd(*words, cwd=tmp_path, status=4).stdout)
    assert found["verdict"] == "baseline-not-repeatable"
    assert "of python on rank 1 and never seeds it: call random.seed" in found["notes"][0]
    assert found["notes"][1].startswith("proved: with A's initial-state.python@rank1 held")
