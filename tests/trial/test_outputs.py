"""What A made and B read: hidden, lent or gone; and what A prepared and somebody has made again."""

import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from bisect_diverge.environment.inputs import Keeper, read_files
from bisect_diverge.model.environment import Environment, Layer
from bisect_diverge.model.run import RunRecord, Written
from bisect_diverge.model.trial import Bisection, BisectVerdict, Outcome, Trial, Unit
from bisect_diverge.store.reader import Run
from bisect_diverge.trial.draft import Sides
from bisect_diverge.trial.oracle import Trials
from bisect_diverge.trial.outputs import hidden, is_lendable, lost, made_anew, of_b_alone
from bisect_diverge.trial.search import with_prepared
from tests.helpers.command import bd
from tests.helpers.runs import training_rows, write_run
from tests.trial.pairs import pair_of

RESUME = Unit(layer=Layer.CONFIGURATION, knob="argv.--resume", a=None, b="set")


def record(folder, name, *words, read=(), keep=True, **written):
    """Return the record of a run that read some files of a folder and wrote others."""
    place = folder / name
    place.mkdir(exist_ok=True)
    rows = tuple(read_files([str(folder / file) for file in read], folder, Keeper(place, on=keep)))
    command = ("python", "t.py", *words)
    return RunRecord(
        command=command,
        argv=command[1:],
        cwd=str(folder),
        place=str(place),
        environment=Environment(rows),
        written={str(folder / f"{file}.pt"): how for file, how in written.items()},
    )


def resumed(folder, *words, keep=True):
    """Return A, which wrote ``ck.pt``, and a B that read it."""
    (folder / "ck.pt").write_bytes(b"A's")
    a = record(folder, "a", ck=Written.OUTPUT)
    return Sides(a=a, b=record(folder, "b", *words, read=["ck.pt"], keep=keep), last_step=1)


def lent(sides):
    """Return the two runs as a trial sees them that failed without what B alone has read."""
    return Sides(a=sides.a, b=sides.b, last_step=1, lent=True)


def test_a_checkpoint_that_bs_command_names_is_there_as_b_read_it(tmp_path):
    """While it is as it was, nothing is to be done; afterwards B's copy takes its place."""
    sides = resumed(tmp_path, "--resume=ck.pt")
    file = str(tmp_path / "ck.pt")
    assert hidden(sides) == ()
    assert of_b_alone(sides) == {}
    for change in (lambda: (tmp_path / "ck.pt").write_bytes(b"another"), (tmp_path / "ck.pt").unlink):
        change()
        place = of_b_alone(sides)[file]
        assert Path(place).read_bytes() == b"A's"
    assert lost(sides, "failed") == ""


def test_a_checkpoint_that_nobody_names_is_only_lent(tmp_path):
    """A script that resumes from whatever it finds must not find it in a trial of A."""
    sides = resumed(tmp_path, "--resume")
    file = str(tmp_path / "ck.pt")
    assert hidden(sides) == (file,)
    assert of_b_alone(sides) == {}
    assert is_lendable(sides)
    assert list(of_b_alone(lent(sides))) == [file]


def test_a_checkpoint_that_is_gone_is_named(tmp_path):
    """Neither a copy nor the file is there, or B has written over it."""
    sides = resumed(tmp_path, "--resume", keep=False)
    (tmp_path / "ck.pt").write_bytes(b"another")
    assert not is_lendable(sides)
    assert lost(sides, "").endswith("ck.pt, which A made and B read, was not kept and holds something else now")
    b = record(tmp_path, "b", "--resume", ck=Written.CHANGED)
    sides = Sides(a=sides.a, b=b, last_step=1)
    assert lost(sides, "division by zero") == ""
    assert "B has written over" in lost(sides, "No such file: 'ck.pt'")


def test_a_checkpoint_that_b_has_written_over_is_there_as_b_read_it(tmp_path):
    """B kept it before it wrote: where B's command alone names it every trial finds it, else it can be lent."""
    sides = resumed(tmp_path, "--resume=ck.pt")
    file = str(tmp_path / "ck.pt")
    (tmp_path / "ck.pt").write_bytes(b"B's own")
    b = sides.b.with_(written={file: Written.CHANGED})
    sides = Sides(a=sides.a, b=b, last_step=1)
    assert hidden(sides) == (file,)
    assert Path(of_b_alone(sides)[file]).read_bytes() == b"A's"
    assert lost(sides, "No such file: 'ck.pt'") == ""
    of_both = Sides(a=sides.a.with_(command=("python", "t.py", "--out=ck.pt")), b=b, last_step=1)
    assert of_b_alone(of_both) == {}
    assert is_lendable(of_both)


