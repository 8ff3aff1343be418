"""What has no partner is listed with the reason, and pairing goes on around it."""

from dataclasses import replace
from pathlib import Path

import pytest

from bisect_diverge.model.divergence import Divergence, Verdict
from bisect_diverge.model.record import Flag
from bisect_diverge.model.run import RecordOptions, RunRecord, State
from tests.helpers.compare import compare_rows
from tests.helpers.runs import Row, training_rows

SKIPPED = "r0/1/0/forward/model:1#0"


def listed(divergence: Divergence) -> dict[str, tuple[int, int, str]]:
    """Return the reasons with their counts and first addresses."""
    return {entry.reason: (entry.only_in_a, entry.only_in_b, str(entry.first)) for entry in divergence.unpaired}


def evaluation(step: int) -> list[Row]:
    """Return an evaluation pass."""
    return [Row(f"r0/{step}/e0/forward/model:{fqn}#0:output.0", f"eval {step} {fqn}") for fqn in ("0", "1", "")]


def without_source(rows: list[Row]) -> list[Row]:
    """Return rows that may be left out and moved."""
    return [replace(row, source=-1) for row in rows]


A = without_source(training_rows(3))
RECOMPUTED = [
    replace(row, address=row.address.replace("/forward/", "/recompute/")) for row in A if SKIPPED in row.address
]

CASES: dict[str, tuple[list[Row], dict, dict[str, tuple[int, int, str]]]] = {
    "equal": (A, {}, {}),
    "a module that is skipped once": (
        [row for row in A if not row.address.startswith(SKIPPED)],
        {},
        {"training": (2, 0, f"{SKIPPED}:input.0")},
    ),
    "a shorter run": (
        [row for row in A if not row.address.startswith("r0/2/")],
        {},
        {"training": (6, 0, ""), "inside": (7, 0, ""), "no_pass": (9, 0, "r0/2/-/data/train:#0:batch.0")},
    ),
    "a run that was interrupted": (
        [row for row in A if not row.address.startswith("r0/2/")],
        {"state": State.INTERRUPTED, "exit_status": None},
        {"beyond": (22, 0, "r0/2/-/data/train:#0:batch.0")},
    ),
    "a run limited by --steps": (
        [row for row in A if not row.address.startswith("r0/2/")],
        {"record": RunRecord(options=RecordOptions(steps=(0, 2)))},
        {"beyond": (22, 0, "r0/2/-/data/train:#0:batch.0")},
    ),
    "evaluation passes": (
        [*A[:-1], *evaluation(2), A[-1]],
        {},
        {"evaluation": (0, 3, "r0/2/e0/forward/model:0#0:output.0")},
    ),
    "recomputation": (
        [*A[:50], *[replace(row, flags=int(Flag.RECOMPUTE)) for row in RECOMPUTED], *A[50:]],
        {},
        {"recompute": (0, 2, f"{SKIPPED.replace('forward', 'recompute')}:input.0")},
    ),
    "modules that were not asked for": (
        [row for row in A if "model:0" not in row.address and ":0.weight" not in row.address],
        {"record": RunRecord(options=RecordOptions(modules=("1*", "")))},
        {"filtered": (19, 0, "r0/0/-/init/model:0.weight#0:param")},
    ),
}


@pytest.mark.parametrize("keep_bytes", [0, 1 << 30], ids=["digests", "full"])
@pytest.mark.parametrize("name", list(CASES))
def test_what_has_no_partner_is_listed_with_its_reason(tmp_path: Path, name: str, keep_bytes: int):
    """And nothing that has a partner is called different, whether B kept its tensors or digests alone."""
    b, of_b, expected = CASES[name]
    found = compare_rows(tmp_path, A, b, keep_bytes=keep_bytes, **of_b).divergence
    reasons = listed(found)

    assert found.compared.differing == 0
    assert found.compared.equal == len(A) - sum(count for count, _, _ in reasons.values())
    assert reasons.keys() == expected.keys()
    for reason, (in_a, in_b, first) in expected.items():
        assert reasons[reason][:2] == (in_a, in_b), reasons
        assert first in ("", reasons[reason][2])
    assert (found.verdict is Verdict.DIVERGED) == any(
        reason in reasons for reason in ("training", "no_pass", "evaluation", "recompute")
    )
    assert len(found.to_json().get("unpaired", ())) == len(expected)


def test_the_modules_that_have_most_are_named(tmp_path: Path):
    """In order of their number of records."""
    b = [row for row in A if "model:1#" not in row.address]
    found = compare_rows(tmp_path, A, b).divergence

    assert found.unpaired[0].modules == ("model:1",)
