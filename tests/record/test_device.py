"""Tensors of an accelerator: the arithmetic against numpy, the path of their rows through a device of the host's."""

from __future__ import annotations

import importlib

import numpy as np
import pytest
import torch
from torch import nn

from bisect_diverge.diff.compare import compare
from bisect_diverge.model.divergence import Verdict
from bisect_diverge.model.elements import BYTES, ELEMENT_TYPES
from bisect_diverge.model.record import Flag
from bisect_diverge.numerics.digest import BLOCK_WORDS, device_digest, header, word_sums
from bisect_diverge.record.capture import capture
from bisect_diverge.store.reader import Run
from tests.record.support import bits, mlp, recording, train
from tests.record.test_capture import KNOWN, changed_bits, some

device_module = importlib.import_module("bisect_diverge.record.device")
copies_module = importlib.import_module("bisect_diverge.record.device_copies")
rows_module = importlib.import_module("bisect_diverge.record.device_rows")

needs_a_device = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


@pytest.fixture
def on_device(monkeypatch):
    """Take tensors of the CPU for those of an accelerator; the value counts how often it was waited for."""
    monkeypatch.setattr(device_module, "DEVICE_TYPES", frozenset({"cpu"}))
    fetches = []
    real = device_module.DevicePath.fetch

    def fetch(path):
        fetches.append(path)
        return real(path)

    monkeypatch.setattr(device_module.DevicePath, "fetch", fetch)
    return fetches


def digests(*tensors, kind="cpu"):
    """Return the digests that a device makes of some tensors, fetched together."""
    path = device_module.DevicePath(types=frozenset({kind}))
    taken = [capture(tensor, keep=False, device=path) for tensor in tensors]
    fetched = path.fetch()
    assert path.fetches == 1
    return [one.later.digest(fetched) for one in taken]


def reference(tensor):
    """Return what numpy makes of the bytes that the host reads."""
    host = capture(tensor)
    name = str(tensor.dtype) if host.dtype == BYTES.code else ELEMENT_TYPES[host.dtype].name
    data = np.zeros(0, np.uint8) if host.data is None else host.data
    return device_digest(header(name, host.shape), word_sums(data))


def odd_tensors():
    """Return tensors of every dtype, layout and awkward length."""
    out = [some(dtype, 3, 5) for dtype in KNOWN]
    out += [some(torch.uint8, size) for size in (1, 2, 3, 5, 4097)]
    out += [some(torch.uint8, 64)[start:] for start in (1, 2, 3, 4)]
    out += [torch.randn(()), torch.empty(0, 3), torch.randn(4, 6).t(), torch.randn(4, 1).expand(4, 3)]
    out += [torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last), torch.randn(9)[::2]]
    out += [torch.randn(4, dtype=torch.complex64).conj(), torch.randn(4, dtype=torch.complex64).conj().imag]
    return out


def long_tensors():
    """Return tensors around the length of one block and of many."""
    return [torch.randn(BLOCK_WORDS * blocks + more) for blocks, more in ((1, -1), (1, 0), (1, 1), (3, 7), (18, 0))]


# -- arithmetic -----------------------------------------------------------------------------------------------------


def test_sums_on_a_device_are_those_of_numpy():
    """Whatever dtype, layout, alignment or length: the device's operations give the reference's numbers."""
    tensors = odd_tensors() + long_tensors()
    assert digests(*tensors) == [reference(tensor) for tensor in tensors]


def test_changed_bits_are_seen_on_a_device():
    """None of the changes that weaker checks miss is missed."""
    for name, a, b in changed_bits():
        first, second = digests(a, b)
        assert first != second, name


