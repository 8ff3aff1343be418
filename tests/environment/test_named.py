"""Variables that a script asks for by name are settings of it, though no table knows them."""

from pathlib import Path

import pytest

from bisect_diverge.environment.named import variables_named


@pytest.mark.parametrize(
    "line",
    [
        'os.environ["MIXUP"]',
        "os.environ.get('MIXUP', '0')",
        "float(os.getenv( 'MIXUP' ))",
        'environ.setdefault("MIXUP", "1")',
        'if "MIXUP" in os.environ: pass',
        "if 'MIXUP' not in environ: pass",
        'os.environ["MIXUP"] == "1"',
    ],
)
def test_a_name_that_is_read_is_found(tmp_path: Path, line: str) -> None:
    """Every usual way of asking for a variable is known."""
    (tmp_path / "train.py").write_text(f"import os\n{line}\n")
    assert variables_named(tmp_path, ["python", "train.py", "--lr", "1"]) == ("MIXUP",)


def test_modules_beside_the_script_are_read_too(tmp_path: Path) -> None:
    """What the script imports from beside it counts as the script."""
    (tmp_path / "train.py").write_text("import model\n")
    (tmp_path / "model.py").write_text('import os\nWIDTH = int(os.environ.get("NET_WIDTH", 8))\n')
    assert variables_named(tmp_path, ["python", "train.py"]) == ("NET_WIDTH",)


@pytest.mark.parametrize(
    "line",
    [
        'os.environ["RUN_ID"] = "7"',  # the script's own doing
        'os.environ["HOME"]',  # of a login
        'os.environ["OMP_NUM_THREADS"]',  # of another layer, which records it
        'os.environ["TORCH_TRACE"]',  # an output
        "os.environ[name]",  # made up at run time
    ],
)
def test_others_are_not(tmp_path: Path, line: str) -> None:
    """What the script sets, what differs between logins, and what has a layer is left out."""
    (tmp_path / "train.py").write_text(f"import os\n{line}\n")
    assert variables_named(tmp_path, ["python", "train.py"]) == ()


def test_without_a_script_there_are_none(tmp_path: Path) -> None:
    """A command that hides its script names nothing."""
    assert variables_named(tmp_path, ["make", "train"]) == ()
