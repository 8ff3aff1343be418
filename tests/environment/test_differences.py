"""What differs between two environments, and under what it is listed."""

import pytest

from bisect_diverge.environment.differences import EXPLANATIONS, _explains, belonging, differences, not_compared
from bisect_diverge.environment.read import TABLES
from bisect_diverge.environment.variables import ALLOWED
from bisect_diverge.model.environment import Difference, Environment, Layer, Setting


def environment(*rows):
    """Build an environment from ``layer knob value`` texts; a ``!`` before the knob: resolved."""
    settings = []
    for row in rows:
        layer, knob, value = row.split(" ", 2)
        name = knob.removeprefix("!")
        settings.append(
            Setting(layer=Layer(layer), knob=name, value=value, resolved=knob != name, masked=value == "masked")
        )
    return Environment(tuple(settings))


def told(a, b):
    """Return the entries as texts, each with what is listed below it."""
    return [(f"{d.layer} {d.knob} {d.a} {d.b}", [r.knob for r in d.resolved]) for d in differences(a, b)]


def test_equal_environments_have_no_difference():
    """The order of the rows means nothing."""
    a = environment("hardware OMP_NUM_THREADS 2", "kernels !deterministic False")

    assert differences(a, Environment(a.settings[::-1])) == ()


def test_evidence_is_listed_under_every_request_that_explains_it():
    """Two requests that both set threads both carry the resolved number."""
    a = environment("hardware !threads.intra_op 2")
    b = environment("hardware OMP_NUM_THREADS 1", "hardware MKL_NUM_THREADS 1", "hardware !threads.intra_op 1")

    assert told(a, b) == [
        ("hardware MKL_NUM_THREADS None 1", ["threads.intra_op"]),
        ("hardware OMP_NUM_THREADS None 1", ["threads.intra_op"]),
    ]


def test_unexplained_evidence_is_an_entry_of_its_own():
    """A resolved value that no request explains is a unit; a flag explains nothing by its name."""
    a = environment("configuration argv.--threads 2", "hardware !threads.intra_op 2")
    b = environment("configuration argv.--threads 1", "hardware !threads.intra_op 1")

    assert told(a, b) == [
        ("configuration argv.--threads 2 1", []),
        ("hardware threads.intra_op 2 1", []),
    ]


def test_another_machine_explains_its_instructions():
    """Resolved values explain each other: what follows from the processor is listed under it."""
    rows = ["hardware !cpu.model {}", "kernels !cpu.capability {}", "hardware !cpu.logical {}", "hardware affinity {}"]
    a, b = (environment(*(row.format(x) for row in rows)) for x in "12")

    assert told(a, b) == [
        ("hardware affinity 1 2", []),
        ("hardware cpu.model 1 2", ["cpu.logical", "cpu.capability"]),
    ]


def test_a_package_explains_only_what_it_brings():
    """Another torch explains its version and getters that one of the two lacks, not a switch that the script sets."""
    a = environment("dependencies torch 2.4", "runtime !torch.version 2.4", "kernels !deterministic True")
    b = environment(
        "dependencies torch 2.13", "runtime !torch.version 2.13", "kernels !deterministic False", "kernels !new 1"
    )

    assert told(a, b) == [
        ("dependencies torch 2.4 2.13", ["torch.version", "new"]),
        ("kernels deterministic True False", []),
    ]


def test_a_variable_explains_what_the_script_made_of_it():
    """Requested and resolved values of one variable are one entry."""
    a = environment("hardware OMP_NUM_THREADS 2", "hardware !OMP_NUM_THREADS 4")
    b = environment("hardware OMP_NUM_THREADS 1", "hardware !OMP_NUM_THREADS 8")

    assert told(a, b) == [("hardware OMP_NUM_THREADS 2 1", ["OMP_NUM_THREADS"])]


def test_what_a_launcher_made_of_a_variable_is_compared_with_what_the_other_process_had():
    """A value that one process was given and the other one got from its launcher is one difference, or none."""
    asked = environment("hardware OMP_NUM_THREADS 2")
    (found,) = differences(asked, environment("hardware !OMP_NUM_THREADS 1"))
    assert [(d.knob, d.a, d.b) for d in (found, *found.resolved)] == [
        ("OMP_NUM_THREADS", "2", None),
        ("OMP_NUM_THREADS", "2", "1"),
    ]
    (found,) = differences(asked, environment("hardware !OMP_NUM_THREADS 2"))
    assert (found.a, found.b, found.resolved) == ("2", None, ())


def test_threads_of_samples_move_with_workers():
    """The number where samples are made is listed under the number of workers, and need not move with it."""
    rows = ("hardware !loader.x.num_workers {}", "hardware !loader.x.threads {}")
    a, b = (environment(*(row.format(n) for row, n in zip(rows, numbers, strict=True))) for numbers in ((0, 2), (1, 1)))
    assert told(a, b) == [("hardware loader.x.num_workers 0 1", ["loader.x.threads"])]
    assert [s.knob for s in belonging(Layer.HARDWARE, "loader.x.num_workers", a)] == ["loader.x.num_workers"]


def test_entries_are_in_the_order_of_the_layers_and_numbers():
    """Layers first, then knobs, and the tenth argument after the second."""
    a = environment("seeds random.seed 0", "configuration argv.10 a", "configuration argv.2 a", "source commit a")
    b = environment("seeds random.seed 1", "configuration argv.10 b", "configuration argv.2 b", "source commit b")

    assert [d.knob for d in differences(a, b)] == ["commit", "argv.2", "argv.10", "random.seed"]


