"""First states of generators that every process starts otherwise: kept if the run draws from them unseeded."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import sys
from collections.abc import Iterator, Set
from typing import Any

import numpy as np
import torch

from bisect_diverge.environment.hashing import hash_bytes
from bisect_diverge.environment.inputs import Keeper
from bisect_diverge.environment.knobs import setting
from bisect_diverge.environment.seeds import FAMILIES, FRESH, INITIAL, PROCESS
from bisect_diverge.model.environment import Layer, Setting

RANKS = ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID")
"""Variables in which launchers tell a process its rank."""


def place() -> str:
    """Return what tells this process from the others before it knows its rank: ``rank1``, ``SpawnProcess-2``; or empty.

    A process of multiprocessing has its name, with its number in it, before it imports anything; one of a launcher has
    a variable.
    """
    name = multiprocessing.current_process().name
    if name != "MainProcess":
        return name
    return next((f"rank{os.environ[name]}" for name in RANKS if name in os.environ), "")


class FirstStates:
    """The states when the hooks went in."""

    def __init__(self) -> None:
        self._place = place()
        self._first = dict(_states())
        self._taken: dict[str, str] = {}

    def after(self, setter: str, text: str) -> str:
        """Return the text of a seed; of one that nobody can tell, the hash of the state that it led to.

        Args:
            setter: Setter that has been called.
            text: Seed as `environment.setters` writes it.
        """
        family = next((family for family, knobs in FAMILIES.items() if setter in knobs), None)
        if text != FRESH or family is None:
            return text
        state = dict(_states())[family]
        value = hash_bytes(state.encode())
        self._taken[value] = state
        return f"{FRESH} {value}"

    def keep(self, text: str, state: str) -> None:
        """Remember the state of a generator of the script's own, of which the text names the hash."""
        self._taken[text.rpartition(" ")[2]] = state

    def settings(self, seeded: Set[str], keeper: Keeper) -> Iterator[Setting]:
        """Yield a row for each generator that has moved since, and that nobody gave a seed; keep its first state.

        Args:
            seeded: Setters that the script called.
            keeper: Keeps the state.
        """
        if self._place and not self._place.startswith("rank"):
            yield setting(Layer.SEEDS, PROCESS, self._place, resolved=True)
        for value, state in self._taken.items():
            keeper.text(state.encode(), value)
        now = dict(_states())
        for family, text in self._first.items():
            if seeded.isdisjoint(FAMILIES[family]) and now.get(family) not in (None, text):
                data = text.encode()
                value = hash_bytes(data)
                keeper.text(data, value)
                yield setting(Layer.SEEDS, f"{INITIAL}{family}", value, resolved=False)


def _states() -> Iterator[tuple[str, str]]:
    yield "python", json.dumps(random.getstate())
    if "numpy.random" in sys.modules:
        state: Any = sys.modules["numpy"].random.get_state(legacy=False)
        yield "numpy", json.dumps(state, default=lambda value: [str(value.dtype), value.tolist()])
    yield "torch", json.dumps(torch.default_generator.get_state().tolist())


def force(family: str, text: str) -> None:
    """Give a generator the state that `FirstStates` kept.

    Args:
        family: A key of `environment.seeds.FAMILIES`.
        text: Content of the kept file.
    """
    state = json.loads(text)
    if family == "python":
        version, words, gauss = state
        random.setstate((version, tuple(words), gauss))
    elif family == "torch":
        torch.default_generator.set_state(torch.tensor(state, dtype=torch.uint8))
    elif "numpy.random" in sys.modules:
        dtype, words = state["state"]["key"]
        state["state"]["key"] = np.array(words, dtype)
        np.random.set_state(state)
