"""Text of a project or a model inside other languages: one function for each place.

Every text that is inserted into code, settings, markup or a terminal goes through one of these.
Python literals are written with ``repr`` and HTML with ``html.escape``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape

_PLAIN_YAML = re.compile(r"[A-Za-z][\w.:& -]*[\w]", re.ASCII)
_MARKUP = re.compile(r"[\\`*<]|\](?=[(\[:])")
_PLACEHOLDER = re.compile(r"\{(\w+)\}")


def one_line(text: str) -> str:
    """Return a text without line ends, control characters and lone surrogates."""
    return "".join(c if c.isprintable() else " " for c in text)


def for_terminal(text: str) -> str:
    """Return a text without characters that a terminal obeys; line ends and tabs stay."""
    return "".join(c if c.isprintable() or c in "\n\t" else "\ufffd" for c in text)


def in_python_docstring(text: str) -> str:
    """Return a text for a docstring between three double quotes."""
    return one_line(text).replace("\\", "\\\\").replace('"', '\\"')


def in_comment(text: str) -> str:
    """Return a text for a comment: of one line (#, //), or between /* and */."""
    return one_line(text).replace("*/", "* /").replace("/*", "/ *")


def in_cmake(text: str) -> str:
    """Return a text for a quoted argument of CMake."""
    return re.sub(r'([\\"$;@])', r"\\\1", one_line(text))


def in_yaml(text: str) -> str:
    """Return a text as a YAML scalar, quoted where it must be."""
    plain = _PLAIN_YAML.fullmatch(text) and ": " not in text
    return text if plain else json.dumps(one_line(text))


def in_markdown(text: str) -> str:
    """Return a text for a Markdown paragraph, heading or cell: no markup, links or HTML."""
    return _MARKUP.sub(lambda match: "&lt;" if match[0] == "<" else f"\\{match[0]}", one_line(text))


def in_markdown_code(text: str) -> str:
    """Return lines as a Markdown code block whose fence is longer than any in the text."""
    lengths = map(len, re.findall(r"`+", text))
    fence = "`" * (1 + max([2, *lengths]))
    return f"{fence}\n{text.rstrip()}\n{fence}"


def filled(template: str, values: Mapping[str, str]) -> str:
    """Return a template with each ``{name}`` replaced once; inserted text is not read again."""
    return _PLACEHOLDER.sub(lambda match: values.get(match[1], match[0]), template)


def html_table(title: str, header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table as HTML. Every cell and the title are escaped.

    Args:
        title: The caption.
        header: The names of the columns.
        rows: The cells, each row as long as ``header``.
    """
    head = "".join(f"<th>{escape(name)}</th>" for name in header)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows
    )
    return (
        f"<table><caption>{escape(title)}</caption>"
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    )
