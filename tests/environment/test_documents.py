"""Configuration files key by key."""

import importlib.util

import pytest

from bisect_diverge.environment.documents import as_text, changes, mixed, parse

JSON_A = '{"lr": 0.1, "net": {"depth": 2, "norm": "layer"}, "betas": [0.9, 0.99], "a.b": 1}'
JSON_B = '{"lr": 0.2, "seed": 1, "net": {"depth": 3, "norm": "layer"}, "betas": [0.9, 0.95], "a.b": 2}'
INI_A = "[train]\nlr = 0.1\nEpochs = 3\n"
INI_B = "[train]\nlr = 0.2\nEpochs = 3\n[data]\nroot = x\n"
TOML_A = 'title = "q\\"uote"\n[train]\nlr = 1e-3\nnan = nan\nwhen = 2024-01-02T03:04:05Z\n[[stage]]\nn = 1\n'
TOML_B = 'title = "q\\"uote"\n[train]\nlr = 1e-4\nnan = nan\nwhen = 2024-01-02T03:04:05Z\n[[stage]]\nn = 2\n'
YAML_A = "lr: 1e-3  # text for PyYAML\nnet:\n  depth: 2\n  on: true\n"
YAML_B = "lr: 1e-3\nnet:\n  depth: 3\n  on: true\n"

needs_yaml = pytest.mark.skipif(importlib.util.find_spec("yaml") is None, reason="PyYAML is not installed")


def differing(a, b, suffix):
    """Return name to both values of what differs, as text."""
    return {c.name: (as_text(c.a), as_text(c.b)) for c in changes(parse(a, suffix), parse(b, suffix))}


@pytest.mark.parametrize(
    ("suffix", "a", "b", "names"),
    [
        (".json", JSON_A, JSON_B, {"lr", "net.depth", "seed", "betas.1", "a.b"}),
        (".ini", INI_A, INI_B, {"train.lr", "data"}),
        (".cfg", INI_A, INI_B, {"train.lr", "data"}),
        (".toml", TOML_A, TOML_B, {"train.lr", "stage.0.n"}),
        pytest.param(".yaml", YAML_A, YAML_B, {"net.depth"}, marks=needs_yaml),
    ],
)
def test_each_key_is_moved_by_itself_and_all_of_them_are_the_other_file(suffix, a, b, names):
    """One key moves nothing else; all keys make B; none makes A."""
    found = differing(a, b, suffix)
    assert set(found) == names
    for name, (_, value) in found.items():
        one = mixed(a, suffix, {name: value}, b)
        assert set(differing(a, one, suffix)) == {name}
        assert differing(one, b, suffix) == {k: v for k, v in found.items() if k != name}
    whole = mixed(a, suffix, {name: value for name, (_, value) in found.items()}, b)
    assert parse(whole, suffix) == parse(b, suffix) or "nan" in a
    assert list(parse(whole, suffix)) == list(parse(b, suffix))
    assert differing(mixed(a, suffix, {}), a, suffix) == {}


def test_a_key_can_be_taken_away():
    """What only A has is gone in B."""
    assert mixed('{"a": 1, "b": 2}', ".json", {"a": None}, '{"b": 2}').split() == ["{", '"b":', "2", "}"]


def test_a_value_that_neither_file_has_can_be_set():
    """A trial by hand may ask for anything."""
    text = mixed('{"net": {"depth": 2}}', ".json", {"net.depth": "5", "net.kind": "wide"})
    assert parse(text, ".json") == {"net": {"depth": 5, "kind": "wide"}}


def test_types_count():
    """A learning rate of 1 is no 1.0: a script may divide with whole numbers."""
    assert differing('{"x": 1, "y": true, "z": 0.0}', '{"x": 1.0, "y": 1, "z": -0.0}', ".json") == {
        "x": ("1", "1.0"),
        "y": ("true", "1"),
        "z": ("0.0", "-0.0"),
    }


@pytest.mark.parametrize(
    ("text", "suffix"),
    [("[1, 2]", ".json"), ("{", ".json"), ("plain words", ".conf"), ("a: !!python/name:os.x", ".yaml"), ("x", ".txt")],
)
def test_what_is_no_tree_stays_in_one_piece(text, suffix):
    """A file that cannot be read, or is no table at its top, has no keys."""
    assert parse(text, suffix) is None
    assert mixed(text, suffix, {"a": "1"}) is None


def test_only_the_order_differs():
    """An order of keys is no key: such files differ as a whole."""
    assert differing('{"a": 1, "b": 2}', '{"b": 2, "a": 1}', ".json") == {}
