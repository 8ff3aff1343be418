"""``bd env`` on recorded files."""

import json
import subprocess
import sys

import pytest
from click.testing import CliRunner

from bisect_diverge.cli.env import LAYERS, command
from bisect_diverge.errors import NoSuchRunError, UsageError
from bisect_diverge.model.environment import Environment, Layer, Setting
from bisect_diverge.model.run import RunRecord, State
from bisect_diverge.store.writer import RunWriter


def requested(layer, knob, value):
    """Build a requested setting."""
    return Setting(layer=Layer(layer), knob=knob, value=value, resolved=False, masked=value == "masked")


def resolved(layer, knob, value):
    """Build a resolved setting."""
    return Setting(layer=Layer(layer), knob=knob, value=value, resolved=True)


def record(folder, *ranks):
    """Write a run with one environment for each rank and return its path."""
    folder.mkdir()
    for rank, settings in enumerate(ranks):
        writer = RunWriter(
            folder / f"rank-{rank:05}.h5",
            RunRecord(rank=rank, world_size=len(ranks), environment=Environment(tuple(settings))),
            keep_bytes=0,
            digest_algorithm="xxh3-128",
        )
        writer.close(State.COMPLETE, 0)
    return str(folder)


A = [
    requested("hardware", "OMP_NUM_THREADS", "2"),
    resolved("hardware", "threads.intra_op", "2"),
    requested("configuration", "HF_TOKEN", "masked"),
    requested("seeds", "torch.manual_seed", "0"),
]
B = [
    requested("hardware", "OMP_NUM_THREADS", "1"),
    resolved("hardware", "threads.intra_op", "1"),
    requested("configuration", "HF_TOKEN", "masked"),
    requested("seeds", "torch.manual_seed", "0"),
]


def bd_env(*arguments):
    """Run the command and return exit status, standard output and standard error."""
    done = CliRunner().invoke(command, list(arguments), catch_exceptions=False)
    return done.exit_code, done.stdout, done.stderr


def test_a_run_is_shown_layer_by_layer(tmp_path):
    """Requested settings come before resolved ones, layers in their order."""
    assert bd_env(record(tmp_path / "a", A)) == (
        0,
        """\
configuration
  requested
    HF_TOKEN  masked
hardware
  requested
    OMP_NUM_THREADS  2
  resolved
    threads.intra_op  2
seeds
  requested
    torch.manual_seed  0
""",
        "",
    )


def test_one_layer_can_be_chosen(tmp_path):
    """--layer leaves out all others."""
    assert bd_env(record(tmp_path / "a", A), "--layer", "seeds") == (
        0,
        "seeds\n  requested\n    torch.manual_seed  0\n",
        "",
    )


def test_two_runs_show_what_differs(tmp_path):
    """What follows from a difference is listed below it, and the status is diff's."""
    assert bd_env(record(tmp_path / "a", A), record(tmp_path / "b", B)) == (
        1,
        """\
hardware
  OMP_NUM_THREADS: 2 -> 1
      threads.intra_op: 2 -> 1
not compared
  configuration HF_TOKEN  masked on both sides
""",
        "",
    )


def test_equal_environments_are_said_to_be_equal(tmp_path):
    """Nothing differs: status 0, and what could not be compared is said."""
    status, out, _ = bd_env(record(tmp_path / "a", A), record(tmp_path / "b", A))

    assert status == 0
    assert out.startswith("the environments are equal\nnot compared\n")


def test_a_layer_limits_the_comparison_and_its_status(tmp_path):
    """A difference in another layer does not count."""
    a, b = record(tmp_path / "a", A), record(tmp_path / "b", B)

    assert bd_env(a, b, "--layer", "seeds") == (0, "the environments are equal\n", "")
    assert bd_env(a, b, "--layer", "hardware")[0] == 1


def test_json_has_the_rows_of_bd_diff(tmp_path):
    """The key environment has the form that `bd diff --format json` has."""
    status, out, _ = bd_env(record(tmp_path / "a", A), record(tmp_path / "b", B), "--format", "json")

    assert status == 1
    assert json.loads(out) == {
        "schema": 1,
        "rank": 0,
        "environment": [
            {
                "layer": "hardware",
                "knob": "OMP_NUM_THREADS",
                "a": "2",
                "b": "1",
                "resolved": [{"knob": "threads.intra_op", "a": "2", "b": "1"}],
            }
        ],
        "not_compared": [{"layer": "configuration", "knob": "HF_TOKEN", "why": "masked on both sides"}],
        "confounded": [],
    }


