"""Reading a process from inside: nothing changes, two identical processes are equal, knobs show what was set."""

import functools
import json
import os
import subprocess
import sys
from pathlib import Path

from bisect_diverge.environment.differences import differences
from bisect_diverge.environment.read import read_again, read_inside
from bisect_diverge.model.environment import Environment, Layer, Setting

READ = """
import json, sys
from bisect_diverge.environment.read import read_inside, read_again
{before}
start = read_inside()
{between}
end = read_again(start)
print(json.dumps([[s.to_json() for s in start], [s.to_json() for s in end]]))
"""


def run(code, *arguments, **variables):
    """Run code in a process of its own and return what it printed, read as JSON."""
    clean = {k: v for k, v in os.environ.items() if k in ("PATH", "HOME", "LANG")}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code, *arguments],
        env=clean | variables,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


@functools.cache
def read(before="import torch", between="", *arguments, **variables):
    """Return the environment of a process: what it read at the start and at the end."""
    start, end = run(READ.format(before=before, between=between), *arguments, **variables)
    return Environment.from_json(start).merged(tuple(Setting.from_json(row) for row in end))


def values(environment, *, resolved=True):
    """Return value by knob."""
    return {s.knob: s.value for s in environment.settings if s.resolved is resolved}


def test_two_identical_processes_are_equal():
    """Nothing is recorded that differs between any two processes, and every knob has one row."""
    work = """
import os, random, numpy as np
os.environ["PYTHONHASHSEED"] = "0"
torch.nn.Linear(3, 3)(torch.ones(2, 3)).sum().backward()
torch.set_num_threads(1)
"""
    a, b = (read.__wrapped__("import torch", work, "--lr", "0.1") for _ in range(2))

    assert differences(a, b) == ()
    assert len(a.settings) == len({(s.layer, s.knob, s.resolved) for s in a.settings})


def test_threads_are_listed_under_the_variable_that_sets_them():
    """One request differs, and what it resolved to is evidence, not a second difference."""
    (only,) = differences(read(OMP_NUM_THREADS="2"), read(OMP_NUM_THREADS="1"))

    assert (only.layer, only.knob, only.a, only.b) == (Layer.HARDWARE, "OMP_NUM_THREADS", "2", "1")
    assert ("threads.intra_op", "2", "1") in {(d.knob, d.a, d.b) for d in only.resolved}


def test_a_variable_shows_what_it_resolved_to():
    """The resolved value of each variable is read back inside the process."""
    asked = {
        "ATEN_CPU_CAPABILITY": ("default", "cpu.capability"),
        "MKL_CBWR": ("COMPATIBLE", "mkl.cbwr"),
        "PYTHONHASHSEED": ("3", "hash.randomization"),
        "TZ": ("Asia/Tokyo", "timezone"),
    }

    found = differences(read(), read(**{name: value for name, (value, _) in asked.items()}))

    assert {(name, None, value) for name, (value, _) in asked.items()} == {(d.knob, d.a, d.b) for d in found}
    assert all(asked[d.knob][1] in {row.knob for row in d.resolved} for d in found)


def test_a_variable_without_effect_has_no_evidence():
    """More threads than there are processors resolve to the same as none asked for."""
    (only,) = differences(read(), read(OMP_NUM_THREADS=str(len(os.sched_getaffinity(0)) + 2)))

    assert "threads.intra_op" not in {d.knob for d in only.resolved}


def test_settings_of_the_script_are_read_at_both_ends():
    """What a script sets before and during the run is seen; a knob that did not move has no second row."""
    work = """
torch.set_num_threads(1)
torch.use_deterministic_algorithms(True)
torch.backends.mkldnn.enabled = False
torch.set_flush_denormal(True)
"""
    found = values(read("import torch\ntorch.set_float32_matmul_precision('medium')", work, OMP_NUM_THREADS="2"))

    assert tuple(found[knob] for knob in ("matmul.precision", "threads.intra_op", "deterministic", "denormals")) == (
        "medium",
        "2",
        "False",
        "kept",
    )
    assert tuple(
        found[f"{knob}@end"] for knob in ("threads.intra_op", "deterministic", "mkldnn.enabled", "denormals")
    ) == ("1", "True", "False", "flushed")
    assert "matmul.precision@end" not in found


def test_new_and_old_precision_settings_can_be_mixed():
    """Where torch refuses to answer one getter, the other knobs are read all the same."""
    found = values(read("import torch\ntorch.backends.cuda.matmul.fp32_precision = 'tf32'"))

    assert found["cuda.matmul.fp32_precision"] == "tf32"
    assert "sdpa.math" in found


def test_variables_that_the_script_sets_are_seen():
    """A variable set by the script is resolved, at the start or at the end, and never requested."""
    environment = read(
        "import os\nos.environ['MKL_CBWR'] = 'AVX2'", "os.environ['NCCL_ALGO'] = 'Ring'; del os.environ['TZ']", TZ="UTC"
    )
    found = values(environment)

    assert (found["MKL_CBWR"], found["NCCL_ALGO@end"], found["TZ@end"]) == ("AVX2", "Ring", "unset")
    assert {"MKL_CBWR", "NCCL_ALGO"}.isdisjoint(values(environment, resolved=False))


