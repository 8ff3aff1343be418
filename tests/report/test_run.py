"""What a run holds, and its records, as text and JSON."""

import json
from pathlib import Path

import numpy as np
import pytest

from bisect_diverge.errors import NoSuchAddressError, UsageError
from bisect_diverge.model.address import Address
from bisect_diverge.model.record import Flag
from bisect_diverge.model.run import Capture, RecordOptions, RunRecord, State
from bisect_diverge.report.record_detail import flag_names, matching, record_details
from bisect_diverge.report.record_text import matches_text, record_text
from bisect_diverge.report.run_overview import run_overview
from bisect_diverge.report.run_text import run_text
from bisect_diverge.store.reader import Run
from tests.helpers.golden import check_golden
from tests.helpers.runs import Row, training_rows, write_run

RECORD = RunRecord(
    command=("python", "train.py", "--name", "a b"),
    cwd="/home/me",
    started="2026-01-02T03:04:05+00:00",
    options=RecordOptions(capture=Capture.FULL, steps=(0, 12), modules=("*",)),
    coverage={"outputs with gradient": 12, "gradient hooks set": 40, "gradient hooks called": 38},
    notes=("budget reached at step 3",),
)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a run of twelve steps."""
    return write_run(tmp_path_factory.mktemp("run") / "a", training_rows(12), record=RECORD)


def test_overview_as_text(request: pytest.FixtureRequest, path: Path):
    """State, command, size, roots, coverage, notes and the first steps are said; the rest is counted."""
    with Run(path) as run:
        text = run_text(run_overview(run))

    check_golden(request, "report/run.txt", text.replace(str(path), "runs/a"))


def test_overview_counts(path: Path):
    """Records, steps and kept bytes are those of the file; equal tensors are counted once."""
    rows = training_rows(12)
    different = {str(row.value) for row in rows}
    with Run(path) as run:
        (rank,) = run_overview(run).ranks

    assert rank.records == len(rows)
    assert rank.kept_bytes == 16 * len(different)
    assert [step.step for step in rank.steps] == list(range(12))
    assert sum(step.records for step in rank.steps) == len(rows)
    assert rank.roots == {"loss_fn": 1, "model": 3}
    assert rank.steps[0].phases["init"] == 2


def test_overview_as_json(path: Path):
    """The JSON holds all steps and the run record, without the environment, which has a command of its own."""
    with Run(path) as run:
        document = json.loads(json.dumps(run_overview(run).to_json(), allow_nan=False))
    (rank,) = document["ranks"]

    assert document["schema"] == 1
    assert len(rank["steps"]) == 12
    assert rank["state"] == "complete"
    assert rank["run"]["command"] == ["python", "train.py", "--name", "a b"]
    assert "environment" not in rank["run"]


def test_overview_of_an_interrupted_empty_run(tmp_path: Path):
    """A run without records has an overview too."""
    path = write_run(tmp_path / "a", [], state=State.INTERRUPTED, exit_status=None)
    with Run(path) as run:
        text = run_text(run_overview(run))

    assert "interrupted" in text
    assert "0 in 0 steps" in text


def test_overview_of_several_ranks(tmp_path: Path):
    """Each rank has its part, and further files are named."""
    path = write_run(tmp_path / "a", [*training_rows(1), *training_rows(1, rank=1)])
    (path / "rank-00001.1.h5").write_bytes((path / "rank-00001.h5").read_bytes())
    with Run(path) as run:
        text = run_text(run_overview(run))

    assert "rank 1 of 1" in text
    assert "rank-00001.1.h5" in text


def test_a_step_that_was_cut_short_says_so(tmp_path: Path):
    """A partial step is marked."""
    rows = [Row("r0/0/0/forward/m:#0:input.0", 1.0, flags=int(Flag.PARTIAL))]
    with Run(write_run(tmp_path / "a", rows)) as run:
        assert "cut short" in run_text(run_overview(run))


def test_a_record_as_text(request: pytest.FixtureRequest, tmp_path: Path):
    """One tensor: type, digest, flags, where it came from, summary and first values."""
    tensor = np.arange(12, dtype="<f4").reshape(3, 4)
    tensor[0, 1] = np.nan
    rows = [
        Row("r0/0/0/forward/m:0#0:output.0", tensor, flags=int(Flag.REQUIRES_GRAD)),
        Row("r0/0/0/forward/m:1#0:input.0", tensor, source=0, site="net.py:7", module_type="GELU"),
        Row("r0/0/0/forward/m:loss#0:value", 0.5),
        Row("r0/0/-/optimizer/opt:w#0:grad", np.zeros(0, "<u1"), dtype="none", module_type=""),
    ]
    with Run(write_run(tmp_path / "a", rows)) as run:
        texts = [record_text(record_details(run, Address.parse(row.address))) for row in rows]

    check_golden(request, "report/record.txt", "\n".join(texts))


def test_a_record_as_json_has_no_nan(tmp_path: Path):
    """Numbers that JSON does not have are texts."""
    address = "r0/0/0/forward/m:#0:output.0"
    with Run(write_run(tmp_path / "a", [(address, float("nan"))])) as run:
        (detail,) = record_details(run, Address.parse(address))
    document = json.loads(json.dumps(detail.to_json(), allow_nan=False))

    assert document["value"] == "nan"
    assert document["values"] == ["nan"]
    assert document["summary"]["nan"] == 1
    assert document["summary"]["mean"] is None


@pytest.mark.parametrize(
    ("contains", "glob", "step", "total"),
    [
        ("model:1#0", "", None, 12 * 3),
        ("output.0", "", 0, 8),
        ("/0/forward", "", 5, 9),
        ("r0/5/", "", None, 22),
        ("", "*:lr", None, 12),
        ("", "group0", None, 12),
        ("", "*", None, 22 * 12 + 3),
        ("lr", "r0/1?/*", None, 2),
        ("nothing", "", None, 0),
        ("", "", 3, 22),
        ("", "", 99, 0),
    ],
)
def test_matching_records(path: Path, contains: str, glob: str, step: int | None, total: int):
    """A part is looked for in the name, with a slash in the whole address; a glob fits the address or the FQN."""
    with Run(path) as run:
        found = matching(run, contains, glob, step, limit=2)

    assert found.total == total
    assert len(found.shown) == min(total, 2)


def test_matches_say_how_many_more_there_are(path: Path):
    """What is not listed is counted, and how to see it is said."""
    with Run(path) as run:
        found = matching(run, "lr", "", None, limit=2)

    assert "... 10 more" in matches_text(found)
    assert found.to_json()["total"] == 12
    assert "no record matches" in matches_text(matching_none(path))


def matching_none(path: Path):
    """Return matches of something that is not there."""
    with Run(path) as run:
        return matching(run, "nothing", "", None, limit=2)


def test_a_negative_limit_is_refused(path: Path):
    """Fewer than no records cannot be shown."""
    with Run(path) as run, pytest.raises(UsageError):
        matching(run, "", "", None, limit=-1)


def test_an_address_of_a_rank_that_is_not_there(path: Path):
    """The message names the run and what to do."""
    with Run(path) as run, pytest.raises(NoSuchAddressError, match="no rank 7"):
        record_details(run, Address.parse("r7/0/0/forward/m:#0:output.0"))


def test_flag_names_are_words():
    """Flags are written in lower case with hyphens."""
    assert flag_names(Flag.REQUIRES_GRAD | Flag.DIGEST_ONLY) == ["requires-grad", "digest-only"]
