"""What the commands say about an array."""

from typing import Any

import numpy as np


def is_array(metadata: Any) -> bool:
    """Return whether metadata claim to be those of an array."""
    return isinstance(metadata, dict) and metadata.get("container") == "numpy"


def dtype_text(dtype: "np.dtype[Any]") -> str:
    """Return the name of a dtype: ``<f8``, ``bfloat16``, a list of fields if it has some."""
    if dtype.names is not None or dtype.isbuiltin == 2:  # 2: defined outside numpy
        return str(dtype)
    return dtype.str


def array_fields(
    shape: tuple[int, ...], dtype: "np.dtype[Any]", is_fortran: bool
) -> dict[str, Any]:
    """Return the JSON fields that describe an array."""
    return {
        "shape": list(shape),
        "dtype": dtype_text(dtype),
        "order": "F" if is_fortran else "C",
    }
