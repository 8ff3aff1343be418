"""What two differing batches have in common."""

from pathlib import Path

import numpy as np
import pytest

from bisect_diverge.model.findings import Batches, BatchRelation
from tests.helpers.compare import compare_rows

RANDOM = np.random.default_rng(11)
IMAGES = RANDOM.random((24, 3, 6, 6)).astype(np.float32)
LABELS = RANDOM.integers(0, 10, 24).astype("<i8")
TOKENS = RANDOM.integers(0, 5000, (24, 16)).astype("<i8")
ORDER = np.arange(8)[::-1]


def rows(batches: list[tuple[np.ndarray, ...]], where: str = "data/train:#0:batch") -> list[tuple]:
    """Return a run that takes one batch a step."""
    out: list[tuple] = []
    for step, batch in enumerate(batches):
        micro_batch = "-" if where.startswith("data") else "0"
        out += [(f"r0/{step}/{micro_batch}/{where}.{n}", part) for n, part in enumerate(batch)]
        out.append((f"r0/{step}/0/forward/model:#0:output.0", f"{step}"))
    return out


def found(folder: Path, a: list, b: list, where: str = "data/train:#0:batch", **of_b: int) -> Batches | None:
    """Return what is said of the first batches that differ."""
    return compare_rows(folder, rows(a, where), rows(b, where), **of_b).divergence.batches


def batches(order: np.ndarray, size: int = 8, tensors: tuple[np.ndarray, ...] = (IMAGES, LABELS)) -> list[tuple]:
    """Return all samples in an order, cut into batches."""
    return [tuple(part[order[at : at + size]] for part in tensors) for at in range(0, len(order), size)]


STRAIGHT = batches(np.arange(24))


def first_as(*tensors: np.ndarray) -> list[tuple]:
    """Return the batches with another first one."""
    return [tensors, *STRAIGHT[1:]]


NOISE = (IMAGES[:8] + RANDOM.normal(0, 0.1, (8, 3, 6, 6))).astype(np.float32)
SOME_FLIPPED = np.where(np.arange(8)[:, None, None, None] % 2, IMAGES[:8], IMAGES[:8, ..., ::-1])

READ_OTHERWISE = "the same samples, augmented or read otherwise"

CASES: dict[str, tuple[list, list, BatchRelation, int, str]] = {
    "the same batch in another order": (
        STRAIGHT,
        first_as(IMAGES[ORDER], LABELS[ORDER]),
        BatchRelation.REORDERED,
        8,
        "the same 8 samples in another order: A's sample 0 is B's sample 7",
    ),
    "inputs moved without their labels": (
        STRAIGHT,
        first_as(IMAGES[ORDER], LABELS[:8]),
        BatchRelation.REORDERED,
        8,
        "the same 8 samples in another order: A's sample 0 is B's sample 7, while batch.1 is equal in the same order",
    ),
    "another shuffle": (
        STRAIGHT,
        batches(RANDOM.permutation(24)),
        BatchRelation.REORDERED,
        -1,
        "all 8 samples of B's batch are in A's batches of steps 0 to 2: another order of the samples",
    ),
    "a smaller batch": (
        STRAIGHT,
        batches(np.arange(24), 6),
        BatchRelation.SUBSET,
        6,
        "B's batch is 6 of the 8 samples of A's",
    ),
    "a larger batch": (
        STRAIGHT,
        batches(np.arange(24), 12),
        BatchRelation.SUBSET,
        8,
        "A's batch is 8 of the 12 samples of B's",
    ),
    "a sample twice": (
        STRAIGHT,
        first_as(IMAGES[[0, 1, 2, 3, 4, 5, 6, 6]], LABELS[[0, 1, 2, 3, 4, 5, 6, 6]]),
        BatchRelation.DUPLICATED,
        7,
        "B's batch has samples of A's more than once: 1 too many",
    ),
    "some samples flipped": (
        STRAIGHT,
        first_as(SOME_FLIPPED, LABELS[:8]),
        BatchRelation.AUGMENTED,
        4,
        "the same samples: 4 of 8 have the same elements in another order, as if flipped or rolled by an augmentation",
    ),
    "noise added": (
        STRAIGHT,
        first_as(NOISE, LABELS[:8]),
        BatchRelation.AUGMENTED,
        0,
        f"batch.1 is equal in the same order, but 8 of 8 samples have other values: {READ_OTHERWISE}",
    ),
    "a batch left out": (
        STRAIGHT,
        STRAIGHT[1:],
        BatchRelation.LATER,
        8,
        "B's batch of step 0 is A's of step 1, 1 step later",
    ),
    "other data": (
        STRAIGHT,
        batches(np.arange(24), tensors=(IMAGES[::-1] * 2, LABELS[::-1] + 10)),
        BatchRelation.OTHER,
        0,
        "no sample of one batch is in the other",
    ),
    "some samples shared": (
        STRAIGHT,
        first_as(np.concatenate([IMAGES[:3], IMAGES[:5] + 7]), np.concatenate([LABELS[:3], LABELS[:5] + 100])),
        BatchRelation.OVERLAPPING,
        3,
        "3 of 8 samples are in both batches",
    ),
    "token ids in another order": (
        batches(np.arange(24), tensors=(TOKENS,)),
        batches(np.concatenate([ORDER, np.arange(8, 24)]), tensors=(TOKENS,)),
        BatchRelation.REORDERED,
        8,
        "the same 8 samples in another order: A's sample 0 is B's sample 7",
    ),
}


