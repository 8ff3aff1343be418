"""Seeds of two recorded runs: what is held, what is swapped, and what is not known well enough for either."""

import json
from pathlib import Path

import pytest

from bisect_diverge.environment.hashing import hash_bytes
from bisect_diverge.environment.inputs import Keeper
from bisect_diverge.environment.seeds import is_told
from bisect_diverge.model.environment import Environment, Layer, Setting
from bisect_diverge.model.run import RunRecord
from bisect_diverge.model.trial import Unit
from bisect_diverge.trial.draft import Sides, draft_of_a
from bisect_diverge.trial.swap_seed import held_in, swap, why_not

GENERATOR = "numpy.random.default_rng"
UNKNOWN = "5, Generator, fresh entropy (3 calls)"


def recorded(folder, value, knob=GENERATOR):
    """Return the record of a run whose generator was made with some seeds."""
    row = Setting(layer=Layer.SEEDS, knob=knob, value=value, resolved=False)
    environment = Environment(settings=(row,))
    return RunRecord(command=("python", "train.py"), cwd=str(folder), environment=environment, place=str(folder))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("5", True),
        ("fresh entropy 77", True),
        ("fresh entropy xxh3:0af1", True),
        ("SeedSequence(4)", True),
        ("[1, 2]", True),
        ("'word'", True),
        ("1763.5 (the time)", True),
        ("Generator", False),
        ("fresh entropy", False),
    ],
)
def test_what_stands_for_a_seed(text, told):
    """A number, a word, a sequence; not the type of an object, nor that something was there."""
    assert is_told(text) is told


@pytest.mark.parametrize(
    ("b", "swappable"),
    [("6, Generator, fresh entropy (3 calls)", True), ("5, PCG64, fresh entropy (3 calls)", False)],
)
def test_only_seeds_that_are_known_are_swapped(tmp_path, b, swappable):
    """A call whose seed is not known is left to the script where both runs say the same of it, else none moves."""
    unit = Unit(layer=Layer.SEEDS, knob=GENERATOR, a=UNKNOWN, b=b)
    assert (why_not(unit) == "") is swappable
    if swappable:
        sides = Sides(a=recorded(tmp_path, UNKNOWN), b=recorded(tmp_path, b), last_step=1)
        pins = swap(sides, [unit], draft_of_a(sides, tmp_path)).pins
        assert json.loads(pins[f"seeds.{GENERATOR}"]) == ["6", None, None]


def test_fresh_entropy_that_is_not_known_is_not_held(tmp_path):
    """Nothing is said to be held, and no pin is made, where the library did not tell its seed."""
    sides = Sides(a=recorded(tmp_path, UNKNOWN), b=recorded(tmp_path, UNKNOWN), last_step=1)
    assert held_in(sides.a) == ()
    assert f"seeds.{GENERATOR}" not in swap(sides, [], draft_of_a(sides, tmp_path)).pins


def test_first_states_are_held_and_swapped(tmp_path):
    """The pin of an unseeded generator is the file in which a run kept its first state, A's or B's."""
    knob = "initial-state.python"
    runs = {}
    for name in "ab":
        (tmp_path / name).mkdir()
        Keeper(tmp_path / name).text(name.encode(), hash_bytes(name.encode()))
        runs[name] = recorded(tmp_path / name, hash_bytes(name.encode()), knob)
    sides = Sides(a=runs["a"], b=runs["b"], last_step=1)
    unit = Unit(layer=Layer.SEEDS, knob=knob, a=hash_bytes(b"a"), b=hash_bytes(b"b"))
    for units, content in (([], "a"), ([unit], "b")):
        pins = swap(sides, units, draft_of_a(sides, tmp_path)).pins
        assert Path(pins[f"seeds.{knob}"]).read_text() == content
