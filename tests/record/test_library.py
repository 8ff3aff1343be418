"""The library's door: what is recorded, where it goes, what happens when it is opened or closed the wrong way."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
import warnings
from collections import OrderedDict

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import bisect_diverge
from bisect_diverge.errors import OutputExistsError, UsageError
from bisect_diverge.model.record import Flag
from bisect_diverge.model.run import State
from bisect_diverge.record.install import current
from bisect_diverge.report.run_overview import run_overview
from bisect_diverge.report.run_text import run_text
from bisect_diverge.store.reader import Run
from tests.record.support import addresses, mlp, recording, rows, train


def steps_of(run):
    """Return the steps that have rows."""
    return sorted({int(text.split("/")[0]) for text in addresses(run, without=())})


def random_mlp():
    """Return a network that draws."""
    return nn.Sequential(mlp(), nn.Dropout(0.5))


# -- what is recorded -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("window", "expected"), [((2, 4), [2, 3]), ((3, None), [3, 4, 5]), ((0, 1), [0]), ((9, None), [])]
)
def test_window_of_steps(window, expected, tmp_path):
    """Only the steps of the window have rows, with the numbers that they have without it, after the weights."""
    with recording(tmp_path / "run", steps=window):
        train(random_mlp(), torch.randn(2, 4), steps=6)
    assert steps_of(tmp_path / "run") == expected
    whole = tmp_path / "whole"
    with recording(whole):
        train(random_mlp(), torch.randn(2, 4), steps=6)
    of_window = [text for text in addresses(whole, without=()) if int(text.split("/")[0]) in expected]
    found = addresses(tmp_path / "run", without=())
    weights = [text.replace("0/-", f"{window[0]}/-", 1) for text in addresses(whole, without=("rng",))[:4]]
    assert found == [*(weights if expected and window[0] else []), *of_window]


def test_globs_of_modules(tmp_path):
    """Only modules and parameters whose FQN matches a glob have rows."""
    model = nn.Sequential(mlp(), mlp())
    with recording(tmp_path / "run", modules=["1.*", "0.0"]):
        train(model, torch.randn(2, 4), steps=0)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        nn.functional.pad(model[0](torch.randn(2, 4)), (1, 1)).sum().backward()
        model[1](torch.randn(2, 4)).sum().backward()
        optimizer.step()
    fqns = {
        (text.split("/")[2], text.split(":")[1].partition("#")[0])
        for text in addresses(tmp_path / "run", without=("rng",))
    }
    assert fqns
    for phase, fqn in fqns:
        assert phase in ("forward", "backward", "optimizer", "init")
        assert fqn.startswith(("group", "loss", "1.", "0.")) or fqn == "0.0", (phase, fqn)


def test_globs_leave_out_the_rest(tmp_path):
    """What a glob leaves out has no row in any phase but the loss, the batches and the group values."""
    with recording(tmp_path / "run", modules=["2*"]):
        train(mlp(), torch.randn(2, 4), steps=1)
    found = {text.split("/", 2)[2] for text in addresses(tmp_path / "run", without=("rng",))}
    wanted = {text for text in found if not text.split(":")[1].startswith(("2", "loss", "group"))}
    assert wanted == set()
    assert "forward/model:2#0:output.0" in found
    assert "optimizer/optimizer:2.weight#0:grad" in found
    assert "init/model:2.bias#0:param" in found


def test_digests_only(tmp_path):
    """With digests only no tensor is kept, and the digests are those of a full recording."""
    torch.manual_seed(0)
    with recording(tmp_path / "full"):
        train(mlp(), torch.randn(2, 4))
    torch.manual_seed(0)
    with recording(tmp_path / "digest", capture="digest"):
        train(mlp(), torch.randn(2, 4))
    full, digest = rows(tmp_path / "full"), rows(tmp_path / "digest")
    assert {name: row.digest for name, row in full.items()} == {name: row.digest for name, row in digest.items()}
    assert all(row.kept for row in full.values())
    assert not any(row.kept for row in digest.values())
    assert all(row.flags & Flag.DIGEST_ONLY for row in digest.values())
    size = [sum(file.stat().st_size for file in (tmp_path / name).glob("*")) for name in ("full", "digest")]
    assert size[1] < size[0]


def test_budget(tmp_path, capfd):
    """When the budget is used up that is said once, and recording goes on with digests to the end."""
    with recording(tmp_path / "run", keep="8K"):
        train(nn.Linear(16, 16), torch.randn(4, 16), steps=6)
    said = capfd.readouterr().err
    assert said.count("the budget of 8 KiB for tensors was used up") == 1
    assert steps_of(tmp_path / "run") == list(range(6))
    with Run(tmp_path / "run") as run:
        kept = run.first.events["offset"] >= 0
        assert kept[0]
        assert not kept[-1]
        assert len(run.first.record.notes) == 1
        assert "used up at step" in run.first.record.notes[0]


def test_equal_tensors_are_kept_once(tmp_path):
    """A tensor that is in the file already costs no budget."""
    identity = nn.Identity()
    x = torch.ones(1000)
    with recording(tmp_path / "run", keep=20 << 10):
        for _ in range(20):
            identity(x)
    found = [row for text, row in rows(tmp_path / "run").items() if "forward/identity" in text]
    assert len(found) == 40
    assert all(row.kept for row in found)


def test_forecast(tmp_path, capfd):
    """After the first step one line says what it took and how long the budget lasts."""
    with recording(tmp_path / "run", keep="1M"):
        train(mlp(), torch.randn(2, 4), steps=3)
    (line,) = [line for line in capfd.readouterr().err.splitlines() if line.startswith("bd: ")]
    assert line.startswith("bd: step 0: ")
    assert "the budget of 1 MiB lasts about" in line


@pytest.mark.parametrize("options", [{"capture": "digest"}, {"steps": (1, 2)}])
def test_no_forecast_without_tensors(options, tmp_path, capfd):
    """Nothing is forecast where step 0 keeps no tensors."""
    with recording(tmp_path / "run", **options):
        train(mlp(), torch.randn(2, 4), steps=3)
    assert "bd:" not in capfd.readouterr().err


@pytest.mark.slow
def test_optimizer_made_before(tmp_path):
    """An optimizer that was constructed before the block makes its forwards training, from the first one on."""
    code = """
