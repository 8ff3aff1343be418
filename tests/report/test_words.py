"""Counts, sizes and places in words."""

import pytest

from bisect_diverge.model.address import Address
from bisect_diverge.report.words import duration, entries, moment, place, plural, printable, size


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 bytes"),
        (1, "1 byte"),
        (1023, "1023 bytes"),
        (1024, "1.0 KiB"),
        (3 * 1024**2, "3.0 MiB"),
        (5 * 1024**4, "5.0 TiB"),
        (5000 * 1024**4, "5000.0 TiB"),
    ],
)
def test_sizes(count: int, text: str):
    """Sizes are in binary units."""
    assert size(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.4, "0 s"), (119, "119 s"), (120, "2 min"), (5400, "90 min"), (7200, "2 h"), (12000, "3 h 20 min")],
)
def test_times(seconds: float, text: str):
    """Times are no finer than it matters."""
    assert duration(seconds) == text


def test_plurals():
    """One thing is named in the singular."""
    assert [plural(n, "step") for n in (0, 1, 2)] == ["0 steps", "1 step", "2 steps"]
    assert plural(2, "micro-batch") == "2 micro-batches"


@pytest.mark.parametrize(
    ("text", "when", "where"),
    [
        ("r0/3/1/forward/model:a.b#0:output.0", "step 3, micro-batch 1, forward", "output.0 of model:a.b"),
        ("r1/3/-/data/train:#0:batch.0", "rank 1, step 3, data", "batch.0 of train"),
        ("r0/0/-/rng/-:#0:torch.cpu", "step 0, rng", "torch.cpu"),
        ("r0/0/0/forward/m:f#2:input.0", "step 0, micro-batch 0, forward", "input.0 of m:f (call 2)"),
    ],
)
def test_an_address_in_words(text: str, when: str, where: str):
    """Steps, passes and places are said in the words of the design."""
    assert moment(Address.parse(text)) == when
    assert place(Address.parse(text)) == where


LONG = [f"FEATURE{n}" for n in range(20)]


@pytest.mark.parametrize(
    ("a", "b", "said"),
    [
        (" ".join(LONG), " ".join(LONG[:-2]), "-FEATURE18 -FEATURE19"),
        (",".join(LONG), ",".join(["NEW", *LONG]), "+NEW"),
        (", ".join(LONG), ", ".join(["NEW", *LONG[1:]]), "-FEATURE0, +NEW"),
        (" ".join(LONG), " ".join(LONG[::-1]), "the same 20 entries in another order"),
        (" ".join(LONG), " ".join(LONG[:10]), "-FEATURE10 -FEATURE11 -FEATURE12 -FEATURE13 -FEATURE14 -FEAT"),
        ("a b c", "a b", ""),
        (" ".join(LONG), None, ""),
        ("x" * 90, "y" * 90, ""),
        (" ".join(LONG), "some other words that have nothing to do with these features at all", ""),
    ],
)
def test_of_long_lists_what_differs_is_shown(a: str, b: str | None, said: str):
    """Entries that one of the two lacks; short values, and what is no list, are shown as they are."""
    found = entries(a, b, 60)
    assert found.startswith(said)
    assert bool(found) == bool(said)
    assert found in {said, f"{said}... (10 entries less, 0 more)"}


def test_printable_replaces_what_a_terminal_acts_on():
    """Escapes and other control characters become a mark; other text stays."""
    assert printable("größe \u2260") == "größe \u2260"
    assert printable("a\x1b[2Jb") == "a\ufffd[2Jb"