MARK = "source !modules 1"


def test_a_run_that_did_not_end_is_not_compared_at_its_end():
    """Rows that only the end of a run gives mean nothing when one run did not get there."""
    a = environment(
        MARK, "source !module:train.py x", "hardware !threads.intra_op 2", "hardware !threads.intra_op@end 1"
    )

    assert told(a, environment("hardware !threads.intra_op 2")) == []


def test_a_knob_that_did_not_move_has_its_first_value_at_the_end():
    """A value changed during one run only differs at the end; one that both ended with does not."""
    moved = environment(MARK, "hardware !threads.intra_op 2", "hardware !threads.intra_op@end 1")

    assert told(moved, environment(MARK, "hardware !threads.intra_op 2")) == [("hardware threads.intra_op@end 1 2", [])]
    assert told(moved, environment(MARK, "hardware !threads.intra_op 1")) == [("hardware threads.intra_op 2 1", [])]


def test_a_module_is_evidence_of_the_commit():
    """Changed modules are listed under the commit, and stand alone where there is none."""
    a = environment(MARK, "source commit a", "source !module:x.py 1")
    b = environment(MARK, "source commit b", "source !module:x.py 2")

    assert told(a, b) == [("source commit a b", ["module:x.py"])]
    alone = [Environment(e.settings[:1] + e.settings[2:]) for e in (a, b)]
    assert told(*alone) == [("source module:x.py 1 2", [])]


def test_what_cannot_be_compared_is_said():
    """Two masked values are not equal, only not known to differ; so are two random salts and two failures to read."""
    rows = ["configuration HF_TOKEN masked", "seeds !hash.randomization random", "source uncommitted not read: slow"]
    a, b = environment(*rows), environment(*rows)

    assert differences(a, b) == ()
    assert [(row.knob, row.why) for row in not_compared(a, b)][:2] == [
        ("uncommitted", "not read: slow"),
        ("HF_TOKEN", "masked on both sides"),
    ]
    assert len(not_compared(a, b)) == 3


def test_a_secret_on_one_side_only_differs():
    """A token that one run has and the other has not is a difference."""
    assert told(environment("configuration HF_TOKEN masked"), environment()) == [
        ("configuration HF_TOKEN masked None", [])
    ]


def known():
    """Return every knob and variable as ``(layer, name)``, with an example for each pattern."""
    for layer, table in TABLES.items():
        for knob in table:
            yield layer, knob.name
    for layer, rows in ALLOWED.items():
        for row in rows:
            yield layer, row.pattern.replace("*", "X")
    for text in ("commit", "uncommitted", "repository", "tree", "module:x.py", "file:x.py", "uncommitted.files"):
        yield Layer.SOURCE, text
    for text in ("torch", "numpy", "scipy", "nvidia-nccl-cu12"):
        yield Layer.DEPENDENCIES, text
    for text in ("blas.numpy.threads", "openmp.torch.threads"):
        yield Layer.HARDWARE, text
    yield Layer.KERNELS, "blas.numpy.architecture"


def test_no_knob_explains_itself():
    """The table has no circle: every difference ends at an entry."""
    knobs = list(known())
    edges = {
        (layer, name): [
            (w_layer, w_name)
            for w_layer, w_name in knobs
            if (w_layer, w_name) != (layer, name)
            and _explains((layer, name, True), Difference(layer=w_layer, knob=w_name, a=None, b="1"))
        ]
        for layer, name in knobs
    }

    def reaches(start, todo, seen):
        for knob in todo:
            if knob not in seen:
                seen.add(knob)
                reaches(start, edges[knob], seen)
        return seen

    assert [knob for knob in knobs if knob in reaches(knob, edges[knob], set())] == []


@pytest.mark.parametrize("row", EXPLANATIONS, ids=lambda row: row.by)
def test_every_row_of_the_table_is_about_knobs_that_exist(row):
    """No row explains, or is explained by, a knob that nobody reads."""
    from fnmatch import fnmatchcase

    names = [f"{layer}:{name}" for layer, name in known()]
    names += [
        "dependencies:scikit-learn",
        "dependencies:opt-einsum",
        "features:file:x.py",
        "configuration:argv.program",
        "configuration:launcher.--nproc_per_node",
        "dataset:file:x.bin",
        "dataset:listing:x",
        "dataset:data.0",
        *(f"dataset:data.0.{name}" for name in ("content", "bytes", "files", "order")),
        *(f"hardware:loader.x.{name}" for name in ("num_workers", "prefetch_factor", "persistent_workers")),
        *(f"hardware:loader.x.{name}" for name in ("start_method", "in_order", "threads")),
        "seeds:loader.x.worker_init_fn",
    ]
    names += ["source:submodule:lib", "source:extension:kit/kit.so"]
    names += ["hardware:openmp.scikit_learn.threads", "hardware:blas.scipy.threads", "kernels:TORCH_BLAS_X"]
    names += ["hardware:model.model.device", "kernels:model.model.dtype", "kernels:compiled.0.mode"]
    names += ["seeds:loader.train.generator", "seeds:loader.train.base_seed", "seeds:torch.manual_seed"]
    names += ["seeds:initial-state.torch"]
    names += ["kernels:TORCH_LINALG_X", "kernels:TORCH_ALLOW_TF32_X", "kernels:TORCH_COMPILE_DISABLE"]

    for pattern in (row.by, *row.what):
        assert any(fnmatchcase(name, pattern) for name in names), pattern
