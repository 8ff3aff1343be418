"""Record pairs of runs that differ in one thing each; ``bd diff`` finds where they part, ``bd bisect`` why.

Run by ``make demo``. Every line after a ``$`` is a command that can be typed as it stands in an activated
``.venv``; the results are those of this machine, now.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
import textwrap
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from bisect_diverge.cli.progress import UNRECORDED

REPOSITORY = Path(__file__).resolve().parent.parent
SCRIPT = "sample_models/digits_cnn.py"
BIN = Path(sys.prefix) / "bin"

MOVES_BITS = (
    "OMP_NUM_THREADS", "OMP_THREAD_LIMIT", "OMP_DYNAMIC", "MKL_NUM_THREADS", "MKL_DYNAMIC", "MKL_CBWR",
    "ATEN_CPU_CAPABILITY", "ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA",
)  # fmt: skip
"""Variables taken out of the demo's surroundings, so that each command line says all that is set."""


@dataclass(frozen=True)
class Recording:
    """One run of the digits net."""

    path: Path
    variables: dict[str, str]
    flags: tuple[str, ...] = ()


@dataclass(frozen=True)
class Pair:
    """Two runs, what was changed between them, and what a demonstration of it has to find."""

    title: str
    changed: str
    a: Recording
    b: Recording
    kinds: frozenset[str]
    """Kinds of first divergence of which one must be found; empty: the runs must be equal."""
    lesson: str
    causes: frozenset[str] = frozenset()
    """Layer and knob, of which ``bd bisect`` must name one and no other."""
    excuses: list[str] = field(default_factory=list)
    """Reasons, true of this machine, why the change may change nothing here."""


def threads_excuses() -> list[str]:
    """Return why one thread fewer may change nothing on this machine."""
    excuses = []
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    if cores == 1:
        excuses.append("this machine gives the demo one core, and two threads become one there")
    if platform.machine() not in {"x86_64", "AMD64"}:
        excuses.append(f"on {platform.machine()} the same sums may be made in the same order by one thread")
    return excuses


def instruction_set_excuses() -> list[str]:
    """Return why PyTorch's plain code paths may be the ones used anyway on this machine."""
    probe = "import torch; print(torch.backends.cpu.get_cpu_capability())"
    found = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=False)
    capability = found.stdout.strip()
    if capability in {"DEFAULT", "NO AVX"}:
        return [f"PyTorch uses its plain code paths on this processor anyway (capability {capability})"]
    return []


def pairs(steps: int, runs: Path) -> list[Pair]:
    """Return what the demo shows, in its order, recorded into `runs`."""
    flags = ("--steps", str(steps))
    two_threads = Recording(runs / "threads-2", {"OMP_NUM_THREADS": "2"}, flags)
    return [
        Pair(
            title="One thread instead of two",
            changed="OMP_NUM_THREADS is 1 in the second run. Script, data and seed are the same.",
            a=two_threads,
            b=Recording(runs / "threads-1", {"OMP_NUM_THREADS": "1"}, flags),
            kinds=frozenset({"gradient", "computation"}),
            lesson="Two threads each sum half of a batch, one thread sums it in one go: additions in another "
            "order, other last bits. The losses still agree when the first gradients no longer do.",
            causes=frozenset({"hardware OMP_NUM_THREADS"}),
            excuses=threads_excuses(),
        ),
        Pair(
            title="Two loader processes instead of none",
            changed="--workers is 2 in the second run. Seed and threads are the same.",
            a=two_threads,
            b=Recording(runs / "workers-2", {"OMP_NUM_THREADS": "2"}, (*flags, "--workers", "2")),
            kinds=frozenset({"data"}),
            lesson="Each loader process has its own random generator: the same images are shifted and made "
            "noisy in another way, so the runs train on different batches.",
            causes=frozenset({"configuration argv.--workers", "hardware loader.train_loader.num_workers"}),
        ),
        Pair(
            title="Another instruction set",
            changed="ATEN_CPU_CAPABILITY=default in the second run: PyTorch's code without AVX, as on an "
            "older machine. Seed, threads and data are the same.",
            a=two_threads,
            b=Recording(runs / "isa-default", {"OMP_NUM_THREADS": "2", "ATEN_CPU_CAPABILITY": "default"}, flags),
            kinds=frozenset({"initialization", "computation"}),
            lesson="Even drawing the initial weights from one seed goes through vectorised code: here the "
            "runs part before the first batch.",
            causes=frozenset({"kernels ATEN_CPU_CAPABILITY"}),
            excuses=instruction_set_excuses(),
        ),
        Pair(
            title="Nothing",
            changed="the first run again. What must not happen is that a difference is found.",
            a=two_threads,
            b=Recording(runs / "threads-2-again", {"OMP_NUM_THREADS": "2"}, flags),
            kinds=frozenset(),
            lesson="Same surroundings, same bits, and exit status 0.",
        ),
    ]


