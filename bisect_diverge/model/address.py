"""The address of a recorded tensor, its text form, and the order of phases.

Text form: ``r0/3/1/forward/model:blocks.2.attn#0:output.0`` is rank 0, step 3, micro-batch 1, phase forward,
root ``model``, FQN ``blocks.2.attn``, call 0, slot ``output.0``. In root, FQN and slot the characters ``%``, ``:``,
``#``, white space and control characters are percent-encoded, so that every address parses back to itself.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import unquote

from bisect_diverge.errors import UsageError


class Phase(StrEnum):
    """The part of a step in which a tensor was recorded; the order of members is their code in the file."""

    INIT = "init"
    DATA = "data"
    FORWARD = "forward"
    BACKWARD = "backward"
    OPTIMIZER = "optimizer"
    RNG = "rng"
    RECOMPUTE = "recompute"


PHASES = tuple(Phase)
PHASE_CODE = {phase: code for code, phase in enumerate(PHASES)}

NO_PASS = -1
"""Code of micro-batch ``-``: the row belongs to no forward pass."""


def micro_batch_code(text: str) -> int:
    """Return the number a micro-batch has in the file: ``"3"`` is 3, ``"-"`` is -1, ``"e0"`` is -2, ``"e1"`` -3.

    Raises:
        ValueError: if the text is none of these forms.
    """
    if text == "-":
        return NO_PASS
    number = text.removeprefix("e")
    if not (number.isascii() and number.isdigit()):
        raise ValueError(f"not a micro-batch: {text!r}")
    return int(number) if number == text else -2 - int(number)


def micro_batch_text(code: int) -> str:
    """Return the text of a micro-batch number; the inverse of `micro_batch_code`."""
    if code >= 0:
        return str(code)
    return "-" if code == NO_PASS else f"e{-2 - code}"


_SPECIAL = re.compile(r"[%:#\s\x00-\x1f\x7f]")
_FORM = re.compile(
    r"r(?P<rank>\d+)/(?P<step>\d+)/(?P<micro>-|e?\d+)/(?P<phase>[a-z]+)/"
    r"(?P<root>[^:]*):(?P<fqn>[^:#]*)#(?P<call>\d+):(?P<slot>.*)",
    re.DOTALL,
)


def _encode(text: str) -> str:
    return _SPECIAL.sub(lambda match: "".join(f"%{byte:02X}" for byte in match.group().encode()), text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where in a run a tensor was recorded."""

    rank: int
    """Rank of the process, from 0."""
    step: int
    """Optimizer step, from 0."""
    micro_batch: str
    """``"0"``, ``"1"``: training forward of the root in this step; ``"e0"``: other pass; ``"-"``: no pass."""
    phase: Phase
    """Part of the step."""
    root: str
    """Variable that holds the root module, the loader or the optimizer; ``"-"`` where there is none."""
    fqn: str
    """Fully qualified name below the root without wrapper prefixes; empty for the root itself."""
    call: int
    """n-th invocation of that module in the micro-batch, from 0."""
    slot: str
    """Which tensor of the call: ``input.0``, ``output.0``, ``grad``, ``param``, ``state.exp_avg``, ..."""

    def __str__(self) -> str:
        place = f"{_encode(self.root)}:{_encode(self.fqn)}#{self.call}:{_encode(self.slot)}"
        return f"r{self.rank}/{self.step}/{self.micro_batch}/{self.phase}/{place}"

    @classmethod
    def parse(cls, text: str) -> Address:
        """Return the address that a text names.

        Raises:
            UsageError: if the text is no address; the message shows the form.
        """
        match = _FORM.fullmatch(text)
        phases = {str(phase): phase for phase in Phase}
        if match is None or match["phase"] not in phases:
            raise UsageError(
                f"not an address: {text!r}",
                hint="an address looks like r0/3/1/forward/model:blocks.2.attn#0:output.0",
            )
        return cls(
            rank=int(match["rank"]),
            step=int(match["step"]),
            micro_batch=match["micro"],
            phase=phases[match["phase"]],
            root=unquote(match["root"]),
            fqn=unquote(match["fqn"]),
            call=int(match["call"]),
            slot=unquote(match["slot"]),
        )
