"""A report in one HTML file, which needs nothing from elsewhere."""

import base64
import html
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from fgmbs.results import sections

if TYPE_CHECKING:
    import xarray as xr

    from fgmbs.results.report import Section

_STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; max-width: 1080px; margin: 2em auto; padding: 0 1em; color: #222; }
h1 { font-size: 1.5em; } h2 { font-size: 1.15em; margin-top: 2em; border-bottom: 1px solid #ddd; }
table { border-collapse: collapse; } th, td { padding: 0.15em 0.8em 0.15em 0; vertical-align: top; }
th { text-align: left; font-weight: 600; color: #555; } td.number, th.number { text-align: right; }
td.number { font-variant-numeric: tabular-nums; white-space: nowrap; }
.warnings { border-left: 4px solid #D55E00; padding-left: 1em; }
figure { margin: 1.5em 0; } figure img { max-width: 100%; } figcaption { color: #555; }
pre { background: #f5f5f5; padding: 0.8em; overflow-x: auto; font-size: 13px; }
"""


def report_page(
    dataset: "xr.Dataset",
    figures: Mapping[str, bytes],
    parts: "Sequence[Section] | None" = None,
    kind: str = "Estimate",
) -> str:
    """The report of an estimate with its figures, settings, versions and mechanism, as the text of an HTML file.

    Args:
        figures: PNG files by what they show.
        parts: What the report has to say; by default what it has of the estimate.
        kind: What it is a report of.
    """
    name = html.escape(str(dataset.attrs["name"]))
    main, others = [], []
    for section in sections(dataset) if parts is None else parts:
        (others if section.title == "Notes" else main).append(_section(section))
    drawn = [
        f'<figure><img alt="{html.escape(title)}" src="data:image/png;base64,{base64.b64encode(png).decode()}">'
        f"<figcaption>{html.escape(title)}</figcaption></figure>"
        for title, png in figures.items()
    ]
    made = [(key.removesuffix("_version"), str(dataset.attrs[key])) for key in dataset.attrs if "_version" in key]
    texts = {"Settings": json.dumps(json.loads(dataset.attrs["config"]), indent=2, ensure_ascii=False)}
    if "mechanism" in dataset.attrs:
        texts["Mechanism"] = dataset.attrs["mechanism"]
    blocks = [
        *main,
        "<h2>Figures</h2>" * bool(drawn),
        *drawn,
        *others,
        *(f"<h2>{title}</h2><pre>{html.escape(text)}</pre>" for title, text in texts.items()),
        f"<p>Made by {html.escape(', '.join(' '.join(pair) for pair in made))}.</p>",
    ]
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{kind}: {name}</title>'
        f"<style>{_STYLE}</style></head>\n<body><h1>{kind}: {name}</h1>\n" + "\n".join(blocks) + "\n</body></html>\n"
    )


def _section(section: "Section") -> str:
    if not section.header:
        items = "".join(f"<li>{html.escape(text)}</li>" for (text,) in section.rows)
        return f'<section class="{section.title.lower()}"><h2>{section.title}</h2><ul>{items}</ul></section>'
    head = "".join(_cell("th", cell, side) for cell, side in zip(section.header, section.sides, strict=True))
    rows = "".join(
        f"<tr>{''.join(_cell('td', cell, side) for cell, side in zip(row, section.sides, strict=True))}</tr>"
        for row in section.rows
    )
    return f"<h2>{section.title}</h2><table><tr>{head}</tr>{rows}</table>"


def _cell(tag: str, text: str, side: str) -> str:
    number = ' class="number"' * (side == ">")
    return f"<{tag}{number}>{html.escape(text)}</{tag}>"
