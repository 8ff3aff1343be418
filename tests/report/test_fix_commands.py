"""What a report says is to be done about a cause."""

from dataclasses import replace

import pytest

from bisect_diverge.environment.hashing import hash_bytes
from bisect_diverge.model.environment import Layer
from bisect_diverge.model.trial import Unit
from bisect_diverge.report.bisection_commands import fix_command
from bisect_diverge.report.words import change
from bisect_diverge.trial.journal import configuration_key


@pytest.mark.parametrize(
    ("name", "a", "b", "command"),
    [
        ("configuration.file:c/x.json:train.lr", "0.1", "0.2", "# in c/x.json: train.lr = 0.1"),
        ("configuration.file:x.json:seed", None, "1", "# in x.json: leave seed out"),
        (
            "configuration.file:x.json:api_key",
            "masked",
            "masked",
            "# in x.json: A's value of api_key, which looks like a credential and is not shown",
        ),
        (
            "dataset.file:d.bin",
            "xxh3:ab",
            "xxh3:cd",
            "# put A's d.bin back; if it was kept, it is files/ab in A's directory",
        ),
        ("dataset.file:d.bin", None, "xxh3:cd", "# take d.bin away"),
        (
            "dataset.listing:data",
            "xxh3:a",
            "xxh3:b",
            "# sort the names that the script finds in data, and keep A's files there",
        ),
        ("seeds.initial-state.numpy", "xxh3:a", "xxh3:b", "# give numpy.random.seed a fixed seed in the script"),
        (
            "seeds.torch.manual_seed",
            "7 (the time)",
            "9 (the time)",
            "# give torch.manual_seed a fixed seed in the script",
        ),
        ("seeds.torch.manual_seed", "7", "9", "# give torch.manual_seed a fixed seed in the script: 7 is A's"),
        (
            "seeds.torch.manual_seed#2",
            "7",
            "9",
            "# give torch.manual_seed a fixed seed in the script in its 2nd call: 7 is A's",
        ),
        ("seeds.torch.manual_seed", None, "9", "# do not call torch.manual_seed in the script"),
        ("seeds.PYTHONHASHSEED", None, "9", "unset PYTHONHASHSEED"),
        ("source.commit", "1f3c9e12ab34", "77aa0145cd67", "git checkout 1f3c9e12ab34"),
        (
            "source.uncommitted",
            "1f3c9e12ab34 with changes 12345678",
            "1f3c9e12ab34 with changes 87654321",
            "# go back to 1f3c9e12ab34, and apply source.patch of A's directory to it",
        ),
        (
            "source.file:net.py",
            f"100755 {'1234567890' * 4}",
            "0" * 40,
            "# put A's net.py back: git's object 123456789012, or made by source.patch of A's directory",
        ),
        ("source.file:net.py", None, "0" * 40, "# take net.py away"),
        (
            "source.file:net.py",
            "xxh3:ab",
            "xxh3:cd",
            "# put A's net.py back; if it was kept, it is files/ab in A's directory",
        ),
    ],
)
def test_inputs_and_seeds(name, a, b, command):
    """A file is put back or changed key by key; a seed that no script gives is given one."""
    layer, _, knob = name.partition(".")
    assert fix_command(Unit(layer=Layer(layer), knob=knob, a=a, b=b)) == command


def test_a_key_of_another_file():
    """B's command names another file than A's: it is changed there."""
    key = Unit(layer=Layer.CONFIGURATION, knob="file:a.yaml:train.lr", a="0.1", b="0.2")
    flag = Unit(layer=Layer.CONFIGURATION, knob="argv.--config", a="a.yaml", b="b.yaml")
    same = Unit(layer=Layer.CONFIGURATION, knob="file:a.yaml", a="xxh3:ab", b="xxh3:cd")
    assert fix_command(key, flag) == "# in b.yaml: train.lr = 0.1"
    assert fix_command(key, same) == fix_command(key) == "# in a.yaml: train.lr = 0.1"


def test_the_files_of_a_source_are_named():
    """In what differs and in what to do; of many the first three."""
    unit = Unit(layer=Layer.SOURCE, knob="commit", a="1f3c9e", b="77aa01", files=("net.py",))
    assert change(unit) == "source commit: 1f3c9e -> 77aa01 in net.py"
    assert fix_command(unit) == "git checkout 1f3c9e  # the change is in net.py"
    many = replace(unit, a="1f3c9e with changes 12", files=tuple("abcde"))
    assert fix_command(many).endswith("source.patch of A's directory to it; the change is in a, b, c and 2 more")
    assert configuration_key([unit], 0) == configuration_key([replace(unit, files=())], 0)


def test_whether_a_copy_was_kept_is_looked_up(tmp_path):
    """In A's directory, where that is here."""
    value = hash_bytes(b"1")
    unit = Unit(layer=Layer.DATASET, knob="file:d.bin", a=value, b="xxh3:cd")
    gone = fix_command(unit, place=str(tmp_path / "gone"))
    assert gone.startswith("# put A's d.bin back; if it was kept, it is files/")
    assert fix_command(unit, place=str(tmp_path)) == "# put A's d.bin back; no copy of it was kept in A's directory"
    copy = tmp_path / "files" / value.rpartition(":")[2]
    copy.parent.mkdir()
    copy.write_bytes(b"1")
    assert fix_command(unit, place=str(tmp_path)) == f"# put A's d.bin back: it is files/{copy.name} in A's directory"
