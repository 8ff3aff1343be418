"""What counts as read by the script."""

from bisect_diverge.environment.inputs import Keeper
from bisect_diverge.record.inputs import _of_run
from bisect_diverge.record.settings import Settings


def test_what_ranks_look_up_in_the_run_is_no_input(tmp_path):
    """Spawned ranks look for notes in the folder of the run: only the script's own folders are listed."""
    for name in ("run/files", "data"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "x").touch()
    run = tmp_path / "run"
    folders = {str(path): None for path in (run, run / "files", tmp_path / "data")}
    rows = list(_of_run(Settings(run=str(run)), tmp_path, Keeper(run, on=False), {}, folders))
    assert [row.knob for row in rows] == ["listing:data"]
