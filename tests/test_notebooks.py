"""The notebooks run from top to bottom."""

from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "notebooks"


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.ipynb")), ids=lambda path: path.stem)
def test_notebook_runs(path, configs, monkeypatch):
    nbclient = pytest.importorskip("nbclient")
    nbformat = pytest.importorskip("nbformat")
    kernels = pytest.importorskip("jupyter_client.kernelspec")
    notebook = nbformat.read(path, as_version=4)
    name = notebook.metadata.kernelspec.name
    if name not in kernels.KernelSpecManager().find_kernel_specs():
        pytest.skip(f"no Jupyter kernel '{name}'; install ipykernel")
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", str(configs.parent / ".jax_cache"))
    nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(FOLDER)}}).execute()
    nbformat.validate(notebook)