def surroundings(variables: dict[str, str]) -> dict[str, str]:
    """Return the environment for a command: ours without what moves bits, with these variables."""
    kept = {name: value for name, value in os.environ.items() if name not in MOVES_BITS}
    path = os.pathsep.join([str(BIN), kept.get("PATH", os.defpath)])
    return {**kept, "PATH": path, "VIRTUAL_ENV": sys.prefix, **variables}


def shown(command: list[str], variables: dict[str, str]) -> str:
    """Return a command line as a user would type it."""
    return " ".join([*(f"{name}={shlex.quote(value)}" for name, value in variables.items()), shlex.join(command)])


def say(text: str, **style: Any) -> None:
    """Print a paragraph, wrapped to the terminal."""
    width = min(shutil.get_terminal_size((100, 24)).columns, 100)
    click.secho(textwrap.fill(text, width), **style)


def run(command: list[str], variables: dict[str, str]) -> int:
    """Print a command, run it with its output below, and return its exit status."""
    click.secho(f"$ {shown(command, variables)}", bold=True)
    process = subprocess.Popen(
        command,
        env=surroundings(variables),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    assert process.stdout is not None
    with process:
        for line in process.stdout:
            click.echo(f"  {line}", nl=False)
    return process.returncode


def search(command: list[str]) -> tuple[int, dict[str, Any] | None]:
    """Print a ``bd bisect`` command, run it with its progress and answer below; return status and answer.

    Its events are asked for, so that the answer is there as data too and no trial is made twice for it.
    """
    click.secho(f"$ {shown(command, {})}", bold=True)
    found: dict[str, Any] | None = None
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as answer:
        process = subprocess.Popen(
            [*command, "--progress", "json"],
            env=surroundings({}),
            stdin=subprocess.DEVNULL,
            stdout=answer,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        )
        assert process.stderr is not None
        with process:
            for line in process.stderr:
                event: dict[str, Any] = json.loads(line) if line.startswith("{") else {"event": "note", "text": line}
                found = event.get("bisection", found)
                told = told_of(event)
                if told:
                    click.echo(f"  bd: {told}")
        answer.seek(0)
        for line in answer:
            click.echo(f"  {line}", nl=False)
    return process.returncode, found


def told_of(event: dict[str, Any]) -> str:
    """Return the line that stands for an event of a search; empty: none does."""
    if event["event"] == "note":
        return str(event["text"]).strip()
    if event["event"] == "unrecorded":
        return UNRECORDED.format(side=event["of"])
    if event["event"] != "finished":
        return ""
    trial = event["trial"]
    swapped = ", ".join(unit["knob"] for unit in trial["swapped"])
    configuration = f"A + {{{swapped}}}" if swapped else "A"
    return f"trial {trial['n']}: {configuration}: {trial['outcome']}, {trial['seconds']:.1f} s"


def record(recording: Recording) -> None:
    """Record a run; end the demo when that fails."""
    training = ["python", SCRIPT, *recording.flags]
    command = ["bd", "record", "--force", "-o", str(recording.path), "--", *training]
    status = run(command, recording.variables)
    if status != 0:
        raise SystemExit(f"demo: recording {recording.path} ended with status {status}; it should be 0")


def as_json(command: list[str], status: int, statuses: set[int]) -> dict[str, Any] | str:
    """Return what a command that ended with `status` says as JSON; text: what is wrong with it."""
    answer = subprocess.run(
        [*command, "--format", "json"], env=surroundings({}), capture_output=True, text=True, check=False
    )
    if answer.returncode not in statuses or answer.returncode != status:
        name = " ".join(command[:2])
        return f"{name} ended with status {status}, with --format json {answer.returncode}\n{answer.stderr}"
    found: dict[str, Any] = json.loads(answer.stdout)
    return found


def compare(pair: Pair) -> str | None:
    """Show what ``bd diff`` finds; return what is wrong with it, None when it is as it should be."""
    command = ["bd", "diff", str(pair.a.path), str(pair.b.path)]
    status = run(command, {})
    click.secho(f"  (exit status {status})", dim=True)
    found = as_json(command, status, {0, 1})
    if isinstance(found, str):
        return found
    if found["verdict"] == "equal" and (not pair.kinds or pair.excuses):
        if pair.kinds:
            say(f"Nothing differs here: {'; '.join(pair.excuses)}.", fg="yellow")
        else:
            say(pair.lesson, fg="green")
        return None if status == 0 else f"bd diff found nothing and ended with status {status}"
    if found["verdict"] != ("diverged" if pair.kinds else "equal"):
        return f"bd diff says {found['verdict']}"
    if found["kind"] not in pair.kinds:
        return f"the runs part in a place of kind {found['kind']}, not {' or '.join(sorted(pair.kinds))}"
    if found["first"] is None:
        return "bd diff names no place"
    say(pair.lesson, fg="green")
    return None


def show(number: int, pair: Pair, recorded: set[Path]) -> str | None:
    """Record what is missing of a pair and compare it; return what went wrong, or None."""
    click.echo()
    say(f"{number}. {pair.title}", bold=True, fg="cyan")
    say(f"Changed: {pair.changed}")
    click.echo()
    for recording in (pair.a, pair.b):
        if recording.path in recorded:
            click.secho(f"  ({recording.path} is there from above)", dim=True)
        else:
            record(recording)
            recorded.add(recording.path)
    return compare(pair)


def bisect(number: int, pair: Pair) -> str | None:
    """Show what ``bd bisect`` blames; return what is wrong with it, None when it is as it should be."""
    click.echo()
    say(f"{number}. Why? {pair.title}", bold=True, fg="cyan")
    command = ["bd", "bisect", str(pair.a.path), str(pair.b.path)]
    began = time.monotonic()
    status, found = search(command)
    click.secho(f"  (exit status {status}, {time.monotonic() - began:.0f} s)", dim=True)
    if found is None:
        return f"bd bisect ended with status {status} and no answer"
    if found["verdict"] == "no-difference" and pair.excuses:
        say(f"Nothing differs here: {'; '.join(pair.excuses)}.", fg="yellow")
        return None
    if found["verdict"] != "cause":
        return f"bd bisect says {found['verdict']}"
    blamed = {f"{unit['layer']} {unit['knob']}" for cause in found["causes"] for unit in cause["units"]}
    if status != 0 or len(blamed) != 1 or not blamed <= pair.causes:
        return f"bd bisect blames {', '.join(sorted(blamed))}, not {' or '.join(sorted(pair.causes))}"
    return None


def bisect_all(shows: list[Pair], wrong: dict[str, str]) -> None:
    """Let ``bd bisect`` explain the pairs that differ, and add what goes wrong."""
    began = time.monotonic()
    differing = [pair for pair in shows if pair.causes]
    click.echo()
    say(
        "Now the other question: which difference between the surroundings is it? bd bisect runs the script again "
        "with some of them taken from the second run, and proves its answer both ways."
    )
    for number, pair in enumerate(differing, len(shows) + 1):
        problem = bisect(number, pair)
        if problem is not None:
            wrong[f"Why? {pair.title}"] = problem
            click.secho(f"demo: {problem}", fg="red", err=True)
    click.echo()
    click.echo(f"{len(differing)} bisections, {time.monotonic() - began:.0f} s")


def offer_walk(pair: Pair) -> None:
    """Name the command that opens a pair in the terminal UI; open it where someone is there to say so."""
    arguments = ["walk", str(pair.a.path), str(pair.b.path)]
    bd = BIN / "bd"
    near = os.path.relpath(bd, REPOSITORY)
    click.echo()
    say("To step through the first pair yourself:")
    click.secho(f"$ {shlex.join([str(bd) if near.startswith('..') else near, *arguments])}", bold=True)
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return
    try:
        reply = input("[Enter] opens it now, n and [Enter] ends here: ")
    except (EOFError, KeyboardInterrupt):
        click.echo()
        return
    if not reply.strip():
        subprocess.run([str(bd), *arguments], env=surroundings({}), check=False)


def main() -> int:
    """Run the demo; return 1 when a pair did not show what it should."""
    parser = argparse.ArgumentParser(description="Record pairs of runs; show where they part, and why.")
    parser.add_argument("--steps", type=int, default=20, help="length of each run (default: %(default)s)")
    parser.add_argument("--runs", type=Path, default="demo-runs", help="where they go (default: %(default)s)")
    arguments = parser.parse_args()

    os.chdir(REPOSITORY)
    began = time.monotonic()
    shows = pairs(arguments.steps, arguments.runs)
    say(
        f"The same small net ({SCRIPT}) is trained again and again with the same seed. Each time one thing "
        "around it is changed, and bd diff says where the two runs stop being bit-identical."
    )
    recorded: set[Path] = set()
    wrong: dict[str, str] = {}
    for number, pair in enumerate(shows, 1):
        problem = show(number, pair, recorded)
        if problem is not None:
            wrong[pair.title] = problem
            click.secho(f"demo: {problem}", fg="red", err=True)

    click.echo()
    click.echo(f"{len(shows)} pairs, {len(recorded)} recordings, {time.monotonic() - began:.0f} s")
    bisect_all(shows, wrong)
    if wrong:
        click.secho(f"demo: not as it should be: {', '.join(wrong)}", fg="red", err=True)
        return 1
    offer_walk(shows[0])
    return 0


if __name__ == "__main__":
    try:
        status = main()
    except KeyboardInterrupt:
        status = 130
    sys.exit(status)
