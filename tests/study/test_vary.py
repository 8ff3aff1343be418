"""Each knob alone: what is tried, and what is said of it."""

import json
from dataclasses import replace

import pytest

from bisect_diverge.model.address import Address
from bisect_diverge.model.environment import Difference, Environment, Layer, Setting
from bisect_diverge.model.trial import Budget, Outcome, Trial, Unit, Untested
from bisect_diverge.report.vary_json import variation_json, variation_plan_json
from bisect_diverge.report.vary_text import variation_plan_text, variation_text
from bisect_diverge.study.alternatives import ALTERNATIVES, Site, alternatives, this_site, unknown
from bisect_diverge.study.vary import vary

FIRST = Address.parse("r0/0/0/forward/model:1#0:output.0")


def unit(knob, layer=Layer.KERNELS, b="1"):
    """Return a unit."""
    return Unit(layer=layer, knob=knob, a=None, b=b)


UNITS = (unit("moves"), unit("nothing"), unit("inert"), unit("broken"), unit("moves", b="2"))


def oracle(swapped, *, repeat=0):
    """Answer by the name of the knob."""
    (knob,) = (u.knob for u in swapped) if swapped else ("nothing",)
    outcome = {"moves": Outcome.OTHER, "broken": Outcome.SKIP}.get(knob, Outcome.A)
    return Trial(
        n=1,
        base="a",
        swapped=tuple(swapped),
        outcome=outcome,
        inert=tuple(swapped) if knob == "inert" else (),
        first_against_a=FIRST if outcome is Outcome.OTHER else None,
        reason="no such kernel" if knob == "broken" else "",
        stopped_at_step=1,
    )


def names(trials):
    """Return knob and value of trials."""
    return [f"{t.swapped[0].knob}={t.swapped[0].b}" for t in trials]


@pytest.mark.parametrize("jobs", [1, 3])
def test_every_knob_has_one_of_four_answers(jobs):
    """Sensitive, without effect, inert, or not to be had; all are told."""
    found = vary(UNITS, oracle, Budget(repeats=2), jobs=jobs, inapplicable=[Untested(unit=unit("gpu"), reason="none")])
    assert (len(found.repeats), found.finished) == (2, True)
    assert names(found.sensitive) == ["moves=1", "moves=2"]
    assert names(found.without_effect) == ["nothing=1"]
    assert names(found.inert) == ["inert=1"]
    assert names(found.failed) == ["broken=1"]
    text = variation_text(found, "runs/a")
    assert text.splitlines()[:3] == [
        "sensitive to 1 knob of 2 tested",
        "  kernels moves: (not set) -> 1",
        "    first at step 0, micro-batch 0, forward, output.0 of model:1",
    ]
    assert "kernels broken: (not set) -> 1: no such kernel" in text
    assert "do not apply here\n  none: kernels.gpu\n" in text
    assert "bd trial runs/a --set kernels.moves=1" in text
    document = json.loads(variation_json(found))
    assert (document["verdict"], document["finished"]) == ("varied", True)
    assert document["sensitive"][0]["first"] == str(FIRST)
    assert [row["knob"] for row in document["inapplicable"]] == ["gpu"]


@pytest.mark.parametrize(
    ("budget", "stop_after", "tried", "left"),
    [
        (Budget(trials=3), None, ["moves=1", "nothing=1"], ["inert", "broken", "moves"]),
        (Budget(seconds=0), None, [], []),
        (Budget(), 2, ["moves=1"], ["nothing", "inert", "broken", "moves"]),
    ],
)
def test_a_study_that_ends_early_says_what_it_left(budget, stop_after, tried, left):
    """Trials, time and Ctrl-C end it; what was not tried is listed, and nothing is said of it."""
    made = []
    found = vary(
        UNITS,
        oracle,
        budget,
        on_trial=made.append,
        should_stop=lambda: stop_after is not None and len(made) >= stop_after,
    )
    assert names(found.trials) == tried
    assert not found.finished
    if found.repeats:
        assert [u.knob for u in found.left] == left
        assert "not tried: stopped before" in variation_text(found, "")
    else:
        assert variation_text(found, "") == "nothing was tried"


