"""Every key, once: footer, help, palette and docs/keys.md are made from this table.

Only letters, digits, function keys, arrows, space and enter (and `ctrl+p`, from Textual): what every terminal
sends.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from textual.binding import Binding, BindingType


@dataclass(frozen=True, slots=True)
class Key:
    """One action and the keys that call it."""

    group: str
    """Heading in the help."""
    keys: tuple[str, ...]
    """Textual's names of the keys."""
    shown: str
    """The keys as people write them."""
    action: str
    """Action of the screen."""
    text: str
    """What it does: half a sentence, for help, palette and docs."""
    footer: str = ""
    """Word in the footer; empty: not there. At most six have one, so that 80 columns show all."""

    @property
    def name(self) -> str:
        """Name in the palette."""
        return f"{self.text[0].upper()}{self.text[1:]}  ({self.shown})"


_MOVE, _FIND, _VIEW, _TAKE, _APP = "Move", "Find", "View", "Take away", "Program"
_SEARCH = "Search"

WALK = (
    Key(_MOVE, ("up", "k"), "↑ k", "up", "one line up"),
    Key(_MOVE, ("down", "j"), "↓ j", "down", "one line down"),
    Key(_MOVE, ("pageup",), "pgup", "page_up", "one page up"),
    Key(_MOVE, ("pagedown",), "pgdn", "page_down", "one page down"),
    Key(_MOVE, ("g", "home"), "g home", "top", "to the first line"),
    Key(_MOVE, ("G", "end"), "G end", "bottom", "to the last line"),
    Key(_MOVE, ("left", "h"), "← h", "focus_trace", "from the pane back to the trace"),
    Key(_MOVE, ("right", "l"), "→ l", "focus_pane", "from the trace into the pane, to scroll it"),
    Key(_FIND, ("n",), "n", "next", "next difference; next match while a search is on", "next"),
    Key(_FIND, ("N",), "N", "previous", "previous difference; previous match while a search is on"),
    Key(_FIND, ("f", "0"), "f 0", "first", "the first divergence", "first"),
    Key(_FIND, ("s",), "s", "next_step", "next step"),
    Key(_FIND, ("S",), "S", "previous_step", "previous step"),
    Key(_FIND, ("m",), "m", "next_micro_batch", "next micro-batch"),
    Key(_FIND, ("M",), "M", "previous_micro_batch", "previous micro-batch"),
    Key(_FIND, ("left_square_bracket",), "[", "producer", "follow the data flow back, to an input"),
    Key(_FIND, ("right_square_bracket",), "]", "consumer", "follow the data flow on, to a consumer"),
    Key(_FIND, ("slash",), "/", "search", "search addresses and module types; enter keeps it, esc clears it"),
    Key(_VIEW, ("space",), "space", "fold", "unfold the equal stretch under the cursor, or fold it"),
    Key(_VIEW, ("d",), "d", "only_differing", "only what differs and its inputs, or everything"),
    Key(_VIEW, ("p",), "p", "phase", "one phase after the other, then all again"),
    Key(_VIEW, ("enter",), "⏎", "open", "open the pane in full", "pane"),
    Key(_VIEW, ("z",), "z", "maximise", "maximise the trace or the pane, whichever is in use"),
    Key(_VIEW, ("escape",), "esc", "back", "close the topmost thing: reading, search, maximised part"),
    Key(
        _VIEW,
        ("b",),
        "b",
        "bisect",
        "search the cause in the environment; asks first, since it runs trials",
        "cause",
    ),
    Key(_TAKE, ("y",), "y", "copy_address", "copy the address"),
    Key(_TAKE, ("Y",), "Y", "copy_command", "copy the command that prints this"),
    Key(_TAKE, ("e",), "e", "export", "export this view to a file: .txt, .md, .json or .svg"),
    Key(_TAKE, ("o",), "o", "open_source", "open the source line in $EDITOR"),
    Key(_APP, ("question_mark", "f1"), "? f1", "help", "this help", "help"),
    Key(_APP, ("q",), "q", "quit", "quit", "quit"),
)
"""Keys of the trace screen, in the order of the help."""

