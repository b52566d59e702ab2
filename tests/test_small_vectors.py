"""The small vectors of every format are those described; each file type reads its own.

Arrays and frame stores have a set of their own, in ``tests/conformance``; files of the original
are read by ``tests/container/test_vectors.py``.
"""

import hashlib
import json

from .conftest import SMALL_FORMATS, SMALL_VECTORS


def test_files_are_those_described() -> None:
    described = json.loads((SMALL_VECTORS / "formats.json").read_text("utf-8"))
    found = {
        path.relative_to(SMALL_FORMATS).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(SMALL_FORMATS.rglob("*"))
        if path.is_file()
    }
    assert found == described