def test_a_confounded_comparison_says_what_a_clean_one_would_pin(tmp_path):
    """Inputs of two layers differ; what follows from a flag, what the script seeds and reads is no input of its own."""
    more = [
        requested("configuration", "argv.--workers", "2"),
        resolved("hardware", "loader.train.num_workers", "2"),
        requested("dataset", "file:only_b.bin", "xxh3:1"),
        requested("seeds", "numpy.random.seed", "7"),
    ]
    a, flag = record(tmp_path / "a", A), record(tmp_path / "flag", [*A, *more])
    assert "layers differ" not in bd_env(a, flag)[1]
    both = record(tmp_path / "both", [*B, *more])
    out = bd_env(a, both)[1]
    assert out.endswith("""\
2 layers differ (configuration and hardware): what differs in the results cannot
  be put down to one of them
  for a clean comparison leave one of these as it is in B, and record B again
    with all others as in A:
  configuration
    # leave out the argument --workers
  hardware
    export OMP_NUM_THREADS=2
  or let bd bisect try them one by one
""")
    rows = json.loads(bd_env(a, both, "--format", "json")[1])["confounded"]
    assert [(row["layer"], row["command"]) for row in rows] == [
        ("configuration", "# leave out the argument --workers"),
        ("hardware", "export OMP_NUM_THREADS=2"),
    ]


def test_json_of_one_run_has_every_setting(tmp_path):
    """The settings are those of the file, by layer."""
    out = json.loads(bd_env(record(tmp_path / "a", A), "--format", "json")[1])

    assert [row["knob"] for row in out["settings"]] == [
        "HF_TOKEN",
        "OMP_NUM_THREADS",
        "threads.intra_op",
        "torch.manual_seed",
    ]


def test_long_values_are_cut_and_counted(tmp_path):
    """A value longer than a line is cut, with its length and where to see all of it; line breaks are escaped."""
    run = record(tmp_path / "a", [requested("configuration", "X", "y" * 150), requested("configuration", "Y", "1\n2")])

    out = bd_env(run)[1]

    assert "y" * 100 + "...(150characters;--formatjsonhasall)Y" in "".join(out.split())
    assert max(map(len, out.splitlines())) <= 80
    assert "Y  1\\n2" in out


def test_of_long_lists_what_differs_is_shown(tmp_path):
    """JSON has the whole values."""
    lists = [" ".join(f"FEATURE{n}" for n in range(last)) for last in (20, 18)]
    runs = [record(tmp_path / str(n), [requested("kernels", "X", text)]) for n, text in enumerate(lists)]
    assert "X: -FEATURE18 -FEATURE19\n" in bd_env(*runs)[1]
    (row,) = json.loads(bd_env(*runs, "--format", "json")[1])["environment"]
    assert [row["a"], row["b"]] == lists


def test_what_a_launcher_made_of_a_variable_stands_in_its_line(tmp_path):
    """Given to one process and set by the launcher in the other: one line says what both had."""
    a = record(tmp_path / "a", [requested("hardware", "OMP_NUM_THREADS", "2")])
    b = record(tmp_path / "b", [resolved("hardware", "OMP_NUM_THREADS", "1")])
    assert bd_env(a, b)[1] == "hardware\n  OMP_NUM_THREADS: 2 -> (not set); the processes had 2 -> 1\n"


def test_other_ranks_are_looked_at_too(tmp_path):
    """A difference on another rank only is pointed at, and counts."""
    a, b = record(tmp_path / "a", A, A), record(tmp_path / "b", A, B)

    status, out, err = bd_env(a, b)

    assert (status, out.splitlines()[0]) == (1, "the environments are equal")
    assert err == f"bd: rank 1 differs in other ways too\n  bd env {a} {b} --rank 1\n"
    assert "OMP_NUM_THREADS: 2 -> 1" in bd_env(a, b, "--rank", "1")[1]


def test_a_rank_that_is_not_there_is_an_error(tmp_path):
    """The message names the ranks that there are."""
    with pytest.raises(UsageError, match=r"has no rank 7\n  it has: 0"):
        bd_env(record(tmp_path / "a", A), "--rank", "7")


def test_a_run_that_is_not_there_is_an_error(tmp_path):
    """The command ends with one message."""
    with pytest.raises(NoSuchRunError):
        bd_env(str(tmp_path / "gone"))


def test_an_empty_environment_says_so(tmp_path):
    """A run without settings is not an empty page."""
    assert bd_env(record(tmp_path / "a", [])) == (0, "no settings were recorded\n", "")


def test_the_layers_of_the_option_are_those_of_the_model():
    """The option names the nine layers without importing them for --help."""
    assert tuple(Layer) == LAYERS


def test_the_command_needs_no_torch(tmp_path):
    """Showing and comparing imports neither torch nor textual."""
    code = """
import contextlib, sys
from bisect_diverge.cli.env import command
with contextlib.suppress(SystemExit):
    command([sys.argv[1], sys.argv[1]], standalone_mode=False)
assert not {"torch", "textual"} & sys.modules.keys()
"""
    subprocess.run([sys.executable, "-c", code, record(tmp_path / "a", A)], check=True, capture_output=True)
