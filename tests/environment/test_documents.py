"""Configuration files key by key."""

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
        (".yaml", YAML_A, YAML_B, {"net.depth"}),
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
    [
        ("[1, 2]", ".json"),
        ("a: [1\n", ".yaml"),
        ("- a\n- b\n", ".yaml"),
        ("{", ".json"),
        ("plain words", ".conf"),
        ("a: !!python/name:os.x", ".yaml"),
        ("x", ".txt"),
    ],
)
def test_what_is_no_tree_stays_in_one_piece(text, suffix):
    """A file that cannot be read, or is no table at its top, has no keys."""
    assert parse(text, suffix) is None
    assert mixed(text, suffix, {"a": "1"}) is None


def test_only_the_order_differs():
    """An order of keys is no key: such files differ as a whole."""
    assert differing('{"a": 1, "b": 2}', '{"b": 2, "a": 1}', ".json") == {}


COMMENTED = """# what is trained
base: &base
  lr: 0.1   # found by hand
  steps: [1, 2, 3]
train:
  <<: *base
  amp: yes
  rate: "1e-3"
  out: ${base.lr}/x
  include: !include more.yaml
  blocks:
    - width: 8
      norm: layer
    - width: 16
"""


@pytest.mark.parametrize(
    ("change", "name", "value"),
    [
        (("width: 8", "width: 9"), "train.blocks.0.width", "9"),
        (("amp: yes", "amp: no"), "train.amp", "false"),
        (("${base.lr}/x", "${base.lr}/y"), "train.out", '"${base.lr}/y"'),
        (('"1e-3"', '"1e-4"'), "train.rate", '"1e-4"'),
        (("  amp: yes\n", ""), "train.amp", None),
        (("  amp: yes\n", "  amp: yes\n  seed: 1  # new\n"), "train.seed", "1"),
        (("  include: !include more.yaml\n", "  include: !include less.yaml\n"), "train.include", None),
    ],
)
def test_yaml_is_changed_in_its_own_text(change, name, value):
    """Comments, anchors, quotes, interpolations and tags of the rest stay as they were written."""
    other = COMMENTED.replace(*change)
    found = differing(COMMENTED, other, ".yaml")
    assert set(found) == {name}
    assert value is None or found[name][1] == value
    assert mixed(COMMENTED, ".yaml", {name: found[name][1]}, other) == other


def test_an_anchor_stands_for_several_keys():
    """Each of the places where it is used is moved by itself: the file is written anew for that."""
    other = COMMENTED.replace("lr: 0.1", "lr: 0.2").replace("[1, 2, 3]", "[1, 2, 4]")
    found = differing(COMMENTED, other, ".yaml")
    assert set(found) == {"base.lr", "train.lr", "base.steps.2", "train.steps.2"}
    for name, (_, value) in found.items():
        one = mixed(COMMENTED, ".yaml", {name: value}, other)
        assert set(differing(COMMENTED, one, ".yaml")) == {name}
    assert mixed(COMMENTED, ".yaml", {name: value for name, (_, value) in found.items()}, other) == other


def test_several_documents_in_one_file():
    """A key is named by the number of its document, and only that changes."""
    a, b = "name: x  # one\n---\nlr: 1\nseed: 0\n", "name: x  # one\n---\nlr: 2\nseed: 0\n"
    assert differing(a, b, ".yml") == {"1.lr": ("1", "2")}
    assert mixed(a, ".yml", {"1.lr": "2"}, b) == b
    assert mixed(a, ".yml", {"1.lr": "5"}) == b.replace("2", "5")


def test_a_list_of_another_length_is_one_value():
    """It is replaced as a whole, where it stands."""
    a, b = "x: [1, 2]  # two\ny:\n  - a\n  - b\nz: 1\n", "x: [1, 2, 3]  # two\ny:\n  - a\n  - c\n  - d\nz: 1\n"
    assert set(differing(a, b, ".yaml")) == {"x", "y"}
    assert mixed(a, ".yaml", {"x": "[1, 2, 3]"}, b) == a.replace("[1, 2]", "[1, 2, 3]")
    assert mixed(a, ".yaml", {"y": '["a", "c", "d"]'}, b) == b.replace("[1, 2, 3]", "[1, 2]")
