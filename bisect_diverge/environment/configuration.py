"""Configuration: the script's command line flag by flag, and variables that training scripts read."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from bisect_diverge.environment.arguments import split
from bisect_diverge.environment.hashing import hash_file
from bisect_diverge.environment.knobs import Variable, setting
from bisect_diverge.environment.secrets import MASKED, is_secret
from bisect_diverge.environment.wrappers import unwrapped
from bisect_diverge.model.environment import Layer

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bisect_diverge.model.environment import Setting

VARIABLES: tuple[Variable, ...] = (
    Variable("ACCELERATE_*", "what accelerate launch asks for: mixed precision, accumulation, ..."),
    Variable("FSDP_*", "FSDP as accelerate configures it"),
    Variable("DEEPSPEED_*", "DeepSpeed"),
    Variable("DS_*", "DeepSpeed"),
    Variable("MIXED_PRECISION", "mixed precision"),
    Variable("PL_*", "Lightning"),
    Variable("HYDRA_*", "Hydra"),
    Variable("HF_*", "Hugging Face libraries"),
    Variable("TRANSFORMERS_*", "transformers"),
    Variable("DIFFUSERS_*", "diffusers"),
    Variable("TOKENIZERS_PARALLELISM", "threads of tokenizers"),
    Variable("WANDB_MODE", "whether the tracker is on"),
    Variable("WANDB_DISABLED", "whether the tracker is on"),
    Variable("BATCH_SIZE", "a name that scripts use"),
    Variable("CONFIG", "a name that scripts use"),
    Variable("CONFIG_FILE", "a name that scripts use"),
    Variable("CONFIG_PATH", "a name that scripts use"),
    Variable("DEBUG", "a name that scripts use"),
    Variable("EPOCHS", "a name that scripts use"),
    Variable("LEARNING_RATE", "a name that scripts use"),
    Variable("LR", "a name that scripts use"),
    Variable("MODEL_NAME", "a name that scripts use"),
    Variable("NUM_WORKERS", "a name that scripts use"),
)

FILE_SUFFIXES = (".json", ".yaml", ".yml", ".toml", ".ini", ".cfg", ".conf")
"""A file that the command names counts as configuration by its suffix."""

LARGEST_FILE = 16 << 20
"""Bytes; a larger file is no configuration."""

WRITTEN = "written by the run itself"
"""Value of a file that the run made or changed (``--metrics out.json``): what it held before says nothing."""

_SEEN_AT = time.time()
"""When this process loaded the module, which is before a script trains."""


def read(argv: Sequence[str] | None = None, cwd: Path | None = None) -> Iterator[Setting]:
    """Yield the program and its arguments.

    Args:
        argv: Command line, program first; None: this process's.
        cwd: Directory that the program's path is given relative to; None: the present one.
    """
    argv = sys.argv if argv is None else argv
    if argv and argv[0]:
        yield setting(Layer.CONFIGURATION, "argv.program", _program(argv[0], cwd), resolved=False)
    for argument in split(argv[1:]):
        value = MASKED if is_secret(argument.name, argument.value) else argument.value
        yield setting(Layer.CONFIGURATION, f"argv.{argument.name}", value, resolved=False)


def read_launcher(command: Sequence[str], argv: Sequence[str] | None = None) -> Iterator[Setting]:
    """Yield the options of what starts the script: those of the interpreter, of ``torchrun``, of ``srun``.

    Args:
        command: The recorded command; empty: not known.
        argv: The script's command line, program first; None: this process's.
    """
    command = unwrapped(command)
    for argument in split(command[1 : script_at(command, sys.argv if argv is None else argv)]):
        value = MASKED if is_secret(argument.name, argument.value) else argument.value
        yield setting(Layer.CONFIGURATION, f"launcher.{argument.name}", value, resolved=False)


def script_at(command: Sequence[str], argv: Sequence[str]) -> int | None:
    """Return which token of a command names the script; None where the command hides it (``make train``).

    Args:
        command: Program and arguments.
        argv: What the script's process was given, program first.
    """
    own = tuple(argv[1:])
    at = len(command) - len(own) - 1
    return at if argv and at >= 0 and tuple(command[at + 1 :]) == own else None


def _program(path: str, cwd: Path | None) -> str:
    """Return the program's path below the working directory, else its name: a checkout may be moved."""
    try:
        return str(Path(path).resolve().relative_to((cwd or Path.cwd()).resolve()))
    except (ValueError, OSError):
        return Path(path).name


def read_files(command: Sequence[str], cwd: Path) -> Iterator[Setting]:
    """Yield the content of the configuration files that a command names.

    Args:
        command: Program and arguments.
        cwd: Directory in which it runs.
    """
    for name, path in _named_files(command, cwd):
        yield setting(Layer.CONFIGURATION, f"file:{name}", hash_file(path), resolved=False)


def written_files(command: Sequence[str], cwd: Path) -> Iterator[Setting]:
    """Yield, at the end of a run, those of the files that `read_files` would yield which the run wrote."""
    for name, path in _named_files(command, cwd):
        if path.stat().st_mtime >= _SEEN_AT:
            yield setting(Layer.CONFIGURATION, f"file:{name}", WRITTEN, resolved=False)


def name_of(path: str, cwd: Path) -> str:
    """Return a path relative to the working directory if it lies below: a moved checkout changes no name."""
    normal, root = os.path.normpath(cwd / path), os.path.normpath(cwd)
    return "." if normal == root else normal.removeprefix(f"{root}{os.sep}")


def _named_files(command: Sequence[str], cwd: Path) -> Iterator[tuple[str, Path]]:
    for argument in split(command[1:]):
        path = cwd / argument.value
        if path.suffix.lower() in FILE_SUFFIXES and path.is_file() and path.stat().st_size <= LARGEST_FILE:
            yield name_of(argument.value, cwd), path