def test_what_fills_memory_says_more_than_that_it_matters():
    """A run that repeats itself and is sensitive to it reads memory that nobody has written: a note says so."""
    filled = unit("MALLOC_PERTURB_", Layer.RUNTIME, "165")

    def follows(swapped, *, repeat=0):
        return replace(oracle(frozenset({UNITS[0]}) if swapped else swapped), swapped=tuple(swapped))

    said = " ".join(variation_text(vary([filled], follows, Budget()), "").split())
    assert "a run that it moves reads memory that nobody has written" in said
    assert "nobody has written" not in variation_text(vary(UNITS, oracle, Budget()), "")


def test_a_run_that_does_not_repeat_itself_is_not_varied():
    """No knob is blamed for what luck does."""

    def luck(swapped, *, repeat=0):
        assert not swapped
        return oracle(frozenset([unit("moves")]))

    found = vary(UNITS, luck, Budget())
    assert found.trials == ()
    assert "does not repeat itself" in variation_text(found, "")
    assert "first differs at step 0" in variation_text(found, "")
    assert json.loads(variation_json(found))["verdict"] == "baseline-not-repeatable"


def site(*settings, processors=2, features=("avx2", "avx512f")):
    """Return a machine and a run with some settings, as ``layer.knob=value``."""
    rows = []
    for text in settings:
        name, _, value = text.partition("=")
        layer, _, knob = name.partition(".")
        rows.append(Setting(layer=Layer(layer), knob=knob, value=value, resolved=True))
    return Site(Environment(tuple(rows)), processors, frozenset(features))


def values(found, knob):
    """Return the values that are tried of a knob."""
    return [u.b for u in found[0] if str(u) == knob]


def test_what_is_tried_follows_from_the_run():
    """Only other values than the present one; loaders and optimizers by their names."""
    found = alternatives(
        site(
            "hardware.threads.intra_op=2",
            "hardware.loader.train.num_workers=0",
            "hardware.loader.valid.num_workers=3",
            "kernels.optimizer.opt.fused=default",
            "kernels.deterministic=True",
            "kernels.numpy.cpu_features=SSE X86_V4 AVX512_ICL",
        )
    )
    assert values(found, "hardware.threads.intra_op") == ["1", "4"]
    assert values(found, "hardware.loader.train.num_workers") == ["1", "2"]
    assert values(found, "hardware.loader.valid.num_workers") == ["0", "4"]
    assert values(found, "kernels.optimizer.opt.fused") == ["True", "False"]
    assert values(found, "kernels.deterministic") == ["False"]
    assert values(found, "kernels.NPY_DISABLE_CPU_FEATURES") == ["X86_V4 AVX512_ICL"]
    assert values(found, "kernels.ATEN_CPU_CAPABILITY") == ["default", "avx2"]
    reasons = {str(row.unit): row.reason for row in found[1]}
    assert reasons["kernels.cudnn.benchmark"] == "the run used no accelerator"
    assert reasons["kernels.MKL_CBWR"] == "torch is built without MKL here"
    assert reasons["kernels.matmul.precision"] == "has no other value here"


def test_accelerators_and_small_machines():
    """Rows apply where they mean something."""
    gpu = alternatives(
        site("hardware.accelerators=1", "kernels.cudnn.benchmark=False", "hardware.affinity=1", processors=1)
    )
    assert values(gpu, "kernels.cudnn.benchmark") == ["True"]
    assert values(gpu, "kernels.CUDA_LAUNCH_BLOCKING") == ["1"]
    reasons = {str(row.unit): row.reason for row in gpu[1]}
    assert reasons["kernels.NCCL_ALGO"] == "the run has one rank"
    assert reasons["hardware.affinity"] == "there is one processor"
    old = alternatives(site(features=("sse4_2",)))
    assert values(old, "kernels.ONEDNN_MAX_CPU_ISA") == []


