"""Description of an archive, for ``blpk info``."""

import argparse
from typing import Any

from ...archive.reader import Archive
from ...exceptions import BloscpackError
from ...storage.protocol import ByteSource
from ..console.describe import array_fields, kept_fields, kept_text, shape_text
from ..console.description import Description
from ..console.table import attrs_text, exact_size_text, size_text


def about(args: argparse.Namespace, source: ByteSource) -> Description:
    """Describe the archive, and the shape and the size of each array."""
    arrays: list[dict[str, Any]] = []
    with Archive(source) as archive:
        for key, array in archive.items():
            with array:
                sizes = {"nbytes": array.nbytes, "cbytes": array.cbytes}
                fields = array_fields(array.shape, array.dtype, array.is_fortran)
                arrays.append({"name": key, **fields, **sizes})
        cbytes, attrs, dead = archive.cbytes, archive.attrs, archive.dead_nbytes
        errors: list[BloscpackError] = []
        kept = kept_fields(source, errors, is_log=dead is not None)
    nbytes = sum(each["nbytes"] for each in arrays)
    return Description(
        {
            "kind": "archive",
            "nbytes": nbytes,
            "cbytes": cbytes,
            "ratio": nbytes / cbytes,
            "format_version": 4,
            "attrs": attrs,
            "dead_nbytes": dead,
            **kept,
            "arrays": arrays,
        },
        (
            ("kind", "archive"),
            ("arrays", len(arrays)),
            ("decoded", exact_size_text(nbytes)),
            ("stored", exact_size_text(cbytes)),
            ("ratio", f"{nbytes / cbytes:.2f}"),
            ("not in use", None if dead is None else exact_size_text(dead)),
            ("versions", kept_text(kept)),
            ("attrs", attrs_text(attrs)),
            ("format", "version 4, read by bloscpack 1.0 and later, not 0.16"),
        ),
        ("shape", "dtype", "decoded", "stored", "array"),
        [
            (
                shape_text(each["shape"]),
                each["dtype"],
                size_text(each["nbytes"]),
                size_text(each["cbytes"]),
                each["name"],
            )
            for each in arrays
        ],
        right=("decoded", "stored"),
        errors=errors,
    )