@pytest.mark.parametrize("name", list(CASES))
def test_what_the_batches_have_in_common(tmp_path: Path, name: str):
    """Each way in which batches differ is recognised and said."""
    a, b, relation, shared, sentence = CASES[name]
    said = found(tmp_path, a, b)

    assert said is not None
    assert (said.relation, said.sentence) == (relation, sentence)
    assert shared in (-1, said.shared)
    assert (said.samples_a, said.samples_b) == (len(a[0][0]), len(b[0][0]))


def test_batches_fed_in_without_a_loader(tmp_path: Path):
    """Inputs of a root that nothing recorded produced are batches too."""
    said = found(tmp_path, STRAIGHT, first_as(IMAGES[ORDER], LABELS[ORDER]), "forward/model:#0:input")

    assert said is not None
    assert said.relation is BatchRelation.REORDERED


def test_digests_alone_tell_a_batch_of_another_step(tmp_path: Path):
    """A whole batch is recognised by its digest; single samples are not."""
    assert found(tmp_path / "0", STRAIGHT, first_as(IMAGES[ORDER], LABELS[:8]), keep_bytes=0) is None
    said = found(tmp_path / "1", STRAIGHT, STRAIGHT[1:], keep_bytes=0)

    assert said is not None
    assert (said.relation, said.shared) == (BatchRelation.LATER, 8)


def test_equal_labels_of_one_class_tell_nothing(tmp_path: Path):
    """If every sample has the same label, equal labels do not mean equal samples."""
    ones = np.ones(8, "<i8")
    said = found(tmp_path, [(IMAGES[:8], ones)], [(IMAGES[8:16] * 3, ones)])

    assert said is not None
    assert said.relation is BatchRelation.OTHER


def test_a_number_is_no_batch(tmp_path: Path):
    """Nor is a text."""
    assert found(tmp_path, [(np.array(1.5, np.float32),)], [(np.array(2.5, np.float32),)]) is None


def test_a_computation_has_no_batches(tmp_path: Path):
    """Only what was fed in is looked at."""
    a, b = ([("r0/0/0/forward/model:fc#0:output.0", value)] for value in (IMAGES, IMAGES[::-1]))

    assert compare_rows(tmp_path, a, b).divergence.batches is None


@pytest.mark.parametrize("empty", ["a", "b"])
def test_a_batch_without_samples_is_a_part_of_any_other(tmp_path: Path, empty: str):
    """The last batch of a loader may be filtered until nothing is left."""
    none = first_as(IMAGES[:0], LABELS[:0])
    answer = found(tmp_path, none, STRAIGHT) if empty == "a" else found(tmp_path, STRAIGHT, none)
    assert answer is not None
    assert (answer.relation, answer.shared) == (BatchRelation.SUBSET, 0)
    assert "is 0 of the 8 samples" in answer.sentence


def test_an_equal_output_is_no_label(tmp_path: Path):
    """A difference too small to reach the output does not make the output a label of the samples."""
    near = IMAGES[:4].copy()
    near[2, 0, 0, 0] = np.nextafter(near[2, 0, 0, 0], np.float32(2))
    said = found(tmp_path, [(IMAGES[:4],)], [(near,)], "forward/model:#0:input")  # the output has 4 elements

    assert said is not None
    assert (said.relation, said.sentence) == (BatchRelation.OVERLAPPING, "3 of 4 samples are in both batches")


def test_labels_are_compared_place_by_place(tmp_path: Path):
    """That a label stands in another batch too says nothing of the sample."""
    other = LABELS[:8].copy()
    other[3] = (other[3] + 1) % 10
    said = found(tmp_path, [(LABELS[:8],)], [(other,)])

    assert said is not None
    assert said.sentence == "1 of 8 numbers (labels, tokens, indices) differs, place by place"
