"""What ``bd neutral`` makes of runs: equal, changed by recording, or never the same anyway."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bisect_diverge.model.neutrality import Finding, Neutral, Neutrality, Repetition
from bisect_diverge.model.witness import Witness
from bisect_diverge.report.neutral_text import neutral_text
from bisect_diverge.trial.neutral import compare
from bisect_diverge.trial.observe import Observed

END = Witness(
    updates=2,
    parameters={"opt0:0": "a" * 32, "opt0:1": "b" * 32},
    state={"opt0:0.state.exp_avg": "c" * 32},
    generators={"python": "d" * 32, "torch.cpu": "e" * 32},
    untouched=("python",),
    losses=("1" * 32, "2" * 32),
    process={"threads": "2"},
)
PLAIN = Observed(
    capture="",
    status=0,
    output=("step 0 took 0.1 s", "loss 1.5"),
    errors=(),
    files={"/x/model.pt": "xxh3:1", "/x/log": "xxh3:2"},
    witnesses={0: END},
)
NAMES = {0: {"opt0:0": "opt:weight", "opt0:1": "opt:bias"}, 1: {"opt0:1": "opt:late"}}


def ended(**changes):
    """Return the run with another end."""
    return replace(PLAIN, witnesses={0: replace(END, **changes)})


def found(recorded, again=None, plain=PLAIN):
    """Return the findings by name, and the verdict."""
    items = compare(plain, recorded, again, NAMES)
    return {item.name: item for item in items}, Neutrality(items=items, runs=()).verdict


def test_nothing_differs():
    """Everything that is there is equal; what is not there is said not to be compared, and why."""
    items, verdict = found(PLAIN)
    assert verdict is Neutral.NEUTRAL
    absent = {name: item.reason for name, item in items.items() if item.finding is Finding.NOT_COMPARED}
    assert absent == {
        "standard error": "it printed nothing",
        "buffers": "no model that was updated has any",
        "graph breaks": "torch.compile was not used",
    }
    assert items["parameters"].equal == 2
    assert items["standard output"].equal == 2


CHANGES = {
    "exit status": replace(PLAIN, status=3),
    "standard output": replace(PLAIN, output=("step 0 took 0.1 s", "loss 1.6")),
    "standard error": replace(PLAIN, errors=("a warning",)),
    "updates": ended(updates=3),
    "losses": ended(losses=("1" * 32, "3" * 32)),
    "parameters": ended(parameters=END.parameters | {"opt0:1": "f" * 32}),
    "optimizer state": ended(state={}),
    "buffers": ended(buffers={"Net:mean": "a"}),
    "generators": ended(generators=END.generators | {"torch.cpu": "f" * 32}),
    "graph breaks": ended(graph_breaks={"a call": 2}),
    "process state": ended(process={"threads": "1"}),
    "files written": replace(PLAIN, files={"/x/model.pt": "xxh3:3", "/x/log": "xxh3:2"}),
}


@pytest.mark.parametrize("name", CHANGES)
def test_one_thing_that_recording_changes(name):
    """A change is found in the thing that changed and in no other, whether or not the run is repeated."""
    for again in (None, PLAIN):
        items, verdict = found(CHANGES[name], again)
        assert verdict is Neutral.CHANGED
        assert [item.name for item in items.values() if item.finding is Finding.CHANGED] == [name]


@pytest.mark.parametrize("name", CHANGES)
def test_one_thing_that_never_repeats_itself(name):
    """What differs between two unrecorded runs is not blamed on recording."""
    recorded = {"standard output": replace(PLAIN, output=("step 0 took 0.1 s", "loss 1.7"))}.get(name, PLAIN)
    items, verdict = found(recorded, CHANGES[name])
    assert items[name].finding is Finding.UNREPEATABLE
    texts = ("standard output", "standard error", "files written", "process state")
    assert verdict is (Neutral.NEUTRAL if name in texts else Neutral.INCONCLUSIVE)


def test_a_change_beside_what_never_repeats_itself_counts():
    """A changed parameter is a change, although another one moves by itself."""
    moving = ended(parameters=END.parameters | {"opt0:0": "9" * 32})
    items, verdict = found(CHANGES["parameters"], moving)
    assert verdict is Neutral.CHANGED
    assert items["parameters"].unrepeatable == ("opt:weight",)
    assert [change.part for change in items["parameters"].changed] == ["opt:bias"]


def test_generators_that_nobody_drew_from_are_equal():
    """Python's generator is seeded anew in every process; while nobody draws from it that is no difference."""
    assert found(ended(generators=END.generators | {"python": "0" * 32}))[1] is Neutral.NEUTRAL
    drawn = ended(generators=END.generators | {"python": "0" * 32}, untouched=())
    assert found(drawn)[0]["generators"].finding is Finding.CHANGED