import bisect_diverge, torch
model, criterion = torch.nn.Linear(2, 2), torch.nn.MSELoss()
optimizer = torch.optim.SGD(model.parameters(), 0.1)
with bisect_diverge.record("run"):
    for _ in range(2):
        criterion(model(torch.ones(1, 2)), torch.zeros(1, 2)).backward()
        optimizer.step()
"""
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True, capture_output=True)
    assert steps_of(tmp_path / "run") == [0, 1]


def test_batches_before_the_first_call(tmp_path):
    """Batches that are fetched before a module is called come after the initial weights, with their bytes."""
    loader = DataLoader(TensorDataset(torch.arange(6.0)), 2)
    with recording(tmp_path / "run"):
        batches = list(loader)
        model = nn.Linear(2, 2)
        model(batches[1][0])
    found = addresses(tmp_path / "run", without=())
    assert found[0].startswith("0/-/init/model:weight")
    data = [text for text in found if "/data/" in text]
    assert data == [f"0/-/data/loader:#{call}:batch.0" for call in range(3)]
    records = rows(tmp_path / "run")
    assert all(records[text].kept for text in data)
    source = records["0/0/forward/model:#0:input.0"].source
    assert source == found.index("0/-/data/loader:#1:batch.0")


class Augmented(TensorDataset):
    """Calls a module on each sample."""

    transform = nn.Dropout(0.5)

    def __getitem__(self, index):
        return self.transform(super().__getitem__(index)[0])


def test_transforms_inside_a_loader(tmp_path):
    """Modules that are called inside a loader's ``next`` are no rows; its batches are."""
    loader = DataLoader(Augmented(torch.ones(4, 2)), 2)
    model = nn.Linear(2, 2)
    with recording(tmp_path / "run"):
        for batch in loader:
            model(batch)
    roots = {text.split("/")[3].partition(":")[0] for text in addresses(tmp_path / "run")}
    assert roots == {"loader", "model"}