BISECT = (
    Key(_MOVE, ("up", "k"), "↑ k", "up", "one row up"),
    Key(_MOVE, ("down", "j"), "↓ j", "down", "one row down"),
    Key(_MOVE, ("pageup",), "pgup", "page_up", "one page up"),
    Key(_MOVE, ("pagedown",), "pgdn", "page_down", "one page down"),
    Key(_MOVE, ("g", "home"), "g home", "top", "to the first row"),
    Key(_MOVE, ("G", "end"), "G end", "bottom", "to the last row"),
    Key(_MOVE, ("left", "h"), "← h", "focus_units", "to the settings that differ"),
    Key(_MOVE, ("right", "l"), "→ l", "focus_trials", "to the trials"),
    Key(_VIEW, ("enter",), "⏎", "open", "the selected trial in full", "trial"),
    Key(_VIEW, ("v",), "v", "open_verdict", "the verdict in full, with its proof and every note"),
    Key(_SEARCH, ("s",), "s", "stop", "stop after the running trial; a second time: now", "stop"),
    Key(_SEARCH, ("S",), "S", "stop_now", "stop now; the running trial is lost, the others are kept"),
    Key(_TAKE, ("y",), "y", "copy_verdict", "copy the verdict", "copy"),
    Key(_TAKE, ("Y",), "Y", "copy_command", "copy the command that runs the selected trial again"),
    Key(_TAKE, ("e",), "e", "export", "export the report to a file: .txt or .json", "export"),
    Key(_APP, ("question_mark", "f1"), "? f1", "help", "this help", "help"),
    Key(_APP, ("q", "escape"), "q esc", "close", "back; a running search ends, the journal keeps its trials", "back"),
)
"""Keys of the bisect screen, in the order of the help."""

HELP = (
    Key(_MOVE, ("up", "k"), "↑ k", "up", "one line up"),
    Key(_MOVE, ("down", "j"), "↓ j", "down", "one line down"),
    Key(_MOVE, ("pageup",), "pgup", "page_up", "one page up"),
    Key(_MOVE, ("pagedown", "space"), "pgdn space", "page_down", "one page down"),
    Key(_APP, ("escape", "q", "question_mark", "f1"), "esc q ?", "close", "back", "back"),
)
"""Keys of the help screen, and of the page that shows a trial."""

PALETTE = Key(_APP, ("ctrl+p",), "ctrl+p", "command_palette", "every action by name; the colour theme")
"""Textual's own key; it stands in the help and the docs, not among our bindings."""


def bindings(table: tuple[Key, ...]) -> list[BindingType]:
    """Return the table as Textual's bindings."""
    return [
        Binding(
            ",".join(key.keys),
            key.action,
            key.footer or key.text,
            show=bool(key.footer),
            key_display=key.shown.split()[0],
        )
        for key in table
    ]


def groups(table: tuple[Key, ...]) -> dict[str, list[Key]]:
    """Return the keys by their heading, in the table's order."""
    out: dict[str, list[Key]] = {}
    for key in table:
        out.setdefault(key.group, []).append(key)
    return out


def markdown() -> str:
    """Return the text of docs/keys.md."""
    lines = [
        "# Keys of `bd walk`",
        "",
        "Generated from `bisect_diverge/tui/keys.py`. Footer, help (`?`) and palette (`ctrl+p`) show the",
        "same table. `esc` closes the topmost thing and never the program.",
    ]
    lines += _tables(WALK)
    lines += ["", "# Keys of the bisect screen", "", "`b` in `bd walk`, or `bd bisect A B --ui tui`."]
    lines += _tables(BISECT)
    lines += ["", "# Help and trial pages", "", *_rows(HELP)]
    return "\n".join(lines) + "\n"


def _tables(table: tuple[Key, ...]) -> list[str]:
    out = []
    for heading, keys in groups((*table, PALETTE)).items():
        out += ["", f"## {heading}", "", *_rows(keys)]
    return out


def _rows(keys: Iterable[Key]) -> list[str]:
    rows = [f"| {' '.join(f'`{k}`' for k in key.shown.split())} | {key.text} |" for key in keys]
    return ["| key | what it does |", "|---|---|", *rows]
