"""Runs a script inside the library's door: ``in_library.py CAPTURE RUN SCRIPT ARGUMENTS...``; CAPTURE may be none."""

from __future__ import annotations

import contextlib
import runpy
import sys

import torch

import bisect_diverge

_, capture, folder, *sys.argv = sys.argv
assert torch.is_grad_enabled()
door = contextlib.nullcontext() if capture == "none" else bisect_diverge.record(folder, capture=capture)
with door:
    runpy.run_path(sys.argv[0], run_name="__main__")