def test_loader_inside_a_loader(tmp_path):
    """A dataset that reads another loader gives the batches of the outer one only."""
    inner = DataLoader(TensorDataset(torch.arange(4.0)), 2)

    class Outer(torch.utils.data.IterableDataset):
        def __iter__(self):
            for (batch,) in inner:
                yield from batch

    outer = DataLoader(Outer(), 2)
    model = nn.Identity()
    with recording(tmp_path / "run"):
        for batch in outer:
            model(batch)
    found = [text.split("/", 2)[2] for text in addresses(tmp_path / "run") if "/data/" in text]
    assert set(found) == {"data/outer:#0:batch.0"}


def test_threads(tmp_path):
    """Modules called in several threads at once are each recorded whole, and nothing is lost."""
    models = [nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4)) for _ in range(4)]
    failed = []

    def work(model):
        try:
            for _ in range(10):
                model(torch.randn(2, 4)).sum().backward()
        except BaseException as error:
            failed.append(error)

    with recording(tmp_path / "run"):
        torch.optim.SGD(models[0].parameters())
        threads = [threading.Thread(target=work, args=(model,)) for model in models]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not failed
    found = addresses(tmp_path / "run")
    outputs = [text for text in found if "/forward/" in text and "output" in text]
    assert len(outputs) == 4 * 10 * 3
    assert len(set(outputs)) == len(outputs)
    assert len([text for text in found if "/backward/" in text]) == 4 * 10 * 3


# -- opening and closing --------------------------------------------------------------------------------------------


def test_two_recordings_in_turn(tmp_path):
    """A second recording in the same process starts from nothing."""
    model = mlp()
    for name in ("one", "two"):
        torch.manual_seed(0)
        with recording(tmp_path / name):
            model(torch.randn(2, 4))
    assert addresses(tmp_path / "one", without=()) == addresses(tmp_path / "two", without=())
    one, two = rows(tmp_path / "one"), rows(tmp_path / "two")
    assert {text: row.digest for text, row in one.items()} == {text: row.digest for text, row in two.items()}


def test_nested(tmp_path):
    """A recording inside a recording is refused, and the outer one goes on."""
    with recording(tmp_path / "outer"):
        with pytest.raises(UsageError, match="recorded already"), bisect_diverge.record(tmp_path / "inner"):
            raise AssertionError
        mlp()(torch.randn(2, 4))
    assert not (tmp_path / "inner").exists()
    assert len(addresses(tmp_path / "outer")) > 4


def test_exception_in_the_block(tmp_path):
    """An exception passes through, and the run is interrupted."""

    def broken():
        with bisect_diverge.record(tmp_path / "run"):
            mlp()(torch.randn(2, 4))
            raise LookupError("of the script")

    with pytest.raises(LookupError, match="of the script"):
        broken()
    with Run(tmp_path / "run") as run:
        assert run.first.status.state is State.INTERRUPTED
        assert len(run.first.events) > 10
    assert current() is None


def test_complete(tmp_path):
    """A block that ends is a complete run, with its record."""
    with recording(tmp_path / "run"):
        mlp()(torch.randn(2, 4))
    with Run(tmp_path / "run") as run:
        assert run.first.status.state is State.COMPLETE
        assert run.first.status.pid == os.getpid()
        assert run.first.record.argv == (str(tmp_path / "train.py"),)
        assert run.first.record.command == ()
        assert run.first.record.environment.settings


