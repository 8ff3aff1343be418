"""Options of the test suite."""

from __future__ import annotations

import signal

import pytest

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in `make test &`: the commands under test would inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let the golden files be written anew; `git diff` then shows what changed."""
    parser.addoption("--update-goldens", action="store_true", help="write the golden files instead of comparing")
