"""Addresses, their text form, and the codes of micro-batches."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bisect_diverge.errors import UsageError
from bisect_diverge.model.address import (
    NO_PASS,
    PHASE_CODE,
    PHASES,
    Address,
    Phase,
    micro_batch_code,
    micro_batch_text,
)

EXAMPLE = "r0/3/1/forward/model:blocks.2.attn#0:output.0"
ODD = [
    "",
    ":",
    "#",
    "%",
    "%3A",
    "a/b",
    " ",
    "\n",
    "\t",
    "\x00",
    "\x7f",
    "\u2028",
    "\u00a0",
    "ü",
    "模",
    "😀",
    "-",
    "..",
    "a:b#0:c",
]
counts = st.integers(min_value=0, max_value=2**31 - 1)
texts = st.one_of(st.sampled_from(ODD), st.text(st.characters(exclude_categories=["Cs"])))
micro_batches = st.one_of(st.just("-"), counts.map(str), counts.map("e{}".format))
addresses = st.builds(
    Address,
    rank=counts,
    step=counts,
    micro_batch=micro_batches,
    phase=st.sampled_from(Phase),
    root=texts,
    fqn=texts,
    call=counts,
    slot=texts,
)


def test_the_example_of_the_documentation():
    """The address shown everywhere means what the documentation says of it."""
    address = Address.parse(EXAMPLE)
    assert address == Address(
        rank=0,
        step=3,
        micro_batch="1",
        phase=Phase.FORWARD,
        root="model",
        fqn="blocks.2.attn",
        call=0,
        slot="output.0",
    )
    assert str(address) == EXAMPLE


@given(addresses)
def test_every_address_parses_back_to_itself(address):
    """Whatever characters names have, the text of an address gives the address again."""
    assert Address.parse(str(address)) == address


@given(addresses)
def test_the_text_of_an_address_is_one_word(address):
    """An address has no white space and no control characters: it can be pasted into a shell's quotes or a table."""
    text = str(address)
    assert text.split() == [text]
    assert text.isprintable() or not text.isascii()
    assert not any(ord(char) < 32 or ord(char) == 127 for char in text)


@given(addresses, addresses)
def test_different_addresses_have_different_texts(a, b):
    """No two addresses share a text."""
    assert (str(a) == str(b)) == (a == b)


@pytest.mark.parametrize("name", ODD)
def test_odd_names(name):
    """Names that contain the separators themselves survive in each place."""
    address = Address(rank=0, step=0, micro_batch="-", phase=Phase.INIT, root=name, fqn=name, call=0, slot=name)
    assert Address.parse(str(address)) == address


@pytest.mark.parametrize(
    "text",
    [
        "",
        "model:a#0:output.0",
        EXAMPLE.replace("r0", "0"),
        EXAMPLE.replace("/3/", "/x/"),
        EXAMPLE.replace("/1/", "/e/"),
        EXAMPLE.replace("/1/", "/-1/"),
        EXAMPLE.replace("forward", "sideways"),
        EXAMPLE.replace("forward", "FORWARD"),
        EXAMPLE.replace("#0", ""),
        EXAMPLE.replace("#0", "#-1"),
        EXAMPLE.replace(":output.0", ""),
        " " + EXAMPLE,
    ],
)
def test_what_is_no_address(text):
    """A text of another form is refused with the form that it should have."""
    with pytest.raises(UsageError, match="not an address") as caught:
        Address.parse(text)
    assert EXAMPLE in caught.value.hint


def test_codes_of_phases_are_part_of_the_file_format():
    """The order of phases never changes: files hold the number of a phase in it."""
    assert [str(phase) for phase in PHASES] == [
        "init",
        "data",
        "forward",
        "backward",
        "optimizer",
        "rng",
        "recompute",
    ]
    assert {number: phase for phase, number in PHASE_CODE.items()} == dict(enumerate(PHASES))


def test_codes_of_micro_batches_are_part_of_the_file_format():
    """Training passes count up from 0, other passes down from -2, and -1 is none."""
    codes = {"0": 0, "1": 1, "17": 17, "-": -1, "e0": -2, "e1": -3, "e9": -11}
    assert {text: micro_batch_code(text) for text in codes} == codes
    assert NO_PASS == -1


@given(micro_batches)
def test_micro_batches_and_codes_are_inverse(text):
    """A micro-batch's code gives its text again."""
    assert micro_batch_text(micro_batch_code(text)) == text


@given(st.integers(min_value=-(2**31), max_value=2**31 - 1))
def test_codes_and_micro_batches_are_inverse(code):
    """Every code has a text, and the text gives the code again."""
    assert micro_batch_code(micro_batch_text(code)) == code


@given(counts, counts)
def test_codes_keep_the_order_of_passes(a, b):
    """Training passes are ordered by their codes, other passes by the opposite, and the two never mix."""
    assert (micro_batch_code(str(a)) < micro_batch_code(str(b))) == (a < b)
    assert (micro_batch_code(f"e{a}") > micro_batch_code(f"e{b}")) == (a < b)
    assert micro_batch_code(f"e{a}") < micro_batch_code("-") < micro_batch_code(str(b))


@pytest.mark.parametrize("text", ["", "e", "-1", "-2", "x", "1.0", "ex", "e-1", "e-2", "²", "e²"])
def test_what_is_no_micro_batch(text):
    """A text that is no micro-batch is refused."""
    with pytest.raises(ValueError, match=r".*"):
        micro_batch_code(text)
