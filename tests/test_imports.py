"""What an import may load, and that the faces say what is there."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
HEAVY = ["torch", "ortools", "matplotlib", "numba", "scipy", "scipy.optimize", "pyarrow", "typer", "rich", "hypothesis"]


def run(code: str) -> str:
    """Run Python in a fresh process and return what it printed."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def loaded_by(code: str) -> list[str]:
    """Return the heavy modules that ``code`` loads."""
    modules: list[str] = json.loads(run(f"import sys, json; {code}; print(json.dumps(list(sys.modules)))"))
    return sorted(set(HEAVY) & set(modules))


def test_importing_the_packages_loads_nothing_heavy() -> None:
    assert loaded_by("import balancers, packing, dist, experiments") == []


def test_data_types_load_numpy_and_nothing_else_heavy() -> None:
    names = "Grid, Problem, Plan, Linear, Barrier, Counts"
    code = f"from balancers import {names}; from packing import Samples, Limits, Packing, Packer"
    assert loaded_by(f"{code}; Plan(Problem([1, 2], 2), [0, 1]).digest()") == []


@pytest.mark.parametrize("package", ["packing", "balancers", "dist", "experiments"])
def test_a_face_tells_editors_what_it_loads_at_run_time(package: str) -> None:
    face = import_module(package)
    tree = ast.parse((ROOT / package / "__init__.py").read_text())
    (block,) = [node for node in tree.body if isinstance(node, ast.If)]
    for_editors = {alias.asname for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    registries = {name for name in vars(face) if name.isupper() and not name.startswith("_")} - {"TYPE_CHECKING"}
    assert for_editors | registries == set(face.__all__)
    assert set(face.__all__) <= set(dir(face))
    for name in face.__all__:
        assert getattr(face, name) is not None
    with pytest.raises(AttributeError, match=f"module '{package}' has no attribute 'Nothing'"):
        face.Nothing  # noqa: B018


def test_a_missing_dependency_names_the_extra_that_brings_it() -> None:
    code = """
import sys
sys.modules["hypothesis"] = None
try:
    import balancers.testing
except ImportError as error:
    print(type(error).__name__, error.extra, error)
"""
    assert run(code) == (
        'MissingExtra test balancers.testing needs hypothesis, which is not installed: pip install "evenstep[test]".'
    )


def test_nobody_abbreviates_torch_distributed_as_our_package() -> None:
    habit = "import torch.distributed as " + "dist"
    assert [path for path in ROOT.glob("[!.]*/**/*.py") if habit in path.read_text()] == []


def test_every_test_folder_is_collected(request: pytest.FixtureRequest) -> None:
    """Folders called dist are skipped by default by pytest, ruff and build backends."""
    assert "dist" not in request.config.getini("norecursedirs")
    for folder in ("packing", "balancers", "dist", "experiments"):
        assert (ROOT / "tests" / folder / "__init__.py").is_file()
