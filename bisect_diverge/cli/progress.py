"""What ``bd bisect`` says while it runs: lines for people, or JSON lines for programs."""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bisect_diverge.trial.workspace import Scratch

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from bisect_diverge.model.address import Address
    from bisect_diverge.model.trial import Bisection, Trial, Unit, Untested

_STDERR = 2
LONG_SECONDS = 20.0
"""After a trial of this length the next one is announced where no line can be taken away again."""
UNRECORDED = "running {side} unrecorded, to see whether recording changes it ..."
"""What is said before a run without a recorder."""
_LINES = 20
"""Lines of a trial's output that are told at a time; of more, the last."""
_BLOCK = 65536
_SECONDS = 0.2


class Progress:
    """Lines on stderr while trials run; the first Ctrl-C, or SIGTERM, ends the search and leaves what is known.

    Args:
        keep: Where the trials' folders are kept; None: nowhere.
        jobs: Trials at a time.
    """

    def __init__(self, keep: Path | None = None, jobs: int = 1) -> None:
        self.keep = keep
        self.jobs = jobs
        self.of = 0
        self.values = False
        """Whether lines say what a knob is swapped to."""
        self._stop = False
        self._before: dict[int, Any] = {}
        self._live = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        self._shown = False
        self._last_trial: Trial | None = None

    def __enter__(self) -> Progress:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._interrupted)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._clear()

    def should_stop(self) -> bool:
        """Whether the user has asked for the end, now."""
        return self._stop

    def should_end(self) -> bool:
        """Whether the user has asked for the end, now or after the running trial."""
        return self._stop

    def planned(self, units: Sequence[Unit], untestable: Sequence[Untested], of: int, first: Address) -> None:
        """Note what is going to be moved, and how many trials one cause among it takes."""
        self.of = of

    def say(self, sentence: str) -> None:
        """Say something that the user should know at once."""
        self._clear()
        click.echo(f"bd: {sentence}", err=True)

    def announce(self, swapped: frozenset[Unit]) -> None:
        """Say what is running: where that line can be taken away again, or after a trial that took long."""
        last = self._last_trial
        what = f"A{_with(swapped, values=self.values)}"
        if self._live:
            self._clear()
            line = f"bd: running {what} ..."
            click.echo(line[: shutil.get_terminal_size().columns - 1], err=True, nl=False)  # one row can be taken away
            self._shown = True
        elif last is not None and last.seconds > LONG_SECONDS:
            which = "a trial" if self.jobs > 1 else f"trial {last.n + 1} of ~{max(self.of, last.n + 1)}"
            click.echo(f"bd: {which} runs: {what}; the last one took {last.seconds:.0f} s", err=True)

    def observing(self, swapped: frozenset[Unit]) -> None:
        """Say that A, or B where something is swapped, runs without being recorded: that is no trial, and no line."""
        self.say(UNRECORDED.format(side=_side(swapped)))

    def on_trial(self, trial: Trial) -> None:
        """Say what came of a trial."""
        from bisect_diverge.report.bisection_table import trial_line

        self._clear()
        self._last_trial = trial
        of = max(self.of, trial.n)
        left = f" · ~{of - trial.n} left" if of > trial.n else ""
        click.echo(f"bd: {trial_line(trial, f' of ~{of}', values=self.values)}{left}", err=True)

    def result(self, bisection: Bisection) -> None:
        """Take the answer; people get it on stdout."""

    def _clear(self) -> None:
        if self._shown:
            click.echo("\r\x1b[K", err=True, nl=False)
            self._shown = False

    def _interrupted(self, _number: int, _frame: object) -> None:
        if self._stop:
            raise KeyboardInterrupt
        self._stop = True
        self._clear()
        click.echo("bd: stopping; once more to leave at once", err=True)


def _side(swapped: frozenset[Unit]) -> str:
    return "B" if swapped else "A"


def _with(swapped: Iterable[Unit], *, values: bool) -> str:
    from bisect_diverge.report.bisection_table import assigned

    names = sorted(assigned(unit) if values else unit.knob for unit in swapped)
    shown = ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
    return f" + {{{shown}}}" if names else ""


