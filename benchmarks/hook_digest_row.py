"""What hooks, digests and rows cost without any store: step time against the unhooked step, in one process.

    python benchmarks/hook_digest_row.py

Unhooked and hooked steps alternate in blocks, so that a drift of the machine's speed hits both alike. Three variants:
``hooks`` (calls only), ``digest`` (hooks + digests of everything), ``digest+row`` (the row packed as in the file).
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import torch
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from transformer import step, training

from bisect_diverge.numerics.digest import digest, header
from bisect_diverge.store.schema import PACK

BLOCK = bytearray(4096 * PACK.size)


class Probe:
    """The smallest recorder: every activation, gradient, parameter and optimizer state of a step."""

    def __init__(self, take: Callable[[torch.Tensor], None]) -> None:
        self.take = take
        self.handles: list[object] = []

    def install(self) -> None:
        self.handles = [
            register_module_forward_pre_hook(self._pre),
            register_module_forward_hook(self._post, with_kwargs=True),
            register_optimizer_step_pre_hook(self._before),
            register_optimizer_step_post_hook(self._after),
        ]

    def remove(self) -> None:
        for handle in self.handles:
            handle.remove()

    def _pre(self, module, args) -> None:
        for leaf in args:
            if isinstance(leaf, torch.Tensor):
                self.take(leaf)

    def _post(self, module, args, kwargs, output) -> None:
        if isinstance(output, torch.Tensor):
            self.take(output)
            if output.requires_grad and output.grad_fn is not None:
                output.register_hook(self.take_gradient)

    def take_gradient(self, gradient) -> None:
        self.take(gradient)

    def _before(self, optimizer, args, kwargs) -> None:
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                self.take(parameter.grad)

    def _after(self, optimizer, args, kwargs) -> None:
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                self.take(parameter)
                for value in optimizer.state[parameter].values():
                    if isinstance(value, torch.Tensor):
                        self.take(value)


class Take:
    """Counts, digests and packs; what is done is chosen by the variant."""

    def __init__(self, with_digest: bool, with_row: bool) -> None:
        self.with_digest, self.with_row = with_digest, with_row
        self.tensors = self.bytes = self.position = 0

    def __call__(self, tensor: torch.Tensor) -> None:
        self.tensors += 1
        self.bytes += tensor.numel() * tensor.element_size()
        if not self.with_digest:
            return
        value = digest(header("float32", tuple(tensor.shape)), tensor.detach().contiguous().numpy())
        if self.with_row:
            PACK.pack_into(BLOCK, self.position, value, 0.0, -1, -1, 1, 0, 0, 5, 3, 7, 9, 2, 4, 512)
            self.position = (self.position + PACK.size) % len(BLOCK)


def main(rounds: int = 12, steps: int = 3) -> None:
    model, optimizer, ids = training()
    parameters = sum(p.numel() for p in model.parameters())
    variants = {"hooks": Take(False, False), "digest": Take(True, False), "digest+row": Take(True, True)}
    for _ in range(3):
        step(model, optimizer, ids)
    times: dict[str, list[float]] = {name: [] for name in ("unhooked", *variants)}
    for _ in range(rounds):
        for name, measured in times.items():
            take = variants.get(name)
            probe = Probe(take) if take else None
            if probe:
                probe.install()
            started = time.perf_counter()
            for _ in range(steps):
                step(model, optimizer, ids)
            measured.append((time.perf_counter() - started) / steps)
            if probe:
                probe.remove()
    take = variants["digest+row"]
    count = rounds * steps
    size = take.bytes / count / 1e6
    print(f"{parameters / 1e6:.1f} M parameters, {take.tensors // count} tensors, {size:.0f} MB a step")
    for name, values in times.items():
        ratio = statistics.median(v / u for v, u in zip(values, times["unhooked"], strict=True))
        print(f"{name:12} {statistics.median(values) * 1e3:8.1f} ms a step   {ratio:5.3f} x unhooked")


if __name__ == "__main__":
    main()
