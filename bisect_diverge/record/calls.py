"""Forward hooks: inputs and outputs of every module call.

The two hooks are plain functions whose first line leaves while torch.compile traces: so they are traced away, the
graph stays whole and its bits stay what they are without us.
"""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch.fx import _symbolic_trace as fx_tracing
from torch.nn.modules import module as nn_module
from torch.utils.hooks import RemovableHandle

from bisect_diverge.model.coverage import NO_LEAVES
from bisect_diverge.record.codes import FLAG_HOOKED, FLAG_PARTIAL, FLAG_RECOMPUTE, FORWARD, RECOMPUTE
from bisect_diverge.record.frames import local_variables, user_site
from bisect_diverge.record.gradients import watch_gradients
from bisect_diverge.record.hook_ids import own_ids
from bisect_diverge.record.leaves import leaves
from bisect_diverge.record.names import ModuleInfo, Root, is_compiled, unwrap
from bisect_diverge.record.patches import Patches
from bisect_diverge.record.quiet import quiet
from bisect_diverge.record.recorder import Recorder
from bisect_diverge.record.steps import Pass

_recorder: Recorder | None = None
"""The hooks are functions of the module, so what they work for is a variable of the module."""

_stacks = threading.local()

_FAKE = torch._C._TorchDispatchModeKey.FAKE
_PROXY = torch._C._TorchDispatchModeKey.PROXY


class _Call:
    """A module call that has begun and not ended."""

    __slots__ = (
        "call",
        "compiled",
        "frame",
        "info",
        "module",
        "passage",
        "phase",
        "root",
        "site",
        "target",
        "transparent",
    )

    def __init__(self, module: torch.nn.Module, target: torch.nn.Module, frame: FrameType, *, compiled: bool) -> None:
        self.module = module
        self.frame = frame
        """The frame that runs it; once it has ended the call has, however that came about."""
        self.target = target
        """The module behind the wrappers; the same for most."""
        self.compiled = compiled
        """Seen from outside ``module.compile()``'s call; where its graph breaks, the hooks see it once more inside."""
        self.transparent = True
        """No rows of its own: the inside of a wrapper, or a part of a compiled graph."""
        self.root: Root | None = None
        self.passage: Pass | None = None
        self.info: ModuleInfo | None = None
        self.call = 0
        self.site = ""
        self.phase = FORWARD


def install_calls(recorder: Recorder, patches: Patches) -> None:
    """Register the hooks; `patches` takes them away again."""
    global _recorder  # noqa: PLW0603 - see there
    _recorder = recorder
    with own_ids:
        patches.add_handle(nn_module.register_module_forward_pre_hook(_before))
    after = _register_after()
    patches.add_handle(after)
    # The handle forgets this table, and an entry left there makes torch.compile warn of a hook that is gone.
    with_kwargs = getattr(nn_module, "_global_forward_hooks_with_kwargs", {})
    patches.add_undo(lambda: with_kwargs.pop(after.id, None))
    patches.add_undo(_forget_recorder)
    _keep_out_of_compiled_frames()
    _keep_compile_quiet(patches)
    _see_compiled_in_place(patches)


def _forget_recorder() -> None:
    """Keep nothing of a recording, with its buffers, once it has ended."""
    global _recorder  # noqa: PLW0603 - see there
    _recorder = None


def _register_after() -> RemovableHandle:
    with own_ids:
        return nn_module.register_module_forward_hook(_after, with_kwargs=True, always_call=True)


def _before(module: torch.nn.Module, args: Any) -> None:
    if torch.compiler.is_compiling():
        return
    _before_call(module, args, sys._getframe(1), compiled=False)


def _before_call(module: torch.nn.Module, args: Any, frame: FrameType, *, compiled: bool) -> None:
    recorder = _recorder
    if recorder is None or not recorder.active or _elsewhere(recorder, module):
        return
    with quiet(recorder, "a module call"):
        _begin(recorder, _Call(module, unwrap(module), frame, compiled=compiled), args)


def _after(module: torch.nn.Module, args: Any, *rest: Any) -> None:
    if torch.compiler.is_compiling():
        return
    recorder = _recorder
    if recorder is None or not recorder.active or _elsewhere(recorder, module):
        return
    with quiet(recorder, "a module call"):
        call = _pop(module)
        if recorder.census is not None:
            _mark(recorder)
        # Called with kwargs and output after a return, with None alone after an exception.
        if call is not None and len(rest) == 2:
            _finish(recorder, call, rest[1])
        elif call is not None:
            _interrupted(recorder, call)


