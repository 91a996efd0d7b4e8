"""Imports point down the road of the data; optional libraries wait until they are needed."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "fgmbs"
LAYERS = (
    *(
        ("typing", "errors", "status"),
        ("arguments",),
        ("compiled",),
        ("algebra", "losses"),
        ("linear",),
        ("signals",),
        ("unknowns",),
    ),
    *(("kinematics",), ("mechanisms",), ("dynamics",), ("factors",), ("sensors", "inputs")),
    *(
        ("graph",),
        ("solvers",),
        ("io",),
        ("results",),
        ("problems",),
        ("planar", "robots", "tree"),
        ("plots",),
        ("commands",),
        ("cli",),
        ("__main__",),
    ),
)
RANK = {name: rank for rank, layer in enumerate(LAYERS) for name in layer}
OPTIONAL = {"matplotlib", "PIL", "xarray", "h5netcdf", "pyarrow"}
ROOMS = sorted({path.parent for path in PACKAGE.rglob("*.py")})
MODULES = sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py")


def imports(path):
    """(imported module, whether it is imported as soon as the importing one is) of a file."""
    tree = ast.parse(path.read_text())
    late = {
        id(node)
        for block in ast.walk(tree)
        if isinstance(block, ast.FunctionDef) or (isinstance(block, ast.If) and "TYPE_CHECKING" in ast.dump(block.test))
        for node in ast.walk(block)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, id(node) not in late) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names = [f"fgmbs.{alias.name}" for alias in node.names] if node.module == "fgmbs" else [node.module]
            yield from ((name, id(node) not in late) for name in names)


def layer_of(module):
    return module.split(".")[1]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_point_down(path):
    own = path.relative_to(PACKAGE).with_suffix("").parts[0]
    assert own in RANK, f"{own} has no place in the order of layers"
    for module, _ in imports(path):
        if module.startswith("fgmbs."):
            assert RANK[layer_of(module)] <= RANK[own], f"{own} imports {module}, which stands above it"


@pytest.mark.parametrize("path", sorted((PACKAGE / "linear").glob("*.py")), ids=lambda path: path.name)
def test_linear_algebra_knows_no_mechanics(path):
    own = {layer_of(module) for module, _ in imports(path) if module.startswith("fgmbs.")}
    assert own <= {"linear", "compiled", "typing", "errors", "status"}


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_optional_libraries_are_imported_where_they_are_used(path):
    at_once = {module.split(".")[0] for module, at_once in imports(path) if at_once}
    assert not at_once & OPTIONAL


def test_only_the_solvers_know_jaxopt():
    users = {path.relative_to(PACKAGE).parts[0] for path in MODULES for name, _ in imports(path) if "jaxopt" in name}
    assert users <= {"solvers"}


def test_importing_fgmbs_loads_jax_and_little_else():
    """What a name needs is imported when it is asked for."""
    heavy = {"matplotlib", "xarray", "h5netcdf", "tyro", "equinox", "jaxopt", "scipy.optimize", "pydantic"}
    code = f"import sys, fgmbs; print(sorted({heavy} & set(sys.modules)))"
    answer = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert answer.stdout.strip() == "[]"


def test_importing_leaves_the_choice_of_devices_to_the_user():
    """They are chosen when the first array is made."""
    code = "import fgmbs; from jax._src import xla_bridge; assert not xla_bridge._backends, list(xla_bridge._backends)"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: str(room.relative_to(PACKAGE.parent)))
def test_a_room_has_at_most_a_dozen_files(room):
    assert len([path for path in room.glob("*.py") if path.name != "__init__.py"]) <= 12


def test_the_package_shows_its_public_names_only():
    import fgmbs

    names = [name for name in dir(fgmbs) if not name.startswith("__")]
    assert names == sorted(fgmbs.__all__) and len(set(names)) == len(names)
    assert all(getattr(fgmbs, name) is not None for name in names)
    with pytest.raises(AttributeError, match="No fgmbs attribute simulat"):
        fgmbs.simulat  # noqa: B018
