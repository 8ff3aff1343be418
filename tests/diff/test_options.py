"""How names of B are read as names of A."""

import pytest

from bisect_diverge.diff.options import rename


@pytest.mark.parametrize(
    ("pairs", "name", "expected"),
    [
        ([("enc", "encoder")], ("model", "encoder.0"), ("model", "enc.0")),
        ([("enc", "encoder")], ("model", "encoder2.0"), ("model", "encoder2.0")),
        ([("model", "net")], ("net", "0"), ("model", "0")),
        ([("model:enc", "net:encoder")], ("net", "encoder.0"), ("model", "enc.0")),
        ([("model:enc", "net:encoder")], ("other", "encoder.0"), ("other", "encoder.0")),
        ([("model:", "net:")], ("net", "encoder.0"), ("model", "encoder.0")),
        ([("", "module")], ("model", "module.0"), ("model", "0")),
        ([("a", "x"), ("b", "x")], ("model", "x"), ("model", "a")),
        ([("model", "net"), ("enc", "encoder")], ("net", "encoder.0"), ("model", "enc.0")),
        ([("model", "net")], ("opt", "net.0.weight"), ("opt", "model.0.weight")),
    ],
)
def test_a_name_is_read_through_the_first_fitting_pair(pairs, name, expected):
    """Roots, FQNs with all below them, and root:fqn are renamed; other names stay."""
    assert rename(*name, tuple(pairs)) == expected
