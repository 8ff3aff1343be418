"""Pairing by address, against a plain loop over the rows."""

from collections import defaultdict

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from bisect_diverge.diff.align import merged, partners, same_order
from bisect_diverge.diff.keys import Columns, codes

parts = st.tuples(*[st.integers(-2, 2)] * 2, *[st.integers(0, 2)] * 4)
rows = st.lists(parts, max_size=30)


def columns(addresses: list[tuple[int, ...]]) -> Columns:
    """Return the columns of some addresses."""
    table = np.array(addresses, np.int64).reshape(-1, 6)
    return Columns(*[], **dict(zip(Columns.__dataclass_fields__, table.T, strict=True)))


def plain_partners(a: list[tuple[int, ...]], b: list[tuple[int, ...]]) -> list[int]:
    """Return B's row of each of A's rows by a loop."""
    left = defaultdict(list)
    for row, address in enumerate(b):
        left[address].append(row)
    return [left[address].pop(0) if left[address] else -1 for address in a]


@given(rows, rows)
def test_partners_agree_with_a_loop(a, b):
    """The n-th row of an address in A has the n-th of that address in B."""
    assert partners(columns(a), columns(b)).tolist() == plain_partners(a, b)


@given(rows, st.data())
def test_the_same_addresses_in_another_order_are_all_paired(a, data):
    """Order does not matter for pairing: gradients may arrive in another one."""
    b = data.draw(st.permutations(a))

    assert (partners(columns(a), columns(b)) >= 0).all()


@given(rows)
def test_a_run_is_in_the_same_order_as_itself(a):
    """The quick way is taken for equal sequences only."""
    assert same_order(columns(a), columns(a))
    assert not same_order(columns(a), columns([*a, (0, 0, 0, 0, 0, 0)]))


@given(rows, rows)
def test_the_merged_trace_has_every_row_once_and_keeps_both_orders(a, b):
    """A's order is kept, and a row of B alone stands behind its predecessor in B."""
    partner = partners(columns(a), columns(b))
    row_a, row_b = merged(partner, len(b))

    assert row_a[row_a >= 0].tolist() == list(range(len(a)))
    assert sorted(row_b[row_b >= 0].tolist()) == list(range(len(b)))
    for index in np.flatnonzero(row_a < 0).tolist():
        before = [row for row in row_b[:index].tolist() if row >= 0]
        predecessor = row_b[index] - 1
        assert predecessor < 0 or predecessor in before


@given(st.lists(st.tuples(st.integers(-(2**40), 2**40), st.integers(0, 2**40), st.integers(0, 3)), max_size=20))
def test_codes_stay_exact_when_the_parts_are_wide(addresses):
    """Codes are equal exactly where all parts are, also where their product exceeds 62 bits."""
    table = np.array(addresses, np.int64).reshape(-1, 3)
    code, none = codes(tuple(table.T), tuple(table[:0].T))

    assert len(none) == 0
    for i, one in enumerate(addresses):
        for j, other in enumerate(addresses):
            assert (code[i] == code[j]) == (one == other)
