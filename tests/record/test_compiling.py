"""Calls of ``torch.compile``: noted as they are, and given other arguments in a trial."""

import functools
import threading

import pytest
import torch
from torch import nn

from bisect_diverge.environment.setters import compile_setting
from bisect_diverge.record.compiling import hold_compile, see_compile
from bisect_diverge.record.patches import Patches


class Notes:
    """Whoever takes notes and settings."""

    active = True

    def __init__(self):
        self.lock = threading.RLock()
        self.troubles = []
        self.notes = []
        self.before_pass = None
        self.settings = {}

    def trouble(self, where, _error):
        """Take a failure."""
        self.troubles.append(where)

    def note_settings(self, settings):
        """Take settings."""
        self.settings |= {setting.knob: setting.value for setting in settings}


@pytest.fixture
def patches():
    """Patches that are taken back."""
    made = Patches()
    yield made
    made.undo()


def graphs(seen):
    """Return a backend that counts what it is given."""

    def counting(module, _inputs):
        seen.append(module)
        return module.forward

    return counting


def test_every_way_to_compile_is_one_call(patches):
    """A model, a decorator with and without arguments, and a module in place; the result is what it always is."""
    owner, seen = Notes(), []
    see_compile(owner, patches)
    backend = graphs(seen)
    model = torch.compile(nn.Linear(2, 2), backend=backend)

    @torch.compile(backend=backend, dynamic=True)
    def double(x):
        return x * 2

    in_place = nn.Linear(2, 2)
    in_place.compile(backend="eager", mode=None)
    assert torch.equal(double(torch.ones(2)), torch.full((2,), 2.0))
    model(torch.ones(1, 2))
    assert len(seen) == 2
    backends = [owner.settings[f"compiled.{number}.backend"] for number in range(3)]
    name = f"{__name__}.graphs.<locals>.counting"
    assert backends == [name, name, "eager"]
    assert [owner.settings[f"compiled.{number}.dynamic"] for number in range(3)] == ["None", "True", "None"]
    assert "compiled.3.backend" not in owner.settings
    assert owner.settings["compiled.0.mode"] == "default"


def test_a_trial_gives_a_call_other_arguments(patches):
    """The wanted call only, and says what the script asked for; what is noted is what it got."""
    owner, seen = Notes(), []
    see_compile(owner, patches)
    hold_compile({"kernels.compiled.1.backend": "eager"}, owner, patches)
    one = torch.compile(nn.Linear(2, 2), backend=graphs(seen))
    two = torch.compile(nn.Linear(2, 2), backend=graphs(seen))
    one(torch.ones(1, 2))
    two(torch.ones(1, 2))
    assert len(seen) == 1
    assert owner.settings["compiled.1.backend"] == "eager"
    (note,) = owner.notes
    assert note.startswith("backend of torch.compile was held at eager; the script asked for ")


def test_a_mode_takes_the_place_of_options(patches):
    """torch.compile takes one of the two."""
    owner = Notes()
    see_compile(owner, patches)
    hold_compile({"kernels.compiled.0.mode": "default"}, owner, patches)
    torch.compile(nn.Linear(2, 2), backend="eager", options={"max_autotune": True})
    assert (owner.settings["compiled.0.mode"], owner.settings["compiled.0.options"]) == ("default", "None")


def test_arguments_that_are_not_given_have_their_defaults():
    """So that a script that writes one out equals one that does not."""
    given = compile_setting(0, {"backend": "inductor", "mode": "default", "fullgraph": True})
    assert given == compile_setting(0, {})


class Backend:
    """A backend that is an object, as libraries have them."""

    def __call__(self, module, _inputs):
        """Return it as it is."""
        return module.forward


class Text(str):
    """An option whose text cannot be had."""

    def __str__(self):
        raise RuntimeError("not to be shown")


def test_no_place_in_memory_is_recorded(patches):
    """Objects, partial functions and functions among the options count by their names: two runs must be equal."""
    owner = Notes()
    see_compile(owner, patches)
    torch.compile(nn.Linear(2, 2), backend=Backend())
    torch.compile(nn.Linear(2, 2), backend=functools.partial(graphs([])))
    torch.compile(nn.Linear(2, 2), backend=graphs([]), options={"post_grad_custom_pre_pass": graphs})
    assert [owner.settings[f"compiled.{number}.backend"] for number in range(2)] == [
        f"{__name__}.Backend",
        f"{__name__}.graphs.<locals>.counting",
    ]
    assert owner.settings["compiled.2.options"] == str({"post_grad_custom_pre_pass": f"{__name__}.graphs"})


def test_what_cannot_be_told_does_not_reach_the_script(patches):
    """A failure of ours is a note; the call goes on, and raises what it raises by itself."""
    owner = Notes()
    see_compile(owner, patches)
    torch.compile(nn.Linear(2, 2), backend="eager", mode=Text("default"))
    assert owner.troubles == ["the arguments of torch.compile"]
