"""What all tests share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("evenstep", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("evenstep")


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The folder of real lengths and instances, which is not part of the project."""
    folder = os.environ.get("EVENSTEP_DATA")
    if not folder:
        pytest.skip("needs real data: EVENSTEP_DATA=FOLDER make test")
    return Path(folder)
