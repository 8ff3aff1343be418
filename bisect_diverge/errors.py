"""Every error that a user can meet.

    BisectDivergeError            one clear message, one thing to do next, an exit status
    ├── UsageError                the command line asks for something that cannot be done
    │   └── OutputExistsError     the output is there already and --force was not given
    ├── RunError                  a run cannot be read
    │   ├── NoSuchRunError        nothing lies at that path
    │   ├── NotARunError          something lies there, but it is no recording
    │   ├── DamagedRunError       a recording that is cut off or inconsistent
    │   └── NewerSchemaError      a recording of a later version of this program
    ├── NoSuchAddressError        the run has no record at that address
    ├── NotComparableError        two runs that share nothing that could be compared
    ├── CommandError              the command to record could not be started
    ├── ReplayError               a recorded run cannot be run again as it was
    └── TrialError                trials could not be run

This module imports nothing, so that every room can raise these.
"""


class BisectDivergeError(Exception):
    """Base of all errors that end a command with one message instead of a traceback.

    Args:
        what: What happened and where (file, address, step), one sentence without a full stop.
        hint: The command to run or the thing to do next; empty when there is none.
    """

    exit_code = 2

    def __init__(self, what: str, *, hint: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.what}\n  {self.hint}" if self.hint else self.what


class UsageError(BisectDivergeError):
    """The command line asks for something that cannot be done."""


class OutputExistsError(UsageError):
    """The output is there already; an existing run is never overwritten without --force."""


class RunError(BisectDivergeError):
    """A run cannot be read."""


class NoSuchRunError(RunError):
    """Nothing lies at the given path."""


class NotARunError(RunError):
    """Something lies at the given path, but it is no recording."""


class DamagedRunError(RunError):
    """A recording that is cut off or inconsistent."""


class NewerSchemaError(RunError):
    """A recording written by a later version of this program."""


class NoSuchAddressError(BisectDivergeError):
    """The run has no record at the given address."""


class NotComparableError(BisectDivergeError):
    """Two runs that share no record that could be compared."""


class CommandError(BisectDivergeError):
    """The command to record could not be started."""


class ReplayError(BisectDivergeError):
    """A recorded run cannot be run again: its command, its directory or its interpreter is not what it was."""


class TrialError(BisectDivergeError):
    """Trials could not be run, whatever their environment."""

    exit_code = 5