def test_many_small_changes_have_many_digests():
    """Signs of two elements cannot cancel, nor can one bit in a long tensor or in its last, incomplete word be lost."""
    base = torch.ones(64)
    flipped = []
    for first in range(64):
        for second in range(first):
            tensor = base.clone()
            tensor[first], tensor[second] = -1.0, -1.0
            flipped.append(tensor)
    assert len(set(digests(*flipped, base))) == len(flipped) + 1
    long = torch.zeros(BLOCK_WORDS * 2 + 1, dtype=torch.int32)
    changed = [long.index_fill(0, torch.tensor([at]), 1) for at in (0, 1, BLOCK_WORDS, 2 * BLOCK_WORDS)]
    assert len(set(digests(long, *changed))) == 5
    tails = [torch.tensor([0, 0, 0, 0, 0, number], dtype=torch.uint8) for number in range(256)]
    assert len(set(digests(*tails))) == 256


def test_value_and_bytes_of_a_tensor_on_a_device():
    """A single element shows its value, and the copy has the bytes."""
    path = device_module.DevicePath(types=frozenset({"cpu"}))
    tensors = [torch.tensor(2.5), torch.ones(1, 1, dtype=torch.bfloat16), torch.tensor([7]), torch.arange(5)]
    taken = [capture(tensor, device=path) for tensor in tensors]
    fetched = path.fetch()
    assert [one.later.value(fetched) for one in taken[:3]] == [2.5, 1.0, 7.0]
    assert np.isnan(taken[3].later.value(fetched))
    for tensor, one in zip(tensors, taken, strict=True):
        assert one.later.copy.numpy().tobytes() == capture(tensor).data.tobytes()


def test_inference_mode_and_grad_mode():
    """Sums can be taken in any mode, one after the other."""
    path = device_module.DevicePath(types=frozenset({"cpu"}))
    tensor = torch.randn(3)
    with torch.inference_mode():
        inside = capture(tensor + 0, device=path)
    outside = capture(tensor.clone().requires_grad_(), device=path)
    fetched = path.fetch()
    assert inside.later.digest(fetched) == outside.later.digest(fetched) == reference(tensor)


# -- rows -----------------------------------------------------------------------------------------------------------


def structure(run):
    """Return everything of the rows but digests, and the kept tensors."""
    with Run(run) as opened:
        file = opened.first
        out = []
        for row in range(len(file.events)):
            record = file.record_at(row)
            if str(record.address.phase) != "rng":  # how often a generator moves is not what is compared here
                kept = file.tensor(row)
                own = record.flags & ~Flag.ON_DEVICE
                value = None if np.isnan(record.value) else record.value
                out.append(
                    (
                        str(record.address),
                        record.dtype,
                        record.shape,
                        own,
                        value,
                        record.source,
                        record.site.rpartition(":")[0],
                        None if kept is None else kept.tobytes(),
                    )
                )
        return out


def script(seed=0, **options):
    """Train a little, with a change of the weights that is no update, an evaluation and a loss."""
    torch.manual_seed(seed)
    model, x = mlp(), torch.randn(3, 4)
    train(model, x, steps=2)
    with torch.no_grad():
        model[0].weight.mul_(1.5)
    model.eval()
    model(x)
    model.train()
    return train(model, x, steps=2, **options)


@pytest.mark.parametrize("capture_mode", ["full", "digest"])
def test_a_recording_by_way_of_a_device_is_the_same(on_device, tmp_path, monkeypatch, capture_mode):
    """Order, addresses, values, edges and bytes are those of the host's recording; the run keeps its bits."""
    with recording(tmp_path / "device", capture=capture_mode):
        by_device = script()
    assert on_device
    with Run(tmp_path / "device") as run:
        flags = run.first.events["flags"]
        on = flags & int(Flag.ON_DEVICE) != 0
        assert 0.5 < on.mean() < 1.0  # generators, losses and numbers are of the host
        assert run.first.device_algorithm == "multilinear-2x64"
    monkeypatch.setattr(device_module, "DEVICE_TYPES", frozenset())
    with recording(tmp_path / "host", capture=capture_mode):
        by_host = script()
    device, host = structure(tmp_path / "device"), structure(tmp_path / "host")
    assert device == host
    assert any(address.endswith("forward/model:0.weight#0:param") for address, *_ in device)  # the change was seen
    assert bits(by_device) == bits(by_host)


