"""What snippets for GulpIO2 and for ours see: the package as ``gulp``, numpy as ``np``."""

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