def _elsewhere(recorder: Recorder, module: torch.nn.Module) -> bool:
    """Whether this call is no part of the run: inside a loader, while tracing, in a replica of DataParallel."""
    return (
        getattr(recorder.inside_loader, "depth", 0) > 0
        or torch._C._get_tracing_state() is not None
        or torch._C._get_dispatch_mode(_FAKE) is not None
        or torch._C._get_dispatch_mode(_PROXY) is not None
        or getattr(fx_tracing, "_is_fx_tracing_flag", False)
        or getattr(module, "_is_replica", False)
        or (not recorder.opened and _in_worker())
    )


def _in_worker() -> bool:
    return torch.utils.data.get_worker_info() is not None


def _stack() -> list[_Call]:
    stack: list[_Call] | None = getattr(_stacks, "calls", None)
    if stack is None:
        stack = _stacks.calls = []
    return stack


def _pop(module: torch.nn.Module) -> _Call | None:
    """Return the call that ends now, dropping any above it that an exception ended."""
    stack = _stack()
    for index in range(len(stack) - 1, -1, -1):
        if stack[index].module is module:
            call = stack[index]
            del stack[index:]
            return call
    return None


def _begin(recorder: Recorder, call: _Call, args: Any) -> None:
    frame = call.frame
    stack = _stack()
    while stack and not _runs_below(stack[-1].frame, frame):  # ended by a KeyboardInterrupt, which calls no hook
        _interrupted(recorder, stack.pop())
    parent = stack[-1] if stack else None
    backward = torch._C._current_graph_task_id() != -1
    if parent is not None and _inside_wrapper(parent, call):
        call.root, call.passage, call.info = parent.root, parent.passage, parent.info
        call.call, call.phase = parent.call, parent.phase
    elif _is_compiled_graph(call.module, frame):
        pass
    elif parent is not None and parent.passage is not None:
        call.root, call.passage, call.phase = parent.root, parent.passage, parent.phase
        _enter(recorder, call, parent)
    elif backward:
        _enter_recompute(recorder, call)
    else:
        _enter_root(recorder, call, frame)
    stack.append(call)
    if recorder.census is not None:
        _mark(recorder)
    if not call.transparent and recorder.active:
        _inputs(recorder, call, args, frame, is_root=parent is None and not backward)


def _mark(recorder: Recorder) -> None:
    """Tell the census which calls are under way."""
    if recorder.census is None or not recorder.steps.recording:
        return
    calls = [call for call in _stack() if not call.transparent and call.info is not None and call.root is not None]
    recorder.census.mark(
        [(call.root.name, call.info.fqn, call.info.kind) for call in calls if call.root and call.info],
        compiled=bool(calls) and is_compiled(calls[-1].module),
    )


def _runs_below(outer: FrameType, frame: FrameType) -> bool:
    """Whether a frame was called, at whatever depth, from another."""
    caller: FrameType | None = frame
    while caller is not None:
        if caller is outer:
            return True
        caller = caller.f_back
    return False


def _inside_wrapper(parent: _Call, call: _Call) -> bool:
    outer = parent.module is not parent.target or parent.transparent or parent.compiled
    return outer and parent.target is call.target


_MACHINERY = tuple(str(Path(torch.__file__).parent / part) for part in ("_functorch", "_dynamo", "_inductor"))
_DOORS = (nn_module.__file__, str(Path(torch.__file__).parent / "fx"))
"""Frames between a graph's caller and our hook."""


def _is_compiled_graph(module: torch.nn.Module, frame: FrameType) -> bool:
    """Whether a module is a graph that torch.compile made, called by its own machinery: not a module of the user's."""
    if not isinstance(module, torch.fx.GraphModule):
        return False
    caller: FrameType | None = frame
    while caller is not None and caller.f_code.co_filename.startswith(_DOORS):
        caller = caller.f_back
    return caller is not None and caller.f_code.co_filename.startswith(_MACHINERY)


def _enter(recorder: Recorder, call: _Call, parent: _Call) -> None:
    assert call.root is not None
    assert call.passage is not None
    call.info = call.root.info(call.target, parent.info)
    call.transparent = False
    if call.phase == RECOMPUTE:
        call.call = call.passage.recomputed_call(call.info.fqn, grad=torch.is_grad_enabled())
    else:
        call.call = call.passage.call(call.info.fqn)


