"""A comparison made of arithmetic: any number of records, no files, every state on demand."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from bisect_diverge.model.address import Address, Phase
from bisect_diverge.model.divergence import (
    Compared,
    Divergence,
    DivergenceKind,
    ElementStatistics,
    Place,
    Side,
    Verdict,
)
from bisect_diverge.model.record import Flag, TensorRecord
from bisect_diverge.tui import states


@dataclass(frozen=True)
class _Template:
    """One record of every step."""

    micro_batch: str
    phase: Phase
    root: str
    fqn: str
    kind: str
    slot: str
    shape: tuple[int, ...]
    site: str = "model.py:71"


def template(layers: int = 3) -> list[_Template]:
    """Return the records of one step: two micro-batches, an update, a generator."""
    modules = [
        ("transformer.wte", "Embedding"),
        *(
            (f"transformer.h.{layer}.{name}", kind)
            for layer in range(layers)
            for name, kind in (
                ("ln_1", "LayerNorm"),
                ("attn.c_attn", "Linear"),
                ("attn.c_proj", "Linear"),
                ("mlp.c_fc", "Linear"),
                ("mlp.c_proj", "Linear"),
            )
        ),
        ("lm_head", "Linear"),
    ]
    out = []
    for micro in "01":
        out.append(_Template(micro, Phase.FORWARD, "model", "", "GPT", "input.0", (4, 16)))
        out += [_Template(micro, Phase.FORWARD, "model", n, k, "output.0", (4, 16, 8)) for n, k in modules]
        out.append(_Template(micro, Phase.FORWARD, "model", "loss", "", "value", ()))
        out += [
            _Template(micro, Phase.BACKWARD, "model", n, k, "grad_output.0", (4, 16, 8)) for n, k in reversed(modules)
        ]
    out.append(_Template("-", Phase.OPTIMIZER, "opt", "group0", "AdamW", "lr", ()))
    for slot in ("grad", "param", "state.exp_avg"):
        out += [_Template("-", Phase.OPTIMIZER, "opt", f"{n}.weight", "AdamW", slot, (8, 8)) for n, _ in modules]
    out.append(_Template("-", Phase.RNG, "-", "", "", "torch.cpu", (624,), ""))
    return [_Template("-", Phase.DATA, "train", "", "DataLoader", "batch.0", (4, 16)), *out]


class FakeComparison:
    """Two runs of a small transformer.

    Args:
        size: Records.
        first: First record that differs; -1, or beyond the last: none. From there on most differ.
        states_at: Records with a given state.
        kept: Whether tensors were kept.
        failing: Records whose tensors cannot be read.
        lost: Records that cannot be read at all.
        every: From `first` on, each record differs but every so-manieth.
        layers: Layers of the model.
        ranks: Number of ranks; the records take turns.
    """

    def __init__(
        self,
        size: int = 600,
        *,
        first: int = 260,
        states_at: dict[int, int] | None = None,
        kept: bool = True,
        failing: Iterable[int] = (),
        lost: Iterable[int] = (),
        every: int = 5,
        layers: int = 3,
        ranks: int = 1,
    ) -> None:
        self._template = template(layers)
        first = first if first < size else -1
        self.label_a, self.label_b = "runs/base", "runs/t16"
        places = np.arange(size)
        self.step = (places // len(self._template)).astype(np.int32)
        self.rank = (places % ranks).astype(np.int32)
        self.state = np.zeros(size, np.uint8)
        if first >= 0:
            self.state[first:] = states.DIFFERS
            self.state[first + every :: every] = states.EQUAL
        for index, state in (states_at or {}).items():
            self.state[index] = state
        self.row_a = np.where(self.state == states.ONLY_B, -1, places)
        self.row_b = np.where(self.state == states.ONLY_A, -1, places)
        self.first = first
        self._kept, self._failing, self._lost = kept, set(failing), set(lost)
        self.closed = False
        self.divergence = self._divergence()

    def pair(self, index: int) -> tuple[TensorRecord | None, TensorRecord | None]:
        """Return both records."""
        if index in self._lost:
            raise OSError("the file is cut off\nand more")
        a = self._record(index, "aa") if self.row_a[index] >= 0 else None
        differs = self.state[index] == states.DIFFERS
        b = self._record(index, "bb" if differs else "aa") if self.row_b[index] >= 0 else None
        return a, b

    def tensors(self, index: int) -> tuple[np.ndarray | None, np.ndarray | None]:
        """Return both tensors; B's has some elements some ULP away where it differs."""
        if index in self._failing:
            raise OSError("read error at offset 4096")
        if not self._kept:
            return None, None
        t = self._template[index % len(self._template)]
        a = np.random.default_rng(index).standard_normal(t.shape, dtype=np.float32).reshape(t.shape)
        b = a.copy()
        if self.state[index] == states.DIFFERS:
            flat = b.reshape(-1)
            flat.view(np.int32)[: max(1, flat.size // 20)] += 1 + index % 7
        return a if self.row_a[index] >= 0 else None, b if self.row_b[index] >= 0 else None

    def statistics(self, index: int) -> ElementStatistics | None:
        """Return how the two differ."""
        a, b = self.tensors(index)
        if a is None or b is None:
            return None
        distance = np.abs(a.view(np.int32).astype(np.int64) - b.view(np.int32))
        where = np.flatnonzero(distance)
        at = np.unravel_index(int(where[0]), a.shape) if len(where) else ()
        return ElementStatistics(
            dtype="float32",
            shape_a=a.shape,
            shape_b=b.shape,
            numel=a.size,
            differing=len(where),
            max_ulp=int(distance.max()),
            max_abs=float(np.abs(a - b).max()),
            max_rel=None,
            first_index=tuple(int(i) for i in at),
            signature="reduction-order",
        )

    def producers(self, index: int) -> list[int]:
        """Return the two records before."""
        return [i for i in (index - 2, index - 1) if i >= 0]

    def consumers(self, index: int) -> list[int]:
        """Return the record after."""
        return [index + 1] if index + 1 < len(self.state) else []

    def close(self) -> None:
        """Note that it was closed."""
        self.closed = True

    def _record(self, index: int, digest: str) -> TensorRecord:
        t = self._template[index % len(self._template)]
        address = Address(
            rank=int(self.rank[index]),
            step=int(self.step[index]),
            micro_batch=t.micro_batch,
            phase=t.phase,
            root=t.root,
            fqn=t.fqn,
            call=0,
            slot=t.slot,
        )
        value = float("nan")
        if t.shape == ():
            value = 0.001 if t.slot == "lr" else 2.5 + index / 1e3 + (1e-7 if digest == "bb" else 0)
        return TensorRecord(
            row=index,
            address=address,
            module_type=t.kind,
            site=t.site,
            dtype="float32",
            shape=t.shape,
            digest=digest * 16,
            flags=Flag(0),
            value=value,
            source=-1,
            kept=self._kept,
        )

    def _divergence(self) -> Divergence:
        differing = int((self.state == states.DIFFERS).sum())
        compared = Compared(
            steps=int(self.step.max()) + 1 if len(self.step) else 0,
            records=len(self.state),
            equal=int((self.state == states.EQUAL).sum()),
            differing=differing,
            only_in_a=int((self.state == states.ONLY_A).sum()),
            only_in_b=int((self.state == states.ONLY_B).sum()),
        )
        if self.first < 0:
            verdict = Verdict.EQUAL if len(self.state) else Verdict.NOT_COMPARABLE
            return Divergence(verdict=verdict, compared=compared)
        record = self._record(self.first, "aa")
        side = {states.ONLY_A: Side.A, states.ONLY_B: Side.B}.get(int(self.state[self.first]), Side.BOTH)
        place = Place(address=record.address, side=side, module_type=record.module_type, site=record.site)
        return Divergence(
            verdict=Verdict.DIVERGED,
            kind=DivergenceKind.COMPUTATION,
            first=place,
            is_origin=True,
            origin_reason="everything that went into it is equal",
            tensor=None if self.first in self._failing else self.statistics(self.first),
            compared=compared,
        )
