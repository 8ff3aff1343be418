"""The verdict names both ends of a cause: what was swapped, and what that set."""

import pytest

from bisect_diverge.model.environment import Difference, Layer
from bisect_diverge.model.trial import Bisection, BisectVerdict, Cause, Outcome, Role, Trial, Unit
from bisect_diverge.report.bisection_text import bisection_text


def moved(layer, knob, a, b):
    """Return a resolved value that moved."""
    return Difference(layer=Layer(layer), knob=knob, a=a, b=b)


THREADS = [
    moved("hardware", "mkl.dynamic", "True", "False"),
    moved("hardware", "openmp.torch.threads", "2", "1"),
    moved("hardware", "threads.intra_op", "2", "1"),
    moved("hardware", "threads.mkl", "2", "1"),
]


@pytest.mark.parametrize(
    ("knob", "consequences", "expected"),
    [
        ("argv.--threads", THREADS, "hardware threads.intra_op: 2 -> 1"),
        (
            "argv.--workers",
            [
                moved("hardware", "loader.train.num_workers", "0", "2"),
                moved("hardware", "loader.train.in_order", None, "True"),
            ],
            "hardware loader.train.num_workers: 0 -> 2",
        ),
        (
            "argv.--workers",
            [
                moved("hardware", "loader.train.num_workers", "0", "2"),
                moved("hardware", "loader.train.threads", "4", "1"),
                moved("hardware", "loader.other.threads", "4", "1"),
            ],
            (
                "hardware loader.train.num_workers: 0 -> 2 (samples are computed with 4 threads in the main process, "
                "1 in a worker)"
            ),
        ),
        (
            "launcher.--nproc-per-node",
            [
                moved("hardware", "LOCAL_WORLD_SIZE", "1", "2"),
                moved("hardware", "OMP_NUM_THREADS", None, "1"),
                moved("hardware", "WORLD_SIZE", "1", "2"),
                moved("hardware", "world.size", "1", "2"),
            ],
            "hardware WORLD_SIZE: 1 -> 2",
        ),
        ("argv.--lr", [], ""),
    ],
)
def test_both_ends_are_named(knob, consequences, expected):
    """Of values that move along with one another the first; all of them stand below the proof."""
    unit = Unit(layer=Layer.CONFIGURATION, knob=knob, a="0", b="1")
    cause = Cause(
        units=(unit,),
        role=Role.CAUSE,
        sufficient=True,
        necessary=True,
        same_divergence=True,
        consequences=tuple(consequences),
    )
    text = " ".join(bisection_text(Bisection(verdict=BisectVerdict.CAUSE, causes=(cause,)), "a", "b").split())
    assert text.startswith(f"cause: configuration {knob}: 0 -> 1")
    assert text.count("moved with it: ") == len(consequences)
    _, _, sets = text.partition(", which sets ")
    assert sets.startswith(expected)
    assert bool(sets) == bool(expected)


FLAG = Unit(layer=Layer.CONFIGURATION, knob="argv.--fast", a=None, b="")
DATA = Unit(layer=Layer.DATASET, knob="file:data.csv", a="1", b="2")


@pytest.mark.parametrize(
    ("of_flag", "of_data", "expected"),
    [
        (
            (Outcome.OTHER, THREADS),
            (Outcome.OTHER, []),
            (
                'configuration argv.--fast: (not set) -> "", which sets hardware threads.intra_op: 2 -> 1 and dataset '
                "file:data.csv: 1 -> 2; each of these changes A, and only all of them give B"
            ),
        ),
        (
            (Outcome.A, []),
            (Outcome.OTHER, THREADS),
            (
                'configuration argv.--fast: (not set) -> "" together with dataset file:data.csv: 1 -> 2, which sets '
                "hardware threads.intra_op: 2 -> 1"
            ),
        ),
        (
            (Outcome.A, []),
            (Outcome.A, []),
            (
                'configuration argv.--fast: (not set) -> "" together with dataset file:data.csv: 1 -> 2, which '
                "together set hardware threads.intra_op: 2 -> 1"
            ),
        ),
    ],
)
def test_what_is_set_stands_behind_the_unit_that_sets_it(of_flag, of_data, expected):
    """As far as a trial of one unit alone has shown it; and what each alone changes is no interaction."""
    units = (FLAG, DATA)
    rows = [((), Outcome.A, []), (units, Outcome.B, THREADS), ((FLAG,), *of_flag), ((DATA,), *of_data)]
    trials = [
        Trial(n=n, base="a", swapped=swapped, outcome=outcome, consequences=tuple(moved))
        for n, (swapped, outcome, moved) in enumerate(rows, 1)
    ]
    cause = Cause(
        units=units,
        role=Role.PARTNERS,
        sufficient=True,
        necessary=True,
        same_divergence=True,
        consequences=tuple(THREADS),
        proof=(2, 1),
    )
    found = Bisection(verdict=BisectVerdict.CAUSE, causes=(cause,), trials=tuple(trials))
    assert bisection_text(found, "a", "b").splitlines()[0] == f"cause: {expected}"