def _enter_recompute(recorder: Recorder, call: _Call) -> None:
    """Begin a call that checkpointing repeats inside backward: it belongs to the pass that made it first."""
    for root, passage in reversed(recorder.passes):
        if root.knows(call.target):
            info = root.info(call.target, None)
            if passage.calls.get(info.fqn):
                call.root, call.passage, call.info, call.phase = root, passage, info, RECOMPUTE
                call.call = passage.recomputed_call(info.fqn, grad=torch.is_grad_enabled())
                call.transparent = False
                return


def _enter_root(recorder: Recorder, call: _Call, frame: FrameType) -> None:
    if recorder.before_pass is not None:
        recorder.before_pass()
    recorder.steps.touch(leading=recorder.leads(call.target))
    training = torch.is_grad_enabled() and bool(call.target.training)
    call.root = recorder.root_of(call.target, frame)
    if not recorder.active:
        return
    if not call.root.shown and recorder.steps.recording:
        recorder.initial(call.root)  # a window of steps begins
    call.passage = recorder.steps.new_pass(call.root.name, training)
    call.info = call.root.info(call.target, None)
    call.call = call.passage.call(call.info.fqn)
    call.transparent = False


def _inputs(recorder: Recorder, call: _Call, args: Any, frame: FrameType, *, is_root: bool) -> None:
    if not recorder.steps.recording:
        return
    info, root, passage = call.info, call.root, call.passage
    assert info is not None and root is not None and passage is not None  # noqa: PT018
    call.site = user_site(frame)
    if call.phase == FORWARD:
        _drawn_before(recorder, call, is_root)
    if is_root:
        recorder.changed_weights(root, passage.micro_batch, call.site, first=passage.is_first)
    if not info.wanted:
        return
    for slot, leaf in _arguments(args, frame):
        _row(recorder, call, slot, leaf)
    if recorder.forcing is not None and call.phase == FORWARD:
        recorder.forcing.enter((passage.micro_batch, FORWARD, root.name, info.fqn, call.call))


def _row(recorder: Recorder, call: _Call, slot: str, leaf: Any, flags: int = 0) -> None:
    info, root, passage = call.info, call.root, call.passage
    assert info is not None and root is not None and passage is not None  # noqa: PT018
    recorder.add(
        call.phase,
        passage.micro_batch,
        (root.name, info.fqn, info.kind),
        call.call,
        slot,
        leaf,
        site=call.site,
        flags=flags | FLAG_RECOMPUTE if call.phase == RECOMPUTE else flags,
        info=info,
        edge=True,
    )


def _drawn_before(recorder: Recorder, call: _Call, is_root: bool) -> None:
    """Record what was drawn since the last look: by the script before a root, else by the enclosing module."""
    stack = _stack()
    drawer = call if is_root or len(stack) < 2 else stack[-2]
    if drawer.info is None or drawer.root is None or drawer.passage is None:
        drawer = call
    assert drawer.info is not None and drawer.root is not None and drawer.passage is not None  # noqa: PT018
    # On entry to a root always: a generator that moved elsewhere must not look like a module that computes otherwise.
    recorder.torch_moved(
        drawer.info,
        drawer.root.name,
        drawer.passage.micro_batch,
        drawer.call,
        site=call.site,
        always=is_root,
    )


def _arguments(args: Any, frame: FrameType) -> list[tuple[str, Any]]:
    out = list(leaves(args, "input"))
    for name, value in _keyword_arguments(frame).items():
        for path, leaf in leaves(value, f"kwarg.{name}"):
            lone = path == f"kwarg.{name}.0" and leaf is value
            out.append((path[:-2] if lone else path, leaf))
    return out


def _keyword_arguments(frame: FrameType) -> dict[str, Any]:
    """Return the keyword arguments of the call, which a global pre-hook is not given: its caller has them."""
    with local_variables(frame) as variables:
        kwargs = variables.get("kwargs")
        return dict(kwargs) if isinstance(kwargs, dict) and kwargs else {}


