"""How each knob is taken from the other run without editing the script: one table, the first fitting row counts."""

from __future__ import annotations

from dataclasses import dataclass
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
    AFFINITY = "affinity"
    """The processors that the command may run on."""
    EXPLAINED = "explained"
    """Not swapped: other inputs that are swapped bring it about."""
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
    "kernels.deterministic",
    "kernels.deterministic.warn_only",
    "kernels.deterministic.fill",
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
    "kernels.optimizer.*.fused",
    "kernels.optimizer.*.foreach",
    "seeds.random.seed",
    "seeds.numpy.random.seed",
    "seeds.torch.manual_seed",
    "seeds.torch.cuda.manual_seed",
    "seeds.torch.cuda.manual_seed_all",
)
"""``layer.knob`` of what can be set and held inside the process."""

_MACHINE = "belongs to the machine that it was recorded on"
_WORKTREE = "needs a worktree, not built yet"
_FILES = "the files of the other run are not here: they were hashed, not kept"

RULES: tuple[Rule, ...] = (
    Rule("configuration:argv.*", Way.ARGUMENT),
    Rule("configuration:launcher.*", Way.LAUNCHER),
    *(Rule(name.replace(".", ":", 1), Way.HELD) for name in HELD),
    Rule("hardware:affinity", Way.AFFINITY),
    Rule("source:*", Way.NONE, _WORKTREE),
    Rule("features:*", Way.NONE, _WORKTREE),
    Rule("dataset:*", Way.NONE, _FILES),
    Rule("runtime:python.*", Way.NONE, "another interpreter, with all packages: not built yet"),
    Rule("runtime:*", Way.NONE, "belongs to the system, container or driver that it was recorded on"),
    Rule("hardware:cgroup.cpus", Way.NONE, "set by the container"),
    Rule("hardware:*", Way.NONE, _MACHINE),
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
    return next(rule for rule in RULES if fnmatchcase(name, rule.what))


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
