"""What is said of a script that did not reach its end."""

from pathlib import Path

import pytest

from bisect_diverge.diff.endings import failure, where_ended
from bisect_diverge.model.run import State
from bisect_diverge.report.run_overview import run_overview
from bisect_diverge.report.run_text import run_text
from bisect_diverge.store.reader import Run
from tests.helpers.compare import compare_rows
from tests.helpers.runs import training_rows, write_run

WHOLE = training_rows(3)
BEGUN = [row for row in WHOLE if not row.address.startswith("r0/2/") or "/data/" in row.address]


@pytest.mark.parametrize(
    ("rows", "status", "said"),
    [
        (BEGUN, 1, "the script failed (exit status 1) in step 2"),
        (WHOLE, 1, "the script failed (exit status 1) after step 2"),
        (WHOLE, 130, "the script was ended by SIGINT (exit status 130) after step 2"),
        ([], 1, "the script failed (exit status 1)"),
        (BEGUN, None, ""),
    ],
)
def test_a_crash_is_told_with_its_step(tmp_path: Path, rows: list, status: int | None, said: str):
    """The step that was only begun is no step that was made; without an exit status nothing is guessed."""
    with Run(write_run(tmp_path / "run", rows, state=State.INTERRUPTED, exit_status=status)) as run:
        assert failure(run.first) == said
        assert (said or "interrupted") in run_text(run_overview(run))


def test_a_first_step_is_whole_with_its_update(tmp_path: Path):
    """There is no step before it to compare with."""
    begun = [row for row in training_rows(1) if "/optimizer/" not in row.address]
    with Run(write_run(tmp_path / "a", begun)) as a, Run(write_run(tmp_path / "b", training_rows(1))) as b:
        assert (where_ended(a.first), where_ended(b.first)) == ("in step 0", "after step 0")


def test_a_comparison_says_how_a_run_ended(tmp_path: Path):
    """In its notes: failed where it failed, interrupted where that is all that is known."""
    failed = compare_rows(tmp_path / "1", WHOLE, BEGUN, state=State.INTERRUPTED, exit_status=1).divergence
    killed = compare_rows(tmp_path / "2", WHOLE, BEGUN, state=State.INTERRUPTED, exit_status=None).divergence

    assert "rank 0 of B: the script failed (exit status 1) in step 2" in failed.notes
    assert "rank 0 of B was interrupted, in step 2" in killed.notes
