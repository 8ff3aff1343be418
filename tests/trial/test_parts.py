"""A guilty unit is taken apart by the first row of the table that fits it."""

from dataclasses import replace

from bisect_diverge.model.environment import Layer
from bisect_diverge.model.run import RunRecord
from bisect_diverge.model.trial import Unit
from bisect_diverge.trial import parts
from bisect_diverge.trial.parts import may_have_parts, parts_of

FILE = Unit(layer=Layer.CONFIGURATION, knob="toy:conf.yaml", a="1a", b="2b")


def test_the_first_row_that_fits_counts(monkeypatch):
    """Each part once, in order; one part is none."""
    keys = [replace(FILE, knob=f"toy:conf.yaml:{key}") for key in "abcb"]
    asked = []

    def take(a, b, unit):
        asked.append((a, b, unit))
        return keys

    table = {"configuration:toy:*.json": lambda *_: keys, "configuration:toy:*.yaml": take}
    monkeypatch.setattr(parts, "PARTS", table | {"configuration:*": lambda *_: keys[:1]})
    a, b = RunRecord(cwd="/a"), RunRecord(cwd="/b")
    assert parts_of(a, b, FILE) == tuple(keys[:3])
    assert asked == [(a, b, FILE)]
    assert may_have_parts(FILE)
    assert parts_of(a, b, replace(FILE, knob="toy:other")) == ()
    other = replace(FILE, layer=Layer.KERNELS)
    assert parts_of(a, b, other) == ()
    assert not may_have_parts(other)
