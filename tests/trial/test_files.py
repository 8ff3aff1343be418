"""A recording notes what the process writes, and what of it was there before."""

import sys

from bisect_diverge.store.reader import Run
from tests.helpers.command import bd

SCRIPT = """
import os
import torch

with open("early.txt", "w") as file:
    file.write("x")
os.mkdir("folder")
model = torch.nn.Linear(2, 2)
model(torch.ones(1, 2))
torch.save(model.state_dict(), "model.pt")
with open("old.txt", "a") as file:
    file.write("x")
with open("late.tmp", "wb") as file:
    file.write(b"x")
os.replace("late.tmp", "late.txt")
with open("train.py") as file:
    file.read()
open(os.devnull, "w").close()
"""


def test_written_files_are_noted_with_their_history(tmp_path):
    """Before and after the first module call, changed and new, saved by Python and by C++; reading is not writing."""
    (tmp_path / "train.py").write_text(SCRIPT)
    (tmp_path / "old.txt").write_text("")
    bd("record", "-o", "run", "--", sys.executable, "train.py", cwd=tmp_path)
    with Run(tmp_path / "run") as run:
        written = run.first.record.written
    below = {
        path.removeprefix(f"{tmp_path}/"): word for path, word in written.items() if path.startswith(str(tmp_path))
    }
    assert below == {
        "early.txt": "prepared",
        "folder": "prepared",
        "model.pt": "output",
        "old.txt": "changed",
        "late.tmp": "output",
        "late.txt": "output",
    }
