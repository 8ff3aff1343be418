"""One recorded tensor, as a value."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntFlag

from bisect_diverge.model.address import Address


class Flag(IntFlag):
    """What else is known of a recorded tensor; bits of the row's ``flags``."""

    PARTIAL = 1
    """Recorded after an exception had ended a module call of this step."""
    RECOMPUTE = 2
    """Made again inside backward by activation checkpointing."""
    UNHASHABLE = 4
    """The tensor has no readable bytes; its digest stands for its kind only."""
    REQUIRES_GRAD = 8
    """The tensor takes part in autograd."""
    HOOKED = 16
    """The module has forward hooks of its own, which run after ours and may replace this output."""
    STRIDED = 32
    """Not contiguous in memory; the digest is of the logical row-major values."""
    SKIPPED = 64
    """The optimizer update was skipped by GradScaler."""
    SCALAR = 128
    """A Python number or text, not a tensor."""
    IN_BASELINE = 256
    """The bytes are kept in the baseline's file, not in this one."""
    DIGEST_ONLY = 512
    """Only the digest was kept."""
    ON_DEVICE = 1024
    """The digest was made on an accelerator, by another algorithm than those of rows without this flag."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorRecord:
    """One row of a run."""

    row: int
    """Number of the row in its file, from 0, in execution order."""
    address: Address
    """Where it was recorded."""
    module_type: str
    """Class of the module (or loader, optimizer); empty where there is none."""
    site: str
    """``file:line`` that called the module; empty if not known."""
    dtype: str
    """Element type, a name of `model.elements`."""
    shape: tuple[int, ...]
    """Logical shape."""
    digest: str
    """128-bit digest, 32 hexadecimal digits."""
    flags: Flag
    """See `Flag`."""
    value: float
    """The value where there is exactly one element, else NaN (not compared: the digest is)."""
    source: int
    """Row that recorded the same tensor, or the tensor this one is a view of, earlier; -1 if not known."""
    kept: bool
    """Whether the tensor's bytes are in the file."""