def test_one_wait_a_step(on_device, tmp_path):
    """The devices are waited for once at the end of each step, and not inside."""
    with recording(tmp_path / "run", capture="digest"):
        train(mlp(), torch.randn(3, 4), steps=5)
        assert len(on_device) == 4  # the last step has not ended
    assert len(on_device) == 5


def test_what_is_overwritten_after_the_hook_is_recorded_as_it_was(on_device, tmp_path):
    """The tensor is read when the hook is called, not when the digests are fetched."""
    model, ones = nn.Identity(), torch.ones(4)
    with recording(tmp_path / "run"):
        y = model(ones)
        y.zero_()
    with Run(tmp_path / "run") as run:
        file = run.first
        found = [row for row in range(len(file.events)) if file.address(row).slot == "output.0"]
        assert file.record_at(found[0]).digest == reference(torch.ones(4)).hex()
        assert file.tensor(found[0]).tolist() == [1.0] * 4


def test_more_than_fits(on_device, tmp_path, monkeypatch):
    """Where sums, copies or rows of a step exceed their memory it is waited more often, and nothing is lost."""
    with recording(tmp_path / "roomy"):
        script()
    roomy = len(on_device)
    for module, name, value in (
        (device_module, "SLOTS", 7),
        (copies_module, "STAGING_BYTES", 200),
        (rows_module, "WAITING_ROWS", 5),
    ):
        on_device.clear()
        with monkeypatch.context() as patch:
            patch.setattr(module, name, value)
            with recording(tmp_path / name):
                script()
        assert len(on_device) > roomy
        assert structure(tmp_path / name) == structure(tmp_path / "roomy"), name


def test_a_device_that_fails(on_device, tmp_path, monkeypatch, capfd):
    """Training goes on; rows whose digest is lost are not in the file, those of the host are, and the run says so."""
    import bisect_diverge

    model, x = mlp(), torch.randn(3, 4)
    fetch = device_module.DevicePath.fetch
    with bisect_diverge.record(tmp_path / "run"):
        train(model, x, steps=1)
        monkeypatch.setattr(device_module.DevicePath, "fetch", lambda _: 1 / 0)
        train(model, x, steps=2)
        monkeypatch.setattr(device_module.DevicePath, "fetch", fetch)
        train(model, x, steps=1)
    with Run(tmp_path / "run") as run:
        file = run.first
        assert file.record.coverage["rows lost with their device"] > 10
        assert set(file.events["step"].tolist()) == {0, 1, 2, 3}
        lost = [str(file.address(row)) for row in np.flatnonzero(file.events["step"] == 0)]
        assert any(":lr" in address for address in lost)
        assert not any("output" in address for address in lost)
        last = [str(file.address(row)) for row in np.flatnonzero(file.events["step"] == 3)]
        assert any("output" in address for address in last)
    assert capfd.readouterr().err.count("could not be recorded") == 1


def test_no_memory_left_on_the_device(on_device, tmp_path, monkeypatch):
    """A tensor that the device has no room to sum up is digested on the host, and counted."""

    def refuse(*_):
        raise torch.OutOfMemoryError("no memory")

    monkeypatch.setattr(device_module, "word_sums_into", refuse)
    with recording(tmp_path / "run"):
        train(mlp(), torch.randn(3, 4), steps=2)
    with Run(tmp_path / "run") as run:
        assert not (run.first.events["flags"] & int(Flag.ON_DEVICE)).any()
        assert run.first.record.coverage["tensors digested on the host: no memory left on their device"] > 10


def test_while_a_graph_is_captured(on_device, tmp_path, monkeypatch):
    """Nothing is enqueued or waited for during a capture: such rows say only that there was a tensor."""
    capture_module = importlib.import_module("bisect_diverge.record.capture")
    model, x = mlp(), torch.randn(3, 4)
    with recording(tmp_path / "run"):
        model(x)
        before = len(on_device)
        with monkeypatch.context() as patch:
            patch.setattr(capture_module, "is_capturing", lambda _: True)
            patch.setattr(device_module.DevicePath, "is_capturing", lambda _: True)
            model(x)
            assert len(on_device) == before
        model(x)
    with Run(tmp_path / "run") as run:
        file = run.first
        flags = {
            file.address(row).step: file.record_at(row).flags
            for row in range(len(file.events))
            if file.address(row).slot == "output.0" and not file.address(row).fqn
        }
    assert [bool(flags[step] & Flag.UNHASHABLE) for step in range(3)] == [False, True, False]