class JsonProgress(Progress):
    """One JSON object a line on stderr for each event: plan, note, started, unrecorded, output, finished, result.

    The search ends by itself when nobody reads them any more. SIGUSR1 ends it after the running trial.
    """

    def __init__(self, keep: Path | None = None, jobs: int = 1) -> None:
        super().__init__(keep, jobs)
        self._last = False
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._own: Scratch | None = None
        self._watcher = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> JsonProgress:
        super().__enter__()
        self._before[signal.SIGUSR1] = signal.signal(signal.SIGUSR1, self._end_after_trial)
        if self.keep is None:  # trials are followed there while they run
            self._own = Scratch()
            self.keep = self._own.path
        self._watcher.start()
        return self

    def __exit__(self, *what: object) -> None:
        self._over.set()
        self._watcher.join()
        if self._own is not None:
            self._own.remove()
        super().__exit__(*what)

    def should_end(self) -> bool:
        """Whether the user has asked for the end, now or after the running trial."""
        return self._stop or self._last

    def planned(self, units: Sequence[Unit], untestable: Sequence[Untested], of: int, first: Address) -> None:
        """Tell what is going to be moved, and how many trials one cause among it takes."""
        self._tell(
            "plan",
            units=[unit.to_json() for unit in units],
            untestable=[row.to_json() for row in untestable],
            most=of,
            first=str(first),
        )

    def say(self, sentence: str) -> None:
        """Tell something that the user should know at once."""
        self._tell("note", text=sentence)

    def announce(self, swapped: frozenset[Unit]) -> None:
        """Tell what is running; one at a time, so that what lies there is over."""
        if self._own is not None and self.jobs == 1:
            for folder in self._own.path.iterdir():
                shutil.rmtree(folder, ignore_errors=True)
        self._tell("started", swapped=[unit.to_json() for unit in sorted(swapped, key=str)])

    def observing(self, swapped: frozenset[Unit]) -> None:
        """Tell that A or B runs without being recorded."""
        self._tell("unrecorded", of=_side(swapped))

    def on_trial(self, trial: Trial) -> None:
        """Tell what came of a trial."""
        self._tell("finished", trial=trial.to_json())

    def result(self, bisection: Bisection) -> None:
        """Tell the answer."""
        self._tell("result", bisection=bisection.to_json())

    def _tell(self, event: str, **what: Any) -> None:
        data = memoryview(f"{json.dumps({'event': event, **what}, ensure_ascii=False)}\n".encode(errors="replace"))
        with self._lock:
            try:
                while data:
                    data = data[os.write(_STDERR, data) :]
            except OSError:
                self._stop = True

    def _interrupted(self, _number: int, _frame: object) -> None:
        if self._stop:
            raise KeyboardInterrupt
        self._stop = True

    def _end_after_trial(self, _number: int, _frame: object) -> None:
        self._last = True

    def _watch(self) -> None:
        """Follow the newest output of a trial; end the search when nobody reads."""
        reader = select.poll()
        reader.register(_STDERR, 0)
        newest: Path | None = None
        at = 0
        while not self._over.wait(_SECONDS):
            if any(what & select.POLLERR for _, what in reader.poll(0)):
                self._stop = True
            log = self._log()
            if log != newest:
                newest, at = log, 0
            at = self._follow(log, at)

    def _log(self) -> Path | None:
        found: list[tuple[int, Path]] = []
        with contextlib.suppress(OSError):  # removed while we look
            found = [] if self.keep is None else [(p.stat().st_mtime_ns, p) for p in self.keep.glob("*/output.log")]
        return max(found)[1] if found else None

    def _follow(self, log: Path | None, at: int) -> int:
        """Tell the whole lines of an output from a place on; return the place behind them."""
        if log is None:
            return at
        with contextlib.suppress(OSError), log.open("rb") as file:
            end = file.seek(0, os.SEEK_END)
            begin = max(at, end - _BLOCK)
            file.seek(begin)
            text, newline, _ = file.read(_BLOCK).rpartition(b"\n")
            for line in text.decode("utf-8", "replace").splitlines()[-_LINES:]:
                self._tell("output", line=line)
            return begin + len(text) + len(newline)
        return at
