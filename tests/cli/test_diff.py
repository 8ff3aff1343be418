"""`bd diff` as a user runs it: output, streams, exit status, imports."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.runs import training_rows, write_run

CHANGE = {"r0/1/0/forward/model:1#0:output.0": "x"}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with runs `a`, `same`, `b` (diverges in step 1) and `other` (another digest algorithm)."""
    folder = tmp_path_factory.mktemp("runs")
    write_run(folder / "a", training_rows())
    write_run(folder / "same", training_rows())
    write_run(folder / "b", training_rows(change=CHANGE))
    write_run(folder / "other", training_rows(), algorithm="torch-sum-128")
    return folder


def bd(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run `bd` in a folder."""
    return subprocess.run(
        [sys.executable, "-m", "bisect_diverge", *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env={**os.environ, **environment},
    )


def test_equal_runs_end_with_0(runs: Path):
    """Nothing differs: status 0, the verdict on stdout, nothing on stderr."""
    result = bd(runs, "diff", "a", "same")

    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.startswith("= the runs are equal, bit for bit: 69 records in 3 steps\n")


def test_diverged_runs_end_with_1(runs: Path):
    """Something differs: status 1, and the next command to run comes last."""
    result = bd(runs, "diff", "a", "b")

    assert (result.returncode, result.stderr) == (1, "")
    assert result.stdout.startswith("≠ the runs diverge at step 1, micro-batch 0, forward: output.0 of model:1")
    assert result.stdout.endswith("next: bd walk a b\n")  # nothing around them differs: there is nothing to bisect


def test_json_is_one_document_on_stdout(runs: Path):
    """Programs get the whole result."""
    result = bd(runs, "diff", "a", "b", "--format", "json")
    document = json.loads(result.stdout)

    assert result.returncode == 1
    assert document["first"]["address"] == next(iter(CHANGE))
    assert document["is_origin"] is True


def test_growth_is_there_when_asked_for(runs: Path):
    """It reads tensors, so it is an option; text and JSON have it then."""
    document = json.loads(bd(runs, "diff", "a", "b", "--format", "json", "--growth").stdout)
    text = bd(runs, "diff", "a", "b", "--growth").stdout

    assert [step["step"] for step in document["growth"]["steps"]] == [1, 2]
    assert document["growth"]["loss_first_differs"] == 1
    assert "growth" in text
    assert "growth" not in bd(runs, "diff", "a", "b").stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("a", "missing"), "no such run: missing"),
        (("a", "other"), "digests of different algorithms"),
        (("a", "b", "--map", "x"), "OLD=NEW"),
        (("a", "b", "--from", "-1"), "--from"),
        (("a", "b", "--from", "7"), "the last step that both have is 2"),
        (("a", "b", "--ignore", "*"), "nothing is left to compare"),
        (("a", "b", "--map", "modl=model"), "did you mean model"),
        (("a", "b", "--map", "model=modl"), "B (b) has no 'modl'"),
        ((".", "a"), "it holds these runs: a, b, other, same"),
    ],
)
def test_trouble_ends_with_2_and_one_message(runs: Path, arguments: tuple[str, ...], message: str):
    """What cannot be compared is one clear message on stderr, never a traceback."""
    result = bd(runs, "diff", *arguments)

    assert (result.returncode, result.stdout) == (2, "")
    assert message in result.stderr
    assert "Traceback" not in result.stderr


def test_not_comparable_is_a_verdict_in_json(runs: Path):
    """Programs get a document even then."""
    result = bd(runs, "diff", "a", "other", "--format", "json")

    assert result.returncode == 2
    assert json.loads(result.stdout)["verdict"] == "not-comparable"


@pytest.mark.parametrize(
    ("options", "status"),
    [
        (("--ignore", "*"), 2),
        (("--ignore", "*/[12]/*"), 0),
        (("--from", "2"), 1),
        (("--from", "7"), 2),
        (("--ignore", "*:output.0", "--ignore", "lr"), 1),
    ],
)
def test_options_reach_the_comparison(runs: Path, options: tuple[str, ...], status: int):
    """What is left out cannot be the first divergence."""
    result = bd(runs, "diff", "a", "b", *options)

    assert result.returncode == status
    assert "step 1, micro-batch 0, forward: output.0 of model:1" not in result.stdout


def test_a_single_file_is_a_run_too(runs: Path):
    """Each side may be a directory or one of its files."""
    assert bd(runs, "diff", "a/rank-00000.h5", "same").returncode == 0


def test_output_that_is_not_a_terminal_has_no_colour(runs: Path):
    """Escapes are for terminals only."""
    assert "\x1b" not in bd(runs, "diff", "a", "b", FORCE_COLOR="1").stdout


@pytest.mark.parametrize(("variable", "coloured"), [("", True), ("1", False)])
def test_colour_on_a_terminal_unless_no_color(runs: Path, variable: str, coloured: bool):
    """On a terminal the verdict has a colour, which NO_COLOR takes away."""
    import pty

    parent, child = pty.openpty()
    try:
        subprocess.run(
            [sys.executable, "-m", "bisect_diverge", "diff", "a", "b"],
            stdout=child,
            check=False,
            cwd=runs,
            env={**os.environ, "NO_COLOR": variable},
        )
        output = os.read(parent, 1 << 16)
    finally:
        os.close(parent)
        os.close(child)

    assert (b"\x1b[" in output) is coloured


def test_neither_torch_nor_textual_is_imported(runs: Path):
    """`bd diff` starts quickly: it needs no torch and no textual."""
    code = (
        "import sys; from bisect_diverge.cli.diff import command\n"
        "try: command(['a', 'b'], standalone_mode=False)\n"
        "except SystemExit: pass\n"
        "print(sorted({'torch', 'textual', 'rich'} & set(sys.modules)), file=sys.stderr)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=runs)

    assert result.stderr.strip() == "[]"


def test_help_names_every_exit_status(runs: Path):
    """The help says what the status means."""
    result = bd(runs, "diff", "--help")

    assert result.returncode == 0
    assert "Exit status" in result.stdout


@pytest.mark.parametrize(
    ("form", "start", "end"),
    [
        (
            "markdown",
            "**≠ the runs diverge at step 1, micro-batch 0, forward: output.0 of model:1, Linear**\n",
            "</details>\n",
        ),
        ("html", "<!DOCTYPE html>\n", "</main></body></html>\n"),
    ],
)
def test_reports_for_others_go_to_a_file_or_to_stdout(runs: Path, tmp_path: Path, form: str, start: str, end: str):
    """Each format is the whole result, the same in a file; the commands in it have the options of this one."""
    out = tmp_path / "report"
    printed = bd(runs, "diff", "a", "b", "--format", form, "--ignore", "*/rng/*")
    written = bd(runs, "diff", "a", "b", "--format", form, "--ignore", "*/rng/*", "-o", str(out))

    assert (printed.returncode, printed.stderr) == (1, "")
    assert (written.returncode, written.stdout, written.stderr) == (1, "", "")
    assert printed.stdout.startswith(start)
    assert printed.stdout.endswith(end)
    assert "--ignore" in printed.stdout
    assert out.read_text(encoding="utf-8") == printed.stdout
    assert list(tmp_path.iterdir()) == [out]


def test_a_place_that_cannot_be_written_is_said(runs: Path):
    """A report that has no place to go is trouble, not a traceback."""
    result = bd(runs, "diff", "a", "b", "-o", "no/such/folder/x")

    assert (result.returncode, result.stdout) == (2, "")
    assert "no/such/folder/x cannot be written" in result.stderr
    assert "Traceback" not in result.stderr
