"""The recorder of a process: what the hooks share. Opens the file at the first root call, closes it at the end."""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import threading
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import torch

from bisect_diverge.model.address import NO_PASS
from bisect_diverge.model.environment import Setting
from bisect_diverge.model.run import Capture, RunRecord, State, StepOn
from bisect_diverge.numerics.digest import ALGORITHM
from bisect_diverge.record import files
from bisect_diverge.record.capture import Captured, capture
from bisect_diverge.record.census import Census
from bisect_diverge.record.codes import FORWARD, INIT, RNG
from bisect_diverge.record.device import DevicePath
from bisect_diverge.record.device_rows import DeviceRows, Place
from bisect_diverge.record.edges import Edges, Mark
from bisect_diverge.record.generators import states
from bisect_diverge.record.globs import unmatched
from bisect_diverge.record.initial import FirstStates
from bisect_diverge.record.inputs import read_inputs
from bisect_diverge.record.leaving import leave_together
from bisect_diverge.record.looks import is_time
from bisect_diverge.record.names import ModuleInfo, Names, Root, unwrap, variable_of
from bisect_diverge.record.process import (
    human_bytes,
    is_helper,
    leave_environment,
    rank_and_world_size,
    read_again_quietly,
    read_inside_quietly,
    reason,
    say,
)
from bisect_diverge.record.settings import Settings
from bisect_diverge.record.steps import Pass, Steps
from bisect_diverge.record.weights import Weights
from bisect_diverge.store.schema import rank_path

if TYPE_CHECKING:
    from bisect_diverge.record.forcing import Forcing
    from bisect_diverge.store.writer import RunWriter

PENDING_BYTES = 64 << 20
"""Batches fetched before the first root call are kept up to this size, then by digest only."""
PENDING_ROWS = 20_000
"""A script that goes through its data before it trains (to compute a mean, say) is not recorded doing so."""