def test_a_glob_that_fits_nothing(tmp_path, capfd):
    """It is named with what is near it, once, and kept; a glob that fits a parameter only is none."""
    with recording(tmp_path / "run", modules=["c1x", "2.weigh?"]):
        model = nn.Sequential(OrderedDict([("c1", nn.Linear(4, 4)), ("c2", nn.Linear(4, 4)), ("2", nn.Linear(4, 2))]))
        train(model, torch.randn(2, 4), steps=2)
    sentence = "--modules 'c1x' matches no module of model; nearest: c1"
    said = [line for line in capfd.readouterr().err.splitlines() if "--modules" in line]
    assert len(said) == 1
    assert said[0].startswith(f"bd: {sentence}")
    with Run(tmp_path / "run") as run:
        assert run.first.record.notes[0].startswith(sentence)
        shown = run_text(run_overview(run))
    assert "no module that --modules names was called" in shown
    assert "none was called" not in shown


def test_nothing_called(tmp_path, capfd):
    """A block that calls no module says so; the next recording may use the same path."""
    with bisect_diverge.record(tmp_path / "run"):
        torch.ones(1)
    assert "nothing was recorded" in capfd.readouterr().err
    with recording(tmp_path / "run"):
        mlp()(torch.randn(2, 4))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"capture": "half"}, "capture is 'full' or 'digest'"),
        ({"keep": "lots"}, "not a size"),
        ({"keep": ""}, "not a size"),
        ({"keep": -1}, "not a size"),
        ({"steps": (3, 3)}, "empty range of steps"),
        ({"steps": (-2, 3)}, "not a range of steps"),
        ({"data": ["no such file"]}, "no such file or directory"),
    ],
    ids=str,
)
def test_bad_options(options, message, tmp_path):
    """Arguments that make no sense are refused, before anything is made or replaced."""
    run = tmp_path / "run"
    with recording(run):
        mlp()(torch.randn(2, 4))
    before = sorted((file.name, file.stat().st_mtime_ns) for file in run.iterdir())
    with pytest.raises(UsageError, match=message), bisect_diverge.record(run, force=True, **options):
        raise AssertionError
    with pytest.raises(UsageError, match=message), bisect_diverge.record(tmp_path / "new", **options):
        raise AssertionError
    assert sorted((file.name, file.stat().st_mtime_ns) for file in run.iterdir()) == before
    assert not (tmp_path / "new").exists()
    assert current() is None


def made(path, *names):
    """Make a directory with these files in it."""
    path.mkdir()
    for name in names:
        file = path / name
        if name.endswith("/"):
            file.mkdir()
        else:
            file.write_text("precious")
    return path


FOREIGN = [
    ("notes.txt",),
    ("rank-00000.h5", "model.pt"),
    ("rank-notes.txt",),
    ("rank-00000.h5", "stdout.log.bak"),
    ("trials/",),
    ("trials_of_mine.csv", "rank-00000.h5"),
    ("rank-00000.h5", "deep/"),
]


@pytest.mark.parametrize("names", FOREIGN, ids=str)
@pytest.mark.parametrize("force", [False, True])
def test_other_files_are_never_removed(names, force, tmp_path):
    """A directory with anything in it that no recording made is left alone, however much force is asked for."""
    path = made(tmp_path / "run", *names)
    with pytest.raises(OutputExistsError), bisect_diverge.record(path, force=force):
        raise AssertionError
    assert sorted(entry.name for entry in path.iterdir()) == sorted(name.rstrip("/") for name in names)


def test_existing_run(tmp_path):
    """A run that is there is kept without force and replaced with it."""
    path = tmp_path / "run"
    with recording(path):
        mlp()(torch.randn(2, 4))
    (path / "trials").mkdir()
    (path / "trials" / "journal.jsonl").write_text("{}")
    with pytest.raises(OutputExistsError, match="exists already"), bisect_diverge.record(path):
        raise AssertionError
    assert addresses(path)
    with recording(path, force=True):
        nn.Identity()(torch.ones(1))
    assert not (path / "trials").exists()
    assert {text.split("/")[3].partition(":")[0] for text in addresses(path)} == {"Identity"}


