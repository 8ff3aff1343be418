"""Every setting that a trial can hold is set, read back, and held against the script."""

import json
import sys

import pytest

from bisect_diverge.record.overrides import HELD
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


def test_precisions_that_this_machine_has(held):
    """TF32 is not taken by oneDNN on every processor, which says so; what was taken is read."""
    for knob, (old, new, got) in held.items():
        if "fp32_precision" in knob:
            assert got == new or (new == "tf32" and (got == old or "Error" in got)), knob
