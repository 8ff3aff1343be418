"""Tensors on an accelerator: summed up there, all sums of a step fetched together.

What is enqueued is enqueued on the stream that the user's code is working on: it sees the tensor as it is now,
whatever is written into it afterwards. Nothing here waits for the device but `DevicePath.fetch`.

Written with operations that every device of torch has; it works on the CPU as well, which is how it is tested.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from numpy.typing import NDArray

from bisect_diverge.numerics.digest import BLOCK_WORDS, device_digest, device_keys
from bisect_diverge.record.device_copies import Staging

DEVICE_TYPES = frozenset({"cuda", "xpu"})
"""Devices whose tensors are digested there; those of others are copied to the host first, one by one."""
SLOTS = 1 << 15
"""Pairs of sums that one device keeps until they are fetched (512 KiB)."""
SLICE_BLOCKS = 16
"""Blocks multiplied at a time: the products take 64 MiB of device memory at most."""

_OUT_OF_MEMORY: Any = getattr(torch, "OutOfMemoryError", None) or torch.cuda.OutOfMemoryError  # before torch 2.5


Fetched = dict[torch.device, NDArray[Any]]
"""What came back from the devices: for each int64[slots, 2]."""


class Later(NamedTuple):
    """A tensor whose digest is known once the sums have been fetched."""

    device: torch.device
    slot: int
    head: bytes
    """Header of its dtype and shape."""
    dtype: torch.dtype | None
    """Of a single element whose bytes stand in the next slot, to show its value; else None."""
    copy: torch.Tensor | None
    """uint8[n] on the host: the bytes, there as soon as the sums have been fetched. None: not kept."""

    def digest(self, fetched: Fetched) -> bytes:
        """Return the 16-byte digest."""
        return device_digest(self.head, fetched[self.device][self.slot].tobytes())

    def value(self, fetched: Fetched) -> float:
        """Return the value of a single element, else NaN."""
        if self.dtype is None:
            return float("nan")
        raw = bytearray(fetched[self.device][self.slot + 1].tobytes())
        return float(torch.frombuffer(raw[: self.dtype.itemsize], dtype=torch.uint8).view(self.dtype).item())


class _Device:
    """The sums and copies of one device."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.filled = 0
        self._module = getattr(torch, device.type)
        self._keys: dict[int, torch.Tensor] = {}
        self._sums = torch.zeros((SLOTS, 2), dtype=torch.int64, device=device)
        self._streams: set[Any] = set()
        self.staging = Staging(device)

    def add(self, flat: torch.Tensor, *, single: bool) -> int:
        """Enqueue the sums of uint8[n]; `single`: its bytes too, up to 16, in the slot after."""
        slot = self.filled
        self.filled += 2 if single else 1
        self._streams.add(self._module.current_stream(self.device))
        word_sums_into(self._sums[slot], flat, self._level)
        if single:
            self._sums[slot + 1].view(torch.uint8)[: flat.numel()].copy_(flat)
        return slot

    def fetch(self) -> NDArray[Any]:
        """Wait for everything that was enqueued, and return int64[filled, 2]."""
        current = self._module.current_stream(self.device)
        for stream in self._streams:
            if stream != current:
                current.wait_stream(stream)
        self.staging.join(current)
        count, self.filled = self.filled, 0
        self._streams.clear()
        fetched: NDArray[Any] = self._sums[:count].to("cpu", copy=True).numpy()
        return fetched

    def _level(self, level: int) -> torch.Tensor:
        keys = self._keys.get(level)
        if keys is None:
            keys = self._keys[level] = torch.from_numpy(device_keys(level).view("<i8")).to(self.device)
        return keys


