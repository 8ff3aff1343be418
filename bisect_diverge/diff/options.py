"""What the user asks a comparison to do otherwise than usual."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffOptions:
    """Options of `compare`."""

    ignore: tuple[str, ...] = ()
    """Globs; a record whose address or FQN matches one is never a difference."""
    from_step: int = 0
    """First step to compare, in A's steps, inclusive."""
    offset_b: int = 0
    """B's step k is A's step k + offset_b, for a B that was resumed from a checkpoint."""
    renamed: tuple[tuple[str, str], ...] = ()
    """Pairs (name in A, name in B) of a root, an FQN or ``root:fqn``; what lies below moves with it."""
    growth: bool = False
    """Say how the difference grows from step to step; reads tensors."""
    heat: bool = False
    """Count what differs for each module and step."""


def rename(root: str, fqn: str, renamed: tuple[tuple[str, str], ...]) -> tuple[str, str]:
    """Return the root and FQN that a name of B has in A.

    A pair whose second name is ``root:fqn`` fits that module and all below it in that root, one without a
    colon fits a root of that name, else any FQN that is the name or lies below it. The first fitting pair
    names the root, the first fitting one the FQN.
    """
    new_root, new_fqn = root, fqn
    for in_a, in_b in reversed(renamed):  # the first pair is applied last, so that it counts
        old_root, colon, old_fqn = in_a.partition(":")
        rest = _below(f"{root}:{fqn}", in_b) if ":" in in_b else _below(fqn, in_b)
        if ":" not in in_b and root == in_b:
            new_root = in_a
        elif rest is not None:
            new_root = old_root if colon else new_root
            new_fqn = _join(old_fqn if colon else in_a, rest)
    return new_root, new_fqn


def _below(name: str, prefix: str) -> str | None:
    """Return what follows a dotted prefix (empty: the prefix itself); None for a name not below it."""
    if name == prefix:
        return ""
    if prefix.endswith(":") and name.startswith(prefix):
        return name[len(prefix) :]
    return name[len(prefix) + 1 :] if name.startswith(prefix + ".") else None


def _join(head: str, rest: str) -> str:
    return f"{head}.{rest}" if head and rest else head or rest