def noted(oracle):
    """Return what a search says of prepared files."""
    return with_prepared(Bisection(verdict=BisectVerdict.INCONCLUSIVE), oracle).notes[0]


def test_a_trial_that_fails_is_run_again_with_what_b_read(tmp_path, monkeypatch):
    """Once, and never A's own; what is missing for good stands beside the reason."""
    sides = resumed(tmp_path, "--resume")
    runs = [Run(write_run(tmp_path / f"run-{n}", training_rows(change={}))) for n in "ab"]
    pair = pair_of(*runs, sides)
    oracle = Trials(pair)
    tried = []

    def fake(self, swapped):
        tried.append((swapped, swapped in self._lent))
        found = swapped in self._lent
        return Trial(n=1, base="a", swapped=(), outcome=Outcome.B if found else Outcome.SKIP, reason="it fails")

    monkeypatch.setattr(Trials, "_tried", fake)
    swapped = frozenset({RESUME})
    assert oracle(swapped).outcome is Outcome.B
    assert oracle(frozenset()).outcome is Outcome.SKIP
    assert tried == [(swapped, False), (swapped, True), (frozenset(), False)]
    (tmp_path / "cache.pt").write_text("")
    a = record(tmp_path, "a", cache=Written.PREPARED)
    stale = Trials(replace(pair, sides=replace(sides, a=a, b=record(tmp_path, "b", cache=Written.CHANGED))))
    assert (
        noted(stale)
        == "made by A before its first module call, and made again since: cache.pt; every trial makes its own"
    )
    assert stale(frozenset()).outcome is Outcome.SKIP
    assert noted(stale).endswith("A fails without, so that every trial finds what is there now")
    for run in runs:
        run.close()


def test_what_a_prepared_and_others_made_again_is_hidden(tmp_path):
    """B made it too, or it is younger than A's recording; what A alone prepared stays, and so does what B was given."""
    for name in ("both", "later", "own"):
        (tmp_path / f"{name}.pt").write_text("")
        os.utime(tmp_path / f"{name}.pt", (1, 1))
    a = record(tmp_path, "a", both=Written.PREPARED, later=Written.PREPARED, own=Written.PREPARED, no=Written.PREPARED)
    (tmp_path / "a" / "rank-00000.h5").write_text("")
    os.utime(tmp_path / "later.pt", (9e9, 9e9))
    b = record(tmp_path, "b", both=Written.PREPARED)
    wanted = tuple(str(tmp_path / name) for name in ("both.pt", "later.pt"))
    assert made_anew(a, b) == hidden(Sides(a=a, b=b, last_step=1)) == wanted
    assert made_anew(a, a) == wanted[1:]
    assert hidden(Sides(a=a, b=b, last_step=1, stale=True)) == ()
    assert hidden(Sides(a=a, b=record(tmp_path, "b", "later.pt"), last_step=1)) == ()


SCRIPT = """
import os, sys, torch
m = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(m.parameters(), lr=0.1)
if not os.path.exists("cache.pt"):
    torch.save(torch.full((1, 2), 2.0 if "--resume" in sys.argv else 1.0), "cache.pt")
x = torch.load("cache.pt")
torch.nn.init.ones_(m.weight), torch.nn.init.zeros_(m.bias)
if "--resume" in sys.argv:
    m.load_state_dict(torch.load("ck.pt"))
for step in range(2):
    m(x).sum().backward()
    optimizer.step()
if "--resume" not in sys.argv:
    torch.save(m.state_dict(), "ck.pt")
"""


@pytest.mark.slow
def test_a_resumed_run_and_a_stale_cache(tmp_path):
    """A's checkpoint is there for B's flag although it was removed, and each trial makes its own cache."""
    (tmp_path / "t.py").write_text(SCRIPT)
    bd("record", "-o", "a", "--", sys.executable, "t.py", cwd=tmp_path)
    (tmp_path / "cache.pt").unlink()
    bd("record", "-o", "b", "--", sys.executable, "t.py", "--resume", cwd=tmp_path)
    (tmp_path / "ck.pt").unlink()
    done = bd("trial", "a", "--b", "b", "--set", "configuration.argv.--resume=@B", cwd=tmp_path)
    assert done.stdout.startswith("B's bits")