def test_knobs_can_be_named():
    """With and without the layer, with stars, and any value of a knob that can be set."""
    here = site("hardware.threads.intra_op=2", "kernels.deterministic=False", "kernels.sdpa.math=True")
    assert {str(u) for u in alternatives(here, ["threads.*", "kernels.det*"])[0]} == {
        "hardware.threads.intra_op",
        "kernels.deterministic",
    }
    assert [(str(u), u.b) for u in alternatives(here, ["sdpa.math=False"])[0]] == [("kernels.sdpa.math", "False")]
    assert [str(u) for u in alternatives(here, ["kernels.FBGEMM_NO_ASMJIT=1"])[0]] == ["kernels.FBGEMM_NO_ASMJIT"]
    assert unknown(here, ["threads.*", "sdpa.math=False", "nonsense", "other=1"]) == ("nonsense", "other=1")


def test_this_machine_has_a_table():
    """Every row can be asked here, and names a layer."""
    units, out = alternatives(this_site(Environment()))
    assert {str(row.unit) for row in out} | {str(u) for u in units} >= {
        r.knob for r in ALTERNATIVES if "*" not in r.knob
    }
    plan = variation_plan_text(units, out, len(units) + 2, 300)
    assert f"{len(units) + 2} trials, about 5 min" in plan
    assert json.loads(variation_plan_json(units, out, 3, 1.0))["trials"] == 3


def test_layouts_and_compiled_code():
    """A model with convolutions is laid out otherwise; knobs of torch.compile apply where something is compiled."""
    plain = alternatives(site("kernels.model.net.layout=contiguous", "kernels.inductor.deterministic=False"))
    assert values(plain, "kernels.model.net.layout") == ["channels_last"]
    assert values(plain, "kernels.TORCH_COMPILE_DISABLE") == []
    reasons = {str(row.unit): row.reason for row in plain[1]}
    assert reasons["kernels.TORCH_COMPILE_DISABLE"] == "the run compiles nothing"
    compiled = alternatives(site("kernels.compiled.0.backend=inductor", "kernels.compiled.0.dynamic=None"))
    assert values(compiled, "kernels.TORCH_COMPILE_DISABLE") == ["1"]
    assert values(compiled, "kernels.compiled.0.backend") == ["aot_eager"]
    assert values(compiled, "kernels.compiled.0.dynamic") == ["True", "False"]


def test_what_moved_is_named_once():
    """All threads move with torch's own, and what only the trial has is no news."""
    moved = [
        Difference(layer=Layer.HARDWARE, knob="mkl.dynamic", a="True", b="False"),
        Difference(layer=Layer.HARDWARE, knob="threads.intra_op", a="2", b="1"),
        Difference(layer=Layer.HARDWARE, knob="threads.mkl", a="2", b="1"),
        Difference(layer=Layer.HARDWARE, knob="loader.x.in_order", a=None, b="True"),
    ]
    note = "kernels.moves was held at 1; the script asked for 2"

    def told(swapped, *, repeat=0):
        trial = oracle(swapped, repeat=repeat)
        return replace(trial, consequences=tuple(moved), overridden=(note,)) if swapped else trial

    lines = variation_text(vary(UNITS[:1], told, Budget()), "runs/a").splitlines()
    assert lines[3:5] == ["    which moved hardware threads.intra_op: 2 -> 1", f"    {note}"]


def test_no_more_trials_are_begun_side_by_side_than_the_budget_has():
    """Three at a time, of which two are left."""
    found = vary(UNITS, oracle, Budget(trials=3), jobs=3)
    assert [len(found.repeats), len(found.trials), len(found.left)] == [1, 2, 3]
