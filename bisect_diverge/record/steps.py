"""Counts steps, micro-batches and calls by the rules of docs/recording.md. Knows nothing of torch."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

from bisect_diverge.model.run import StepOn


class Pass:
    """One forward of a root: its micro-batch and how often each module was called in it."""

    __slots__ = ("_previewed", "calls", "micro_batch", "recomputed", "training", "watched")

    def __init__(self, micro_batch: int, training: bool) -> None:
        self.micro_batch = micro_batch
        """Code of the micro-batch (`model.address.micro_batch_code`)."""
        self.training = training
        self.calls: dict[str, int] = defaultdict(int)
        """FQN to the number of calls so far."""
        self.recomputed: dict[str, int] = defaultdict(int)
        """FQN to the number of recomputed calls so far."""
        self._previewed: dict[str, int] = defaultdict(int)
        """The same for those without grad."""
        self.watched: set[tuple[str, int, str]] = set()
        """FQN, call and slot of the outputs whose gradients are waited for."""

    @property
    def is_first(self) -> bool:
        """Whether it is the first of its sort in the step: the one that finds what was changed before it."""
        return self.micro_batch in (0, -2)

    def call(self, fqn: str) -> int:
        """Return the number of a new call."""
        number = self.calls[fqn]
        self.calls[fqn] = number + 1
        return number

    def recomputed_call(self, fqn: str, *, grad: bool) -> int:
        """Return the number of the call that is being made again: autograd goes through them from the last.

        Args:
            fqn: Of the module.
            grad: Whether grad mode is on. Where a reentrant checkpoint contains another one a call is made again
                without grad, and then once more with it.
        """
        done = (self.recomputed if grad else self._previewed)[fqn]
        if grad:
            self.recomputed[fqn] = done + 1
        self._previewed[fqn] = done + 1
        return max(0, self.calls[fqn] - 1 - done)


class Steps:
    """The step counter.

    Args:
        window: Steps ``[first, end)`` to record; None: all.
        on_new_step: Called when the number moves on.
        rule: What ends a step.
    """

    def __init__(
        self,
        window: tuple[int, int | None] | None,
        on_new_step: Callable[[], None],
        rule: StepOn = StepOn.OPTIMIZER,
    ) -> None:
        self.step = 0
        self.rule = rule
        self.optimizers = False
        """Whether an optimizer has been constructed."""
        self._updated = False
        """Whether an update was attempted since the last row of another kind."""
        self._passed = False
        """Whether a root forward has ended that was a step, or began one: the next one is another step."""
        self._window = window
        self._on_new_step = on_new_step
        self._passes: dict[tuple[str, bool], int] = defaultdict(int)
        self._counts: dict[tuple[str, str], int] = defaultdict(int)
        self.recording = self._inside()

    def touch(self, *, backward: bool = False, leading: bool = True) -> None:
        """Say that a row is coming that is neither the optimizer's nor of a step boundary.

        Args:
            backward: It is a loss or a gradient: where root forwards are the steps it belongs to the last of them.
            leading: False for what belongs to the step under way where the forwards of one root are the steps:
                another root's forward, or an update.
        """
        if self._updated or (self._passed and not backward and (leading or self.rule is not StepOn.FORWARD)):
            self.advance()

    def advance(self) -> None:
        """Begin another step."""
        self._updated = self._passed = False
        self.step += 1
        self._passes.clear()
        self._counts.clear()
        self.recording = self._inside()
        self._on_new_step()

    def update_ended(self) -> None:
        """Say that an update was attempted."""
        self._updated = self.rule is StepOn.OPTIMIZER

    def forward_ended(self, *, leading: bool) -> None:
        """Say that a root forward has ended; `leading`: that of the root that was called first."""
        if self.rule is StepOn.FORWARD:
            self._passed = self._passed or leading
        elif self.rule is StepOn.OPTIMIZER and not self.optimizers:
            self._passed = True  # inference: every root forward is a step

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