def test_durations_are_no_difference():
    """Times in the text are left out, and a line that moves with other numbers each time is left out as a whole."""
    assert found(replace(PLAIN, output=("step 0 took 7.25 s", "loss 1.5")))[1] is Neutral.NEUTRAL
    lines = [("at 17, loss 1.5", "loss 1.5"), ("at 18, loss 1.5", "loss 1.5"), ("at 19, loss 1.5", "loss 1.5")]
    one, two, three = (replace(PLAIN, output=output) for output in lines)
    items, verdict = found(two, three, one)
    assert verdict is Neutral.NEUTRAL
    assert items["standard output"].unrepeatable == ("line 1",)


def test_every_rank_is_compared():
    """A change of the second rank is found, with its name; a rank that is missing is a change too."""
    two = replace(PLAIN, witnesses={0: END, 1: replace(END, rank=1)})
    other = replace(PLAIN, witnesses={0: END, 1: replace(END, parameters=END.parameters | {"opt0:1": "f"})})
    assert found(two, None, two)[1] is Neutral.NEUTRAL
    assert found(other, None, two)[0]["parameters"].changed[0].part == "r1/opt:late"
    assert found(PLAIN, None, two)[0]["parameters"].finding is Finding.CHANGED


def test_an_end_that_nobody_saw():
    """After ``os._exit`` in all runs the bits are not compared, and that is said; the rest is."""
    gone = replace(PLAIN, witnesses={})
    items, verdict = found(gone, None, gone)
    assert verdict is Neutral.NEUTRAL
    assert items["parameters"].finding is Finding.NOT_COMPARED
    assert "os._exit" in items["parameters"].reason
    assert items["files written"].equal == 2


def test_text():
    """The verdict comes first, then every thing with its finding, its parts by name, and digests cut short."""
    items = compare(PLAIN, CHANGES["parameters"], PLAIN, NAMES)
    runs = (Repetition(capture="", seconds=1.0), Repetition(capture="digest", seconds=2.0))
    lines = neutral_text(Neutrality(items=items, runs=runs)).splitlines()
    assert lines[0] == "recording changes this run: parameters"
    at = lines.index("  changed                 parameters        1 of 2 equal")
    assert lines[at + 1 : at + 4] == ["      opt:bias", "        unrecorded: bbbbbbbb", "        recorded:   ffffffff"]
    assert lines[-1] == "2 runs: unrecorded 1.0 s, digest 2.0 s"
    more = replace(PLAIN, output=(*PLAIN.output, "loss 1.4"))
    text = neutral_text(Neutrality(items=compare(PLAIN, more, PLAIN, NAMES), runs=runs))
    assert "unrecorded: 2 lines, line 3: (none)" in text
    assert "recorded:   3 lines, line 3: loss 1.4" in text
    text = neutral_text(Neutrality(items=compare(PLAIN, PLAIN, CHANGES["losses"], NAMES), runs=runs))
    assert text.startswith("the command does not repeat itself unrecorded, so nothing can be said of: losses\n")
    assert "differs between two unrecorded runs: backward 1" in text
