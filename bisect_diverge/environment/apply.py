"""How each knob is taken from the other run without editing the script: one table, the first fitting row counts."""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from bisect_diverge.environment import variables
from bisect_diverge.model.environment import Layer

if TYPE_CHECKING:
    from bisect_diverge.model.environment import Environment


class Way(StrEnum):
    """How a knob is swapped."""

    VARIABLE = "variable"
    """An environment variable of the command."""
    ARGUMENT = "argument"
    """Tokens of the script's command line."""
    LAUNCHER = "launcher"
    """Tokens of the command before the script: options of ``torchrun`` or of the interpreter."""
    PACKAGE = "package"
    """A directory with another version, searched before the installed packages."""
    HELD = "held"
    """Set inside the process and held against the script's own calls (`record.overrides`)."""
    IMAGE = "image"
    """A prefix of the command that starts it in another container image."""
    INTERPRETER = "interpreter"
    """Another interpreter; with one of another version of Python, its packages too."""
    SOURCE = "source"
    """A directory of its own with another commit, another patch, or other files among the rest."""
    FILE = "file"
    """Another content of a file that the script reads, some of its keys, or another list of the names in a folder."""
    SEED = "seed"
    """The seeds that the script's calls of a setter get, or the first state of a generator."""
    LIMIT = "limit"
    """What a process inherits from its shell: the mask of new files, limits of the operating system."""
    AFFINITY = "affinity"
    """The processors that the command may run on."""
    NONE = "none"
    """Cannot be swapped here."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A row of the table."""

    what: str
    """``layer:knob`` with ``*`` and ``?``."""
    way: Way
    reason: str = ""
    """Why it cannot be swapped; for people."""


HELD = (
    "hardware.threads.intra_op",
    "hardware.threads.inter_op",
    "hardware.loader.*.num_workers",
    "hardware.loader.*.prefetch_factor",
    "hardware.loader.*.persistent_workers",
    "hardware.loader.*.start_method",
    "hardware.loader.*.in_order",
    "hardware.loader.*.pin_memory",
    "kernels.deterministic",
    "kernels.deterministic.warn_only",
    "kernels.deterministic.fill",
    "kernels.deterministic.debug_mode",
    "kernels.default_dtype",
    "kernels.autocast.cpu",
    "kernels.autocast.cuda",
    "kernels.quantized.engine",
    "kernels.fp32_precision",
    "kernels.mkldnn.fp32_precision",
    "kernels.sdpa.math_reduced",
    "kernels.cudnn.benchmark_limit",
    "kernels.cuda.matmul.fp16_accumulation",
    "kernels.cuda.blas",
    "kernels.cuda.linalg",
    "kernels.opt_einsum.strategy",
    "kernels.compile.disabled",
    "kernels.compile.suppress_errors",
    "kernels.inductor.deterministic",
    "kernels.inductor.emulate_casts",
    "kernels.inductor.fallback_random",
    "kernels.inductor.max_autotune",
    "kernels.inductor.coordinate_descent",
    "kernels.denormals",
    "kernels.matmul.precision",
    "kernels.mkldnn.enabled",
    "kernels.mkldnn.deterministic",
    "kernels.mkldnn.matmul.fp32_precision",
    "kernels.mkldnn.conv.fp32_precision",
    "kernels.mkldnn.rnn.fp32_precision",
    "kernels.sdpa.flash",
    "kernels.sdpa.mem_efficient",
    "kernels.sdpa.math",
    "kernels.sdpa.cudnn",
    "kernels.mha.fastpath",
    "kernels.cudnn.enabled",
    "kernels.cudnn.benchmark",
    "kernels.cudnn.deterministic",
    "kernels.cudnn.conv.fp32_precision",
    "kernels.cudnn.rnn.fp32_precision",
    "kernels.cuda.matmul.fp32_precision",
    "kernels.cuda.matmul.fp16_reduction",
    "kernels.cuda.matmul.bf16_reduction",
    "kernels.opt_einsum",
    "kernels.model.*.layout",
    "kernels.compiled.*.backend",
    "kernels.compiled.*.mode",
    "kernels.compiled.*.dynamic",
    "kernels.optimizer.*.fused",
    "kernels.optimizer.*.foreach",
    "kernels.optimizer.*.capturable",
    "kernels.optimizer.*.differentiable",
)
"""``layer.knob`` of what can be set and held inside the process."""

SEEDS = (
    "random.seed",
    "numpy.random.seed",
    "numpy.random.default_rng",
    "torch.manual_seed",
    "torch.seed",
    "torch.cuda.manual_seed",
    "torch.cuda.manual_seed_all",
    "torch.mps.manual_seed",
    "torch.xpu.manual_seed",
    "torch.xpu.manual_seed_all",
    "initial-state.*",
    "loader.*.generator",
)
"""Knobs of the seeds that the script itself gives, and of the states that generators begin with."""

_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]+")
"""What is written so is an environment variable, and none of the other knobs."""

