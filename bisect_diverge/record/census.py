"""How many operations of the first pass lie inside module calls, and which modules are used without a call.

Autograd numbers the nodes of its graph in the order in which they are made, so the numbers at which calls begin and
end tell which call made a node. Nothing is computed otherwise for that. A dispatch mode would see operations without
gradient too, but it changes the run: torch.compile gives up under one, for good, and some gradients (of ``prod``,
say) are computed by another formula, with other bits.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch

from bisect_diverge.model.coverage import (
    COMPILED,
    DIRECTLY,
    IN_LEAVES,
    INSIDE_COMPILED,
    OPERATIONS,
    OUTSIDE,
    UNCALLED,
)
from bisect_diverge.record.names import Root, join, walk

Place = tuple[str, str, str]
"""Root, FQN and class of a called module."""

STEPS = 8
"""Recorded steps in which a loss is waited for; a run that only infers has none."""
MOST_NODES = 200_000
"""Nodes that are looked at, a fraction of a second's work; what lies behind them is said to be not counted."""
NAMED = 5
"""Modules that a note names; the rest is counted."""

_next_number = torch._C._autograd._get_sequence_nr
_ACCUMULATE = "torch::autograd::AccumulateGrad"
_COMPILED = "CompiledFunctionBackward"


class Census:
    """Follows the calls up to the first ``backward()``, then counts once."""

    def __init__(self) -> None:
        self._numbers: list[int] = []
        """Number of the next node at each beginning and end of a call, ascending."""
        self._innermost: list[Place | None] = []
        """The innermost call from that moment on."""
        self._called: set[Place] = set()
        self._callers: set[Place] = set()
        """Those that call others."""
        self._compiled: set[Place] = set()
        self._threads: set[int] = set()
        self._steps = 0

    def mark(self, calls: Sequence[Place], *, compiled: bool) -> None:
        """Note which calls are under way from now on.

        Args:
            calls: From the outermost to the innermost.
            compiled: torch.compile has made a program of the innermost one.
        """
        self._threads.add(threading.get_ident())  # each has numbers of its own
        self._numbers.append(_next_number())
        self._innermost.append(calls[-1] if calls else None)
        if calls:
            self._called.add(calls[-1])
            if compiled:
                self._compiled.add(calls[-1])
            self._callers.update(calls[-2:-1])

    def new_step(self) -> bool:
        """Forget the calls of the last step; whether to go on."""
        self._numbers.clear()
        self._innermost.clear()
        self._threads.clear()
        self._steps += 1
        return self._steps < STEPS

    def count(self, tensors: Iterable[torch.Tensor], roots: Iterable[Root]) -> tuple[dict[str, int], list[str]]:
        """Return what the graph behind some tensors shows: counts by the names of `model.coverage`, and notes."""
        if len(self._threads) != 1:
            return {}, ["operations were not counted: modules were called in several threads"] if self._threads else []
        nodes, complete = _graph(tensors)
        counts: Counter[str] = Counter()
        used: set[int] = set()
        for node in nodes:
            name = node.name()
            if name == _ACCUMULATE:
                used.add(id(node.variable))
                continue
            counts[OPERATIONS] += 1
            counts[self._kind(node._sequence_nr(), name)] += 1
        notes = [] if complete else [f"of the operations of the first pass {MOST_NODES:,} were counted"]
        missing, inside = self._not_called(roots, used)
        if inside:
            counts[INSIDE_COMPILED] = inside
        if missing:
            counts[UNCALLED] = len(missing)
            notes.append(_named(missing))
        return dict(counts), notes

    def _kind(self, number: int, name: str) -> str:
        index = bisect_right(self._numbers, number) - 1
        place = self._innermost[index] if index >= 0 else None
        if name == _COMPILED or place in self._compiled:
            return COMPILED
        if place is None:
            return OUTSIDE
        return DIRECTLY.format(place[2]) if place in self._callers else IN_LEAVES

    def _not_called(self, roots: Iterable[Root], used: set[int]) -> tuple[list[str], int]:
        """Return the modules that own a used parameter and were not called, and how many are in compiled regions."""
        covered: set[int] = set()
        others: dict[int, tuple[str, str, Any]] = {}
        called = {(root, fqn) for root, fqn, _ in self._called}
        for root in roots:
            top = root.ref()
            for fqn, module in walk(top) if top is not None else ():
                if (root.name, fqn) in called:
                    covered.update(map(id, module._parameters.values()))
                elif not isinstance(module, (torch.nn.ParameterList, torch.nn.ParameterDict)):
                    others.setdefault(id(module), (root.name, fqn, module))
        missing, inside, bare = [], 0, used - covered
        for root_name, fqn, module in others.values():
            if any(id(parameter) in bare for parameter in module._parameters.values()):
                if any(root_name == root and _below(fqn, above) for root, above, _ in self._compiled):
                    inside += 1
                else:
                    missing.append(f"{root_name}:{fqn}")
        return missing, inside


def _below(fqn: str, above: str) -> bool:
    return not above or fqn.startswith(join(above, ""))


def _named(modules: list[str]) -> str:
    more = f" and {len(modules) - NAMED} more" if len(modules) > NAMED else ""
    return f"no rows, since not called though their parameters are used: {', '.join(modules[:NAMED])}{more}"


def _graph(tensors: Iterable[torch.Tensor]) -> tuple[set[Any], bool]:
    """Return the nodes behind some tensors, and whether these are all."""
    waiting = [tensor.grad_fn for tensor in tensors if tensor.grad_fn is not None]
    nodes: set[Any] = set()
    while waiting:
        node = waiting.pop()
        if node in nodes:
            continue
        if len(nodes) >= MOST_NODES:
            return nodes, False
        nodes.add(node)
        waiting += _before(node)
    return nodes, True


def _before(node: Any) -> Iterator[Any]:
    return (before for before, _ in node.next_functions if before is not None)
