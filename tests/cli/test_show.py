"""`bd show` as a user runs it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bisect_diverge.model.run import State
from tests.helpers.runs import training_rows, write_run


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a complete run `a` and an interrupted one `cut`."""
    folder = tmp_path_factory.mktemp("runs")
    write_run(folder / "a", training_rows())
    write_run(folder / "cut", training_rows()[:30], state=State.INTERRUPTED, exit_status=None)
    return folder


def bd(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `bd show` in a folder."""
    command = [sys.executable, "-m", "bisect_diverge", "show", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)


def test_a_run_is_described(runs: Path):
    """Without an address the run's state, size and steps are printed."""
    result = bd(runs, "a")

    assert (result.returncode, result.stderr) == (0, "")
    assert "complete, exit status 0" in result.stdout
    assert "69 in 3 steps" in result.stdout


def test_an_interrupted_run_is_shown_as_far_as_it_goes(runs: Path):
    """Flushed rows are there after an interruption."""
    result = bd(runs, "cut")

    assert result.returncode == 0
    assert "interrupted" in result.stdout
    assert "30 in 2 steps" in result.stdout


def test_an_address_is_one_tensor(runs: Path):
    """A whole address shows one record with its values."""
    result = bd(runs, "a", "r0/1/0/forward/model:1#0:output.0")

    assert result.returncode == 0
    assert "f32[4]" in result.stdout
    assert "summary" in result.stdout


def test_a_part_of_an_address_lists_matches(runs: Path):
    """A partial address lists the records that have it, and counts those beyond the limit."""
    result = bd(runs, "a", "model:1#0", "--limit", "4")

    assert result.returncode == 0
    assert len(result.stdout.splitlines()) == 5
    assert "... 5 more" in result.stdout


def test_a_glob_lists_what_fits(runs: Path):
    """A glob is that of a whole address or FQN, as with --match."""
    by_address = bd(runs, "a", "r0/1/*/forward/*:output.0", "--format", "json")
    by_name = bd(runs, "a", "?.weight", "--step", "1", "--format", "json")

    assert [row["address"] for row in json.loads(by_address.stdout)["matches"]] == [
        f"r0/1/0/forward/{place}#0:output.0" for place in ("model:0", "model:1", "model:", "loss_fn:")
    ]
    assert json.loads(by_name.stdout)["total"] == 6


def test_one_number_is_listed_with_its_value(runs: Path, tmp_path: Path):
    """What a loss was can be read off the list."""
    write_run(tmp_path / "a", [("r0/0/0/forward/model:loss#0:value", 0.5)])
    result = bd(tmp_path, "a", "loss")
    document = json.loads(bd(tmp_path, "a", "loss", "--format", "json").stdout)

    assert result.stdout.endswith("  0.5\n")
    assert document["matches"][0]["value"] == 0.5


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [(("modle",), "did you mean model"), (("xyzzy",), "--match"), (("--step", "99"), "last step with records is 2")],
)
def test_nothing_found_says_what_to_try(runs: Path, arguments: tuple[str, ...], hint: str):
    """A name that stands for nothing is trouble with the input."""
    result = bd(runs, "a", *arguments)

    assert (result.returncode, result.stdout) == (2, "")
    assert "no record matches" in result.stderr
    assert hint in result.stderr


def test_the_last_steps_are_shown_too(tmp_path: Path):
    """Of a long run the first and last steps are listed, and the option that lists all is named."""
    write_run(tmp_path / "a", training_rows(30))
    short, whole = bd(tmp_path, "a").stdout, bd(tmp_path, "a", "--limit", "30").stdout
    said = " ".join(short.split())

    assert "10 steps left out, 17 to 26 (--limit 30 lists all, --step N the records of one)" in said
    assert said.rpartition(" 22 records,")[0].endswith(" 29")
    assert max(map(len, short.splitlines())) <= 80
    assert "left out" not in whole


def test_matches_in_one_step(runs: Path):
    """--step and --match narrow the list."""
    result = bd(runs, "a", "--step", "2", "--match", "*:param", "--format", "json")
    document = json.loads(result.stdout)

    assert document["total"] == 2
    assert [row["address"] for row in document["matches"]] == [
        "r0/2/-/optimizer/opt:0.weight#0:param",
        "r0/2/-/optimizer/opt:1.weight#0:param",
    ]


def test_the_overview_as_json(runs: Path):
    """Programs get all steps."""
    document = json.loads(bd(runs, "a", "--format", "json").stdout)

    assert document["ranks"][0]["records"] == 69


def test_a_tensor_as_json(runs: Path):
    """Programs get the digest and the values."""
    document = json.loads(bd(runs, "a", "r0/0/-/optimizer/opt:group0#0:lr", "--format", "json").stdout)
    (record,) = document["records"]

    assert len(record["digest"]) == 32
    assert record["kept"] is True


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("missing",), "no such run"),
        (("a", "r0/9/0/forward/model:#0:output.0"), "no record"),
        (("a", "r3/0/0/forward/model:#0:output.0"), "no rank 3"),
    ],
)
def test_trouble_ends_with_2_and_one_message(runs: Path, arguments: tuple[str, ...], message: str):
    """What is not there is one clear message."""
    result = bd(runs, *arguments)

    assert (result.returncode, result.stdout) == (2, "")
    assert message in result.stderr
    assert "Traceback" not in result.stderr
