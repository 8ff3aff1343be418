"""Calls of a module that one run calls more often than the other."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from bisect_diverge.diff.calls import align
from bisect_diverge.diff.trace import RowState
from bisect_diverge.model.divergence import DivergenceKind, Side
from tests.helpers.compare import compare_rows

calls = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3)), max_size=8)


def loop_rows(inputs: list[str], sites: list[int] | None = None) -> list[tuple]:
    """Return one step in which module `cell` is called once for each input."""
    rows = [("r0/0/0/forward/model:#0:input.0", "x")]
    for call, name in enumerate(inputs):
        more = ("", -1, 0, f"train.py:{sites[call] if sites else 1}")
        rows.append((f"r0/0/0/forward/model:cell#{call}:input.0", f"in {name}", *more))
        rows.append((f"r0/0/0/forward/model:cell#{call}:output.0", f"out {name}", *more))
    rows.append(("r0/0/0/forward/model:#0:output.0", "y"))
    rows += [(f"r0/0/0/backward/model:cell#{call}:grad_output.0", f"grad {name}") for call, name in enumerate(inputs)]
    return rows


@given(calls, calls)
def test_an_alignment_keeps_order_and_uses_no_call_twice(a, b):
    """Partners ascend."""
    partners = [partner for partner in align(a, b) if partner >= 0]

    assert len(align(a, b)) == len(b)
    assert partners == sorted(set(partners))
    assert all(partner < len(a) for partner in partners)


@given(calls, st.data())
def test_skipped_calls_do_not_move_the_others(a, data):
    """Where B is A with some calls left out and all inputs are different, the rest is paired with itself."""
    distinct = [(site, number) for number, (site, _) in enumerate(a)]
    kept = data.draw(st.lists(st.sampled_from(range(len(a))), unique=True).map(sorted)) if a else []

    assert align(distinct, [distinct[number] for number in kept]) == kept


def test_calls_are_paired_in_order_where_nothing_tells_them_apart():
    """Calls from one site with other inputs are paired from the start."""
    assert align([(1, 1), (1, 2)], [(1, 3), (1, 4), (1, 5)]) == [0, 1, -1]


def test_a_very_long_loop_is_paired_in_order():
    """Beyond a million cells of the table no alignment is searched for."""
    a = [(1, number) for number in range(1100)]
    b = [(1, -number - 1) for number in range(1101)]

    assert align(a, b) == [*range(1100), -1]


def test_a_call_skipped_in_the_middle_is_the_only_difference(tmp_path: Path):
    """C1: the calls after a skipped one are compared with their counterparts, backward rows too."""
    result = compare_rows(tmp_path, loop_rows(["p", "q", "r"]), loop_rows(["p", "r"]))
    divergence = result.divergence

    assert divergence.kind is DivergenceKind.STRUCTURE
    assert divergence.first is not None
    assert str(divergence.first.address) == "r0/0/0/forward/model:cell#1:input.0"
    assert divergence.first.side is Side.A
    assert divergence.compared.differing == 0
    assert divergence.compared.only_in_a == 3
    assert divergence.compared.only_in_b == 0


def test_an_extra_call_of_b_keeps_its_own_number(tmp_path: Path):
    """A call that only B makes is reported with B's address."""
    result = compare_rows(tmp_path, loop_rows(["p", "r"]), loop_rows(["p", "q", "r"]))

    assert result.divergence.first is not None
    assert str(result.divergence.first.address) == "r0/0/0/forward/model:cell#1:input.0"
    assert result.divergence.first.side is Side.B


def test_calls_are_told_apart_by_their_sites_where_inputs_differ(tmp_path: Path):
    """After the values have diverged, the line that called the module still says which call is which."""
    a = loop_rows(["a0", "a1", "a2"], sites=[10, 20, 30])
    b = loop_rows(["b0", "b2"], sites=[10, 30])
    result = compare_rows(tmp_path, a, b)
    missing = [result.pair(i)[0] for i in range(len(result.state)) if result.state[i] == RowState.ONLY_A]

    assert {record.address.call for record in missing if record} == {1}
