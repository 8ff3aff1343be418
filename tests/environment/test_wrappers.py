"""What only starts a command is none of it."""

from __future__ import annotations

import pytest

from bisect_diverge.environment.wrappers import rewrapped, unwrapped


@pytest.mark.parametrize(
    ("command", "rest"),
    [
        ("python train.py --lr 1", "python train.py --lr 1"),
        ("timeout 4 python train.py", "python train.py"),
        ("timeout -k 5 --signal=INT 4h nice -n 5 python -u train.py", "python -u train.py"),
        ("nohup /usr/bin/time -v stdbuf -oL ionice -c 3 torchrun train.py", "torchrun train.py"),
        ("env A=1 nice B.py", "B.py A=1"),
        ("env OMP_NUM_THREADS=2 LANG=C python -u train.py", "python OMP_NUM_THREADS=2 LANG=C -u train.py"),
        ("env -i python train.py", "env -i python train.py"),
        ("timeout 4", "timeout 4"),
        ("", ""),
    ],
)
def test_unwrapped(command: str, rest: str) -> None:
    """Whatever stands before the program goes, and what is not understood stays."""
    assert " ".join(unwrapped(command.split())) == rest


def test_variables_are_given_by_env_again() -> None:
    """What was put behind the program starts as it did."""
    assert rewrapped(("python", "A=1", "B=2", "-u")) == ("env", "A=1", "B=2", "python", "-u")
    assert rewrapped(("python", "-u", "A=1")) == ("python", "-u", "A=1")
