"""Compares text with a file under version control, or writes the file anew."""

from __future__ import annotations

from pathlib import Path

import pytest

GOLDENS = Path(__file__).parent.parent / "golden"


def check_golden(request: pytest.FixtureRequest, name: str, text: str) -> None:
    """Assert that a text is that of a golden file; with ``--update-goldens`` write the file instead.

    Args:
        request: Of the test.
        name: Path below ``tests/golden``.
        text: What the program printed, without a line end.
    """
    path = GOLDENS / name
    if request.config.getoption("--update-goldens"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n", encoding="utf-8")

    assert path.read_text(encoding="utf-8") == text + "\n"
