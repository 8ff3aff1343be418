"""Seeds and first states, held in a process."""

import json
import random

import numpy as np
import pytest
import torch

from bisect_diverge.environment.inputs import Keeper, kept
from bisect_diverge.environment.seeds import calls_in, is_fresh, number_in, seed_settings
from bisect_diverge.environment.setters import watch_setters
from bisect_diverge.record.initial import FirstStates, force
from bisect_diverge.record.patches import Patches
from bisect_diverge.record.seeds import hold_seeds, seed_of


class Owner:
    """Takes notes."""

    def __init__(self):
        self.notes = []
        self.before_pass = None


@pytest.fixture
def held():
    """Returns what holds pins, over watched setters as in a trial; everything is put back."""
    undo, seen = [], []

    def hold(**pins):
        undo.append(watch_setters(lambda knob, seed: seen.append((knob, seed))))
        patches = Patches()
        undo.append(patches.undo)
        hold_seeds({knob.replace("_in_", "."): value for knob, value in pins.items()}, Owner(), patches)
        return seen

    states = random.getstate(), np.random.get_state(), torch.get_rng_state()
    yield hold
    while undo:
        undo.pop()()
    random.setstate(states[0])
    np.random.set_state(states[1])
    torch.set_rng_state(states[2])


def test_each_call_gets_its_own_seed(held):
    """The second call is replaced, the first and the third are the script's; what torch calls itself does not count."""
    hold = {"seeds.torch.manual_seed": json.dumps([None, "7"]), "seeds.torch.cuda.manual_seed_all": json.dumps(["9"])}
    seen = held(**hold)
    for seed in (1, 2, 3):
        torch.manual_seed(seed)
    torch.cuda.manual_seed_all(4)
    assert seen == [
        ("torch.manual_seed", "1"), ("torch.manual_seed", "7"), ("torch.manual_seed", "3"),
        ("torch.cuda.manual_seed_all", "9"),
    ]  # fmt: skip


def test_what_a_library_took_itself_is_given_again(held):
    """A library tells which seed it took; a generator that is made with it is the same."""
    seen = []
    unwatch = watch_setters(lambda knob, seed: seen.append((knob, seed)))
    values = np.random.default_rng().random(), torch.seed(), torch.rand(1)
    unwatch()
    texts = dict(seen)
    assert all(is_fresh(text) and number_in(text) is not None for text in texts.values())
    held(**{f"seeds.{knob}": json.dumps([text]) for knob, text in texts.items()})
    assert (np.random.default_rng().random(), torch.seed(), torch.rand(1)) == values


def test_a_first_state_is_kept_only_where_it_matters(tmp_path):
    """Drawn from without a seed: python's. Seeded: numpy's. Not drawn from: torch's."""
    states = random.getstate(), np.random.get_state()
    try:
        first = FirstStates()
        value = random.random()
        np.random.seed(1)
        (row,) = first.settings({"numpy.random.seed"}, Keeper(tmp_path))
        assert (row.knob, row.resolved) == ("initial-state.python", False)
        force("python", kept(str(tmp_path), row.value).read_text())
        assert random.random() == value
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])


def test_a_seed_that_nobody_tells_is_a_state(tmp_path, held):
    """`random.seed()` does not say what it took: the state after it is kept, and given again."""
    first = FirstStates()
    random.seed()
    text = first.after("random.seed", "fresh entropy")
    value = random.random()
    list(first.settings({"random.seed", "numpy.random.seed", "torch.seed"}, Keeper(tmp_path)))
    place = kept(str(tmp_path), text.split()[-1])
    held(**{"seeds.random.seed": json.dumps([f"state:{place}"])})
    random.seed()
    assert random.random() == value
    assert first.after("torch.manual_seed", "5") == "5"


def test_seeds_are_read_from_their_text():
    """What `environment.setters` writes is what a setter takes."""
    assert seed_of("7") == 7
    assert seed_of("'word'") == "word"
    assert seed_of("[1, 2]") == [1, 2]
    assert seed_of("SeedSequence(4)").entropy == 4
    assert seed_of("1795971450274 (the time)") == 1795971450274
    many = [str(n) for n in range(70)]
    rows = {s.knob: s.value for s in seed_settings({"a": ["1"], "b": ["[1, 2]", "'x, y'", "3"], "c": many})}
    assert calls_in(rows["a"]) == ("1",)
    assert calls_in(rows["b"]) == ("[1, 2]", "'x, y'", "3")
    assert calls_in(rows["c"]) is None


@pytest.mark.parametrize(
    ("variables", "seeds"), [({}, "7"), ({"RANK": "0"}, "7"), ({"RANK": "1"}, "9"), ({"SLURM_PROCID": "2"}, "1")]
)
def test_a_process_takes_what_is_its_own(held, monkeypatch, variables, seeds):
    """What names no rank is the first one's; another rank keeps its own seed where nothing is held for it."""
    for name in ("RANK", "SLURM_PROCID"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    hold = {"seeds.torch.manual_seed": json.dumps(["7"]), "seeds.torch.manual_seed@rank1": json.dumps(["9"])}
    seen = held(**hold)
    torch.manual_seed(1)
    assert seen == [("torch.manual_seed", seeds)]
