"""Names for snippets that run with GulpIO2 and ours: ``gulp`` is the package, ``np`` numpy."""

import importlib
from typing import Any

import numpy as np


def names(gulp: Any) -> dict[str, Any]:
    """Return the names for snippets about a package."""
    return {"gulp": gulp, "np": np}


def load() -> tuple[str, dict[str, Any]]:
    """Return the version of gulpio2 and the names; for `tests.snippets`."""
    gulp = importlib.import_module("gulpio2")
    return gulp.__version__, names(gulp)
