"""What a report says is to be done about a cause."""

import pytest

from bisect_diverge.model.environment import Layer
from bisect_diverge.model.trial import Unit
from bisect_diverge.report.bisection_commands import fix_command


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
