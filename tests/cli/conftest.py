"""Tests of commands that work in a folder of their own ask for ``folder``."""

from __future__ import annotations

import pytest


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Return a folder of its own, which is the working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path
