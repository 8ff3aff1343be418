"""The first divergence, its kind and whether it is an origin: the rules of the design, one test each."""

import fnmatch
from pathlib import Path

import h5py
import numpy as np
import pytest

from bisect_diverge.diff.compare import compare
from bisect_diverge.diff.options import DiffOptions
from bisect_diverge.errors import UsageError
from bisect_diverge.model.address import Address
from bisect_diverge.model.divergence import DivergenceKind, Side, Verdict
from bisect_diverge.model.record import Flag
from bisect_diverge.model.run import RecordOptions, RunRecord, State, StepOn
from bisect_diverge.report.divergence_text import divergence_text, verdict_sentence
from bisect_diverge.store.reader import Run
from bisect_diverge.store.schema import rank_path
from tests.helpers.compare import compare_rows, first_address
from tests.helpers.runs import Row, training_rows, write_run

ALL = [row.address for row in training_rows()]


@pytest.fixture(scope="module")
def baseline(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a run that many tests compare with."""
    return write_run(tmp_path_factory.mktemp("baseline") / "a", training_rows())


def test_equal_runs_are_equal(tmp_path: Path):
    """Two recordings of the same bits differ nowhere."""
    divergence = compare_rows(tmp_path, training_rows(), training_rows()).divergence

    assert divergence.verdict is Verdict.EQUAL
    assert divergence.first is None
    assert divergence.kind is None
    assert divergence.compared.records == divergence.compared.equal == len(ALL)
    assert divergence.compared.steps == 3
    assert divergence.notes == ()


@pytest.mark.parametrize("address", [row.address for row in training_rows(steps=2)])
def test_a_changed_record_is_the_first_divergence(baseline: Path, tmp_path: Path, address: str):
    """Whatever record is changed, it is found, and nothing before it is blamed."""
    changed = write_run(tmp_path / "b", training_rows(change={address: "x"}))
    result = compare(Run(baseline), Run(changed))

    assert result.divergence.verdict is Verdict.DIVERGED
    assert first_address(result) == address
    assert result.divergence.first is not None
    assert result.divergence.first.side is Side.BOTH
    assert ALL[result.first] == address


@pytest.mark.parametrize(
    ("address", "kind"),
    [
        ("r0/0/-/init/model:0.weight#0:param", DivergenceKind.INITIALIZATION),
        ("r0/1/-/data/train:#0:batch.0", DivergenceKind.DATA),
        ("r0/0/-/rng/-:#0:torch.cpu", DivergenceKind.RNG),
        ("r0/1/0/forward/model:1#0:output.0", DivergenceKind.COMPUTATION),
        ("r0/1/0/forward/loss_fn:loss#0:value", DivergenceKind.COMPUTATION),
        ("r0/1/0/backward/model:1#0:grad_output.0", DivergenceKind.GRADIENT),
        ("r0/1/-/optimizer/opt:group0#0:lr", DivergenceKind.HYPERPARAMETER),
        ("r0/1/-/optimizer/opt:0.weight#0:grad", DivergenceKind.GRADIENT),
        ("r0/1/-/optimizer/opt:0.weight#0:param", DivergenceKind.OPTIMIZER),
        ("r0/1/-/optimizer/opt:0.weight#0:state.momentum_buffer", DivergenceKind.OPTIMIZER),
    ],
)
def test_the_kind_follows_phase_and_slot(tmp_path: Path, address: str, kind: DivergenceKind):
    """Each part of a step has its kind, and a record whose inputs are equal is an origin."""
    divergence = compare_rows(tmp_path, training_rows(), training_rows(change={address: "x"})).divergence

    assert divergence.kind is kind
    assert divergence.is_origin is True, divergence.origin_reason
    assert address in map(str, divergence.origins_in_first_step)


def test_a_buffer_is_a_computation_and_judged_by_its_modules_inputs(tmp_path: Path):
    """Running statistics that differ although the layer's inputs are equal begin there."""
    rows = [("r0/0/0/forward/model:bn#0:input.0", "x"), ("r0/0/0/forward/model:bn#0:output.0", "y")]
    a = [*rows, ("r0/0/-/optimizer/model:bn.running_mean#0:buffer", "a")]
    b = [*rows, ("r0/0/-/optimizer/model:bn.running_mean#0:buffer", "b")]
    divergence = compare_rows(tmp_path, a, b).divergence

    assert divergence.kind is DivergenceKind.COMPUTATION
    assert divergence.is_origin is True


def test_an_input_fed_in_without_a_loader_is_data(tmp_path: Path):
    """An input of a root that takes no part in autograd, and that nothing recorded produced, is data."""
    a, b = ([("r0/0/0/forward/model:#0:input.0", value)] for value in ("a", "b"))
    divergence = compare_rows(tmp_path, a, b).divergence

    assert divergence.kind is DivergenceKind.DATA
    assert divergence.is_origin is True


def test_an_input_of_a_root_with_grad_but_without_edge_is_undetermined(tmp_path: Path):
    """A criterion's input that was computed between two roots has no edge: no guess is made."""
    grad = int(Flag.REQUIRES_GRAD)
    same = [("r0/0/0/forward/model:#0:output.0", "y")]
    a, b = ([*same, ("r0/0/0/forward/loss_fn:#0:input.0", value, "", -1, grad)] for value in ("a", "b"))
    divergence = compare_rows(tmp_path, a, b).divergence

    assert divergence.kind is DivergenceKind.COMPUTATION
    assert divergence.is_origin is None
    assert "no recorded tensor" in divergence.origin_reason


def test_a_functional_loss_without_edge_is_undetermined(tmp_path: Path):
    """What went into a loss computed by functions is not known."""
    same = [("r0/0/0/forward/model:#0:output.0", "y")]
    a, b = ([*same, ("r0/0/0/forward/model:loss#0:value", value)] for value in (1.0, 1.5))
    divergence = compare_rows(tmp_path, a, b).divergence

    assert divergence.is_origin is None
    assert divergence.values is not None
    assert divergence.values.to_json() == {"a": "1.0", "b": "1.5"}


def test_a_tensor_made_between_two_modules_begins_in_the_call_around_them(tmp_path: Path):
    """Code between modules is an origin when the enclosing call's inputs and the modules before are equal."""
    same = [
        ("r0/0/0/forward/model:#0:input.0", "x"),
        ("r0/0/0/forward/model:q#0:input.0", "x"),
        ("r0/0/0/forward/model:q#0:output.0", "q"),
    ]
    a, b = ([*same, ("r0/0/0/forward/model:proj#0:input.0", value)] for value in ("a", "b"))
    divergence = compare_rows(tmp_path, a, b).divergence

    assert divergence.is_origin is True
    assert "model:#0" in divergence.origin_reason


def test_the_container_of_an_origin_is_not_an_origin(tmp_path: Path):
    """The innermost call counts: what holds it only passes the difference on."""
    change = {"r0/1/0/forward/model:1#0:output.0": "x"}
    divergence = compare_rows(tmp_path, training_rows(), training_rows(change=change)).divergence

    assert [str(address) for address in divergence.origins_in_first_step] == list(change)


def test_two_independent_origins_in_one_step_are_both_listed(tmp_path: Path):
    """A second difference that the first does not explain is named."""
    change = {"r0/1/0/forward/model:0#0:output.0": "x", "r0/1/-/optimizer/opt:group0#0:lr": "y"}
    divergence = compare_rows(tmp_path, training_rows(), training_rows(change=change)).divergence

    assert list(map(str, divergence.origins_in_first_step)) == list(change)


def test_a_call_with_a_differing_parameter_is_no_origin(tmp_path: Path):
    """With earlier steps left out, a parameter that differs already explains the output."""
    rows = training_rows(change={"r0/0/-/optimizer/opt:0.weight#0:param": "x"})
    result = compare_rows(tmp_path, training_rows(), rows, DiffOptions(from_step=1))

    assert first_address(result) == "r0/1/0/forward/model:0#0:output.0"
    assert result.divergence.is_origin is False
    assert "0.weight" in result.divergence.origin_reason


def test_a_call_that_draws_from_a_differing_generator_is_no_origin(tmp_path: Path):
    """Dropout whose generator differed before it is explained by the generator, left out or not."""

    def rows(state: str) -> list[tuple]:
        return [
            ("r0/0/-/rng/-:#0:torch.cpu", f"{state} 0"),
            ("r0/0/0/forward/model:drop#0:input.0", "x"),
            ("r0/0/0/forward/model:drop#0:output.0", f"y {state}"),
            ("r0/0/0/rng/model:drop#0:torch.cpu", f"{state} 1"),
        ]

    result = compare_rows(tmp_path, rows("a"), rows("b"), DiffOptions(ignore=("*/-/rng/*",)))

    assert first_address(result) == "r0/0/0/forward/model:drop#0:output.0"
    assert result.divergence.is_origin is False
    assert "torch.cpu" in result.divergence.origin_reason


def test_the_digest_tells_where_an_input_came_from(tmp_path: Path):
    """Without a source row, an equal digest earlier in the step is the edge."""
    a, b = (
        [
            ("r0/0/0/forward/model:0#0:output.0", value),
            ("r0/0/0/forward/loss_fn:#0:input.0", value, "", -1, int(Flag.REQUIRES_GRAD)),
        ]
        for value in ("a", "b")
    )
    result = compare_rows(tmp_path, a, b, DiffOptions(ignore=("*model:0#0*",)))

    assert result.divergence.is_origin is False
    assert "model:0#0:output.0" in result.divergence.origin_reason


def test_element_statistics_are_those_of_the_first_divergence(tmp_path: Path):
    """The kept tensors of the first difference are compared element by element."""
    tensor = np.arange(6, dtype=np.float32).reshape(2, 3)
    other = tensor.copy()
    other[1, 0] = np.nextafter(other[1, 0], np.float32(10))
    address = "r0/0/0/forward/model:#0:output.0"
    found = compare_rows(tmp_path, [(address, tensor)], [(address, other)]).divergence.tensor

    assert found is not None
    assert (found.dtype, found.shape_a, found.shape_b, found.numel) == ("float32", (2, 3), (2, 3), 6)
    assert (found.differing, found.max_ulp, found.first_index) == (1, 1, (1, 0))
    assert found.signature == "reduction-order"


@pytest.mark.parametrize("keep_bytes", [0, 1 << 20])
def test_no_element_statistics_without_two_tensors_of_one_shape(tmp_path: Path, keep_bytes: int):
    """Digests alone, or another shape, give no statistics, but still the place."""
    address = "r0/0/0/forward/model:#0:output.0"
    shape = (4,) if keep_bytes else (3,)
    rows = [(address, np.ones(shape, np.float32))]
    result = compare_rows(tmp_path, [(address, np.zeros(3, np.float32))], rows, keep_bytes=keep_bytes)

    assert first_address(result) == address
    assert result.divergence.tensor is None


def test_a_change_of_dtype_with_the_same_bytes_differs(tmp_path: Path):
    """Equal bytes of another type, or in another shape, are another tensor."""
    address = "r0/0/0/forward/model:#0:output.0"
    result = compare_rows(tmp_path, [(address, np.zeros(4, "<f4"))], [(address, np.zeros(4, "<i4"))])

    assert first_address(result) == address


def test_the_same_values_in_another_type_are_said_to_be_so(tmp_path: Path):
    """A tensor that one run casts is told from one that is another."""
    address = "r0/0/0/forward/model:#0:output.0"
    values = np.array([1.5, 1 / 3, 2.0], np.float32)
    found = compare_rows(tmp_path, [(address, values)], [(address, values.astype("<f2"))]).divergence

    assert found.cast == "the same values, rounded to the shorter type"
    assert found.types is not None
    assert found.to_json()["cast"] == found.cast
    assert f"types differ; {found.cast}" in " ".join(divergence_text(found, "a", "b").split())


def test_a_missing_gradient_is_not_a_gradient_of_zeros(tmp_path: Path):
    """None and zeros are told apart."""
    address = "r0/0/-/optimizer/opt:w#0:grad"
    missing = Row(address, np.zeros(0, "<u1"), dtype="none")
    result = compare_rows(tmp_path, [missing], [(address, np.zeros(4, "<f4"))])

    assert result.divergence.kind is DivergenceKind.GRADIENT


def test_another_order_of_gradients_is_no_difference(tmp_path: Path):
    """Backward rows are paired by address, whatever order they came in."""
    rows = [(f"r0/0/0/backward/model:{n}#0:grad_output.0", f"g{n}") for n in range(3)]

    assert compare_rows(tmp_path, rows, rows[::-1]).divergence.verdict is Verdict.EQUAL


def test_a_run_that_stops_early_is_equal_so_far(tmp_path: Path):
    """An interrupted B, cut inside a step, is equal as far as it goes."""
    rows = training_rows(steps=3)
    result = compare_rows(tmp_path, rows, rows[:-5], state=State.INTERRUPTED, exit_status=None)

    assert result.divergence.verdict is Verdict.EQUAL_SO_FAR
    assert any("interrupted" in note for note in result.divergence.notes)


def test_a_run_that_failed_is_equal_so_far(tmp_path: Path):
    """A script that ended with an error says nothing of the steps it did not reach."""
    result = compare_rows(tmp_path, training_rows(3), training_rows(2), exit_status=1)

    assert result.divergence.verdict is Verdict.EQUAL_SO_FAR
    assert any("exit status 1" in note for note in result.divergence.notes)


def test_a_run_limited_by_steps_is_equal_so_far(tmp_path: Path):
    """Steps that were not asked for are not missing."""
    limited = RunRecord(options=RecordOptions(steps=(0, 2)))
    result = compare_rows(tmp_path, training_rows(3), training_rows(2), record=limited)

    assert result.divergence.verdict is Verdict.EQUAL_SO_FAR
    assert any("--steps" in note for note in result.divergence.notes)


def test_a_complete_run_that_is_shorter_has_another_structure(tmp_path: Path):
    """Two runs that ended by themselves after different numbers of steps diverge."""
    divergence = compare_rows(tmp_path, training_rows(3), training_rows(2)).divergence

    assert divergence.verdict is Verdict.DIVERGED
    assert divergence.kind is DivergenceKind.STRUCTURE
    assert divergence.first is not None
    assert divergence.first.address.step == 2
    assert divergence.first.side is Side.A
    assert divergence.is_origin is None


def test_a_difference_in_a_cut_run_is_still_a_difference(tmp_path: Path):
    """Being unfinished excuses missing rows only."""
    rows = training_rows(3, change={"r0/1/0/forward/model:0#0:output.0": "x"})
    result = compare_rows(tmp_path, training_rows(3), rows[:-5], state=State.INTERRUPTED)

    assert first_address(result) == "r0/1/0/forward/model:0#0:output.0"


@pytest.mark.parametrize("glob", ["*:output.0", "r0/1/0/*", "1", "r0/?/0/forward/model:1#0:output.0"])
def test_ignored_records_are_never_first(tmp_path: Path, glob: str):
    """A glob is matched against the whole address and against the FQN."""
    change = {"r0/1/0/forward/model:1#0:output.0": "x"}
    result = compare_rows(tmp_path, training_rows(), training_rows(change=change), DiffOptions(ignore=(glob,)))

    assert first_address(result) not in ("", *change)


def test_everything_may_be_ignored(tmp_path: Path):
    """Then nothing was compared, which is not the same as equal."""
    change = {"r0/1/-/data/train:#0:batch.0": "x"}
    options = DiffOptions(ignore=("*",))
    divergence = compare_rows(tmp_path, training_rows(), training_rows(change=change), options).divergence

    assert divergence.verdict is Verdict.NOT_COMPARABLE
    assert "--ignore" in divergence.notes[0]


def test_a_first_step_behind_the_last_leaves_nothing(tmp_path: Path):
    """--from beyond the end names the last step there is."""
    divergence = compare_rows(tmp_path, training_rows(), training_rows(), DiffOptions(from_step=9)).divergence

    assert divergence.verdict is Verdict.NOT_COMPARABLE
    assert divergence.notes[0] == "--from 9 leaves nothing to compare: the last step that both have is 2"


GLOBS = ["*/forward/*", "r0/1/*", "lr", "0", "*#0:output.?", "r0/[12]/0/*", "*torch.cpu", "*/1/*", "*1*", "*0", "r0*"]
GLOBS += ["r?/1/*", "r0/1*", "*/0/forward/*", "[!q]0/1/*", "r0/[!1]/*", "r1/1/*", "r0/1/", "*0/1/-/rng/-:#*", "r0/11/*"]
GLOBS += [
    "*/1/0/forward/model:1#0:*",
    "*model:1#0:output*",
    "r0/1/0/*#0:output.0",
    "*r0/1*",
    "/1/",
    "*1/0/*",
    "r0/*/-/*",
]


@pytest.mark.parametrize("glob", GLOBS)
def test_ignored_records_are_not_counted_equal_or_not(tmp_path: Path, glob: str):
    """Of two equal runs exactly the records that match neither by address nor by FQN are compared."""
    left = [
        address
        for address in ALL
        if not fnmatch.fnmatchcase(address, glob) and not fnmatch.fnmatchcase(Address.parse(address).fqn, glob)
    ]
    options = DiffOptions(ignore=(glob,))
    divergence = compare_rows(tmp_path, training_rows(), training_rows(), options).divergence

    assert divergence.compared.records == divergence.compared.equal == len(left)


@pytest.mark.parametrize(
    ("pair", "side", "close"),
    [(("modle", "model"), "A", "model"), (("1", "modl:1"), "B", "model:1"), (("0.weigth", "1"), "A", "0.weight")],
)
def test_a_name_to_map_that_no_run_has_is_an_error(tmp_path: Path, pair: tuple[str, str], side: str, close: str):
    """The message says which run lacks it, and what comes close."""
    with pytest.raises(UsageError, match=f"{side} .* has no") as error:
        compare_rows(tmp_path, training_rows(), training_rows(), DiffOptions(renamed=(pair,)))

    assert close in error.value.hint


@pytest.mark.parametrize(
    ("a", "b", "types", "values"),
    [
        (np.zeros(3, "<f4"), np.zeros(3, "<i4"), ("f32[3]", "i32[3]"), None),
        (np.zeros(3, "<f4"), np.zeros((3, 1), "<f4"), ("f32[3]", "f32[3,1]"), None),
        (np.array(0, "<i8"), np.array(0.9), ("i64[]", "f64[]"), ("0", "0.9")),
        (np.array([0.25]), np.array([0.5]), ("f64[1]", "f64[1]"), ("0.25", "0.5")),
        (np.array(2**53, "<i8"), np.array(2**53 + 1, "<i8"), ("i64[]", "i64[]"), (f"{2**53}", f"{2**53 + 1}")),
    ],
)
def test_types_shapes_and_values_of_the_first_are_told(
    tmp_path: Path, a: np.ndarray, b: np.ndarray, types: tuple[str, str], values: tuple[str, str] | None
):
    """What two records are is said of both, and the values where there is one number."""
    address = "r0/0/-/optimizer/opt:group0#0:lr"
    divergence = compare_rows(tmp_path, [(address, a)], [(address, b)]).divergence
    document = divergence.to_json()

    assert divergence.types is not None
    assert (divergence.types.a, divergence.types.b) == types
    assert ("types" in document) is (types[0] != types[1])
    assert document.get("values") == (None if values is None else {"a": values[0], "b": values[1]})
    assert (document["tensor"] is None) is (types[0] != types[1])


def test_values_are_known_from_digests_alone(tmp_path: Path):
    """The value of one number stands in its row."""
    address = "r0/0/-/optimizer/opt:group0#0:lr"
    rows = [(address, np.array(0.25))]
    divergence = compare_rows(tmp_path, [(address, np.array(0.5))], rows, keep_bytes=0).divergence

    assert divergence.values is not None
    assert (divergence.values.a, divergence.values.b) == ("0.5", "0.25")


def test_another_module_class_is_told(tmp_path: Path):
    """Where the class of a module changed, both are named."""
    address = "r0/0/0/forward/model:1#0:output.0"
    a, b = ([Row(address, kind, module_type=kind)] for kind in ("ReLU", "GELU"))
    first = compare_rows(tmp_path, a, b).divergence.first

    assert first is not None
    assert (first.module_type, first.module_type_b) == ("ReLU", "GELU")
    assert first.to_json()["module_type_b"] == "GELU"


def test_a_batch_is_never_another_kernel(tmp_path: Path):
    """Nothing summed the elements of a batch, nor of an input that was fed in."""
    a = np.arange(1, 65, dtype="<f4")
    b = a.copy()
    b[3] = np.nextafter(b[3], np.float32(9))
    for number, address in enumerate(("r0/0/-/data/train:#0:batch.0", "r0/0/0/forward/model:#0:input.0")):
        found = compare_rows(tmp_path / str(number), [(address, a)], [(address, b)]).divergence.tensor

        assert found is not None
        assert found.signature != "reduction-order"


def test_the_first_divergence_is_among_the_origins_when_it_is_one(tmp_path: Path):
    """Also where the same call differs in what it is given when it is made again."""
    head = "model:0#0"
    rows = [
        (f"r0/0/0/forward/{head}:input.0", "x"),
        (f"r0/0/0/forward/{head}:output.0", "{}"),
        (f"r0/0/0/recompute/{head}:input.0", "again {}"),
    ]
    a, b = ([(address, value.format(run)) for address, value in rows] for run in "ab")
    divergence = compare_rows(tmp_path, a, b).divergence

    assert divergence.is_origin is True
    assert "r0/0/0/forward/model:0#0:output.0" in map(str, divergence.origins_in_first_step)


def test_buffers_that_follow_from_a_call_of_one_run_are_no_origins(tmp_path: Path):
    """An extra micro-batch moves running statistics: where they begin is not known."""
    rows = [("r0/0/0/forward/model:bn#0:input.0", "x"), ("r0/0/0/forward/model:bn#0:output.0", "y")]
    more = [("r0/0/1/forward/model:bn#0:input.0", "u"), ("r0/0/1/forward/model:bn#0:output.0", "v")]
    buffer = "r0/0/-/optimizer/model:bn.running_mean#0:buffer"
    divergence = compare_rows(tmp_path, [*rows, (buffer, "a")], [*rows, *more, (buffer, "b")]).divergence

    assert divergence.kind is DivergenceKind.STRUCTURE
    assert divergence.origins_in_first_step == ()


def test_a_generator_that_only_one_run_moved_in_a_pass_is_no_origin(tmp_path: Path):
    """The state at the end of the step follows from a draw that only B has."""
    rows = [("r0/0/-/rng/-:#0:torch.cpu", "0"), ("r0/0/0/forward/model:d#0:input.0", "x")]
    rows += [("r0/0/0/forward/model:d#0:output.0", "x"), ("r0/0/0/rng/model:d#0:torch.cpu", "1")]
    more = [(address.replace("/0/0/", "/0/1/"), f"{value} 1") for address, value in rows[1:]]
    end = "r0/0/-/rng/-:#1:torch.cpu"
    divergence = compare_rows(tmp_path, [*rows, (end, "a")], [*rows, *more, (end, "b")]).divergence

    assert divergence.kind is DivergenceKind.STRUCTURE
    assert divergence.origins_in_first_step == ()


def test_a_run_compared_with_itself_says_so(baseline: Path):
    """It is equal, which proves nothing."""
    divergence = compare(Run(baseline), Run(baseline / "rank-00000.h5")).divergence

    assert divergence.verdict is Verdict.EQUAL
    assert any("same recording" in note for note in divergence.notes)


@pytest.mark.parametrize("shape", [(), (4,)])
def test_kept_elements_that_belie_their_digest_are_said_to_be_damage(tmp_path: Path, shape: tuple[int, ...]):
    """Equal elements under unequal digests: no recording made that, so neither run is blamed for it."""
    rows = [("r0/0/0/forward/model:#0:output.0", np.ones(shape, np.float32))]
    paths = [write_run(tmp_path / name, rows) for name in "ab"]
    with h5py.File(rank_path(paths[1], 0), "r+") as file:
        events = file["events"][:1]
        events["digest0"] ^= 1
        file["events"][:1] = events
    divergence = compare(*(Run(path) for path in paths)).divergence

    assert "one of the recordings is damaged" in divergence.notes[0]
    assert f"bd check {rank_path(paths[1], 0)}" in divergence.notes[0]
    text = divergence_text(divergence, "a", "b")
    assert "the elements that were kept are equal, the digests differ" in " ".join(text.split())
    assert "looks" not in text


def test_runs_whose_steps_are_not_the_same_thing_say_so(tmp_path: Path):
    """Another rule for steps is no difference by itself, but explains many."""
    record = RunRecord(options=RecordOptions(step_on=StepOn.FORWARD))
    result = compare_rows(tmp_path, training_rows(), training_rows(), record=record)

    assert result.divergence.verdict is Verdict.EQUAL
    assert "--step-on optimizer, those of B with --step-on forward" in "\n".join(result.divergence.notes)


def test_different_programs_are_said_to_look_so(tmp_path: Path):
    """Where hardly anything has a partner, that comes first."""
    common = [("r0/0/-/rng/-:#0:torch.cpu", "s"), ("r0/0/-/optimizer/opt:group0#0:lr", 1.0)]
    a, b = ([*common, *((f"r0/0/0/forward/{net}:{n}#0:input.0", "x") for n in range(40))] for net in ("net", "gan"))
    divergence = compare_rows(tmp_path, a, b).divergence

    assert divergence.notes[0] == "these look like different programs: 2 of 42 records have a partner"


def test_renamed_modules_are_paired(tmp_path: Path):
    """--map lets B's names be read as A's: a root, and an FQN with all below it."""
    renames = (("model:", "net:"), (":1.", ":one."), (":1#", ":one#"))

    def renamed(address: str) -> str:
        for old, new in renames:
            address = address.replace(old, new)
        return address

    b = [Row(renamed(row.address), row.value) for row in training_rows()]
    options = DiffOptions(renamed=(("model", "net"), ("1", "one")))
    result = compare_rows(tmp_path, training_rows(), b, options)
    unmapped = compare(Run(tmp_path / "a"), Run(tmp_path / "b"))

    assert result.divergence.verdict is Verdict.EQUAL
    assert unmapped.divergence.compared.only_in_a > 0


def test_runs_without_common_address_are_not_comparable(tmp_path: Path):
    """Two runs of different programs have nothing to compare."""
    result = compare_rows(tmp_path, [("r0/0/0/forward/a:#0:input.0", 1.0)], [("r0/0/0/forward/b:#0:input.0", 1.0)])

    assert result.divergence.verdict is Verdict.NOT_COMPARABLE
    assert "--map" in result.divergence.notes[0]


def test_digests_of_different_algorithms_are_not_comparable(tmp_path: Path):
    """Only like digests are compared."""
    result = compare_rows(tmp_path, training_rows(), training_rows(), algorithm="torch-sum-128")

    assert result.divergence.verdict is Verdict.NOT_COMPARABLE
    assert "torch-sum-128" in result.divergence.notes[0]


def test_an_empty_run_is_not_comparable(tmp_path: Path):
    """A run without records is named."""
    result = compare_rows(tmp_path, training_rows(), [])

    assert result.divergence.verdict is Verdict.NOT_COMPARABLE
    assert "B" in result.divergence.notes[0]


def test_runs_without_a_common_rank_are_not_comparable(tmp_path: Path):
    """Rank 0 is not compared with rank 1."""
    result = compare_rows(tmp_path, training_rows(rank=0), training_rows(rank=1))

    assert result.divergence.verdict is Verdict.NOT_COMPARABLE
    assert "rank" in result.divergence.notes[0]


def test_unhashable_records_are_said_to_be_unknown(tmp_path: Path):
    """Tensors without readable bytes are paired, but that they are equal is not claimed."""
    rows = [Row("r0/0/0/forward/m:#0:input.0", np.zeros(0, "<u1"), dtype="unhashable", flags=int(Flag.UNHASHABLE))]
    divergence = compare_rows(tmp_path, rows, rows).divergence

    assert divergence.verdict is Verdict.EQUAL
    assert "1 record holds a tensor without readable bytes: that they are equal is not known" in divergence.notes
    assert "1 record in 1 step, 1 of them by class and shape only" in verdict_sentence(divergence)
    assert divergence.to_json()["compared"]["unreadable"] == 1


@pytest.mark.parametrize(
    "rows",
    [
        ["forward/m:#0:input.0", "forward/m:#0:output.0"],
        ["forward/m:weight#0:param", "forward/m:#0:output.0"],
        ["optimizer/opt:weight#0:grad", "optimizer/opt:weight#0:param"],
    ],
)
def test_nothing_begins_where_what_went_in_could_not_be_read(tmp_path: Path, rows: list[str]):
    """A module is not blamed for a sparse or nested input, weight or gradient of which only the class is known."""
    sides = []
    for value in "xy":
        found = [Row("r0/0/-/init/m:weight#0:param", "w"), Row("r0/0/0/forward/m:#0:input.0", "i")]
        head = "r0/0/-" if "optimizer" in rows[0] else "r0/0/0"
        flags = int(Flag.UNHASHABLE)
        found.insert(
            2 if "weight" in rows[0] else 1, Row(f"{head}/{rows[0]}", np.zeros(0, "<u1"), "unhashable", -1, flags)
        )
        sides.append([*found[: 2 if "input" in rows[0] else 3], Row(f"{head}/{rows[1]}", value)])
    divergence = compare_rows(tmp_path, *sides).divergence

    assert first_address(compare_rows(tmp_path / "again", *sides)).endswith(rows[1])
    assert divergence.is_origin is None
    assert "has no readable bytes" in divergence.origin_reason


def test_the_environment_difference_comes_with_the_result(tmp_path: Path):
    """What differs in the environment is part of the answer."""
    from bisect_diverge.model.environment import Environment, Layer, Setting

    def record(value: str) -> RunRecord:
        setting = Setting(layer=Layer.HARDWARE, knob="OMP_NUM_THREADS", value=value, resolved=False)
        return RunRecord(environment=Environment((setting,)))

    a = write_run(tmp_path / "a", training_rows(), record=record("2"))
    b = write_run(tmp_path / "b", training_rows(), record=record("1"))
    (difference,) = compare(Run(a), Run(b)).divergence.environment

    assert (difference.layer, difference.knob) == (Layer.HARDWARE, "OMP_NUM_THREADS")
    assert (difference.a, difference.b) == ("2", "1")
