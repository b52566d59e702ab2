"""Every vector to a store and back: equal checksums, and with ``verbatim`` equal bytes."""

import json
from pathlib import Path

import numpy as np
import pytest

import bloscpack as bp
from bloscpack import vrs
from tests.vrs.vectorfiles import FOLDER, NAMES

pytestmark = pytest.mark.skipif(not NAMES, reason=FOLDER.missing)
# Their hundreds of fields are a clip each; `verbatim` is tested with the other files.
WIDE = {"all_pieces", "audio", "late_stream", "pixel_formats", "raw_pixel_formats", "synthetic"}
WIDE |= {"types"}
NARROW = [name for name in NAMES if not any(name.endswith(each) for each in WIDE)]
each_file = pytest.mark.parametrize("name", NAMES)


@each_file
def test_equal_records(name: str, tmp_path: Path) -> None:
    manifest = json.loads((FOLDER / f"{name}.json").read_text("utf-8"))
    source, store, back = FOLDER / f"{name}.vrs", tmp_path / "a.blp", tmp_path / "b.vrs"
    made = bp.convert(source, store)
    assert (made.kind, made.frames) == ("frames", manifest["n_records"])
    made = bp.convert(store, back)
    assert (made.kind, made.clips) == ("vrs", len(manifest["streams"]))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.blp", "b.vrs"]
    with vrs.open(source) as one, vrs.open(back, index="strict") as two:
        assert two.checksum() == manifest["oracle_records_checksum"]
        # Properties that the checksum does not cover.
        assert two.table.streams == one.table.streams
        assert two.header.creation_id == one.header.creation_id
        ranks = np.argsort(np.argsort(one.table.position))
        assert two.table.position.tolist() == ranks.tolist()
        assert ("front" in two.index_kind) == ("front" in one.index_kind)
        assert two._content.description.streams.keys() == one._content.description.streams.keys()


@pytest.mark.parametrize("name", NARROW)
def test_equal_bytes(name: str, tmp_path: Path) -> None:
    source, store, back = FOLDER / f"{name}.vrs", tmp_path / "a.blp", tmp_path / "b.vrs"
    bp.convert(source, store, verbatim=True)
    bp.convert(store, back)
    with vrs.open(source) as recording:
        parts = [Path(part.source.name or "") for part in recording.source.parts]
    assert len(list(tmp_path.iterdir())) == 1 + len(parts)
    for number, part in enumerate(parts):
        copy = tmp_path / (f"b.vrs_{number}" if number else "b.vrs")
        assert copy.read_bytes() == part.read_bytes()


def test_compression_stays(tmp_path: Path) -> None:
    source = FOLDER / "enc_compression.vrs"
    bp.convert(source, tmp_path / "a.blp")
    bp.convert(tmp_path / "a.blp", tmp_path / "b.vrs")

    def listed(path: Path) -> list[int]:
        with vrs.open(path) as recording:
            return [
                record.compression
                for record in recording._content.reader.iter_encoded(recording.rows)
            ]

    before, after = listed(source), listed(tmp_path / "b.vrs")
    assert {1, 2} <= set(after)
    # A payload that compression does not make smaller is stored uncompressed.
    assert all(two in (one, 0) for one, two in zip(before, after, strict=True))
