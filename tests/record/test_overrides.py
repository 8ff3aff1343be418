"""Every setting that a trial can hold is set, read back, and held against the script."""

import json
import sys
from types import SimpleNamespace

import pytest
import torch

from bisect_diverge.record.overrides import HELD, override
from bisect_diverge.record.patches import Patches
from bisect_diverge.record.worker_seeds import OF_WORKERS
from tests.helpers.command import run

HOLD = """
import json, sys
import torch, numpy, torch._dynamo, torch._inductor.config
from bisect_diverge.environment import hardware, kernels
from bisect_diverge.record.overrides import HELD, override
from bisect_diverge.record.patches import Patches

class Owner:
    notes = []
    before_pass = None

OTHER = {
    "False": "True", "True": "False", "kept": "flushed", "highest": "medium", "torch.float32": "torch.float64",
    "off": "torch.bfloat16", "ieee": "tf32", "tf32": "ieee", "none": "ieee", "0": "1", "2": "1", "10": "20",
}
readers = {f"hardware.{k.name}": k.read for k in hardware.KNOBS} | {f"kernels.{k.name}": k.read for k in kernels.KNOBS}
found = {}
for knob, held in HELD.items():
    try:
        old = str(readers[knob]())
    except Exception:
        continue
    special = {"kernels.quantized.engine": "onednn", "kernels.opt_einsum.strategy": "greedy"}
    special |= {"hardware.threads.inter_op": "3", "hardware.threads.intra_op": "3"}
    new = special.get(knob) or OTHER.get(old)
    if new is None:
        continue
    patches = Patches()
    try:
        override({knob: new}, Owner, patches)
        got = str(readers[knob]())
        if not held.once:
            Owner.before_pass()
    except Exception as error:
        got = repr(error)
    patches.undo()
    found[knob] = [old, new, got]
    if not held.once:
        held.set(old)
json.dump(found, sys.stdout)
"""

ABSENT = {"kernels.autocast.cuda", "kernels.cuda.blas", "kernels.cuda.linalg", "kernels.cudnn.benchmark_limit"}
"""Read only where a device is."""


@pytest.fixture(scope="module")
def held():
    """Knob to its old value, the one that it was given, and what was read back."""
    return json.loads(run(sys.executable, "-W", "ignore", "-c", HOLD).stdout)


def test_every_knob_of_this_machine_takes_another_value(held):
    """What is set is what is read back; a knob that cannot be read here is one of a device."""
    assert set(HELD) - set(held) <= ABSENT
    wrong = {knob: row for knob, row in held.items() if row[1] != row[2] and "fp32_precision" not in knob}
    assert wrong == {}


def test_what_torch_sets_in_a_loader_worker_is_not_the_scripts():
    """A trial that holds the threads of the process leaves its workers theirs: they had one when A was recorded."""
    before, patches = torch.get_num_threads(), Patches()
    owner = SimpleNamespace(notes=[], before_pass=None)
    override({"hardware.threads.intra_op": "2"}, owner, patches)
    try:
        for place, threads in (("x/train.py", 2), (f"x/{OF_WORKERS}", 1)):
            exec(compile("torch.set_num_threads(1)", place, "exec"), {"torch": torch})
            assert torch.get_num_threads() == threads
    finally:
        patches.undo()
        torch.set_num_threads(before)
    assert len(owner.notes) == 1


def test_precisions_that_this_machine_has(held):
    """TF32 is not taken by oneDNN on every processor, which says so; what was taken is read."""
    for knob, (old, new, got) in held.items():
        if "fp32_precision" in knob:
            assert got == new or (new == "tf32" and (got == old or "Error" in got)), knob
