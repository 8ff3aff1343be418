"""What each process imports: nothing that it does not need, so that it is quick and changes nothing."""

import json
import sys

import pytest

from bisect_diverge.cli.main import VERBS
from tests.helpers.command import bd, run

TRAINING = """
import json, sys
import torch

model = torch.nn.Linear(2, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model(torch.ones(1, 2)).sum().backward()
optimizer.step()
json.dump(sorted(sys.modules), open(sys.argv[1], "w"))
"""

ASK = """
import json, sys
sys.argv[1:] = json.loads(sys.argv[1])
from bisect_diverge.cli.main import main
try:
    main()
finally:
    print("modules:", json.dumps(sorted({name.partition(".")[0] for name in sys.modules})))
"""


@pytest.fixture(scope="module")
def training(tmp_path_factory):
    """A recorded run of one step, and the modules that its process had imported at the end."""
    folder = tmp_path_factory.mktemp("training")
    (folder / "train.py").write_text(TRAINING)
    bd("record", "-o", "run", "--", sys.executable, "train.py", "modules.json", cwd=folder)
    return folder / "run", set(json.loads((folder / "modules.json").read_text()))


def imported(*arguments, status=0):
    """Return the packages that ``bd`` with these arguments imports."""
    done = run(sys.executable, "-c", ASK, json.dumps([str(part) for part in arguments]), status=status)
    line = next(line for line in done.stdout.splitlines() if line.startswith("modules:"))
    return set(json.loads(line.removeprefix("modules:")))


def test_help_imports_little():
    """``bd --help`` is quick because it imports click and the standard library only."""
    assert not imported("--help") & {"torch", "numpy", "h5py", "textual", "rich", "xxhash"}


@pytest.mark.parametrize("verb", VERBS)
def test_the_help_of_a_verb_imports_little(verb):
    """The help of a verb needs neither torch nor the terminal UI."""
    assert not imported(verb, "--help") & {"torch", "textual"}


@pytest.mark.parametrize("form", ["text", "json"])
def test_diff_imports_no_torch(training, form):
    """Two runs are compared without torch, on a machine that need not have it."""
    run_folder, _ = training
    assert not imported("diff", run_folder, run_folder, "--format", form) & {"torch", "textual"}


def test_env_imports_no_torch(training):
    """The environment of a run is read from its file, not from this process."""
    run_folder, _ = training
    assert not imported("env", run_folder) & {"torch", "textual"}


def test_show_imports_no_torch(training):
    """What a run holds is shown without torch."""
    run_folder, _ = training
    assert not imported("show", run_folder) & {"torch", "textual"}


def test_the_recording_command_imports_no_torch(tmp_path):
    """``bd record`` itself only starts the script: it holds no second torch in memory."""
    command = ["record", "-o", tmp_path / "run", "--", sys.executable, "-c", "pass"]
    assert not imported(*command) & {"torch", "textual"}


def test_the_trained_process_imports_no_user_interface(training):
    """A recorded script gets neither click nor textual nor rich into its process."""
    _, modules = training
    assert "bisect_diverge.record" in modules
    assert not {name.partition(".")[0] for name in modules} & {"click", "textual", "rich"}


def test_a_process_without_torch_gets_the_standard_library_only(tmp_path):
    """A recorded command that never imports torch is left as it is, down to its modules."""
    seen = "import json, sys; print(json.dumps(sorted(sys.modules)))"
    alone = json.loads(run(sys.executable, "-c", seen, cwd=tmp_path).stdout)
    done = bd("record", "-o", "run", "--", sys.executable, "-c", seen, cwd=tmp_path)
    added = set(json.loads(done.stdout)) - set(alone)
    assert {name.partition(".")[0] for name in added} <= set(sys.stdlib_module_names) | {"sitecustomize"}


def test_the_library_imports_no_torch():
    """``import bisect_diverge`` does not import torch before the user does."""
    done = run(sys.executable, "-c", "import bisect_diverge, sys; print('torch' in sys.modules)")
    assert done.stdout.strip() == "False"