def test_a_hash_seed_set_by_the_script_is_none():
    """Setting PYTHONHASHSEED inside the process does nothing, and the recorded salt stays random."""
    found = values(read("import os\nos.environ['PYTHONHASHSEED'] = '0'"))

    assert found["hash.randomization"] == "random"
    assert "hash.salt" not in found


def test_a_script_without_torch_is_read():
    """The environment needs no torch, and never imports it."""
    environment = read("", "assert 'torch' not in sys.modules and 'numpy' not in sys.modules")
    found = values(environment)

    assert "threads.intra_op" not in found
    assert "cpu.model" in found


UNCHANGED = """
import os, random, sys, warnings
import numpy as np, torch
warnings.simplefilter("error")
def state():
    return [
        dict(os.environ), sys.argv, sys.path, os.getcwd(), len(sys.meta_path), repr(warnings.filters),
        random.getstate(), repr(np.random.get_state()), torch.get_rng_state().tolist(), repr(np.geterr()),
        torch.__config__.parallel_info(), torch.get_default_dtype(), torch.backends.mkldnn.enabled,
        torch.are_deterministic_algorithms_enabled(), torch.cuda.is_initialized(),
        torch.multiprocessing.get_start_method(allow_none=True),
        sorted({"torch._dynamo", "torch._inductor", "multiprocessing.pool"} & sys.modules.keys()),
    ]
from bisect_diverge.environment.read import read_inside, read_again
before = state()
read_again(read_inside(["PATH"]))
assert before == state(), [(a, b) for a, b in zip(before, state()) if a != b]
torch.set_num_interop_threads(3)
torch.multiprocessing.set_start_method("spawn")
print("null")
"""


def test_reading_changes_nothing():
    """No generator, variable, thread count, filter or default moves, nothing is printed, and no warning is given."""
    run(UNCHANGED)


BITS = """
import json, sys
import torch
if sys.argv[1] == "read":
    from bisect_diverge.environment.read import read_inside
    read_inside()
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.LayerNorm(64), torch.nn.GELU(), torch.nn.Linear(64, 8))
for _ in range(3):
    model.zero_grad()
    model(torch.randn(512, 64)).pow(2).mean().backward()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter -= 0.01 * parameter.grad
print(json.dumps([p.double().sum().item().hex() for p in model.parameters()]))
"""


def test_bits_are_the_same_with_and_without_reading():
    """Asking the libraries about themselves first does not change what they compute."""
    assert run(BITS, "no") == run(BITS, "read")


def test_reading_in_this_process_yields_no_warning_and_no_duplicates():
    """In a process that holds many libraries every knob still has one row."""
    settings = read_inside(["PATH"])

    assert len(settings) == len({(s.layer, s.knob, s.resolved) for s in settings})
    assert "PATH" in {s.knob for s in settings}
    assert "modules" in {s.knob for s in read_again(settings)}


def test_one_knob_that_fails_costs_no_other(monkeypatch):
    """A reader that raises leaves out its own row only."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: 1 / 0)

    knobs = {s.knob for s in read_inside()}

    assert "affinity" not in knobs
    assert "cpu.logical" in knobs


def test_what_a_launcher_sets_is_not_requested(monkeypatch):
    """The command was started without it, so that it comes of the launcher's options, which are requested."""
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("MKL_CBWR", "AUTO")
    monkeypatch.setattr(sys, "argv", ["/x/train.py", "--lr", "1"])
    command = ("torchrun", "--nproc-per-node", "2", "train.py", "--lr", "1")
    found = Environment(read_inside(command=command, asked={"MKL_CBWR": "AUTO"}))
    assert found.value("hardware", "WORLD_SIZE", resolved=False) is None
    assert found.value("hardware", "WORLD_SIZE", resolved=True) == "2"
    assert found.value("hardware", "world.size") == "2"
    assert found.value("kernels", "MKL_CBWR", resolved=False) == "AUTO"
    assert found.value("configuration", "launcher.--nproc-per-node") == "2"
    assert found.value("configuration", "argv.--lr") == "1"


def test_what_the_c_library_computes_is_read():
    """Without FMA its functions give other last bits; a name that it does not know does nothing, silently."""
    code = "from bisect_diverge.environment.runtime import _allocator, _libm; print(_libm(), _allocator())"

    def read(**variables):
        env = {k: v for k, v in os.environ.items() if k not in ("GLIBC_TUNABLES", "LD_PRELOAD")} | variables
        return subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True).stdout

    plain = read()
    assert plain == read(GLIBC_TUNABLES="glibc.cpu.hwcaps=-NO_SUCH_THING")
    assert plain.split(maxsplit=1)[1].strip() in ("the C library's", "jemalloc", "tcmalloc", "mimalloc")
    if "fma" in Path("/proc/cpuinfo").read_text() and os.confstr("CS_GNU_LIBC_VERSION") == "glibc 2.36":
        assert plain != read(GLIBC_TUNABLES="glibc.cpu.hwcaps=-FMA")
