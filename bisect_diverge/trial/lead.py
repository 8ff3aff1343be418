"""Leads a library that opens a file by itself to another one: by the words in which a command names the file.

Python's own functions are led by the path itself (`record.divert`); a library that asks the system is not. Where the
path comes from the command line, from a variable or from a configuration file, it is another path there.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from bisect_diverge.environment.inputs import FILE
from bisect_diverge.environment.named_files import texts_in
from bisect_diverge.model.environment import Layer
from bisect_diverge.trial.inputs import path_of, rows

if TYPE_CHECKING:
    from bisect_diverge.model.run import RunRecord
    from bisect_diverge.trial.draft import Draft

FOLDER = "named"
"""Folder in a trial's folder with links to files, each under the name that it has for the user."""


def lead(record: RunRecord, path: str, place: str, draft: Draft) -> None:
    """Let a path lead to another file, and name that one wherever the command names the path.

    Args:
        record: The run whose command is run again.
        path: Absolute path of the file.
        place: Absolute path of the other one.
        draft: The trial: its command, its variables, and the configuration files that it reads are changed.
    """
    names = draft.folder / FOLDER
    before = Path(draft.paths.get(path, ""))
    if before.is_relative_to(names):  # led elsewhere already, to what A read
        before.unlink()
        before.symlink_to(place)
        return
    link = names / str(sum(1 for _ in names.glob("*"))) / Path(path).name
    link.parent.mkdir(parents=True)
    link.symlink_to(place)
    draft.paths[path] = str(link)
    draft.command = tuple(_renamed(record.cwd, token, path, str(link)) for token in draft.command)
    draft.variables = {name: _renamed(record.cwd, text, path, str(link)) for name, text in draft.variables.items()}
    for conf, row in rows(record, FILE).items():
        if row.layer is Layer.CONFIGURATION:
            _rename_in(record.cwd, conf, path, link, draft)


def _renamed(cwd: str, word: str, path: str, link: str) -> str:
    """Return a word of a command with the link in the place of the path, if that is what it, or its value, is."""
    head, equals, tail = word.rpartition("=")
    if not tail or "\0" in tail:
        return word
    return f"{head}{equals}{link}" if path_of(cwd, tail) == path else word


def _rename_in(cwd: str, conf: str, path: str, link: Path, draft: Draft) -> None:
    """Let a configuration file be read in which each value that is the path is the link."""
    place = Path(draft.paths.get(conf, conf))
    wanted = [text for text in texts_in(str(place)) if path_of(cwd, text) == path]
    if not wanted:
        return
    text = place.read_text(encoding="utf-8")
    for each in dict.fromkeys(wanted):
        text = text.replace(each, str(link))
    made = link.parent / f"conf{len(draft.paths)}{Path(conf).suffix}"
    made.write_text(text, encoding="utf-8")
    draft.paths[conf] = str(made)
