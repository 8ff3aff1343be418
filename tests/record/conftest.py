"""Every test here works in a folder of its own, outside any repository, whose state would have to be read."""

from __future__ import annotations

import importlib
import sys

import pytest


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """Work in the test's own folder, as a script of that folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [str(tmp_path / "train.py")])


@pytest.fixture(autouse=True)
def no_optimizer_of_another_test(monkeypatch):
    """Optimizers that other tests have made do not turn this one's inference into training."""
    updates = importlib.import_module("bisect_diverge.record.updates")
    monkeypatch.setattr(updates, "constructed_before", lambda: False)
