"""One HTML page that needs nothing else: no network, no script, light and dark, and readable without colours."""

from __future__ import annotations

from html import escape
from itertools import groupby
from typing import TYPE_CHECKING

from bisect_diverge.report.words import plural, printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

LONG_TABLE = 20
"""Rows of a table that are shown without being asked for."""
LONG_WORD = 24
"""Characters of a word that a table breaks where it has to."""

_STYLE = """
:root{color-scheme:light dark;--back:#fff;--text:#1b1f24;--soft:#57606a;--line:#d0d7de;--panel:#f6f8fa;
--bad:#b3261e;--good:#1a6f35;--odd:#8a5a00;--h0:#eaeef2;--h1:#fde3c8;--h2:#f9b87f;--h3:#e8743b;--h4:#b3261e;--hn:#fff;
--p0:#0b5cad;--p1:#b04a00;--p2:#5b3a9b}
@media(prefers-color-scheme:dark){:root{--back:#0d1117;--text:#e6edf3;--soft:#9aa4af;--line:#30363d;--panel:#161b22;
--bad:#ff8a80;--good:#6fdd8b;--odd:#f0c060;--h0:#21262d;--h1:#5c3a1e;--h2:#8f4f1f;--h3:#cf6a2c;--h4:#ff8a80;--hn:#0d1117;
--p0:#6cb6ff;--p1:#ffa657;--p2:#c4a5ff}}
*{box-sizing:border-box}
body{margin:0 auto;padding:1rem;max-width:64rem;background:var(--back);color:var(--text);
font:16px/1.5 system-ui,sans-serif}
h1{font-size:1.35rem;line-height:1.35;margin:.5rem 0;overflow-wrap:anywhere}
h2{font-size:1.05rem;margin:2rem 0 .5rem;border-bottom:1px solid var(--line);padding-bottom:.2rem}
.bad{color:var(--bad)}.good{color:var(--good)}.odd{color:var(--odd)}.soft{color:var(--soft)}
code,pre,.mono{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;font-size:.9em;overflow-wrap:anywhere}
pre{background:var(--panel);border:1px solid var(--line);padding:.6rem;border-radius:6px;
white-space:pre-wrap;margin:.3rem 0}
dl{display:grid;grid-template-columns:max-content 1fr;gap:.25rem 1rem;margin:.5rem 0}
dt{color:var(--soft)}dd{margin:0;overflow-wrap:anywhere}
table{border-collapse:collapse;width:100%;font-size:.92rem}
th,td{text-align:left;vertical-align:top;padding:.3rem .6rem .3rem 0;border-bottom:1px solid var(--line)}
td.long{overflow-wrap:anywhere;min-width:10rem}
th{color:var(--soft);font-weight:600}
.wide{overflow-x:auto}li{overflow-wrap:anywhere}
svg{display:block;max-width:100%;height:auto}
svg text{fill:var(--text);font:12px system-ui,sans-serif}svg .soft{fill:var(--soft)}
svg .mono{font:11px ui-monospace,Menlo,Consolas,monospace}
.h0{fill:var(--h0)}.h1{fill:var(--h1)}.h2{fill:var(--h2)}.h3{fill:var(--h3)}.h4{fill:var(--h4)}
.hn{fill:var(--hn);stroke:var(--line)}
svg text.on{fill:#1b1f24;text-anchor:middle}svg text.mid{text-anchor:middle}
h3{font-size:1rem;margin:1rem 0 .3rem;overflow-wrap:anywhere}caption{text-align:left;color:var(--soft);padding:.3rem 0}
summary{cursor:pointer;padding:.3rem 0}
@media(prefers-color-scheme:dark){svg text.on{fill:#e6edf3}svg text.on3,svg text.on4{fill:#1b1f24}}
@media not all and (prefers-color-scheme:dark){svg text.on4{fill:#fff}}
.s0{stroke:var(--p0)}.s1{stroke:var(--p1)}.s2{stroke:var(--p2)}.f0{fill:var(--p0)}.f1{fill:var(--p1)}.f2{fill:var(--p2)}
.axis{stroke:var(--line)}.curve{fill:none;stroke-width:2}
@media(max-width:40rem){body{padding:.7rem}dl{display:block}dd{margin:0 0 .4rem}h1{font-size:1.15rem}
.wide svg{max-width:none}}
@media print{body{max-width:none}}
""".strip()


def e(value: object) -> str:
    """Return a value as text that HTML shows as it is, whatever it holds."""
    return escape(printable(str(value)), quote=True)


def page(title: str, body: Iterable[str]) -> str:
    """Return a whole document.

    Args:
        title: Its title, not escaped yet.
        body: Pieces of HTML.
    """
    return "\n".join(
        [
            "<!DOCTYPE html>",
            '<html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">",
            f"<title>{e(title)}</title>",
            f"<style>{_STYLE}</style></head><body><main>",
            *body,
            "</main></body></html>",
        ]
    )


def section(title: str, pieces: Iterable[str]) -> list[str]:
    """Return pieces under a heading; nothing if there are none."""
    inside = [piece for piece in pieces if piece]
    return [f"<section><h2>{e(title)}</h2>", *inside, "</section>"] if inside else []


def pairs(rows: Iterable[tuple[str, str]], as_code: Sequence[str] = ()) -> str:
    """Return a list of labels and texts, not escaped yet; labels in `as_code` have code."""
    items = [
        f"<dt>{e(label)}</dt><dd>{f'<code>{e(value)}</code>' if label in as_code else e(value)}</dd>"
        for label, value in rows
        if value
    ]
    return f"<dl>{''.join(items)}</dl>" if items else ""


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table of texts, not escaped yet; empty where there are no rows."""
    lines = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    titles = "".join(f'<th scope="col">{e(cell)}</th>' for cell in head)
    whole = f"<table><thead><tr>{titles}</tr></thead><tbody>{lines}</tbody></table>"
    return f'<div class="wide">{whole}</div>' if lines else ""


def long_table(head: Sequence[str], rows: Sequence[Sequence[str]], what: str) -> str:
    """Return a table without its empty columns, folded where it is long.

    Args:
        head: Titles of its columns.
        rows: Texts, not escaped yet.
        what: What a row is, in the singular: the fold says how many there are.
    """
    used = [column for column in range(len(head)) if any(row[column] for row in rows)]
    inside = table([head[column] for column in used], [[row[column] for column in used] for row in rows])
    if len(rows) <= LONG_TABLE:
        return inside
    return f"<details><summary>{e(plural(len(rows), what))}</summary>{inside}</details>"


def _cell(text: str) -> str:
    """Return a cell; one with a long word may break it anywhere, and has room for that."""
    long = max(map(len, text.split()), default=0) > LONG_WORD
    return f"<td{' class=long' if long else ''}>{e(text)}</td>"


def command_list(rows: Iterable[tuple[str, str]]) -> str:
    """Return commands with what they do, not escaped yet; neighbours that do the same together."""
    groups = [(what, "\n".join(e(row[1]) for row in same)) for what, same in groupby(rows, key=lambda row: row[0])]
    return "".join(f'<p class="soft">{e(what)}</p><pre>{commands}</pre>' for what, commands in groups)


def bullets(rows: Iterable[str]) -> str:
    """Return a list of texts, not escaped yet; empty where there are none."""
    items = "".join(f"<li>{e(row)}</li>" for row in rows)
    return f"<ul>{items}</ul>" if items else ""
