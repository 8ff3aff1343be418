"""The tensors (and numbers, texts, arrays) inside whatever a module takes or returns, each with its path."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch

MAX_DEPTH = 12
"""Nesting at which we stop looking: deeper structures are objects in their own right, or cycles."""

_LEAF_TYPES = (torch.Tensor, int, float, complex, str, bytes, np.ndarray, np.generic)


def leaves(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Yield path and value of every leaf; a lone leaf is ``<path>.0``.

    Tuples and lists are numbered, mappings and dataclasses use their keys, named tuples their field names. Objects of
    other kinds, and None, are passed over.
    """
    if isinstance(value, _LEAF_TYPES):
        yield path + ".0", value
    else:
        yield from _inside(value, path, 0)


def named_leaves(value: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Yield slot and value of every leaf as `leaves` does, but a lone leaf under the name alone."""
    if isinstance(value, _LEAF_TYPES):
        yield name, value
    else:
        yield from _inside(value, name, 0)


def _inside(value: Any, path: str, depth: int) -> Iterator[tuple[str, Any]]:
    if depth > MAX_DEPTH:
        return
    for key, child in _children(value):
        if isinstance(child, _LEAF_TYPES):
            yield f"{path}.{key}", child
        elif child is not None:
            yield from _inside(child, f"{path}.{key}", depth + 1)


def _children(value: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(value, Mapping):
        return iter(value.items())
    if isinstance(value, tuple):
        fields = getattr(value, "_fields", None)
        return zip(fields, value, strict=False) if fields else enumerate(value)
    if isinstance(value, list):
        return iter(enumerate(value))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return ((field.name, getattr(value, field.name, None)) for field in dataclasses.fields(value))
    return iter(())
