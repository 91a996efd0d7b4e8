"""Reports in words: sections of sentences and tables as text."""

from collections.abc import Sequence
from typing import NamedTuple

_WORDS = ("", "kind", "at t [s]")
"""Headers of columns of words."""


class Section(NamedTuple):
    """A part of a report: a table, or sentences where there is no header."""

    title: str
    header: tuple[str, ...]
    rows: list[tuple[str, ...]]

    @property
    def sides(self) -> list[str]:
        """ "<" for columns of words, ">" for columns of numbers."""
        return ["<" if k == 0 or word in _WORDS else ">" for k, word in enumerate(self.header)]


def in_words(parts: list[Section]) -> str:
    """The parts of a report as text."""
    blocks = []
    for section in parts:
        if not section.header:
            blocks.append("\n".join([section.title, *(f"- {text}" for (text,) in section.rows)]))
        elif section.header == ("", ""):
            blocks.append(aligned(section.rows))
        else:
            blocks.append(_table(section))
    return "\n\n".join(blocks)


def aligned(lines: Sequence[tuple[str, ...]]) -> str:
    """Lines of a name and a text."""
    return "\n".join(f"{name:<13} {text}" for name, text in lines)


def _table(section: Section) -> str:
    """Columns of text: names to the left, numbers to the right."""
    rows = [section.header, *section.rows]
    widths = [max(len(row[k]) for row in rows) for k in range(len(section.header))]
    shapes = [f"{side}{width}" for side, width in zip(section.sides, widths, strict=True)]
    lines = ["  ".join(f"{cell:{shape}}" for cell, shape in zip(row, shapes, strict=True)) for row in rows]
    return "\n".join([section.title, *(f"  {line}".rstrip() for line in lines)])