def _finish(recorder: Recorder, call: _Call, output: Any) -> None:
    if call.transparent or call.info is None or call.root is None or call.passage is None:
        return
    is_root = not _stack()
    if recorder.steps.recording:
        if call.info.wanted:
            _outputs(recorder, call, output)
        if call.phase == FORWARD:
            recorder.torch_moved(call.info, call.root.name, call.passage.micro_batch, call.call, site=call.site)
            if recorder.forcing is not None:
                recorder.forcing.leave((call.passage.micro_batch, FORWARD, call.root.name, call.info.fqn, call.call))
    elif is_root:
        recorder.follow_torch()
    if is_root and call.phase == FORWARD:
        if call.passage.training:
            call.root.passed = True
            recorder.passes.append((call.root, call.passage))
        recorder.steps.forward_ended(leading=recorder.leads(call.target))


def _outputs(recorder: Recorder, call: _Call, output: Any) -> None:
    info, root, passage = call.info, call.root, call.passage
    assert info is not None and root is not None and passage is not None  # noqa: PT018
    name = (root.name, info.fqn, info.kind)
    flags = FLAG_HOOKED if call.target._forward_hooks or call.module._forward_hooks else 0
    slot = ""
    for slot, leaf in leaves(output, "output"):
        _row(recorder, call, slot, leaf, flags)
        if isinstance(leaf, torch.Tensor) and leaf.requires_grad and not _is_watched(call, slot):
            watch_gradients(recorder, leaf, name, info, passage.micro_batch, call.call, slot, call.site)
    if not slot and output is not None and not isinstance(output, (tuple, list, dict)):
        recorder.count(NO_LEAVES.format(type(output).__name__))


def _is_watched(call: _Call, slot: str) -> bool:
    """Whether the gradient of an output is waited for already, as of now: autograd reaches the one that was made first.

    What a checkpoint without reentry makes again is only looked at for what was saved; with reentry the first output
    needs no gradient, and the second one gets it.
    """
    info, passage = call.info, call.passage
    assert info is not None and passage is not None  # noqa: PT018
    output = (info.fqn, call.call, slot)
    known = call.phase == RECOMPUTE and output in passage.watched
    passage.watched.add(output)
    return known


def _interrupted(recorder: Recorder, call: _Call) -> None:
    """A forward ended by an exception. Inside backward that is how checkpointing stops early: nothing to say."""
    if call.transparent or call.root is None or call.info is None or call.phase == RECOMPUTE:
        return
    recorder.count("module calls ended by an exception")
    recorder.cut_short = FLAG_PARTIAL


def _keep_compile_quiet(patches: Patches) -> None:
    """Keep torch.compile from warning that global hooks are there: ours are known to leave the graph alone."""
    if not hasattr(nn_module, "_has_any_global_hook"):
        return
    tables = [
        getattr(nn_module, name)
        for name in (
            "_global_backward_pre_hooks",
            "_global_backward_hooks",
            "_global_forward_pre_hooks",
            "_global_forward_hooks",
        )
    ]

    def has_any_global_hook() -> bool:
        return any(hook not in (_before, _after) for table in tables for hook in table.values())

    patches.replace(nn_module, "_has_any_global_hook", has_any_global_hook, like=nn_module._has_any_global_hook)


def _keep_out_of_compiled_frames() -> None:
    """Keep dynamo from compiling the hooks themselves, where a graph break leaves modules to run eagerly.

    It would take `is_compiling` for true there, and those modules would not be seen. Tracing through a hook, as part
    of a graph, is not touched by this.
    """
    try:
        from torch._C._dynamo.eval_frame import (  # type: ignore[import-not-found,unused-ignore]
            _FrameAction,
            _FrameExecStrategy,
            set_code_exec_strategy,
        )

        for hook in (_before, _after):
            set_code_exec_strategy(hook.__code__, _FrameExecStrategy(_FrameAction.SKIP, _FrameAction.SKIP))
    except (ImportError, AttributeError, TypeError):  # an older torch: such modules show as opaque
        return


def _see_compiled_in_place(patches: Patches) -> None:
    """Call the hooks around ``module.compile()``'s compiled call, inside which they are traced away."""
    original = torch.nn.Module.compile

    def compile(self: torch.nn.Module, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        compiled: Any = self._compiled_call_impl

        def call(*call_args: Any, **kwargs: Any) -> Any:
            if torch.compiler.is_compiling():
                return compiled(*call_args, **kwargs)
            _before_call(self, call_args, sys._getframe(0), compiled=True)
            try:
                output = compiled(*call_args, **kwargs)
            except BaseException:
                _after(self, call_args, None)
                raise
            _after(self, call_args, kwargs, output)
            return output

        self._compiled_call_impl = call

    patches.replace(torch.nn.Module, "compile", compile, like=original)
