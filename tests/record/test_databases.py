"""Names that SQLite is given: paths, URIs, memory."""

import pytest

from bisect_diverge.record.databases import file_of, is_uri, led


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("data.db", "data.db"),
        (b"data.db", "data.db"),
        ("file:data.db?mode=ro", "data.db"),
        ("file:///srv/a%20b.db", "/srv/a b.db"),
        ("file://localhost/srv/a.db#x", "/srv/a.db"),
        (":memory:", None),
        ("", None),
        ("file::memory:?cache=shared", None),
        ("file:x?mode=memory", None),
        (7, None),
    ],
)
def test_the_file_of_a_name(name, path):
    """A path is one, a URI has one, memory has none."""
    assert file_of(name) == path


def test_a_file_may_be_named_like_a_uri(tmp_path, monkeypatch):
    """Then it is meant: SQLite takes names for paths unless it is told otherwise."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file:x").touch()
    assert file_of("file:x") == "file:x"


@pytest.mark.parametrize(
    ("uri", "made"),
    [
        ("file:a.db?mode=ro", ("file:/other/a.db%3F?mode=ro", True)),
        ("file:///srv/a.db?immutable=1&x=2", ("file:/other//srv/a.db%3F?immutable=1&x=2", True)),
        ("file:a.db", ("file:/other/a.db%3F", False)),
    ],
)
def test_a_uri_is_led_to_another_file(uri, made):
    """Its options stay, and say whether anything is written."""
    asked = []

    def place(path, only_read):
        asked.append(only_read)
        return f"/other/{path}?"

    assert (led(uri, place), *asked) == made
    assert is_uri(uri)


def test_memory_is_not_led_anywhere():
    """There is no file."""
    assert led("file::memory:", None) == "file::memory:"
