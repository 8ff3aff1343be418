"""What a report says of steps of one way: commits, releases. Of several that are swapped the last one counts."""

from dataclasses import replace

from bisect_diverge.bisector.search import bisect
from bisect_diverge.model.environment import Layer
from bisect_diverge.model.trial import Outcome, Trial, Unit
from bisect_diverge.report.bisection_markdown import bisection_markdown
from bisect_diverge.report.bisection_text import bisection_text

WHOLE = Unit(layer=Layer.SOURCE, knob="commit", a="c0", b="c4")
STEPS = tuple(replace(WHOLE, a=f"c{n}", b=f"c{n + 1}") for n in range(4))
OTHER = Unit(layer=Layer.CONFIGURATION, knob="FLAG", a=None, b="1")


def made(swapped, *, repeat=0):
    """Return B's bits from the third commit on, with the flag."""
    reached = max((unit.b for unit in swapped if unit.knob == "commit"), default="c0")
    outcome = Outcome.B if reached >= "c3" and OTHER in swapped else Outcome.A
    units = tuple(sorted(swapped, key=lambda unit: unit.layer, reverse=True))
    return Trial(n=0, base="a", swapped=units, outcome=outcome, signature=str(outcome))


def test_a_guilty_commit():
    """No row claims that the commit alone was changed or put back; commits are told from one another by name."""
    result = bisect((WHOLE, OTHER), made, drill=lambda unit: STEPS if unit == WHOLE else ())
    lines = [line.strip() for line in bisection_text(result, "a", "b").splitlines()]
    assert lines[0] == "cause: source commit: c2 -> c3 together with configuration FLAG: (not set) -> 1"
    proof = "\n".join(lines[1:5])
    assert "A with these and the steps before         = B" in proof
    assert "A with only the steps before it           = A" in proof
    assert "B with these and all other steps put back = A" in proof
    assert "Neither alone: commit=c3 = A, FLAG=1 = A. Together = B." in proof
    rows = [line.split("  ", 1)[1] for line in lines if line[:1].isdigit() and "bd " not in line and "  " in line]
    rows = [row.strip().partition("  ")[0] for row in rows]
    twice = {row for row in rows if rows.count(row) > 1}
    assert len(twice) == len(rows) - len(set(rows)) == 4, "A and B, and what each of the two does alone"
    assert "A + {commit=c2, FLAG}" in rows
    assert "git checkout c2" not in lines, "the names here are no commits of git"
    for text in ("\n".join(lines), bisection_markdown(result, "a", "b")):
        assert "bd trial a --set source.commit=c3 --set configuration.FLAG=@B --b b" in text
        assert "source.commit=@B" not in text


def test_a_guilty_file():
    """Of its contents so much is shown as tells them apart; the rest of a hash is in the JSON."""
    file = Unit(layer=Layer.SOURCE, knob="file:net.py", a=f"xxh3:{'12' * 16}", b=f"100755 {'ab' * 20}")

    def bits(swapped, *, repeat=0):
        return Trial(n=0, base="a", swapped=tuple(swapped), outcome=Outcome.B if swapped else Outcome.A)

    verdict = bisection_text(bisect((file,), bits), "a", "b").splitlines()[0]
    assert verdict == "cause: source file:net.py: xxh3:121212121212 -> 100755 abababababab"
