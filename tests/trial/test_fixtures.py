"""Differences that really move bits on a CPU, alone, in pairs and not at all, as ``bd bisect`` explains them."""

import json
import os
import shutil
import sys
from pathlib import Path

import pytest

from bisect_diverge.store.reader import Run
from bisect_diverge.trial.search import first_divergence
from tests.helpers.command import bd

pytestmark = pytest.mark.matrix

SCRIPT = Path(__file__).with_name("natural.py")
CORES = len(os.sched_getaffinity(0))
MORE = str(CORES + 1)
"""Threads for which there is no core."""
DECOY = {"MKL_DEBUG_CPU_TYPE": "5"}
"""Read by no MKL of today."""


def features():
    """Return what the processor says that it can do."""
    info = Path("/proc/cpuinfo").read_text()
    return set(next((line for line in info.splitlines() if line.startswith("flags")), "").split())


needs_cores = pytest.mark.skipif(CORES < 2, reason="one core: every number of threads is one")
needs_avx512 = pytest.mark.skipif("avx512f" not in features(), reason="no AVX-512: AVX2 is what is used anyway")
needs_avx2 = pytest.mark.skipif("avx2" not in features(), reason="no AVX2: the plain paths are used anyway")


class Recordings:
    """Runs of the script in one folder, each recorded when it is first asked for."""

    def __init__(self, folder):
        self.folder = folder
        shutil.copy(SCRIPT, folder)

    def run(self, *flags, **variables):
        """Return the name of a run with these flags and variables."""
        words = [word.strip("-") for word in flags] + [f"{k}={v}" for k, v in variables.items()]
        name = "_".join(words) or "plain"
        if not (self.folder / name).exists():
            bd("record", "-o", name, "--", sys.executable, SCRIPT.name, *flags, cwd=self.folder, **variables)
        return name

    def bisect(self, a, b, status=0):
        """Return what ``bd bisect`` says of two runs."""
        return json.loads(bd("bisect", a, b, "--format", "json", cwd=self.folder, status=status).stdout)

    def differ(self, a, b):
        """Whether two runs are not equal."""
        with Run(self.folder / a) as run_a, Run(self.folder / b) as run_b:
            return first_divergence(run_a, run_b) is not None

    def threads(self, name):
        """Return how many threads a run had."""
        with Run(self.folder / name) as run:
            return run.first.record.environment.value("hardware", "threads.intra_op")


@pytest.fixture(scope="module")
def recordings(tmp_path_factory):
    """The recordings that the tests of this file share."""
    return Recordings(tmp_path_factory.mktemp("natural"))


def names(units):
    """Return layer and knob of units."""
    return {f"{unit['layer']} {unit['knob']}" for unit in units}


def only_cause(found):
    """Return the units of the one cause, which must be proved both ways at the place where the runs part."""
    assert found["verdict"] == "cause"
    (cause,) = found["causes"]
    assert cause["sufficient"]
    assert cause["necessary"]
    assert cause["same_divergence"]
    return names(cause["units"])


@pytest.mark.parametrize(
    ("layer", "knob", "value"),
    [
        pytest.param("kernels", "ATEN_CPU_CAPABILITY", "avx2", marks=needs_avx512),
        pytest.param("kernels", "ATEN_CPU_CAPABILITY", "default", marks=needs_avx2),
        pytest.param("kernels", "ONEDNN_MAX_CPU_ISA", "AVX2", marks=needs_avx512),
        pytest.param("hardware", "OMP_NUM_THREADS", "1", marks=needs_cores),
    ],
)
def test_a_single_cause_is_named(recordings, layer, knob, value):
    """One variable makes B of A; ``default`` moves the initial weights too, and no seed is blamed for it."""
    found = recordings.bisect(recordings.run(), recordings.run(**{knob: value}))
    assert only_cause(found) == {f"{layer} {knob}"}


@needs_avx2
def test_what_does_nothing_is_not_blamed(recordings):
    """Beside a cause stand threads for which there is no core: they are inert, and not called innocent."""
    b = recordings.run(MKL_CBWR="COMPATIBLE", OMP_NUM_THREADS=MORE)
    if recordings.threads(b) != recordings.threads(recordings.run()):
        pytest.skip(f"{MORE} threads are really started here")
    found = recordings.bisect(recordings.run(), b)
    assert only_cause(found) == {"kernels MKL_CBWR"}
    assert names(found["inert"]) == {"hardware OMP_NUM_THREADS"}
    assert found["innocent"] == []


def test_settings_without_effect_leave_nothing_to_bisect(recordings):
    """Runs that differ only in what does nothing here are equal: status 1, and no trial."""
    b = recordings.run(OMP_NUM_THREADS=MORE, **DECOY)
    if recordings.threads(b) != recordings.threads(recordings.run()):
        pytest.skip(f"{MORE} threads are really started here")
    found = recordings.bisect(recordings.run(), b, status=1)
    assert (found["verdict"], found["causes"], found["trials"]) == ("no-difference", [], [])


@needs_cores
def test_two_inert_halves_are_a_cause_together(recordings):
    """More threads than cores are capped, unless MKL is told not to: neither alone does anything."""
    a, b = recordings.run(), recordings.run(OMP_NUM_THREADS=MORE, MKL_DYNAMIC="FALSE")
    if recordings.threads(b) == recordings.threads(a):
        pytest.skip(f"{MORE} threads cannot be had here")
    found = recordings.bisect(a, b)
    assert only_cause(found) == {"hardware OMP_NUM_THREADS", "hardware MKL_DYNAMIC"}
    assert found["causes"][0]["role"] == "partners"
    alone = [trial for trial in found["trials"] if len(trial["swapped"]) == 1]
    assert [trial["outcome"] for trial in alone] == ["=A", "=A"]
    capped = next(trial for trial in alone if trial["swapped"][0]["knob"] == "OMP_NUM_THREADS")
    assert names(capped["inert"]) == {"hardware OMP_NUM_THREADS"}


@needs_cores
def test_two_variables_that_do_the_same_are_both_named(recordings):
    """Either makes one thread: each is sufficient, and neither is necessary."""
    found = recordings.bisect(recordings.run(), recordings.run(OMP_NUM_THREADS="1", MKL_NUM_THREADS="1"))
    assert found["verdict"] == "cause"
    assert {(c["role"], c["sufficient"], c["necessary"]) for c in found["causes"]} == {("redundant", True, False)}
    causes = sorted(sorted(names(cause["units"])) for cause in found["causes"])
    assert causes == [["hardware MKL_NUM_THREADS"], ["hardware OMP_NUM_THREADS"]]


def test_loader_workers_are_blamed_and_not_the_seeds(recordings):
    """A worker draws its noise from a generator of its own: the data differ, and the flag is why."""
    found = recordings.bisect(recordings.run(), recordings.run("--workers", "1"))
    assert only_cause(found) == {"configuration argv.--workers"}
    assert "/data/" in found["first"]["address"]
    moved = names(found["causes"][0]["consequences"])
    assert any(name.endswith(".num_workers") for name in moved)
    assert not any(name.startswith("seeds") for name in moved)


@needs_cores
def test_nothing_is_blamed_where_the_baseline_is_luck(recordings):
    """Threads race for the sums of a gradient: the replay of A is not A, and nothing else can be said."""
    a, b = recordings.run("--race"), recordings.run("--race", PYTHONHASHSEED="1", **DECOY)
    if not recordings.differ(a, b):
        pytest.skip("the race came out the same way twice")
    found = recordings.bisect(a, b, status=4)
    assert found["verdict"] == "baseline-not-repeatable"
    assert found["causes"] == []
