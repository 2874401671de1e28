"""A page of headings, sentences, tables and code, written as Markdown and as HTML."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape


@dataclass(frozen=True)
class Table:
    """A table; cells are text."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Code:
    """Lines to be copied."""

    text: str


Block = str | Table | Code


@dataclass(frozen=True)
class Section:
    """A heading and what stands below it."""

    title: str
    blocks: tuple[Block, ...]


_STYLE = (
    "body{background:#fff;font:14px/1.45 system-ui,sans-serif;max-width:60em;margin:2em auto;"
    "padding:0 1em;color:#1c1f24}h1{font-size:1.5em}h2{font-size:1.1em;margin-top:1.6em}"
    "table{border-collapse:collapse;width:100%}td,th{text-align:left;padding:3px 10px 3px 0;"
    "border-bottom:1px solid #d8dce2;vertical-align:top}pre{background:#f2f4f7;padding:10px;"
    "overflow-x:auto}"
)


def markdown(title: str, sections: Sequence[Section]) -> str:
    """Return the page as Markdown."""
    parts = [f"# {title}"]
    for section in sections:
        parts.append(f"## {section.title}")
        parts += [_markdown(block) for block in section.blocks]
    return "\n\n".join(parts) + "\n"


def _markdown(block: Block) -> str:
    match block:
        case Code():
            return f"```\n{block.text.rstrip()}\n```"
        case Table():
            rows = [block.header, ("---",) * len(block.header), *block.rows]
            cells = [[cell.replace("|", "\\|") for cell in row] for row in rows]
            return "\n".join(f"| {' | '.join(row)} |" for row in cells)
        case _:
            return block


def html(title: str, sections: Sequence[Section]) -> str:
    """Return the page as one self-contained HTML document."""
    body = [f"<h1>{escape(title)}</h1>"]
    for section in sections:
        body.append(f"<h2>{escape(section.title)}</h2>")
        body += [_html(block) for block in section.blocks]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head>\n<body>\n"
        + "\n".join(body)
        + "\n</body></html>\n"
    )


def _html(block: Block) -> str:
    match block:
        case Code():
            return f"<pre>{escape(block.text.rstrip())}</pre>"
        case Table():
            head = "".join(f"<th>{escape(cell)}</th>" for cell in block.header)
            rows = (
                "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>"
                for row in block.rows
            )
            return f"<table><tr>{head}</tr>{''.join(rows)}</table>"
        case _:
            return f"<p>{escape(block)}</p>"
