import json
from pathlib import Path

import numpy as np
import pytest

import bloscpack as bp
from bloscpack.container.reader import Container
from bloscpack.storage.file import open_source

from .conftest import Blpk, flip


@pytest.fixture
def more(tmp_path: Path) -> Path:
    path = tmp_path / "more.bin"
    path.write_bytes(b"more" * 600)
    return path


def test_content_follows(blpk: Blpk, packed: Path, more: Path, content: bytes) -> None:
    assert blpk("append", packed, more) == blpk("a", "-c", "lz4", "-l1", packed, "more.bin")
    assert bp.unpack_bytes_from_file(packed) == (content + 2 * more.read_bytes(), {"unit": "m"})
    with Container.open(open_source(packed)) as container:
        codecs = {container.fetch(index).header.codec for index in range(container.nchunks)}
    assert codecs == {"blosclz", "lz4"}


def test_from_standard_input(blpk: Blpk, packed: Path, content: bytes) -> None:
    assert blpk("a", packed, "-", stdin=b"tail" * 999).code == 0
    assert bp.unpack_bytes_from_file(packed)[0] == content + b"tail" * 999


def test_an_array_grows(blpk: Blpk, ramp: Path, more: Path) -> None:
    more.write_bytes(np.full((2, 4), 7.0).tobytes())
    assert blpk("a", "-t", "8", ramp, more).code == 0
    assert np.array_equal(bp.load(ramp)[30:], np.full((2, 4), 7.0))
    more.write_bytes(b"half a row")
    before = ramp.read_bytes()
    assert blpk("a", ramp, more).code == 1
    assert ramp.read_bytes() == before


def test_metadata_are_replaced(blpk: Blpk, packed: Path, more: Path, content: bytes) -> None:
    Path("meta.json").write_text('{"unit": "s"}')
    assert blpk("a", "-m", "meta.json", packed, more).code == 0
    assert bp.unpack_bytes_from_file(packed) == (content + more.read_bytes(), {"unit": "s"})


def test_metadata_of_an_array_as_it_will_be(blpk: Blpk, ramp: Path, more: Path) -> None:
    more.write_bytes(bytes(32))
    Path("meta.json").write_text(
        '{"dtype": "\'<f8\'", "shape": [31, 4], "order": "C", "container": "numpy"}'
    )
    assert blpk("a", "-m", "meta.json", ramp, more).code == 0
    assert bp.load(ramp).shape == (31, 4)


# 400 characters, which do not fit into the reserved 140 bytes even when compressed.
NOISE = json.dumps(np.random.default_rng(3).integers(0, 10**9, 40).tolist())


@pytest.mark.parametrize(
    ("text", "message"), [('{"unit": "m"}', "equal the old"), (NOISE, "do not fit")]
)
def test_metadata_that_cannot_be_replaced_leave_the_file_untouched(
    blpk: Blpk, packed: Path, more: Path, text: str, message: str
) -> None:
    Path("meta.json").write_text(text)
    before = packed.read_bytes()
    ended = blpk("a", "-m", "meta.json", packed, more)
    assert ended.code == 1
    assert message in ended.err
    assert packed.read_bytes() == before


def test_no_metadata_to_replace(blpk: Blpk, plain: Path, more: Path) -> None:
    blpk("c", plain, "x.blp")
    before = Path("x.blp").read_bytes()
    Path("meta.json").write_text("{}")
    ended = blpk("a", "-m", "meta.json", "x.blp", more)
    assert ended.code == 1
    assert "no metadata" in ended.err
    assert Path("x.blp").read_bytes() == before


@pytest.mark.parametrize("options", [["-o"], ["--max-app-chunks", "0"]])
def test_files_that_cannot_grow(blpk: Blpk, plain: Path, more: Path, options: list[str]) -> None:
    blpk("c", *options, plain, "x.blp")
    before = Path("x.blp").read_bytes()
    ended = blpk("a", "x.blp", more)
    assert ended.code == 1
    assert ended.err.count("\n") == 1
    assert Path("x.blp").read_bytes() == before


def test_a_file_of_nothing_cannot_grow(blpk: Blpk, more: Path) -> None:
    Path("empty").write_bytes(b"")
    blpk("c", "empty")
    ended = blpk("-v", "a", "empty.blp", more)
    assert ended.code == 1
    assert "packed from empty content" in ended.err


def test_nothing_is_appended_to_itself(blpk: Blpk, packed: Path) -> None:
    before = packed.read_bytes()
    ended = blpk("a", packed, "packed.blp")
    assert ended.code == 1
    assert "to itself" in ended.err
    assert packed.read_bytes() == before


def test_names_and_extension(blpk: Blpk, packed: Path, more: Path) -> None:
    assert blpk("a", "-e", "-", more).code == 1
    packed.rename("other")
    assert blpk("a", "other", more).code == 1
    assert blpk("a", "-e", "other", more).code == 0


def test_damage_is_not_sealed_in(blpk: Blpk, packed: Path, more: Path) -> None:
    flip(packed, -10)
    before = packed.read_bytes()
    ended = blpk("a", packed, more)
    assert ended.code == 3
    assert packed.read_bytes() == before


def test_ratio_of_appended_content(blpk: Blpk, packed: Path, more: Path) -> None:
    before = packed.stat().st_size
    ended = blpk("-v", "a", packed, more)
    ratio = 2400 / (packed.stat().st_size - before)
    assert f"blpk: Approximate compression ratio of appended data: {ratio:f}\n" in ended.err
    assert "blpk: nchunks: 3\n" in ended.err
    assert "blpk: last_chunk_size: 400.0B (400B)\n" in ended.err
