"""Batches: what DataLoader iterators hand out. Nothing inside their ``next()`` is recorded."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch.utils.data import dataloader

from bisect_diverge.environment.knobs import name_of_callable, setting
from bisect_diverge.environment.seeds import BASE_SEED, LOADER, WORKER_INIT
from bisect_diverge.model.address import NO_PASS
from bisect_diverge.model.environment import Layer
from bisect_diverge.record import worker_seeds, worker_threads
from bisect_diverge.record.codes import DATA
from bisect_diverge.record.frames import user_site
from bisect_diverge.record.generators import own_generators, text_of_generator
from bisect_diverge.record.leaves import leaves
from bisect_diverge.record.names import variable_of
from bisect_diverge.record.patches import Patches
from bisect_diverge.record.quiet import quiet
from bisect_diverge.record.recorder import Recorder
from bisect_diverge.record.seeds import hold_generator


class Loaders:
    """Records batches and notes the settings of loaders."""

    def __init__(self, recorder: Recorder, patches: Patches) -> None:
        self._recorder = recorder
        self._iterations: dict[str, int] = {}
        self._names: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()
        self._loaders: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()
        self._patch(patches)

    def _patch(self, patches: Patches) -> None:
        base = dataloader._BaseDataLoaderIter
        init, following = base.__init__, base.__next__
        recorder = self._recorder

        def __init__(iterator: Any, loader: Any) -> None:  # noqa: N807
            if recorder.active:
                with quiet(recorder, "a loader"):
                    self._begin(iterator, loader)
            init(iterator, loader)
            if recorder.active and loader.num_workers:
                with quiet(recorder, "the seed of a loader's workers"):
                    self._begun(iterator)

        def __next__(iterator: Any) -> Any:  # noqa: N807
            if not recorder.active:
                return following(iterator)
            with self._inside():
                batch = following(iterator)
            if not self._depth():
                with quiet(recorder, "a batch"):
                    self._batch(iterator, batch)
            return batch

        patches.replace(base, "__init__", __init__, like=init)
        patches.replace(base, "__next__", __next__, like=following)
        worker_threads.follow(recorder.settings.run, patches)

    @contextmanager
    def _inside(self) -> Iterator[None]:
        local = self._recorder.inside_loader
        local.depth = getattr(local, "depth", 0) + 1
        try:
            yield
        finally:
            local.depth -= 1

    def _depth(self) -> int:
        return getattr(self._recorder.inside_loader, "depth", 0)

    def _begin(self, iterator: Any, loader: Any) -> None:
        from bisect_diverge.environment.setters import loader_setting

        if self._depth():
            return  # a dataset that reads another loader
        recorder = self._recorder
        name = self._loaders.get(loader)
        if name is None:
            variable = variable_of(loader, sys._getframe(2))
            name = recorder.names.unique(variable) if variable else recorder.names.numbered("loader")
            self._loaders[loader] = name
            recorder.note_settings(
                loader_setting(
                    name,
                    num_workers=loader.num_workers,
                    prefetch_factor=loader.prefetch_factor,
                    persistent_workers=loader.persistent_workers,
                    multiprocessing_context=loader.multiprocessing_context,
                    in_order=getattr(loader, "in_order", True),
                    pin_memory=loader.pin_memory,
                    threads=worker_threads.threads_of(loader.num_workers),
                )
            )
            self._note_generators(name, loader)
        self._names[iterator] = name
        worker_seeds.start(name, self._iterations.get(name, 0))
        if recorder.steps.recording and recorder.steps.step == 0:
            recorder.first_generators()

    def _note_generators(self, name: str, loader: Any) -> None:
        """Note what the loader's own generators begin with, and what its workers call first; in a trial, hold that."""
        recorder = self._recorder
        for knob, generator in own_generators(loader):
            place = f"{LOADER}{name}.{knob}"
            hold_generator(place, generator)
            text, state = text_of_generator(generator)
            if recorder.first_states is not None and state:
                recorder.first_states.keep(text, state)
            recorder.note_seed(place, text)
        first = loader.worker_init_fn
        if first is not None and loader.num_workers:
            knob = f"{LOADER}{name}{WORKER_INIT}"
            recorder.note_settings((setting(Layer.SEEDS, knob, name_of_callable(first), resolved=True),))

    def _begun(self, iterator: Any) -> None:
        """Note what the workers' seeds are made of."""
        name = self._names.get(iterator)
        seed = getattr(iterator, "_base_seed", None)
        if name is None or seed is None:
            return
        self._iterations[name] = self._iterations.get(name, 0) + 1
        self._recorder.note_seed(f"{LOADER}{name}{BASE_SEED}", str(seed))

    def _batch(self, iterator: Any, batch: Any) -> None:
        recorder = self._recorder
        name = self._names.get(iterator)
        if name is None:
            return
        recorder.steps.touch()
        call = recorder.steps.count("batch", name)
        if recorder.steps.recording:
            site = user_site(sys._getframe(1))
            for slot, leaf in leaves(batch, "batch"):
                recorder.add(DATA, NO_PASS, (name, "", ""), call, slot, leaf, site=site, edge=True)
