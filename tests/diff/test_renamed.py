"""A renamed module is told by its initial values, and the option that pairs it is proposed."""

from pathlib import Path

import pytest

from bisect_diverge.diff.options import DiffOptions
from bisect_diverge.model.divergence import Verdict
from tests.helpers.compare import compare_rows


def rows(fqn: str = "attn", root: str = "model", bias: str = "zeros") -> list[tuple[str, str]]:
    """Return a run of a network of two modules, one of which has a name."""
    out = [(f"r0/0/-/init/{root}:{fqn}.{part}.weight#0:param", f"w {part}") for part in "qv"]
    out += [(f"r0/0/-/init/{root}:{fqn}.{part}.bias#0:param", bias) for part in "qv"]
    out.append((f"r0/0/-/init/{root}:head.weight#0:param", "w head"))
    out.append((f"r0/0/0/forward/{root}:#0:input.0", "x"))
    for module in (f"{fqn}.q", f"{fqn}.v", "head"):
        name = module.removeprefix(fqn)
        out += [(f"r0/0/0/forward/{root}:{module}#0:{slot}.0", f"{slot} {name}") for slot in ("input", "output")]
    return [*out, (f"r0/0/0/forward/{root}:#0:output.0", "y")]


@pytest.mark.parametrize(
    ("a", "b", "maps"),
    [
        (rows(), rows("attention"), (("attn", "attention"),)),
        (rows(), rows("blocks.0.attn"), (("attn", "blocks.0.attn"),)),
        (rows(), rows("attn", "net"), (("model", "net"),)),
    ],
)
def test_a_renamed_module_is_proposed_to_be_mapped(tmp_path: Path, a: list, b: list, maps: tuple):
    """The proposal, followed, makes the runs equal; equal biases of many modules do not confuse it."""
    proposal = " ".join(f"--map {old}={new}" for old, new in maps)
    found = compare_rows(tmp_path / "0", a, b).divergence
    mapped = compare_rows(tmp_path / "1", a, b, DiffOptions(renamed=maps)).divergence

    assert any(note.endswith(f"compare with {proposal}") for note in found.notes), found.notes
    assert mapped.verdict is Verdict.EQUAL
    assert not any("--map" in note for note in mapped.notes)


def test_other_initial_values_propose_nothing(tmp_path: Path):
    """A module of another name and other weights is another module."""
    b = [
        (address, "other" if "attention" in address and "weight" in address else v) for address, v in rows("attention")
    ]
    found = compare_rows(tmp_path, rows(), b).divergence

    assert not any("renamed" in note for note in found.notes)
