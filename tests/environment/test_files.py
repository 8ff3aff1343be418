"""The dataset, feature, configuration and dependency layers."""

import os
from pathlib import Path

from bisect_diverge.environment import configuration, dataset, dependencies, features
from bisect_diverge.environment.hashing import SAMPLE, hash_file
from bisect_diverge.environment.read import read_outside


def rows(settings):
    """Return value by knob."""
    return {s.knob: s.value for s in settings}


def make(folder, **files):
    """Write files and return their folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text)
    return folder


def test_a_directory_is_its_names_and_contents(tmp_path):
    """Two directories of the same files have the same content, wherever they are."""
    make(tmp_path / "a", one="1", two="22")
    make(tmp_path / "b", two="22", one="1")
    make(tmp_path / "c", one="22", two="1")
    a, b, c = (rows(dataset.read_outside(tmp_path, [Path(name)])) for name in "abc")

    assert (a["data.0"], a["data.0.files"], a["data.0.bytes"]) == ("a", "2", "3")
    assert a["data.0.content"] == b["data.0.content"] != c["data.0.content"]


def test_the_listing_order_is_recorded(tmp_path, monkeypatch):
    """A directory listed in another order has another order and the same content."""
    make(tmp_path / "a", one="1", two="2", three="3")
    plain = rows(dataset.read_outside(tmp_path, [Path("a")]))
    scandir = os.scandir

    class Reversed:
        def __init__(self, path):
            self._entries = sorted(scandir(path), key=lambda e: e.name, reverse=True)

        def __enter__(self):
            return iter(self._entries)

        def __exit__(self, *_):
            pass

    orders = set()
    for backwards in (True, False):
        monkeypatch.setattr(
            os, "scandir", Reversed if backwards else lambda p: Forwards(sorted(scandir(p), key=lambda e: e.name))
        )
        found = rows(dataset.read_outside(tmp_path, [Path("a")]))
        assert plain["data.0.content"] == found["data.0.content"]
        orders.add(found["data.0.order"])

    assert len(orders) == 2


class Forwards(list):
    """A listing that can be entered."""

    def __enter__(self):
        return iter(self)

    def __exit__(self, *_):
        pass


def test_large_data_are_sampled_and_say_so(tmp_path, monkeypatch):
    """Above the limit start, middle, end and size are hashed, and the value cannot be taken for a whole hash."""
    monkeypatch.setattr(dataset, "WHOLE_BYTES", 1000)
    (tmp_path / "big").write_bytes(bytes(4 * SAMPLE))

    assert rows(dataset.read_outside(tmp_path, [Path("big")]))["data.0.content"].startswith("xxh3-sampled:")


def test_a_link_in_a_circle_ends(tmp_path):
    """A directory that links to itself is gone through once."""
    make(tmp_path / "a", one="1")
    (tmp_path / "a" / "again").symlink_to(tmp_path / "a")

    assert rows(dataset.read_outside(tmp_path, [Path("a")]))["data.0.files"] == "1"


def test_missing_data_are_said_to_be_missing(tmp_path):
    """A declared path that is not there does not stop the recording."""
    assert rows(dataset.read_outside(tmp_path, [Path("x")]))["data.0.content"] == "No such file or directory"


def test_features_are_one_knob_a_file(tmp_path):
    """Directories are expanded, and what Python compiles is left out."""
    make(tmp_path / "tokens", a="1", b="2")
    make(tmp_path / "tokens" / "__pycache__", c="3")

    found = rows(features.read_outside(tmp_path, [Path("tokens")]))

    assert {"file:tokens/a", "file:tokens/b"} == found.keys()
    assert hash_file(tmp_path / "tokens" / "a") == found["file:tokens/a"]


def test_the_command_line_is_a_knob_for_each_flag(tmp_path):
    """The program is named relative to the directory, so that a moved checkout changes nothing."""
    argv = [str(tmp_path / "train.py"), "--lr", "0.1", "--amp", "--token=abc", "data"]
    found = {s.knob: s for s in configuration.read(argv, tmp_path)}

    assert {"argv.program": "train.py", "argv.--lr": "0.1", "argv.--amp": "set"}.items() <= rows(found.values()).items()
    assert (
        found["argv.--token"].value,
        found["argv.--token"].masked,
        found["argv.0"].value,
    ) == ("masked", True, "data")


def test_distributions_are_found_by_their_folders(tmp_path):
    """The first of each name on the path counts, names are normalised, and we are left out."""
    one, two = tmp_path / "one", tmp_path / "two"
    for folder in (
        one / "Foo_Bar-1.0.dist-info",
        one / "old-2.0-py3.11.egg-info",
        one / "bisect_diverge-0.1.0.dist-info",
        two / "foo.bar-9.0.dist-info",
        two / "torch-2.13.0+cpu.dist-info",
        two / "odd.dist-info",
        two / "empty.dist-info",
    ):
        folder.mkdir(parents=True)
    (two / "odd.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: Odd\nVersion: 3\n\nVersion: 4\n")

    found = rows(dependencies.read([str(tmp_path / "gone"), str(one), str(two)]))

    assert found == {"foo-bar": "1.0", "odd": "3", "old": "2.0", "torch": "2.13.0+cpu"}


def test_distributions_are_those_that_importlib_finds():
    """Reading folder names gives the names and versions of the metadata."""
    import importlib.metadata
    import re

    expected = {}
    for found in importlib.metadata.distributions():
        expected.setdefault(re.sub(r"[-_.]+", "-", found.name).lower(), found.version)
    expected.pop("bisect-diverge", None)

    assert expected == rows(dependencies.read())


def test_reading_from_outside_never_fails(tmp_path):
    """Whatever is declared, the settings that can be read are."""
    settings, patch = read_outside(tmp_path, [], [Path("\0")], [Path("\0")], ["NAME"])

    assert patch is None
    assert any(s.knob == "repository" for s in settings)
