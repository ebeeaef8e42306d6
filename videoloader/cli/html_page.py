"""Builds a self-contained HTML page of headings, tables, bars and pictures."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Sequence
from html import escape

from videoloader.errors import printable

_STYLE = """
:root { color-scheme: light dark; --bar: #4a7fc1; --line: #8885; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; overflow-wrap: anywhere; } h2 { font-size: 1.15rem; margin-top: 2.2rem; }
table { border-collapse: collapse; width: 100%; }
td, th { text-align: left; padding: .2rem .8rem .2rem 0; border-bottom: 1px solid var(--line); vertical-align: top;
  overflow-wrap: anywhere; } th { overflow-wrap: break-word; }
.grid { display: grid; grid-template-columns: repeat(auto-fit, minmax(17rem, 1fr)); gap: 0 2.5rem; }
.row { display: grid; grid-template-columns: 8rem 1fr 3.5rem; gap: .6rem; align-items: center; }
.row span:last-child { text-align: right; font-variant-numeric: tabular-nums; }
.bar { height: .8rem; background: var(--bar); border-radius: 2px; }
.facts td:first-child { white-space: nowrap; }
pre { background: #8882; padding: .8rem; border-radius: 4px; white-space: pre-wrap; overflow-wrap: anywhere; }
img { max-width: 100%; }
footer { margin-top: 3rem; opacity: .7; }
"""


def text(value: object) -> str:
    """Anything as HTML text; file names may not be UTF-8."""
    return escape(printable(str(value)))


def page(title: str, parts: Iterable[str], footer: str) -> str:
    """The whole page.

    Args:
        title: plain text.
        parts: HTML.
        footer: plain text.
    """
    head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
    body = "\n".join([f"<h1>{text(title)}</h1>", *parts, f"<footer>{text(footer)}</footer>"])
    return (
        f'<!doctype html>\n<html lang="en"><head>{head}<title>{text(title)}</title><style>{_STYLE}</style></head>\n'
        f"<body>\n{body}\n</body></html>\n"
    )


def section(title: str, *parts: str) -> str:
    return "\n".join([f"<section><h2>{text(title)}</h2>", *parts, "</section>"])


def table(rows: Iterable[Sequence[object]], header: Sequence[object] = ()) -> str:
    head = f"<tr>{''.join(f'<th>{text(each)}</th>' for each in header)}</tr>" if header else ""
    body = "".join(f"<tr>{''.join(f'<td>{text(each)}</td>' for each in row)}</tr>" for row in rows)
    kind = "" if head else ' class="facts"'
    return f"<table{kind}>{head}{body}</table>"


def bars(title: str, counts: Sequence[tuple[str, int]]) -> str:
    """A bar for each count, the longest at full width."""
    most = max((count for _, count in counts), default=0) or 1
    rows = [
        f'<div class="row"><span>{text(name)}</span>'
        f'<span><div class="bar" style="width:{100 * count / most:.1f}%"></div></span><span>{count}</span></div>'
        for name, count in counts
    ]
    return "\n".join([f"<div><h3>{text(title)}</h3>", *rows, "</div>"])


def code(shown: str) -> str:
    return f"<pre>{text(shown)}</pre>"


def picture(data: bytes, kind: str, description: str) -> str:
    """A picture embedded in the page.

    Args:
        data: the encoded picture.
        kind: ``"jpeg"`` or ``"png"``.
        description: alternative text.
    """
    return f'<img alt="{text(description)}" src="data:image/{kind};base64,{b64encode(data).decode()}">'
