"""Which environment variables are recorded, and as what."""

import json
import subprocess
import sys

import pytest

from bisect_diverge.environment import variables
from bisect_diverge.model.environment import Layer


def read(given, now=None, extra=()):
    """Return knob, resolved flag and value of what is recorded."""
    return {(s.knob, s.resolved): s.value for s in variables.read(given, given if now is None else now, extra)}


@pytest.mark.parametrize(
    ("name", "layer"),
    [
        ("OMP_NUM_THREADS", Layer.HARDWARE),
        ("WORLD_SIZE", Layer.HARDWARE),
        ("ATEN_CPU_CAPABILITY", Layer.KERNELS),
        ("TORCHINDUCTOR_MAX_AUTOTUNE", Layer.KERNELS),
        ("TORCHINDUCTOR_COMPILE_THREADS", Layer.HARDWARE),
        ("HF_HOME", Layer.DATASET),
        ("HF_HUB_OFFLINE", Layer.CONFIGURATION),
        ("PYTHONHASHSEED", Layer.SEEDS),
        ("TZ", Layer.RUNTIME),
        ("PYTHONPATH", Layer.DEPENDENCIES),
        ("HOME", None),
        ("TORCHELASTIC_RUN_ID", None),
        ("TORCHINDUCTOR_CACHE_DIR", None),
        ("MASTER_PORT", None),
        ("BISECT_DIVERGE_RECORD", None),
    ],
)
def test_a_variable_has_one_layer_or_none(name, layer):
    """An exact name beats a prefix, and what means nothing is not recorded."""
    assert layer is variables.layer_of(name)


def test_the_whole_environment_is_never_recorded():
    """A variable on no list stays out, unless the user names it."""
    given = {"MYAPP_DEPTH": "3", "HOME": "/home/ann", "OMP_NUM_THREADS": "2"}

    assert read(given) == {("OMP_NUM_THREADS", False): "2"}
    assert read(given, extra=["MYAPP_*"]) == {("OMP_NUM_THREADS", False): "2", ("MYAPP_DEPTH", False): "3"}


def test_what_the_script_sets_is_resolved():
    """A value that the script set, changed or took away is evidence, the value it was given is the request."""
    rows = read({"OMP_NUM_THREADS": "2", "MKL_CBWR": "AVX2"}, {"OMP_NUM_THREADS": "1", "NCCL_ALGO": "Ring"})

    assert rows == {
        ("OMP_NUM_THREADS", False): "2",
        ("OMP_NUM_THREADS", True): "1",
        ("MKL_CBWR", False): "AVX2",
        ("MKL_CBWR", True): "unset",
        ("NCCL_ALGO", True): "Ring",
    }


def test_a_search_path_is_taken_as_it_is_now():
    """The recorder puts itself on PYTHONPATH and takes itself off again; the user's value is what is left."""
    assert read({"PYTHONPATH": "/bootstrap:/src"}, {"PYTHONPATH": "/src"}) == {("PYTHONPATH", False): "/src"}


def test_secrets_among_the_variables_are_masked():
    """A name or a value that looks like a credential is masked and marked, asked for or not."""
    rows = variables.read(
        {"HF_TOKEN": "abc", "MY_PASSWORD": "abc"}, {"HF_TOKEN": "abd", "MY_PASSWORD": "abc"}, ["MY_*"]
    )

    assert all(row.masked and row.value == "masked" for row in rows)


def test_the_given_variables_are_those_of_the_start():
    """What a script does to its environment does not change what it was given."""
    code = """
import json, os
from bisect_diverge.environment.given import as_given
os.environ["OMP_NUM_THREADS"] = "9"
os.environ["NEW"] = "1"
given = as_given()
print(json.dumps([given.get("OMP_NUM_THREADS"), given.get("NEW")]))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], env={"OMP_NUM_THREADS": "3"}, capture_output=True, text=True, check=True
    )

    assert json.loads(done.stdout) == ["3", None]
