"""Numbers of hooks of our own, so that those of the user's hooks are what they are without us.

PyTorch numbers all hooks of a process in one sequence, and the numbers are keys of the tables that hold hooks: a script
can print them, and saves them with a whole module.
"""

from __future__ import annotations

from torch.utils.hooks import RemovableHandle

OURS = 1 << 48
"""The first of our numbers: no script sets as many hooks, so that no two hooks of a table get one number."""


class OwnIds:
    """A context in which hooks get our numbers, and after which the user's go on where they were."""

    def __init__(self) -> None:
        self._next = OURS
        self._users = 0

    def __enter__(self) -> None:
        self._users, RemovableHandle.next_id = RemovableHandle.next_id, self._next

    def __exit__(self, *_: object) -> None:
        self._next, RemovableHandle.next_id = RemovableHandle.next_id, self._users


own_ids = OwnIds()
"""To be entered with the recorder's lock held, or before other threads are there."""
