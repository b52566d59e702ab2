"""bloscpack 0.16 reads the arrays and bytes of the conformance set that its format covers."""

import hashlib
import json
from ast import literal_eval
from pathlib import Path

import numpy as np
import pytest

import bloscpack as bp
from tests.conftest import SMALL_VECTORS

from .test_original_reads_ours import UNPACK, UNPACK_ARRAY, Oracle

FOLDER = SMALL_VECTORS.parent / "conformance"
TWINS = {
    path.stem: json.loads(path.read_text("utf-8"))
    for path in sorted(FOLDER.glob("*.json"))
    if not path.stem.startswith(("bad_", "frames_"))
}
# Files that 0.16 does not read; None: it takes a file whose number of chunks is unknown for empty.
OTHERWISE: dict[str, str | None] = {
    **{
        name: "FormatVersionMismatch"
        for name in TWINS
        if (FOLDER / f"{name}.blp").read_bytes()[4] in (1, 4)  # in a log, the header is in a node
    },
    "chunk_snappy": "error",
    "metadata_early_digest": "ChecksumMismatch",
    "nchunks_unknown": None,
    "v2_bytes_offsets": "FormatVersionMismatch",
    "v2_bytes_one_chunk": "ValueError",
}


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@pytest.mark.parametrize("name", [name for name in TWINS if name not in OTHERWISE])
def test_the_original_finds_what_is_described(oracle: Oracle, name: str) -> None:
    twin, data = TWINS[name], (FOLDER / f"{name}.blp").read_bytes()
    content, metadata = oracle(UNPACK, data=data)
    assert (sha256(content), metadata) == (twin["content"]["sha256"], twin["metadata"])
    if "array" in twin:
        dtype, shape, order, items = oracle(UNPACK_ARRAY, data=data)
        assert np.dtype(literal_eval(dtype)) == np.dtype(literal_eval(metadata["dtype"]))
        assert (shape, order) == (metadata["shape"], metadata["order"])
        assert sha256(items) == twin["array"]["sha256"]


@pytest.mark.parametrize(
    "name",
    [name for name, twin in TWINS.items() if "array" in twin and name in OTHERWISE],
)
def test_the_original_reads_version_3_made_of_it(oracle: Oracle, name: str, tmp_path: Path) -> None:
    bp.convert(FOLDER / f"{name}.blp", tmp_path / "v3.blp", to="v3")
    _, shape, order, items = oracle(UNPACK_ARRAY, data=(tmp_path / "v3.blp").read_bytes())
    metadata = TWINS[name]["metadata"]
    assert (shape, order) == (metadata["shape"], metadata["order"])
    assert sha256(items) == TWINS[name]["array"]["sha256"]


@pytest.mark.parametrize("name", OTHERWISE)
def test_the_original_refuses_what_it_does_not_know(oracle: Oracle, name: str) -> None:
    kind, result = oracle.outcome(UNPACK, data=(FOLDER / f"{name}.blp").read_bytes())
    error = OTHERWISE[name]
    assert (kind, result) == ("value", (b"", None)) if error is None else result[0][0] == error