def test_path_that_cannot_be_made(tmp_path):
    """A file in the way, a link to a run and a place that cannot be written are refused with a message."""
    (tmp_path / "file").write_text("x")
    with pytest.raises(OutputExistsError), bisect_diverge.record(tmp_path / "file", force=True):
        raise AssertionError
    with pytest.raises(UsageError, match="cannot make"), bisect_diverge.record(tmp_path / "file" / "run"):
        raise AssertionError
    with pytest.raises(UsageError, match="cannot make"), bisect_diverge.record("/proc/no/run"):
        raise AssertionError
    with recording(tmp_path / "run"):
        mlp()(torch.randn(2, 4))
    (tmp_path / "link").symlink_to(tmp_path / "run")
    with pytest.raises(UsageError), bisect_diverge.record(tmp_path / "link", force=True):
        raise AssertionError
    assert addresses(tmp_path / "run")
    assert (tmp_path / "file").read_text() == "x"


def test_empty_directory_and_deep_path(tmp_path):
    """An empty directory and one whose parents are missing can be used."""
    (tmp_path / "empty").mkdir()
    for path in (tmp_path / "empty", tmp_path / "a" / "b" / "c"):
        with recording(path):
            mlp()(torch.randn(2, 4))
        assert addresses(path)


def test_relative_path_and_another_directory(tmp_path, monkeypatch):
    """A relative path is relative to where the block began, wherever the script goes."""
    (tmp_path / "elsewhere").mkdir()
    with bisect_diverge.record("run"):
        monkeypatch.chdir(tmp_path / "elsewhere")
        mlp()(torch.randn(2, 4))
    assert addresses(tmp_path / "run")


# -- trouble of ours ------------------------------------------------------------------------------------------------


def test_failure_of_ours_is_said_once(tmp_path, capfd, monkeypatch):
    """A failure inside a hook is a line on stderr and a note in the run; the run itself goes on."""
    import importlib

    recorder = importlib.import_module("bisect_diverge.record.recorder")
    real = recorder.capture

    def broken(leaf, **options):
        if isinstance(leaf, torch.Tensor) and leaf.shape == (3, 3):
            raise MemoryError("ours")
        return real(leaf, **options)

    monkeypatch.setattr(recorder, "capture", broken)
    model = nn.Sequential(nn.Identity(), nn.Identity())
    with warnings.catch_warnings(), bisect_diverge.record(tmp_path / "run"):
        for size in (2, 3, 3, 2):
            assert model(torch.ones(size, size)).shape == (size, size)
    assert capfd.readouterr().err.count("could not be recorded") == 1
    with Run(tmp_path / "run") as run:
        assert run.first.record.coverage["failures in a module call"] > 1
        assert "ours" in run.first.record.notes[0]
        assert run.first.status.state is State.COMPLETE
    assert addresses(tmp_path / "run")[-1].endswith("/forward/model:#0:output.0")


@pytest.mark.parametrize("at", ["chunk", "flush"])
def test_full_disk(at, tmp_path, capfd, monkeypatch):
    """When the disk is full recording stops with one line; the run goes on and ends as it would."""
    from bisect_diverge.store.writer import RunWriter

    def full(*_args, **_kwargs):
        raise OSError(28, "No space left on device")

    model, x = mlp(), torch.randn(2, 4)
    state = {name: value.clone() for name, value in model.state_dict().items()}
    plain = train(model, x, steps=4)
    model.load_state_dict(state)
    model.zero_grad()
    with bisect_diverge.record(tmp_path / "run"):
        train(mlp(), x, steps=1)
        monkeypatch.setattr(RunWriter, "_write_chunk" if at == "chunk" else "_flush", full)
        recorded = train(model, x, steps=4)
    said = [line for line in capfd.readouterr().err.splitlines() if "No space left" in line]
    assert len(said) == 1
    assert all(torch.equal(plain[0][name], recorded[0][name]) for name in plain[0])
    monkeypatch.undo()
    with Run(tmp_path / "run") as run:
        assert run.first.status.state is not State.COMPLETE
    with recording(tmp_path / "again"):
        mlp()(x)


