"""Run records, environments and divergences as JSON."""

import json
from dataclasses import fields

from hypothesis import given
from hypothesis import strategies as st

from bisect_diverge.model.address import Address
from bisect_diverge.model.divergence import (
    Compared,
    Divergence,
    DivergenceKind,
    Place,
    Side,
    Verdict,
)
from bisect_diverge.model.environment import Difference, Environment, Layer, Setting
from bisect_diverge.model.run import Capture, RecordOptions, RunRecord, State
from tests.helpers.elements import STATISTICS

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
counts = st.integers(min_value=0, max_value=2**62)
settings_ = st.builds(
    Setting,
    layer=st.sampled_from(Layer),
    knob=texts,
    value=texts,
    resolved=st.booleans(),
    masked=st.booleans(),
)
environments = st.lists(settings_, max_size=5).map(tuple).map(Environment)
options = st.builds(
    RecordOptions,
    capture=st.sampled_from(Capture),
    keep_bytes=counts,
    steps=st.one_of(st.none(), st.tuples(counts, st.one_of(st.none(), counts))),
    modules=st.lists(texts, max_size=3).map(tuple),
)
records = st.builds(
    RunRecord,
    command=st.lists(texts, max_size=3).map(tuple),
    argv=st.lists(texts, max_size=3).map(tuple),
    cwd=texts,
    started=texts,
    rank=counts,
    world_size=counts,
    options=options,
    environment=environments,
    aliases=st.dictionaries(texts, st.lists(texts, max_size=2), max_size=3),
    coverage=st.dictionaries(texts, counts, max_size=3),
    notes=st.lists(texts, max_size=3).map(tuple),
)


def through_json(value):
    """Return what comes back from text."""
    return json.loads(json.dumps(value))


@given(records)
def test_a_run_record_survives_json(record):
    """A run record written to a file and read again is the same."""
    assert RunRecord.from_json(through_json(record.to_json())) == record


@given(environments)
def test_an_environment_survives_json(environment):
    """An environment written and read again is the same."""
    assert Environment.from_json(through_json(environment.to_json())) == environment


def test_every_field_of_a_run_record_is_written():
    """No field of the run record is forgotten in its JSON."""
    for value in (RunRecord(), RecordOptions()):
        written = {field.name for field in fields(value)} - {"place"}  # where a run lies now
        assert set(value.to_json()) == written


def test_run_records_of_other_versions():
    """Keys that are missing have defaults, keys of later versions are ignored."""
    assert RunRecord.from_json({}) == RunRecord()
    row = {**RunRecord(cwd="x").to_json(), "later": [1], "options": {"later": 1}}
    assert RunRecord.from_json(row) == RunRecord(cwd="x")


def test_a_copy_with_changes():
    """`with_` changes the fields given and leaves the original as it was."""
    record = RunRecord(rank=1)
    assert record.with_(notes=("a",)) == RunRecord(rank=1, notes=("a",))
    assert record == RunRecord(rank=1)


def test_codes_of_states_are_part_of_the_file_format():
    """The order of states never changes: files hold the number of a state in it."""
    assert [str(state) for state in State] == ["in progress", "complete", "interrupted"]


def test_layers_stand_in_the_order_of_a_consistent_environment():
    """There are nine layers, in the order of the documentation."""
    assert " ".join(Layer) == ("source dataset features configuration dependencies runtime hardware kernels seeds")


def test_newer_settings_replace_older_ones():
    """Merging replaces a setting of the same layer, knob and resolved flag in its place, and adds the others."""

    def setting(value, *, resolved=False, knob="OMP_NUM_THREADS"):
        return Setting(layer=Layer.HARDWARE, knob=knob, value=value, resolved=resolved)

    old = Environment((setting("2"), setting("x", knob="MKL_CBWR")))
    merged = old.merged((setting("1"), setting("1", resolved=True)))
    assert merged.settings == (setting("1"), setting("x", knob="MKL_CBWR"), setting("1", resolved=True))
    assert old.settings[0].value == "2"


def test_a_masked_setting_says_so():
    """Only a masked setting has the key `masked`."""
    rows = [
        Setting(layer=Layer.CONFIGURATION, knob="a", value="b", resolved=False, masked=masked).to_json()
        for masked in (False, True)
    ]
    assert [row.get("masked") for row in rows] == [None, True]


def test_a_divergence_in_json():
    """The JSON of a divergence has the form of the documentation, value by value."""
    threads = Difference(layer=Layer.HARDWARE, knob="threads.intra_op", a="2", b="1")
    divergence = Divergence(
        verdict=Verdict.DIVERGED,
        kind=DivergenceKind.COMPUTATION,
        first=Place(
            address=Address.parse("r0/3/0/forward/model:blocks.2.attn#0:output.0"),
            side=Side.BOTH,
            module_type="Attention",
            site="train.py:41",
        ),
        is_origin=True,
        origin_reason="all its inputs are equal",
        origins_in_first_step=(Address.parse("r0/3/0/forward/model:blocks.2.attn#0:output.0"),),
        tensor=STATISTICS,
        compared=Compared(steps=10, records=5490, equal=3120, differing=2370),
        environment=(Difference(layer=Layer.HARDWARE, knob="OMP_NUM_THREADS", a="2", b="1", resolved=(threads,)),),
        notes=("a note",),
    )
    row = divergence.to_json()
    assert through_json(row) == row
    assert row == {
        "schema": 1,
        "verdict": "diverged",
        "kind": "computation",
        "first": {
            "address": "r0/3/0/forward/model:blocks.2.attn#0:output.0",
            "side": "both",
            "rank": 0,
            "step": 3,
            "micro_batch": "0",
            "phase": "forward",
            "root": "model",
            "fqn": "blocks.2.attn",
            "call": 0,
            "slot": "output.0",
            "module_type": "Attention",
            "site": "train.py:41",
        },
        "is_origin": True,
        "origin_reason": "all its inputs are equal",
        "origins_in_first_step": ["r0/3/0/forward/model:blocks.2.attn#0:output.0"],
        "tensor": {
            "dtype": "float32",
            "shape_a": [4, 64],
            "shape_b": [4, 64],
            "numel": 256,
            "differing": 2,
            "max_ulp": 3,
            "max_abs": 2.4e-07,
            "max_rel": 1.1e-06,
            "first_index": [2, 17],
            "signature": "reduction-order",
        },
        "compared": {
            "steps": 10,
            "records": 5490,
            "equal": 3120,
            "differing": 2370,
            "only_in_a": 0,
            "only_in_b": 0,
        },
        "environment": [
            {
                "layer": "hardware",
                "knob": "OMP_NUM_THREADS",
                "a": "2",
                "b": "1",
                "resolved": [{"knob": "threads.intra_op", "a": "2", "b": "1"}],
            }
        ],
        "notes": ["a note"],
    }


def test_an_empty_divergence_in_json():
    """Where nothing differs, `kind`, `first` and `tensor` are null, and `is_origin` is undetermined."""
    row = Divergence(verdict=Verdict.EQUAL).to_json()
    assert (row["verdict"], row["kind"], row["first"], row["tensor"], row["is_origin"]) == ("equal", *[None] * 4)
