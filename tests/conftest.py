"""Options of the test suite."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let the golden files be written anew; `git diff` then shows what changed."""
    parser.addoption("--update-goldens", action="store_true", help="write the golden files instead of comparing")
