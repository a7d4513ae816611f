"""What is shipped: the wheel holds exactly the four packages, and works without any extra."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("balancers", "dist", "experiments", "packing")

USE = """
import sys, balancers, packing
from balancers import KarmarkarKarp, LPT, Grid, Counts, Linear, Problem
from packing import BestFitDecreasing, Limits, MissingExtra, Samples
packs = BestFitDecreasing().pack(Samples([5, 4, 3, 2], {"image_tokens": [4, 0, 2, 0]}), Limits(7))
loads = Linear(fixed_us=10, image_tokens=2).loads(packs.sums())
plan = LPT().plan(Problem(loads, Grid(2, counts=Counts.EQUAL)))
assert (len(packs), plan.cost, KarmarkarKarp().plan(Problem([8, 7, 6, 5, 4], 2)).cost) == (2, 18, 16)
for missing in ("torch", "ortools", "matplotlib", "pyarrow", "typer", "hypothesis"):
    try:
        __import__(missing)
    except ImportError:
        continue
    raise SystemExit(f"{missing} is there, so this proves nothing")
try:
    import balancers.testing
except MissingExtra as error:
    assert error.extra == "test"
print(packing.__file__)
"""


def run(*command: str | Path, cwd: Path) -> str:
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}  # what is installed is meant
    done = subprocess.run(command, cwd=cwd, env=clean, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


def test_the_oldest_constraints_pin_what_pyproject_admits() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    asked = [each for name in ("ilp", "dist", "experiments", "test") for each in extras[name]]
    oldest = dict(each.split(">=") for each in (*project["dependencies"], *asked))
    lines = (ROOT / "constraints-oldest.txt").read_text().splitlines()
    pinned = dict(line.split("==") for line in lines if not line.startswith("#"))
    for name, version in oldest.items():
        assert f"{pinned[name]}.".startswith(f"{version}."), name


@pytest.fixture(scope="module")
def archives(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist, and the wheel built from it; never the project's own dist/."""
    folder = tmp_path_factory.mktemp("archives")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT, cwd=folder)
    return folder


def tracked(*folders: str) -> set[str]:
    files = run("git", "ls-files", "--cached", "--others", "--exclude-standard", *folders, cwd=ROOT).splitlines()
    return {name for name in files if (ROOT / name).is_file()}


def test_the_wheel_holds_exactly_the_four_packages(archives: Path) -> None:
    (wheel,) = archives.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {name for name in names if ".dist-info/" not in name} == tracked(*PACKAGES)
    assert "experiments/data/sources.json" in names
    assert "dist/__init__.py" in names


def test_the_sdist_holds_the_tests_too(archives: Path) -> None:
    (sdist,) = archives.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert tracked(*PACKAGES, "tests") <= names
    assert {"README.md", "LICENSE", "pyproject.toml"} <= names


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_wheel_plans_and_packs_in_an_empty_environment(archives: Path, tmp_path: Path) -> None:
    (wheel,) = archives.glob("*.whl")
    venv.create(tmp_path / "venv", with_pip=True)
    python = tmp_path / "venv" / "bin" / "python"
    pip = (python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    run(*pip, "--constraint", ROOT / "constraints.txt", wheel, cwd=tmp_path)
    assert run(python, "-c", USE, cwd=tmp_path).startswith(str(tmp_path))
    command = subprocess.run(
        [tmp_path / "venv" / "bin" / "evenstep"], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert command.returncode == 2
    assert command.stderr == (
        'evenstep: this command needs typer, which is not installed: pip install "evenstep[experiments]".\n'
    )
