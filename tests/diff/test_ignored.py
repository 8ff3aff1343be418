"""Globs of addresses: whatever their form, rows are left out exactly where the text of the address matches."""

import fnmatch
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bisect_diverge.diff.ignored import leave_out
from bisect_diverge.diff.options import DiffOptions
from bisect_diverge.diff.trace import RowState, Trace, build_trace
from bisect_diverge.model.address import Address
from bisect_diverge.store.reader import RunFile
from tests.helpers.runs import training_rows, write_run

ROWS = training_rows(12, blocks=2)
ADDRESSES = [row.address for row in ROWS]
FQNS = [Address.parse(address).fqn for address in ADDRESSES]

PIECE = st.sampled_from(
    ["*", "?", "/", "r0", "0", "1", "11", "-", "[01]", "[!0]", "[0/]", "forward", "model", ":", "#0"]
)


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    """Return the trace of a run and itself."""
    path: Path = write_run(tmp_path_factory.mktemp("ignored") / "a", ROWS) / "rank-00000.h5"
    return build_trace(0, RunFile(path), RunFile(path), DiffOptions())


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.lists(st.lists(PIECE, min_size=1, max_size=7).map("".join), min_size=1, max_size=2))
def test_any_globs_leave_out_what_matches(trace: Trace, globs: list[str]):
    """Compared with each address and each FQN by itself."""
    own = replace(trace, state=trace.state.copy())
    leave_out(own, DiffOptions(ignore=tuple(globs)))
    expected = [
        any(fnmatch.fnmatchcase(text, glob) for text in texts for glob in globs)
        for texts in zip(ADDRESSES, FQNS, strict=True)
    ]

    assert (own.state == RowState.IGNORED).tolist() == expected
