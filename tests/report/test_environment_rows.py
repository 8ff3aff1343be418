"""What explains a resolved value, where several requested ones may."""

from bisect_diverge.model.environment import Difference, Layer
from bisect_diverge.report.environment_text import differences_text


def test_a_row_that_several_explain_is_shown_once():
    """Below the first; the others say how many there are."""
    module = Difference(layer=Layer.SOURCE, knob="module:gen/net.py", a="xxh3:1", b="xxh3:2")
    own = Difference(layer=Layer.SOURCE, knob="module:lib/x.py", a="xxh3:3", b="xxh3:4")
    made = [
        Difference(layer=Layer.SOURCE, knob="commit", a="1", b="2", resolved=(module,)),
        Difference(layer=Layer.SOURCE, knob="submodule:lib", a="1", b="2", resolved=(own, module)),
    ]
    assert differences_text(made, ()).splitlines() == [
        "source",
        "  commit: 1 -> 2",
        "      module:gen/net.py: xxh3:1 -> xxh3:2",
        "  submodule:lib: 1 -> 2",
        "      module:lib/x.py: xxh3:3 -> xxh3:4",
        "      1 row above may come of this as well",
    ]
