"""A command line taken apart and mixed."""

import pytest

from bisect_diverge.errors import ReplayError
from bisect_diverge.model.run import RunRecord
from bisect_diverge.trial.command import differing, mixed, take_apart


def line(command, script_at=1):
    """Return the parts of a command whose script is the token at a place."""
    words = command.split()
    return take_apart(RunRecord(command=tuple(words), argv=tuple(words[script_at:])))


def test_the_arguments_are_those_that_the_script_had():
    """Launcher, script and arguments are told apart by what the recorded process was given."""
    parts = line("python -m torch.distributed.run --nproc_per_node=2 train.py --lr 0.1", script_at=4)
    assert parts.launcher == ("python", "-m", "torch.distributed.run", "--nproc_per_node=2")
    assert parts.program == "train.py"
    assert parts.arguments == ("--lr", "0.1")


def test_a_command_that_hides_the_script_is_one_piece():
    """Of ``make train`` nobody knows which tokens reach the script."""
    parts = take_apart(RunRecord(command=("make", "train"), argv=("train.py", "--lr", "0.1")))
    assert parts.launcher == ("make", "train")
    assert parts.tokens() == ("make", "train")


@pytest.mark.parametrize(
    "record",
    [RunRecord(argv=("train.py",)), RunRecord(command=("python", "t.py", "--key", "masked"), argv=("t.py",))],
)
def test_what_cannot_be_run_again_is_said(record):
    """A run of the library's door has no command, and a masked value is gone."""
    with pytest.raises(ReplayError):
        take_apart(record)


@pytest.mark.parametrize(
    ("a", "b", "knobs"),
    [
        ("python t.py --lr 0.1", "python t.py --lr 0.2", {"argv.--lr": ("0.1", "0.2")}),
        ("python t.py --lr 0.1", "python t.py --lr=0.1", {}),
        ("python t.py", "python t.py --fused", {"argv.--fused": (None, "set")}),
        ("python t.py a b", "python t.py a c", {"argv.1": ("b", "c")}),
        ("python t.py lr=1", "python t.py lr=2 bs=3", {"argv.lr": ("1", "2"), "argv.bs": (None, "3")}),
        ("python t.py", "python u.py", {"argv.program": ("t.py", "u.py")}),
        ("python t.py --nesterov p q", "python t.py p q", {"argv.--nesterov": ("set", None)}),
        ("python t.py p", "python t.py --amp p --lr 1", {"argv.--amp": (None, "set"), "argv.--lr": (None, "1")}),
        ("python t.py --betas 0.8 0.99", "python t.py", {"argv.--betas": ("0.8 0.99", None)}),
        ("python t.py --betas 0.8 0.99", "python t.py --betas 0.8 0.9", {"argv.--betas": ("0.8 0.99", "0.8 0.9")}),
        ("python t.py --names a b", "python t.py", {"argv.--names": ("a b", None)}),
        ("python t.py --out x p", "python t.py --out y p", {"argv.--out": ("x", "y")}),
        ("python t.py --lr=1 p", "python t.py p", {"argv.--lr": ("1", None)}),
        ("python t.py --amp", "python t.py --no-amp", {"argv.--amp": ("set", "no")}),
        ("python t.py --no-amp", "python t.py", {"argv.--no-amp": ("set", None)}),
        ("python t.py --shift -1e-3", "python t.py --shift=-2", {"argv.--shift": ("-1e-3", "-2")}),
        ("python t.py --ns 1 2 -x 3", "python t.py --ns 1 2 5 -x 3", {"argv.--ns": ("1 2", "1 2 5")}),
        ("python t.py @a.txt", "python t.py @b.txt", {"argv.0": ("@a.txt", "@b.txt")}),
        ("python t.py o.lr=1 +m=a", "python t.py o.lr=2 +m=a", {"argv.o.lr": ("1", "2")}),
        ("python t.py o.lr=1", "python t.py o.lr=1 +new=3", {"argv.+new": (None, "3")}),
        ("python t.py --aug a --aug b", "python t.py --aug b", {"argv.--aug": ("a b", "b")}),
        ("python t.py --aug a --aug b", "python t.py --aug a --aug c", {"argv.--aug#2": ("b", "c")}),
        ("python t.py fit --lr 1", "python t.py test --lr 1", {"argv.0": ("fit", "test")}),
    ],
)
def test_differences_are_named_flag_by_flag(a, b, knobs):
    """Each flag, key, position and the script itself is a knob; how a value is attached is none."""
    assert {knob: (x, y) for knob, x, y in differing(line(a), line(b))} == knobs