class Recorder:
    """State of the recording of this process.

    Every method but `trouble` is called with `lock` held.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.pid = os.getpid()
        self._cwd = settings.cwd or str(Path.cwd())  # now: a script may go elsewhere before its first root call
        self.lock = threading.RLock()
        self.active = True
        """False once recording has ended, and in forked children."""
        self.before_pass: Callable[[], None] | None = None
        """Called before each root forward of a trial."""
        self.forcing: Forcing | None = None
        """Sets what is recorded to what another run recorded, in a trial that replays a step in place."""
        self.inside_loader = threading.local()
        self.steps = Steps(settings.options.steps, self._new_step, settings.options.step_on)
        self.names = Names()
        self.edges = Edges()
        self._weights = Weights()
        self._device = DevicePath(self._write_waiting)
        self._waiting = DeviceRows(self._device, self._weights, self._on_device_failure)
        self.coverage: dict[str, int] = {}
        self.notes: list[str] = []
        self.census: Census | None = Census()
        """None once it has been taken, or given up."""
        self.roots: list[Root] = []
        self.passes: list[tuple[Root, Pass]] = []
        """Training passes that ended in this step, in order."""
        self.cut_short = 0
        """`Flag.PARTIAL` from a forward that an exception ended to the end of the step, else 0."""
        self._writer: RunWriter | None = None
        self._pending: list[Callable[[], None]] = []
        self._pending_bytes = 0
        self._started: tuple[Setting, ...] = ()
        self._noted: dict[str, Setting] = {}
        self._seeds: dict[str, list[str]] = {}
        self.first_states: FirstStates | None = None
        """States of the generators when the hooks went in."""
        self._record = RunRecord()
        self._generators_seen = False
        self._torch_state = b""
        self._full = settings.options.capture is Capture.FULL

    # -- rows --------------------------------------------------------------------------------------------------

    @property
    def opened(self) -> bool:
        """Whether the file is there."""
        return self._writer is not None

    def add(
        self,
        phase: int,
        micro_batch: int,
        name: tuple[str, str, str],
        call: int,
        slot: str,
        leaf: Any,
        *,
        site: str = "",
        flags: int = 0,
        info: ModuleInfo | None = None,
        edge: bool = False,
        mark: Mark | None = None,
        step: int | None = None,
        weight: torch.Tensor | None = None,
        only_if_changed: bool = False,
    ) -> None:
        """Record one leaf at an address.

        Args:
            phase: Code of the phase.
            micro_batch: Code of the micro-batch.
            name: Root, FQN and module type.
            call: n-th call.
            slot: Slot.
            leaf: Tensor, number, text or array; None is a gradient that is None. Or what `capture` returned.
            site: ``file:line`` of the call.
            flags: `Flag` bits beside those of the leaf.
            info: Where the number of `name` is kept between calls.
            edge: Whether other rows may come from this tensor, and it from them.
            mark: What was noted of the tensor when the row was postponed.
            step: Step of a row that was postponed; None: the current one.
            weight: Parameter or buffer whose bits are to be remembered once a device has told them.
            only_if_changed: Leave such a row out if they are those that were known.
        """
        writer = self._writer
        taken = leaf if isinstance(leaf, Captured) else self._taken(leaf)
        if writer is None:
            self._postpone(phase, micro_batch, name, call, slot, leaf, taken, site, flags, edge)
            if self.forcing is not None:
                self._force(phase, micro_batch, name, call, slot, taken, leaf)
            return
        if info is None:
            number = writer.name(*name)
        elif (number := info.number) < 0:
            number = info.number = writer.name(*name)
        tensor = leaf if edge and isinstance(leaf, torch.Tensor) else None
        source = -1 if tensor is None else self.edges.source(tensor)
        place = (
            self.steps.step if step is None else step,
            micro_batch,
            phase,
            number,
            call,
            writer.slot(slot),
            taken.dtype,
            writer.shape(taken.shape),
            writer.site(site),
            taken.flags | flags | self.cut_short,
        )
        if not self._full and taken.data is not None:
            taken = taken._replace(data=None)
        if taken.later is None and self._waiting.idle:
            row = writer.add(taken.digest, *place, taken.value, source, taken.data)
        else:
            row = self._waiting.add(writer, Place(*place), taken, source, weight, only_if_changed)
        if tensor is not None:
            self.edges.note(tensor, row)
        elif mark is not None:
            self.edges.note_mark(mark, row)
        if self.forcing is not None and step is None:  # one that was postponed was set then
            self._force(phase, micro_batch, name, call, slot, taken, leaf if weight is None else weight)

    def _force(
        self, phase: int, micro_batch: int, name: tuple[str, str, str], call: int, slot: str, taken: Captured, leaf: Any
    ) -> None:
        assert self.forcing is not None
        target = leaf if isinstance(leaf, torch.Tensor) else None
        self.forcing.row(self.steps.step, (micro_batch, phase, name[0], name[1], call, slot), taken, target)

    def _taken(self, leaf: Any) -> Captured:
        """Return the bits of a leaf, or what a device will say of them: not before the file is there."""
        return capture(leaf, keep=self._full, device=None if self._writer is None else self._device)

    def _postpone(
        self,
        phase: int,
        micro_batch: int,
        name: tuple[str, str, str],
        call: int,
        slot: str,
        leaf: Any,
        taken: Captured,
        site: str,
        flags: int,
        edge: bool,
    ) -> None:
        if len(self._pending) >= PENDING_ROWS:
            self.coverage["rows before the first root call, not recorded"] = (
                self.coverage.get("rows before the first root call, not recorded", 0) + 1
            )
            return
        data = taken.data
        if data is not None:
            self._pending_bytes += data.nbytes
            data = data.copy() if self._pending_bytes <= PENDING_BYTES and self._full else None
        kept = taken._replace(data=data)
        mark = self.edges.mark(leaf) if edge and isinstance(leaf, torch.Tensor) else None
        del leaf  # no reference past the hook
        step = self.steps.step
        self._pending.append(
            lambda: self.add(phase, micro_batch, name, call, slot, kept, site=site, flags=flags, mark=mark, step=step)
        )

    def count(self, what: str, by: int = 1) -> None:
        """Add to a coverage count."""
        self.coverage[what] = self.coverage.get(what, 0) + by

    def take_census(self, tensors: list[torch.Tensor]) -> None:
        """Count the operations behind the first loss."""
        census, self.census = self.census, None
        if census is not None:
            counts, notes = census.count(tensors, self.roots)
            self.coverage.update(counts)
            self.notes += notes

    def _write_waiting(self) -> None:
        """Write the rows that wait for a device, unless a graph is being captured: waiting would end the capture."""
        if not self._waiting.idle and self._writer is not None and not self._device.is_capturing():
            self._waiting.write(self._writer)

    def _on_device_failure(self, error: Exception, rows: int) -> None:
        self.count("rows lost with their device", rows)
        self.trouble("the digests of a device", error)

    # -- generators --------------------------------------------------------------------------------------------

    def generators(self, call: int) -> None:
        """Record the states of all generators at a step boundary."""
        for slot, state in states():
            taken = capture(state, keep=self._full)
            if slot == "torch.cpu":
                self._torch_state = taken.digest
            self.add(RNG, NO_PASS, ("-", "", ""), call, slot, taken)

    def first_generators(self) -> None:
        """Record them once, before anything else of the run."""
        if not self._generators_seen:
            self._generators_seen = True
            self.generators(0)

    def torch_moved(
        self, info: ModuleInfo, root: str, micro_batch: int, call: int, *, site: str = "", always: bool = False
    ) -> None:
        """Record torch's CPU generator under a module if it moved since it was last read, or always.

        Args:
            info: The module that drew.
            root: Its root.
            micro_batch: Code of the micro-batch.
            call: n-th call of it.
            site: Where that was seen: ``file:line`` of the call that follows, or that ends.
            always: Record it even if it did not move.
        """
        taken = capture(torch.default_generator.get_state(), keep=self._full)
        if always or taken.digest != self._torch_state:
            self._torch_state = taken.digest
            name = (root, info.fqn, info.kind)
            self.add(RNG, micro_batch, name, call, "torch.cpu", taken, site=site, info=info)

    def follow_torch(self) -> None:
        """Note torch's state in a step that is not recorded, so that the first one that is does not seem to move it."""
        self._torch_state = capture(torch.default_generator.get_state(), keep=False).digest

    # -- roots -------------------------------------------------------------------------------------------------

    def root_of(self, module: torch.nn.Module, frame: FrameType | None) -> Root:
        """Return the root for a module called from no other module, opening the file at the first one."""
        for root in self.roots:
            if root.ref() is module:
                return root
        name = variable_of(module, frame, unwrap) or type(module).__name__
        root = Root(module, self.names.unique(name), self.settings.options.modules)
        self.roots.append(root)
        self._note_layout(root)
        if self._writer is None:
            self._open(root)
        elif self.steps.recording:
            self.initial(root)
        return root

    def _note_layout(self, root: Root) -> None:
        from bisect_diverge.environment.setters import device_setting, dtype_setting, layout_setting

        with contextlib.suppress(Exception):  # a parameter that is not there yet, or not an ordinary tensor
            weights = [tensor for _, slot, tensor in root.tensors() if slot == "param"]
            for read in (device_setting, dtype_setting, layout_setting):
                self.note_settings(read(root.name, weights))

    def leads(self, module: torch.nn.Module) -> bool:
        """Whether a module is the root that was called first, of those that are still there."""
        first = next((target for root in self.roots if (target := root.ref()) is not None), module)
        return first is module

    def end_step(self) -> None:
        """End the step under way, where the script says when."""
        if self.steps.rule is not StepOn.MANUAL:
            self._ignore_end_of_step()
            return
        if not self.opened:
            return  # before the first root call there is no step to end
        if not self.steps.recording:
            self.follow_torch()
        elif not self.steps.seen("boundary", ""):  # an update has recorded them already
            self.generators(self.steps.count("boundary", ""))
        self.steps.advance()

    def _ignore_end_of_step(self) -> None:
        note = f"bisect_diverge.step() was called, but steps end with --step-on {self.steps.rule}"
        if note not in self.notes:
            self.notes.append(note)

    def initial(self, root: Root) -> None:
        """Record the weights of a root as they are before its first recorded pass."""
        root.shown = True
        for fqn, slot, tensor in root.tensors():
            if root.wants(fqn):
                self.add_weight(INIT, NO_PASS, (root.name, fqn, ""), 0, slot, tensor)

    def add_weight(
        self,
        phase: int,
        micro_batch: int,
        name: tuple[str, str, str],
        call: int,
        slot: str,
        tensor: torch.Tensor,
        *,
        site: str = "",
        flags: int = 0,
    ) -> None:
        """Record a parameter or buffer and remember its bits."""
        self._weights.see(tensor)
        if phase == INIT:
            self._weights.hold((name[0], name[1], slot), tensor)
        taken = self._taken(tensor)
        self.add(phase, micro_batch, name, call, slot, taken, site=site, flags=flags, weight=tensor)
        if taken.later is None:
            self._weights.note(tensor, taken.digest)

    def changed_weights(self, root: Root, micro_batch: int, site: str, *, first: bool) -> None:
        """Record what was changed, outside of an update, since it was last recorded.

        Args:
            root: What is being called.
            micro_batch: Code of the pass.
            site: ``file:line`` of the call.
            first: It is the first pass of its sort in the step. Before a later one only parameters that were written
                or replaced since are looked at.
        """
        weights = self._weights
        for fqn, slot, tensor in root.tensors() if first else root.tensors("param"):
            if not root.wants(fqn) or not (first or weights.written(tensor)):
                continue
            weights.see(tensor)
            replaced = weights.hold((root.name, fqn, slot), tensor)
            taken, name = self._taken(tensor), (root.name, fqn, "")
            waits = taken.later is not None
            if waits or replaced or weights.changed(tensor, taken.digest):
                self.add(
                    FORWARD, micro_batch, name, 0, slot, taken, site=site, weight=tensor, only_if_changed=not replaced
                )
            if not waits:
                weights.note(tensor, taken.digest)

    # -- the file ----------------------------------------------------------------------------------------------

    def _open(self, root: Root) -> None:
        from bisect_diverge import __version__
        from bisect_diverge.environment.arguments import mask_argv

        rank, world = rank_and_world_size()
        record = RunRecord(
            command=tuple(mask_argv(self.settings.command)),
            argv=tuple(mask_argv(sys.argv)),
            cwd=self._cwd,
            version=__version__,
            started=datetime.now().astimezone().isoformat(timespec="seconds"),
            rank=rank,
            world_size=world,
            options=self.settings.options,
        )
        leave_environment(self.settings)
        self._started = (*self.settings.outside, *read_inside_quietly(self.settings))
        self._record = record.with_(environment=record.environment.merged(self._started))
        try:
            self._writer = self._create(rank)
        except OSError as error:
            self._give_up(f"nothing is recorded: {error}")
            return
        self._writer.site("")
        files.first_call()
        atexit.register(self.close)
        pending, self._pending = self._pending, []
        if self.steps.recording:
            self.initial(root)
            self.first_generators()
        else:
            self.follow_torch()
        for row in pending:
            row()

    def _create(self, rank: int) -> RunWriter:
        from bisect_diverge.store.writer import RunWriter  # h5py: not in a process that calls no module

        options = self.settings.options
        keep = options.keep_bytes if options.capture is Capture.FULL else 0
        for occurrence in range(1 if is_helper() else 0, 10_000):
            path = rank_path(Path(self.settings.run), rank, occurrence)
            try:
                return RunWriter(
                    path,
                    self._record,
                    keep_bytes=keep,
                    digest_algorithm=ALGORITHM,
                    on_budget=self._on_budget,
                    lock=self.lock,
                )
            except FileExistsError:  # a second process of this rank
                continue
        raise FileExistsError(f"too many processes of rank {rank} in {self.settings.run}")

    def _on_budget(self) -> None:
        self._full = False
        size = human_bytes(self.settings.options.keep_bytes)
        step = self.steps.step
        note = f"the budget of {size} for tensors was used up at step {step}; after that only digests are kept"
        self.notes.append(note)
        say(note)

    def _new_step(self) -> None:
        trial = self.settings.trial
        if trial is not None and self.steps.step > trial.stop_after_step:
            self._leave()
        if is_time(self.steps.step):
            files.look()
        self._write_waiting()
        self._waiting.new_step()
        self.edges.clear()
        self.passes.clear()
        self.cut_short = 0
        if self.census is not None and self.steps.recording and not self.census.new_step():
            self.census = None
        if self.forcing is not None:
            self.forcing.begin()
        writer = self._writer
        if writer is None:
            return
        if writer.error is not None:
            self._give_up(f"recording stopped at step {self.steps.step}: {reason(writer.error)}")
            return
        writer.hand_over()
        if self.steps.step == 1 and writer.kept_bytes and self._full:
            self._forecast(writer)

    def _leave(self) -> None:
        """End a trial: no exception, after which the script's ``finally`` would save files."""
        if os.getpid() != self.pid or self._writer is None:
            return
        self.close(State.COMPLETE)
        leave_together(Path(self.settings.run), self._record.rank, self._record.world_size)

    def _forecast(self, writer: RunWriter) -> None:
        keep = self.settings.options.keep_bytes
        steps = keep // max(1, writer.kept_bytes)
        say(
            f"step 0: {writer.rows:,} records, {human_bytes(writer.kept_bytes)} of tensors; "
            f"the budget of {human_bytes(keep)} lasts about {steps:,} such steps"
        )

    def close(self, state: State | None = None, exit_status: int | None = None) -> None:
        """End the recording and close the file; does nothing in a forked child or when it is closed already."""
        if os.getpid() != self.pid or not self.active:
            return
        with self.lock:
            self.active = False
            if self._writer is None:
                return
            if state is None:  # at exit: an uncaught exception has been printed by now, and left its type here
                state = State.INTERRUPTED if hasattr(sys, "last_type") else State.COMPLETE
            self._write_waiting()
            self._tell_unmatched()
            if self.forcing is not None:
                self.forcing.tell()
            if self._device.refused:
                self.count("tensors digested on the host: no memory left on their device", self._device.refused)
            try:
                self._writer.update(self._last_record())
            except Exception as error:  # the rows are worth more than their description
                say(f"the recording has no last description ({type(error).__name__}: {reason(error)})")
            self._writer.close(state, exit_status)
            atexit.unregister(self.close)
            if self._writer.error is not None:
                say(f"the recording is incomplete: {reason(self._writer.error)}")

    def _tell_unmatched(self) -> None:
        """Say which globs of ``--modules`` fit nothing; one rank says it for all, each keeps it."""
        globs = self.settings.options.modules
        if not globs or self.settings.trial is not None:
            return
        with contextlib.suppress(Exception):  # it imports, and a script may have left no path to import from
            for sentence in unmatched(globs, {root.name: root.met for root in self.roots}):
                self.notes.append(sentence)
                if self._record.rank == 0 and not is_helper():
                    say(sentence)

    def _last_record(self) -> RunRecord:
        """Return the run record with what is known only at the end."""
        aliases: dict[str, list[str]] = {}
        for root in self.roots:
            aliases.update(root.aliases)
        environment = self._record.environment.merged(
            (
                *self._later(),
                *read_inputs(self.settings, self._record.cwd, self.first_states, self._seeds.keys()),
                *read_again_quietly(self._started, Path(self._record.cwd)),
            )
        )
        return self._record.with_(
            environment=environment,
            aliases=aliases,
            coverage=self.coverage,
            notes=tuple(self.notes),
            written=files.written(),
        )

    def abandon(self) -> None:
        """Stop in a forked child, whose parent goes on recording."""
        self.active = False
        self._waiting.forget()
        if self._writer is not None:
            self._writer.abandon()

    # -- the environment ---------------------------------------------------------------------------------------

    def note_settings(self, settings: tuple[Setting, ...]) -> None:
        """Add settings that became known while the run was under way."""
        for setting in settings:
            self._noted.setdefault(f"{setting.layer}.{setting.knob}", setting)

    def note_seed(self, setter: str, value: str) -> None:
        """Add a seed that the script set."""
        text = value if self.first_states is None else self.first_states.after(setter, value)
        self._seeds.setdefault(setter, []).append(text)

    def _later(self) -> tuple[Setting, ...]:
        from bisect_diverge.environment.setters import seed_settings

        return (*self._noted.values(), *seed_settings(self._seeds))

    # -- trouble -----------------------------------------------------------------------------------------------

    def _give_up(self, why: str) -> None:
        self.active = False
        self._pending.clear()
        if self._writer is not None:
            self._writer.close(State.INTERRUPTED)
            atexit.unregister(self.close)
        say(why)

    def trouble(self, where: str, error: BaseException) -> None:
        """Note a failure of ours; the user's code never sees it."""
        self.count(f"failures in {where}")
        if self.coverage[f"failures in {where}"] == 1:
            note = f"{where}: {type(error).__name__}: {reason(error)}"
            self.notes.append(note)
            say(f"a part of this run could not be recorded ({note}); the run itself goes on")
            if os.environ.get("BISECT_DIVERGE_DEBUG"):
                import traceback

                traceback.print_exception(error)
