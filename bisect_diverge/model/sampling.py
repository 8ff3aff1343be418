"""What a search by repeats saw: samples of runs that do not repeat themselves, told apart with a stated confidence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

SAMPLED = 1000
"""Repeats of a configuration are numbered from here where they are a sample of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Whether the runs of one configuration are like those of A or like those of B."""

    trials: tuple[int, ...]
    """Numbers of its trials."""
    like: str
    """``A``, ``B``, ``neither``: between the two, or ``not decided``."""
    chance_a: float
    """Chance to see something as far from A's runs if it were like A."""
    chance_b: float
    """Chance to see something as far from B's runs if it were like B."""

    def to_json(self) -> dict[str, Any]:
        """Return it as plain JSON values."""
        return {
            "trials": list(self.trials),
            "like": self.like,
            "chance_a": self.chance_a,
            "chance_b": self.chance_b,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """How a search by repeats came to its answer."""

    asked: float
    """Confidence that was asked for, 0 to 1."""
    confidence: float
    """Confidence of all decisions together, 0 to 1: one less the sum of their levels (Bonferroni)."""
    replays: int
    """Replays of A, and as many of B."""
    runs: int
    """Runs in all samples together."""
    chance: float
    """Chance to see B's replays so far from A's if they were alike."""
    apart: bool
    """Whether that is small enough: else A and B cannot be told apart, and nothing was searched."""
    decisions: tuple[Decision, ...] = ()
    """One for each configuration between A and B."""

    def to_json(self) -> dict[str, Any]:
        """Return it as plain JSON values."""
        return {
            "asked": self.asked,
            "confidence": round(self.confidence, 6),
            "replays": self.replays,
            "runs": self.runs,
            "chance": self.chance,
            "apart": self.apart,
            "decisions": [decision.to_json() for decision in self.decisions],
        }

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> Sampling:
        """Return what `to_json` wrote.

        Raises:
            KeyError: if it is none.
        """
        decisions = tuple(Decision(**(found | {"trials": tuple(found["trials"])})) for found in row["decisions"])
        return cls(**(dict(row) | {"decisions": decisions}))
