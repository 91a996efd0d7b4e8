"""XML as elements that know their line, and the faults of a file, each with where it is.

A text that declares a document type or an entity is refused: nothing is expanded and nothing else is read.
"""

import dataclasses
import math
from xml.parsers import expat

from fgmbs.errors import DescriptionError

DEEPEST = 200
"""Elements within each other, at most."""


@dataclasses.dataclass
class Element:
    """An element of an XML text."""

    tag: str
    attributes: dict[str, str]
    line: int
    children: list["Element"] = dataclasses.field(default_factory=list)
    text: str = ""
    source: str = ""
    """The file that it stands in."""

    def all(self, tag: str) -> list["Element"]:
        """Its children of a tag."""
        return [child for child in self.children if child.tag == tag]

    def first(self, *tags: str) -> "Element | None":
        """What is reached over the first children of these tags."""
        found: Element | None = self
        for tag in tags:
            found = next((child for child in found.children if child.tag == tag), None) if found else None
        return found

    @property
    def called(self) -> str:
        """As messages call it: <joint name='elbow'>."""
        name = self.attributes.get("name")
        return f"<{self.tag}>" if name is None else f"<{self.tag} name='{name}'>"


def parse(text: str, source: str) -> Element:
    """The root element of an XML text.

    Args:
        source: What to call the text in messages.

    Raises:
        DescriptionError: It is no XML, declares a document type, or is nested too deep.
    """
    open_: list[Element] = [Element("", {}, 0)]
    parser = expat.ParserCreate()
    parser.buffer_text = True

    def refuse(what: str) -> None:
        raise DescriptionError([f"{source}:{parser.CurrentLineNumber}: {what}"])

    def start(tag: str, attributes: dict[str, str]) -> None:
        if len(open_) > DEEPEST:
            refuse(f"expected at most {DEEPEST} elements within each other; found more")
        element = Element(tag, attributes, parser.CurrentLineNumber, source=source)
        open_[-1].children.append(element)
        open_.append(element)

    def characters(more: str) -> None:
        open_[-1].text += more

    parser.StartElementHandler = start
    parser.EndElementHandler = lambda tag: open_.pop() and None
    parser.CharacterDataHandler = characters
    parser.StartDoctypeDeclHandler = lambda *_: refuse(
        "expected no document type; found <!DOCTYPE …>, with which a text can grow without limit or read other files"
    )
    try:
        parser.Parse(text.encode(), True)
    except expat.ExpatError as error:
        words = expat.ErrorString(error.code)
        raise DescriptionError(
            [f"{source}:{error.lineno}:{error.offset + 1}: expected XML; found an error: {words}"]
        ) from None
    return open_[0].children[0]


class Faults:
    """The faults of a file and of what it includes, gathered so that all are reported at once, and its numbers."""

    def __init__(self, source: str):
        self.source = source
        self.lines: list[str] = []

    def add(self, element: Element | None, text: str) -> None:
        """Notes a fault at an element."""
        at = self.source if element is None else f"{element.source or self.source}:{element.line}: {element.called}"
        self.lines.append(f"{at}: {text}")

    def refuse(self) -> None:
        """Raises:
        DescriptionError: Something was noted.
        """
        if self.lines:
            raise DescriptionError(self.lines)

    def numbers(self, element: Element, text: str, count: int, what: str = "") -> tuple[float, ...]:
        """The finite numbers of a text; zeros where they are a fault.

        Args:
            element: Where the text stands.
            what: How the text is called there, as an attribute.
        """
        parts = text.split()
        try:
            values = tuple(float(part) for part in parts)
        except ValueError:
            values = ()
        if len(values) != count or not all(math.isfinite(value) for value in values):
            expected = "a finite number" if count == 1 else f"{count} finite numbers"
            self.add(element, f"{what}{': ' if what else ''}expected {expected}; found '{text.strip()}'")
            return (0.0,) * count
        return values

    def number(self, element: Element, default: float, *tags: str) -> float:
        """The number in a descendant, or a default where that is not there."""
        found = element.first(*tags)
        return default if found is None else self.numbers(found, found.text, 1)[0]

    def name(self, element: Element) -> str:
        """The name of an element; noted as a fault where it has none."""
        name = element.attributes.get("name", "").strip()
        if not name:
            self.add(element, "expected an attribute name; found none")
        return name