class DevicePath:
    """Digests on the devices of this process.

    Args:
        before_full: Called before something is added that there is no room for; it fetches.
        types: Device types that are taken; None: `DEVICE_TYPES`.
    """

    def __init__(self, before_full: Callable[[], None] = lambda: None, types: frozenset[str] | None = None) -> None:
        self.before_full = before_full
        self.types = DEVICE_TYPES if types is None else types
        self.takes_host = "cpu" in self.types
        """Tensors of the host too: for tests."""
        self.fetches = 0
        """How often the process has waited for its devices."""
        self.refused = 0
        """Tensors that there was no device memory for."""
        self._devices: dict[torch.device, _Device] = {}

    def is_capturing(self) -> bool:
        """Whether the user's code is capturing a graph: nothing may be waited for then."""
        return any(device.type == "cuda" for device in self._devices) and torch.cuda.is_current_stream_capturing()

    def takes(self, tensor: torch.Tensor) -> bool:
        """Whether a tensor lies on a device that computes its own digests."""
        return tensor.device.type in self.types

    def take(self, plain: torch.Tensor, head: bytes, *, keep: bool, number: bool) -> Later | None:
        """Enqueue digest and copy of a contiguous tensor; None where the device has no memory left for it.

        Args:
            plain: Detached, contiguous, neither conjugate nor negative view.
            head: Header of its dtype and shape.
            keep: Whether its bytes are wanted.
            number: Whether an element has a value that a float can show.
        """
        try:
            with torch.inference_mode():
                device = self._room(plain.device, plain.nbytes if keep else 0)
                flat = plain.reshape(-1).view(torch.uint8)
                single = number and plain.numel() == 1
                slot = device.add(flat, single=single)
                copy = device.staging.copy(flat) if keep else None
        except _OUT_OF_MEMORY:
            self.refused += 1
            return None
        return Later(plain.device, slot, head, plain.dtype if single else None, copy)

    def fetch(self) -> Fetched:
        """Wait for the devices once, and return all sums enqueued since the last time."""
        self.fetches += 1
        with torch.inference_mode():
            return {key: device.fetch() for key, device in self._devices.items() if device.filled}

    def release(self) -> None:
        """Say that the copies of the last fetch have been used: their memory is free again."""
        for device in self._devices.values():
            device.staging.release()

    def forget(self) -> None:
        """Drop what was not fetched: the devices have failed, or belong to the parent of this process."""
        self._devices.clear()

    def _room(self, key: torch.device, size: int) -> _Device:
        device = self._devices.get(key)
        if device is None:
            device = self._devices[key] = _Device(key)
        if device.filled + 2 > SLOTS or not device.staging.has_room(size):
            self.before_full()
        return device


def is_capturing(tensor: torch.Tensor) -> bool:
    """Whether what is enqueued now would become part of a graph that the user's code is capturing."""
    return tensor.is_cuda and torch.cuda.is_current_stream_capturing()


def word_sums_into(out: torch.Tensor, flat: torch.Tensor, keys: Callable[[int], torch.Tensor]) -> None:
    """Put the two sums of some bytes into ``int64[2]`` on their device (`numerics.digest.word_sums` is the reference).

    Args:
        out: int64[2].
        flat: uint8[n], contiguous.
        keys: Returns the keys of a level, int64[2, BLOCK_WORDS], on the same device.
    """
    rest = -flat.numel() % 4
    if rest:
        flat = torch.nn.functional.pad(flat, (0, rest))
    elif flat.storage_offset() % 4:
        flat = flat.clone()
    words, level = flat.view(torch.int32), 0
    while words.numel() > BLOCK_WORDS:
        words = _block_sums(words, keys(level)).view(-1).view(torch.int32)
        level += 1
    torch.sum(keys(level)[:, : words.numel()] * words, dim=1, out=out)


def _block_sums(words: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
    """Return the two sums of each block: int64[blocks, 2]."""
    whole, rest = divmod(words.numel(), BLOCK_WORDS)
    out = torch.empty((whole + bool(rest), 2), dtype=torch.int64, device=words.device)
    for start in range(0, whole, SLICE_BLOCKS):
        end = min(start + SLICE_BLOCKS, whole)
        blocks = words[start * BLOCK_WORDS : end * BLOCK_WORDS].view(-1, 1, BLOCK_WORDS)
        torch.sum(blocks * keys, dim=2, out=out[start:end])
    if rest:
        torch.sum(keys[:, :rest] * words[whole * BLOCK_WORDS :], dim=1, out=out[whole])
    return out