# -- like with like -------------------------------------------------------------------------------------------------


def test_digests_of_host_and_device_are_compared_by_the_bytes(on_device, tmp_path, monkeypatch):
    """Two runs of other algorithms are compared where one has kept the bytes, and nowhere else."""
    for name, seed, mode in (("full", 0, "full"), ("digest", 0, "digest")):
        with recording(tmp_path / name, capture=mode):
            script(seed)
    monkeypatch.setattr(device_module, "DEVICE_TYPES", frozenset())
    for name, seed, mode in (("host", 0, "digest"), ("kept", 0, "full"), ("other", 1, "digest")):
        with recording(tmp_path / name, capture=mode):
            script(seed)

    def verdict(a, b):
        with Run(tmp_path / a) as one, Run(tmp_path / b) as two:
            found = compare(one, two).divergence
            return found.verdict, found.compared, " ".join(found.notes)

    alike, counts, notes = verdict("full", "host")
    assert alike is Verdict.EQUAL, notes
    assert counts.differing == 0
    assert "algorithm" not in notes
    assert verdict("kept", "digest")[0] is verdict("full", "digest")[0] is Verdict.EQUAL
    assert verdict("full", "other")[0] is Verdict.DIVERGED
    _, fewer, notes = verdict("digest", "host")
    assert fewer.differing == 0
    assert 0 < fewer.equal < counts.equal
    assert "records were not compared: their digests were made by different algorithms" in notes


# -- on a device ----------------------------------------------------------------------------------------------------


@needs_a_device
def test_a_gpu_computes_the_sums_of_numpy():
    """The digests of tensors on a GPU are the reference's for the same bytes."""
    tensors = [tensor for tensor in odd_tensors() + long_tensors() if not tensor.is_neg()]
    assert digests(*(tensor.cuda() for tensor in tensors), kind="cuda") == [reference(tensor) for tensor in tensors]


@needs_a_device
@pytest.mark.parametrize("capture_mode", ["full", "digest"])
def test_training_on_a_gpu_keeps_its_bits(tmp_path, capture_mode):
    """A run on a GPU has the same bits recorded and unrecorded, its rows are digested there, and its bytes kept."""

    def run():
        torch.manual_seed(0)
        model, x = mlp().cuda(), torch.randn(3, 4).cuda()
        train(model, x, steps=3)
        return [*model.parameters()]

    unrecorded = run()
    with recording(tmp_path / "run", capture=capture_mode):
        recorded = run()
    unrecorded, recorded = (
        torch.utils._pytree.tree_map(lambda value: value.cpu(), one) for one in (unrecorded, recorded)
    )
    assert bits(unrecorded) == bits(recorded)
    with Run(tmp_path / "run") as opened:
        file = opened.first
        assert (file.events["flags"] & int(Flag.ON_DEVICE)).astype(bool).mean() > 0.5
        for row in np.flatnonzero(file.events["flags"] & int(Flag.ON_DEVICE)):
            kept = file.tensor(row)
            if kept is not None:
                name, shape = file.record_at(row).dtype, file.record_at(row).shape
                sums = word_sums(np.ascontiguousarray(kept).reshape(-1).view(np.uint8))
                assert file.record_at(row).digest == device_digest(header(name, shape), sums).hex()


@needs_a_device
def test_a_captured_graph_is_not_disturbed(tmp_path):
    """Capturing a CUDA graph while recording works, and its replay gives what it gives unrecorded."""
    model, x = mlp().cuda(), torch.randn(3, 4).cuda()
    graph = torch.cuda.CUDAGraph()
    with recording(tmp_path / "run"), torch.no_grad():
        expected = model(x)
        torch.cuda.synchronize()
        with torch.cuda.graph(graph):
            out = model(x)
        graph.replay()
    assert torch.equal(out, expected)
