"""Counts steps, micro-batches and calls by the rules of docs/recording.md. Knows nothing of torch."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable


class Pass:
    """One forward of a root: its micro-batch and how often each module was called in it."""

    __slots__ = ("calls", "micro_batch", "recomputed", "training")

    def __init__(self, micro_batch: int, training: bool) -> None:
        self.micro_batch = micro_batch
        """Code of the micro-batch (`model.address.micro_batch_code`)."""
        self.training = training
        self.calls: dict[str, int] = defaultdict(int)
        """FQN to the number of calls so far."""
        self.recomputed: dict[str, int] = defaultdict(int)
        """FQN to the number of recomputed calls so far."""

    @property
    def is_first(self) -> bool:
        """Whether it is the first of its sort in the step: the one that finds what was changed before it."""
        return self.micro_batch in (0, -2)

    def call(self, fqn: str) -> int:
        """Return the number of a new call."""
        number = self.calls[fqn]
        self.calls[fqn] = number + 1
        return number

    def recomputed_call(self, fqn: str) -> int:
        """Return the number of the call that is being made again: autograd goes through them from the last."""
        done = self.recomputed[fqn]
        self.recomputed[fqn] = done + 1
        return max(0, self.calls[fqn] - 1 - done)


class Steps:
    """The step counter.

    Args:
        window: Steps ``[first, end)`` to record; None: all.
        on_new_step: Called when the number moves on.
    """

    def __init__(self, window: tuple[int, int | None] | None, on_new_step: Callable[[], None]) -> None:
        self.step = 0
        self.optimizers = False
        """Whether an optimizer has been constructed."""
        self.updated = False
        """Whether an update was attempted since the last row of another kind."""
        self.passed = False
        """Whether, while there is no optimizer, a root forward has ended: the next one is another step."""
        self._window = window
        self._on_new_step = on_new_step
        self._passes: dict[tuple[str, bool], int] = defaultdict(int)
        self._counts: dict[tuple[str, str], int] = defaultdict(int)
        self.recording = self._inside()

    def touch(self, *, backward: bool = False) -> None:
        """Say that a row is coming that is neither the optimizer's nor of a step boundary.

        Args:
            backward: It is a loss or a gradient: where root forwards are the steps it belongs to the last of them.
        """
        if self.updated or (self.passed and not backward):
            self.updated = self.passed = False
            self.step += 1
            self._passes.clear()
            self._counts.clear()
            self.recording = self._inside()
            self._on_new_step()

    def new_pass(self, root: str, training: bool) -> Pass:
        """Return the next pass of a root in this step."""
        number = self._passes[root, training]
        self._passes[root, training] = number + 1
        return Pass(number if training else -2 - number, training)

    def count(self, kind: str, name: str) -> int:
        """Return 0, 1, 2, ... for the n-th thing of a kind and name in this step."""
        number = self._counts[kind, name]
        self._counts[kind, name] = number + 1
        return number

    def seen(self, kind: str, name: str) -> int:
        """Return how many things of a kind and name there were in this step."""
        return self._counts.get((kind, name), 0)

    def _inside(self) -> bool:
        if self._window is None:
            return True
        first, end = self._window
        return self.step >= first and (end is None or self.step < end)
