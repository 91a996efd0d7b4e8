"""Models of other files, in the places where an SDF file includes them."""

import contextlib
import os
from pathlib import Path

from fgmbs.io.located_yaml import read_text
from fgmbs.io.robots.located_xml import DEEPEST, Element, Faults, parse

_MOST = 200
"""Models that are included, with those within them, at most: a few files could ask for any number."""
_FOLDERS = "SDF_PATH", "GZ_SIM_RESOURCE_PATH"
"""Environment variables that name folders of models."""
_LEFT_OUT = "placement_frame", "experimental:params"

Version = tuple[int, int]


class Includes:
    """What is included on a walk through a file and the files that it names.

    Attributes:
        versions: Of the format, by the files that were read.
    """

    def __init__(self, faults: Faults):
        self.faults = faults
        self.versions: dict[str, Version] = {}
        self._count = 0

    def version(self, root: Element) -> Version | None:
        """The version that a file says; noted as a fault where it is no SDF file of a known one."""
        if root.tag != "sdf":
            self.faults.add(root, "expected <sdf>")
            return None
        version = _version(root)
        if version is None or not (1, 5) <= version < (2, 0):
            found = root.attributes.get("version", "")
            self.faults.add(root, f"expected a version from 1.5 to 1.12; found '{found}'")
            return None
        self.versions[root.source] = version
        return version

    def resolve(self, element: Element, folder: Path | None, within: tuple[Path, ...] = (), depth: int = 0) -> None:
        """Puts models in the places of all <include> in an element.

        Args:
            element: Of a file …
            folder: … in this folder; None if it is in none, and nothing can be included.
            within: The files that include this one.
            depth: Elements that it is in.
        """
        if depth > DEEPEST:
            self.faults.add(element, f"expected at most {DEEPEST} models within each other; found more")
            self.faults.refuse()
        for place, child in enumerate(element.children):
            if child.tag == "include":
                element.children[place] = self._model(child, folder, within, depth) or child
            elif child.tag in ("world", "model"):
                self.resolve(child, folder, within, depth + 1)

    def _model(self, include: Element, folder: Path | None, within: tuple[Path, ...], depth: int) -> Element | None:
        """The model that is included, called and placed as is said there; None where that is a fault."""
        file = self._file(include, folder)
        if file is None:
            return None
        self._count += 1
        if file in within:
            self.faults.add(include, f"expected a model without itself in it; found {file} within itself")
            return None
        if self._count > _MOST:
            self.faults.add(include, f"expected at most {_MOST} included models; found more")
            self.faults.refuse()
        root = parse(read_text(file, "an SDF file"), str(file))
        models = root.all("model")
        if self.version(root) is None:
            return None
        if len(models) != 1:
            self.faults.add(root, f"expected one <model> in a file that is included; found {len(models)}")
            return None
        model = models[0]
        _find_meshes(model, file.parent)
        self.resolve(model, file.parent, (*within, file), depth + 1)
        for tag in ("pose", "static"):
            if (own := include.first(tag)) is not None:
                model.children = [own, *(child for child in model.children if child.tag != tag)]
        name = include.first("name")
        if name is not None:
            model.attributes = model.attributes | {"name": name.text.strip()}
        return model

    def _file(self, include: Element, folder: Path | None) -> Path | None:
        """The file that is meant."""
        uri = include.first("uri")
        said = "" if uri is None else uri.text.strip()
        for tag in _LEFT_OUT:
            if (found := include.first(tag)) is not None:
                self.faults.add(found, f"expected an <include> without <{tag}>, which is not supported")
        merge = include.attributes.get("merge", "false")
        if merge not in ("false", "0"):
            self.faults.add(include, f"expected no merge, which is not supported; found '{merge}'")
        if not said:
            self.faults.add(include, "expected <uri> with the place of a model; found none")
        elif folder is None:
            self.faults.add(
                include, f"expected the model itself; found <include> of '{said}' in a text that is no file"
            )
        elif said.startswith(("http://", "https://")):
            self.faults.add(
                include, f"expected a model on this machine; found '{said}'; download it, and say where it lies"
            )
        else:
            places = list(dict.fromkeys(map(os.path.realpath, _places(said, folder))))
            for place in places:
                with contextlib.suppress(OSError):  # a name that is too long
                    if (file := _main_file(Path(place))) is not None:
                        return file
            looked = ", ".join(places)
            self.faults.add(include, f"expected a model at '{said}'; found none, looked for at {looked}")
        return None


def _places(uri: str, folder: Path) -> list[Path]:
    """Where a model may be: models are looked for beside the file, beside its folder, and in folders of models."""
    if uri.startswith("model://"):
        named = [Path(one) for variable in _FOLDERS for one in os.environ.get(variable, "").split(os.pathsep) if one]
        return [place / uri.removeprefix("model://").lstrip("/") for place in (folder, folder.parent, *named)]
    return [folder / uri.removeprefix("file://")]


def _main_file(place: Path) -> Path | None:
    """The SDF file of a model; None where there is none."""
    if place.is_file():
        return place
    config = place / "model.config"
    if config.is_file():
        files = parse(read_text(config, "a model.config"), str(config)).all("sdf")
        newest = max(files, key=lambda file: _version(file) or (0, 0), default=None)
        if newest is not None and (place / newest.text.strip()).is_file():
            return place / newest.text.strip()
    model = place / "model.sdf"
    return model if model.is_file() else None


def _version(element: Element) -> Version | None:
    """What an element says as its version; None if that is none."""
    parts = element.attributes.get("version", "").split(".")
    if len(parts) != 2 or not all(part.isdecimal() and len(part) < 5 for part in parts):
        return None
    return int(parts[0]), int(parts[1])


def _find_meshes(element: Element, folder: Path) -> None:
    """Files of meshes are named from the folder of their own file."""
    uri = element.first("uri") if element.tag == "mesh" else None
    if uri is not None and uri.text.strip() and "://" not in uri.text:
        uri.text = str(folder.absolute() / uri.text.strip())
    for child in element.children:
        _find_meshes(child, folder)
