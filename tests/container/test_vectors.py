"""Small test vectors, read by this package and by independent code."""

import hashlib
import json
from typing import Any

import pytest

from bloscpack.container.reader import Container
from bloscpack.damage.verify import verify
from bloscpack.storage.file import open_source
from bloscpack.storage.memory import MemorySource

from ..conftest import SMALL_VECTORS, Vectors
from ..reference.file import take_apart

EXPECTED: dict[str, Any] = json.loads((SMALL_VECTORS / "expected.json").read_text("utf-8"))


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def test_every_vector_is_described() -> None:
    assert sorted(path.name for path in SMALL_VECTORS.glob("*.blp")) == sorted(EXPECTED)


@pytest.mark.parametrize("name", EXPECTED)
def test_file_is_the_one_described(name: str) -> None:
    assert sha256((SMALL_VECTORS / name).read_bytes()) == EXPECTED[name]["file_sha256"]


@pytest.mark.parametrize("name", EXPECTED)
def test_file_is_a_copy_of_the_shared_one(vectors: Vectors, name: str) -> None:
    assert (SMALL_VECTORS / name).read_bytes() == (vectors.folder / name).read_bytes()
    described = {one["file"]: one for one in vectors.manifest["vectors"]}
    if name in described:
        for key in ("file_sha256", "header", "metadata", "payload"):
            assert EXPECTED[name][key] == described[name][key]


@pytest.mark.parametrize("name", EXPECTED)
def test_reading_gives_header_metadata_and_content(name: str) -> None:
    expected = EXPECTED[name]
    with Container.open(open_source(SMALL_VECTORS / name)) as container:
        header = container.header
        if "header" in expected:
            found = {**header._asdict(), "checksum": header.checksum.name}
            assert found.pop("features") == 0
            assert found == expected["header"]
            assert container.metadata == expected["metadata"]
        else:
            assert header.format_version == expected["format_version"]
        content = container.read()
        assert len(content) == container.nbytes == expected["payload"]["size"]
        assert sha256(content) == expected["payload"]["sha256"]
    assert verify(SMALL_VECTORS / name).ok


@pytest.mark.parametrize("name", EXPECTED)
def test_reference_code_agrees(name: str) -> None:
    blosc = pytest.importorskip("blosc", reason="the independent decoder is not installed")
    data = (SMALL_VECTORS / name).read_bytes()
    parts = take_apart(data)
    content = b"".join(blosc.decompress(chunk) for chunk in parts.chunks)
    assert sha256(content) == EXPECTED[name]["payload"]["sha256"]
    assert parts.offsets in ([], parts.starts)
    with Container.open(MemorySource(data)) as container:
        starts = [container.fetch(index).offset for index in range(container.nchunks)]
        assert starts == parts.starts