@pytest.mark.parametrize(
    ("a", "b", "knobs", "expected"),
    [
        ("python t.py --lr 0.1 --out x", "python t.py --lr=0.2 --out y", ["argv.--lr"], "python t.py --lr=0.2 --out x"),
        ("python t.py --out x", "python t.py --fused --out x", ["argv.--fused"], "python t.py --fused --out x"),
        ("python t.py --fused --out x", "python t.py --out x", ["argv.--fused"], "python t.py --out x"),
        ("python t.py a --v", "python u.py b --v", ["argv.program"], "python u.py a --v"),
        ("python t.py --w 0 --lr 1", "python t.py --w 2 --lr 2", ["argv.--w", "argv.--lr"], "python t.py --w 2 --lr 2"),
        ("python t.py a", "python t.py a -- b", ["argv.1"], "python t.py a -- b"),
        ("python t.py --nesterov p q --v", "python t.py p q", ["argv.--nesterov"], "python t.py p q --v"),
        ("python t.py p", "python t.py --amp p --lr 1", ["argv.--amp"], "python t.py --amp p"),
        ("python t.py --betas 1 2 --v", "python t.py --v 2", ["argv.--betas"], "python t.py --v"),
        ("python t.py --v", "python t.py --betas 1 2 --v", ["argv.--betas"], "python t.py --betas 1 2 --v"),
        ("python t.py --amp --v", "python t.py --no-amp", ["argv.--amp"], "python t.py --no-amp --v"),
        ("python t.py --no-amp", "python t.py --amp --v", ["argv.--amp"], "python t.py --amp"),
        ("python t.py --g a --g b --v", "python t.py --g b", ["argv.--g"], "python t.py --g b --v"),
        ("python t.py --v --g b", "python t.py --g a --g b --g c", ["argv.--g"], "python t.py --v --g a --g b --g c"),
    ],
)
def test_a_mixed_command_has_only_the_wanted_parts_of_b(a, b, knobs, expected):
    """Values are replaced where they stand, new flags come where B has them, lost ones go."""
    values = {knob: y for knob, _, y in differing(line(a), line(b)) if knob in knobs}
    assert mixed(line(a), line(b), values) == tuple(expected.split())


def test_all_parts_of_b_are_b():
    """A with everything swapped is B's command."""
    a, b = line("python t.py --lr 1 --a --out x pos"), line("python u.py --lr=2 --b 3 --out x other --last")
    values = {knob: y for knob, _, y in differing(a, b)}
    assert mixed(a, b, values) == b.tokens()


@pytest.mark.parametrize(
    ("knob", "value", "expected"),
    [
        ("argv.--lr", "5", "python t.py --lr 5 --out o"),
        ("argv.--fused", "set", "python t.py --lr 1 --out o --fused"),
        ("argv.key", "3", "python t.py --lr 1 --out o key=3"),
        ("argv.0", "data", "python t.py --lr 1 --out o data"),
    ],
)
def test_a_value_that_neither_run_has_can_be_set(knob, value, expected):
    """A trial by hand may ask for anything; what is new comes last."""
    a = line("python t.py --lr 1 --out o")
    assert mixed(a, a, {knob: value}) == tuple(expected.split())


@pytest.mark.parametrize(
    ("a", "b", "knob"),
    [
        ("torchrun --nproc-per-node 1 t.py --o x", "torchrun --nproc-per-node 2 t.py --o x", "--nproc-per-node"),
        ("accelerate launch --num_processes 1 t.py", "accelerate launch --num_processes 2 t.py", "--num_processes"),
        ("mpirun -n 1 python t.py --lr 1", "mpirun -n 2 python t.py --lr 1", "-n"),
        ("srun --ntasks=1 python -u t.py", "srun --ntasks=2 python -u t.py", "--ntasks"),
        ("deepspeed --num_gpus 1 t.py --o x", "deepspeed --num_gpus 2 t.py --o x", "--num_gpus"),
    ],
)
def test_the_number_of_ranks_of_any_launcher(a, b, knob):
    """It is one option of the launcher, and the script's own arguments stay as they are."""
    one, other = (line(text, script_at=text.split().index("t.py")) for text in (a, b))
    assert differing(one, other) == [(f"launcher.{knob}", "1", "2")]
    assert mixed(one, other, {f"launcher.{knob}": "2"}) == other.tokens()
    assert mixed(one, one, {f"launcher.{knob}": "2"})[-len(one.arguments) - 1 :] == ("t.py", *one.arguments)


def test_the_launchers_options_are_swapped_apart():
    """The number of processes is the launcher's argument, not the script's."""
    a = line("python -m torch.distributed.run --standalone --nproc_per_node=1 t.py --o x", script_at=5)
    b = line("python -m torch.distributed.run --standalone --nproc_per_node=2 t.py --o x", script_at=5)
    assert differing(a, b) == [("launcher.--nproc_per_node", "1", "2")]
    assert mixed(a, b, {"launcher.--nproc_per_node": "2"}) == b.tokens()


def test_what_only_starts_the_command_is_no_part_of_it():
    """A time limit is no difference and no part of a trial; a variable of ``env`` is one, and can be swapped."""
    plain = line("python -u t.py --lr 1", script_at=2)
    limited = line("timeout 4 nice -n 5 python -u t.py --lr 1", script_at=7)
    assert differing(plain, limited) == []
    assert limited.tokens() == plain.tokens()
    given = line("timeout 4 env OMP_NUM_THREADS=2 python -u t.py --lr 1", script_at=6)
    assert differing(plain, given) == [("launcher.OMP_NUM_THREADS", None, "2")]
    both = ("env", "OMP_NUM_THREADS=2", "python", "-u", "t.py", "--lr", "1")
    assert mixed(plain, given, {"launcher.OMP_NUM_THREADS": "2"}) == given.tokens() == both
    assert mixed(given, plain, {"launcher.OMP_NUM_THREADS": None}) == plain.tokens()
