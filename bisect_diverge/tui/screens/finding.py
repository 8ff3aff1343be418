"""The part of the trace screen that moves the cursor: to differences, matches, steps, along the data flow."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from textual import work

from bisect_diverge.tui import states
from bisect_diverge.tui.screens.filtering import Filtering
from bisect_diverge.tui.trace import changes, following, preceding

if TYPE_CHECKING:
    from bisect_diverge.tui.widgets.pane import Pane


class Finding(Filtering):
    """Actions that move the cursor to something."""

    pane: Pane

    @work(exclusive=True, group="inputs", exit_on_error=False)
    async def keep_inputs(self) -> None:
        """Let the inputs of the first divergence show even where equal stretches are folded."""
        first = self.comparison.first
        if first < 0:
            return
        try:
            inputs = await self.reader.run(lambda _: self.comparison.producers(first))
        except Exception:  # the pane says so when the cursor stands there
            return
        self.trace_list.trace.keep(inputs)
        self.trace_list.lines_changed()
        if self.trace_list.place == first:
            self.trace_list.show_near_top()

    def action_next(self) -> None:
        """Go to the next difference or match."""
        self._go(following, "after")

    def action_previous(self) -> None:
        """Go to the previous difference or match."""
        self._go(preceding, "before")

    def _go(self, which: Callable[[NDArray[np.intp], int], int], side: str) -> None:
        matches = self._matches
        places = self.trace_list.trace.loud if matches is None else matches
        line = self.trace_list.line
        if line is None:
            return
        # A match may hide in the folded stretch that the cursor stands on.
        hidden = line.folded and matches is not None and side == "after"
        target = which(places, self.trace_list.place - int(hidden))
        if target < 0:
            self.say(f"no {'difference' if matches is None else 'match'} {side} this")
        else:
            self.trace_list.go_to(target)

    def action_first(self) -> None:
        """Go to the first divergence."""
        first = self.comparison.first
        if first < 0:
            self.say("nothing differs")
            return
        if self._phase is not None and first not in self.trace_list.trace.rows:
            self.clear_phase()
        self.trace_list.go_to(first)

    def action_next_step(self) -> None:
        """Go to the first line of the next step."""
        self._go_to_change(following, "step", self.comparison.step)

    def action_previous_step(self) -> None:
        """Go to the first line of this step, or of the step before."""
        self._go_to_change(preceding, "step", self.comparison.step)

    def action_next_micro_batch(self) -> None:
        """Go to the first line of the next micro-batch."""
        self._with_columns(lambda c: self._go_to_change(following, "micro-batch", self.comparison.step, c.micro_batch))

    def action_previous_micro_batch(self) -> None:
        """Go to the first line of this micro-batch, or of the one before."""
        self._with_columns(lambda c: self._go_to_change(preceding, "micro-batch", self.comparison.step, c.micro_batch))

    def _go_to_change(self, which: Callable[[NDArray[np.intp], int], int], what: str, *keys: NDArray[np.int32]) -> None:
        starts = self.trace_list.trace.starts
        target = which(changes(*(key[starts] for key in keys)), self.trace_list.cursor)
        if target < 0:
            self.say(f"no {what} {'after' if which is following else 'before'} this")
        else:
            self.trace_list.jump_to_group(target)

    def action_producer(self) -> None:
        """Follow the data flow back, to an input that differs where one does."""
        self._follow(() if self.pane.flow is None else self.pane.flow.producers, "no input is known")

    def action_consumer(self) -> None:
        """Follow the data flow on, to a consumer that differs where one does."""
        self._follow(() if self.pane.flow is None else self.pane.flow.consumers, "no consumer is known")

    def _follow(self, indices: tuple[int, ...], otherwise: str) -> None:
        if self.pane.flow is None and self.pane.reading:
            self.say("the data flow is still being read")
            return
        shown = [index for index in indices if self._phase is None or index in self.trace_list.trace.rows]
        if not shown:
            self.say(otherwise if not indices else f"not a record of phase {self._phase}; p goes on to the others")
            return
        differing = [index for index in shown if self.comparison.state[index] == states.DIFFERS]
        self.trace_list.go_to((differing or shown)[0])

    def action_only_differing(self) -> None:
        """Fold all equal stretches, or show everything."""
        self.trace_list.trace.show_only_differing(not self.trace_list.trace.only_differing)
        self.trace_list.lines_changed()