def test_file_that_cannot_be_created(tmp_path, capfd, monkeypatch):
    """A file that cannot be created is one line; modules work as without us."""
    import importlib

    writer = importlib.import_module("bisect_diverge.store.writer")

    def refuse(*_args, **_kwargs):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(writer, "RunWriter", refuse)
    model = mlp()
    with bisect_diverge.record(tmp_path / "run"):
        for _ in range(3):
            model(torch.randn(2, 4))
    said = [line for line in capfd.readouterr().err.splitlines() if line.startswith("bd:")]
    assert len(said) == 1
    assert "Permission denied" in said[0]


# -- what happens between updates -------------------------------------------------------------------------------------


def test_weight_changed_outside_of_an_update(tmp_path):
    """A weight that the script itself writes, even through ``.data``, has a row at the next pass; others have none."""
    model = mlp()
    data = torch.randn(2, 4)
    with recording(tmp_path / "run"):
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for step in range(3):
            if step == 2:
                next(model.parameters()).data.mul_(2)
            model(data).sum().backward()
            optimizer.step()
    found = [
        text for text in addresses(tmp_path / "run", without=()) if text.endswith(":param") and "/forward/" in text
    ]
    assert len(found) == 1
    assert found[0].startswith("2/0/forward/model:")


def test_rows_after_an_exception_are_marked(tmp_path):
    """A step in which a forward failed says so in the rows that follow, and only there."""
    from bisect_diverge.model.record import Flag

    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with recording(tmp_path / "run"):
        for step in range(3):
            if step == 1:
                with pytest.raises(RuntimeError):
                    model(torch.randn(2, 99))
            model(torch.randn(2, 4)).sum().backward()
            optimizer.step()
    with Run(tmp_path / "run") as run:
        events = run.first.events
        cut = events["step"][(events["flags"] & Flag.PARTIAL) != 0]
    assert set(cut.tolist()) == {1}


class Stop(BaseException):
    """Not an Exception: torch calls no hook when it passes."""


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, Stop])
def test_rows_before_an_exception_are_not_marked(error, tmp_path):
    """Of a step in which a forward failed, only what follows says so; the next step is whole."""
    from bisect_diverge.model.record import Flag

    class Fails(nn.Module):
        fail = False

        def forward(self, x):
            if self.fail:
                raise error
            return x

    model = nn.Sequential(nn.Linear(4, 4), Fails(), nn.Linear(4, 1))
    with recording(tmp_path / "run"):
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for step in range(3):
            for micro_batch in range(3):
                model[1].fail = (step, micro_batch) == (1, 1)
                with pytest.raises(error) if model[1].fail else contextlib.nullcontext():
                    model(torch.randn(2, 4)).sum().backward()
            optimizer.step()
    with Run(tmp_path / "run") as run:
        file = run.first
        marks = {
            str(file.address(row)).removeprefix("r0/"): bool(file.events["flags"][row] & Flag.PARTIAL)
            for row in range(len(file.events))
        }
    assert {text.partition("/")[0] for text, marked in marks.items() if marked} == {"1"}
    assert not marks["1/0/forward/model:#0:output.0"]
    assert not marks["1/1/forward/model:0#0:output.0"]  # the layer that had ended when the next one failed
    assert "1/1/forward/model:#0:output.0" not in marks
    assert marks["1/2/forward/model:0#0:output.0"]
    assert marks["1/-/optimizer/optimizer:0.weight#0:param"]


def test_window_in_which_a_root_comes_later(tmp_path):
    """Each root of a window begins with its weights, once, however late it is called and however often."""
    first, second = nn.Linear(4, 4), nn.Linear(4, 4)
    with recording(tmp_path / "run", steps=(1, None)):
        optimizer = torch.optim.SGD([*first.parameters(), *second.parameters()], 0.1)
        for step in range(4):
            out = first(torch.randn(2, 4))
            (second(out) if step != 1 else out).sum().backward()
            optimizer.step()
    found = [text for text in addresses(tmp_path / "run", without=()) if "/init/" in text]
    assert found == [
        f"{step}/-/init/{name}:{parameter}#0:param"
        for step, name in ((1, "first"), (2, "second"))
        for parameter in ("weight", "bias")
    ]
