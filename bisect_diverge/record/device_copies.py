"""Bytes of tensors on an accelerator, on their way to the host: pinned memory, filled by a stream of its own."""

from __future__ import annotations

from typing import Any

import torch

STAGING_BYTES = 48 << 20
"""Pinned memory of a device, and device memory for tensors that wait: with the writer's queue less than 256 MB."""
_ALIGNMENT = 16


class Staging:
    """Pinned host memory that is handed out until it is full, and free again as a whole.

    A tensor is first copied on its device, on the stream that the user's code works on: it may be overwritten as soon
    as the hook returns. The slow way to the host is then left to another stream.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._is_host = device.type == "cpu"
        self._module = getattr(torch, device.type)
        self._memory: torch.Tensor | None = None
        self._stream: Any = None
        self._filled = 0

    def has_room(self, size: int) -> bool:
        """Whether a copy of this many bytes needs no fetch before; one that never fits is made at once, waiting."""
        return size > STAGING_BYTES or self._filled + size <= STAGING_BYTES

    def copy(self, flat: torch.Tensor) -> torch.Tensor:
        """Return uint8[n] on the host, which has the bytes once everything enqueued here is done."""
        size = flat.numel()
        if size > STAGING_BYTES:
            return flat.to("cpu", copy=True)
        if self._memory is None:
            self._memory = _host_memory(pinned=not self._is_host)
            self._stream = None if self._is_host else self._module.Stream(self._device)
        host = self._memory[self._filled : self._filled + size]
        self._filled += size + -size % _ALIGNMENT
        if self._stream is None:
            host.copy_(flat)
            return host
        waiting = flat.clone()
        self._stream.wait_stream(self._module.current_stream(self._device))
        with self._module.stream(self._stream):
            host.copy_(waiting, non_blocking=True)
        waiting.record_stream(self._stream)  # its memory is not used again before it has been read
        return host

    def join(self, stream: Any) -> None:
        """Let a stream wait for all copies: who waits for it has their bytes."""
        if self._stream is not None:
            stream.wait_stream(self._stream)

    def release(self) -> None:
        """Use the memory again from its beginning."""
        self._filled = 0


def _host_memory(*, pinned: bool) -> torch.Tensor:
    """Return uint8[STAGING_BYTES]; ordinary memory, copies into which make the host wait, where none may be pinned."""
    try:
        return torch.empty(STAGING_BYTES, dtype=torch.uint8, device="cpu", pin_memory=pinned)
    except RuntimeError:
        return torch.empty(STAGING_BYTES, dtype=torch.uint8, device="cpu")