_MACHINE = "belongs to the machine that it was recorded on"

RULES: tuple[Rule, ...] = (
    Rule("configuration:argv.*", Way.ARGUMENT),
    Rule("configuration:launcher.*", Way.LAUNCHER),
    *(Rule(name.replace(".", ":", 1), Way.HELD) for name in HELD),
    *(Rule(f"seeds:{name}{calls}", Way.SEED) for name in SEEDS for calls in ("", "#*", "@rank*")),
    Rule("hardware:affinity", Way.AFFINITY),
    Rule("source:commit", Way.SOURCE),
    Rule("source:uncommitted", Way.SOURCE),
    Rule("source:repository", Way.SOURCE),
    Rule("source:files", Way.SOURCE),
    Rule("source:file:*", Way.SOURCE),
    Rule("source:module:*", Way.SOURCE),
    Rule("source:loaded", Way.SOURCE),
    Rule("source:extension:*", Way.NONE, "compiled anew in every trial, from the sources that it has then"),
    Rule("source:submodule:*", Way.NONE, "only the modules that a run loads from a submodule are kept"),
    Rule("source:*", Way.NONE, "an ignored file, or one that was imported under a name made up at run time: not kept"),
    Rule("features:*", Way.SOURCE),
    Rule("dataset:file:*", Way.FILE),
    Rule("dataset:named:*", Way.FILE),
    Rule("dataset:listing:*", Way.FILE),
    Rule("dataset:data.?", Way.FILE),
    Rule("dataset:data.??", Way.FILE),
    Rule("configuration:file:*", Way.FILE),
    Rule("dataset:files.rest", Way.NONE, "more files were read than get a row of their own"),
    Rule("dataset:*", Way.NONE, "read by a library itself, not with Python's own functions"),
    Rule("runtime:image", Way.IMAGE),
    Rule("runtime:umask", Way.LIMIT),
    Rule("runtime:limit.*", Way.LIMIT),
    Rule("runtime:python.executable", Way.INTERPRETER),
    Rule("runtime:python.*", Way.NONE, "the program is the same in both runs, but was another version then"),
    Rule("runtime:*", Way.NONE, "belongs to the system, container or driver that it was recorded on"),
    Rule("hardware:cgroup.cpus", Way.NONE, "set by the container"),
    Rule("hardware:model.*.device", Way.NONE, "the script chooses it, by its arguments or by what the machine has"),
    Rule("hardware:world.size", Way.NONE, "the launcher's options or the script itself make the ranks"),
    Rule("hardware:*", Way.NONE, _MACHINE),
    Rule("kernels:model.*.dtype", Way.NONE, "the script converts its model itself"),
    Rule("kernels:*", Way.NONE, "nothing outside of the script sets it"),
    Rule("seeds:*", Way.NONE, "nothing outside of the script sets it"),
    Rule("dependencies:*", Way.PACKAGE),
    Rule("configuration:*", Way.NONE, "nothing outside of the script sets it"),
)
"""From the particular to the general. Environment variables come before all of these."""

LAUNCHED = frozenset({"WORLD_SIZE", "RANK", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "ROLE_RANK"})
"""Variables that a launcher sets for each of its processes: swapped by its options, never by themselves."""


def rule_for(layer: Layer, knob: str) -> Rule:
    """Return how a knob is swapped."""
    if is_variable(layer, knob):
        return Rule(f"{layer}:{knob}", Way.VARIABLE)
    name = f"{layer}:{knob}"
    rule = next(rule for rule in RULES if fnmatchcase(name, rule.what))
    is_unknown = rule.way is Way.NONE and _VARIABLE.fullmatch(knob) and knob not in LAUNCHED
    return Rule(rule.what, Way.NONE, _no_such(layer, knob)) if is_unknown else rule


def _no_such(layer: Layer, knob: str) -> str:
    """Return why what is written like an environment variable is no knob of a layer, and what is."""
    allowed = variables.layer_of(knob)
    if allowed is not None:
        return f"there is no such knob; the variable is {allowed}.{knob}"
    names = [row.pattern for row in variables.ALLOWED.get(layer, ()) if not row.pattern.endswith("*")]
    close = [f"{layer}.{name}" for name in get_close_matches(knob, names, 3)]
    return f"there is no such knob; use {' or '.join([*close, f'configuration.{knob}'])}"


def is_variable(layer: Layer, knob: str) -> bool:
    """Whether a requested knob is an environment variable: on the allow-list, or asked for by the user."""
    if "." in knob or not knob.isidentifier():
        return False
    allowed = variables.layer_of(knob)
    return allowed is layer or (allowed is None and layer is Layer.CONFIGURATION)


def given_variables(environment: Environment) -> dict[str, str]:
    """Return the variables that a run was started with, as far as they were recorded and not masked."""
    return {
        s.knob: s.value
        for s in environment.settings
        if not s.resolved and not s.masked and is_variable(s.layer, s.knob)
    }
