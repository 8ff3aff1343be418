"""Files that ``torch.save`` opens in C++, where no notice of the interpreter tells of them."""

from __future__ import annotations

from typing import Any

import torch

from bisect_diverge.record import files
from bisect_diverge.record.divert import for_writing
from bisect_diverge.record.patches import Patches


def follow_saves(patches: Patches) -> None:
    """See, and in a trial divert, what ``torch.save`` writes."""
    writer = getattr(torch.serialization, "_open_zipfile_writer_file", None)
    if writer is None:
        return
    original = writer.__init__

    def __init__(self: Any, name: Any) -> None:  # noqa: N807
        files.note(name)
        original(self, for_writing(name))

    patches.replace(writer, "__init__", __init__, like=original)
