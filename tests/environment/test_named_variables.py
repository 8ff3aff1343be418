"""Variables that a script asks for by name are settings of it, though no table knows them."""

from pathlib import Path

import pytest

from bisect_diverge.environment import variables
from bisect_diverge.environment.named_variables import variables_named
from bisect_diverge.environment.read import read_again


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


@pytest.mark.parametrize("name", ["PGPASS", "DB_PW", "HFTOK", "AUTHORIZATION", "SLACK_WEBHOOK", "SESSION_ID", "MY_PAT"])
def test_what_may_be_a_credential_is_masked(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A script reads such names too, and short secrets have no shape; neither the start nor the end may show them."""
    found = list(variables.read({name: "hunter2"}, {name: "hunter3"}, (name,)))
    assert [(s.value, s.masked) for s in found] == [("masked", True), ("masked", True)]
    monkeypatch.setenv(name, "hunter2")
    assert "hunter2" not in str(read_again(found))


@pytest.mark.parametrize(
    ("name", "value"), [("WIDTH", "8"), ("ONE_PASS", "true"), ("KEYPOINTS", "coco"), ("N_TOKEN", "5")]
)
def test_other_settings_are_not(name: str, value: str) -> None:
    """Numbers and switches are no secrets whatever their name, nor are words that only begin like one."""
    assert [s.value for s in variables.read({name: value}, {name: value}, (name,))] == [value]
