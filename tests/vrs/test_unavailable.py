"""Pieces whose index entry points outside of the block: None in records, an error in columns."""

import re
from io import BytesIO
from struct import pack

import pytest

import bloscpack.vrs as vrs
from bloscpack.exceptions import FormatError
from bloscpack.vrs.layout.datalayout import DataLayout
from bloscpack.vrs.layout.pieces import Piece

from .recordings import Made, make_recording

LAYOUT = DataLayout(
    [
        Piece("n", "DataPieceValue<int32_t>"),
        Piece("lost", "DataPieceVector<uint8_t>"),
        Piece("note", "DataPieceString"),
    ]
)
TAGS = {"RF:Data:1": "data_layout+custom", "DL:Data:1:0": LAYOUT.to_json()}
FILLER = "x" * 400
"""Makes a payload long enough to be compressed."""


def opened(preset: str = "none") -> vrs.Recording:
    """Return a recording of four records; a piece of the third is not available."""
    payloads = [LAYOUT.encode({"n": n, "lost": [n], "note": FILLER}) for n in range(4)]
    payloads[2] = payloads[2][:8] + pack("<I", 5000) + payloads[2][12:]
    made = [Made(payload + b"custom", preset=preset) for payload in payloads]
    return vrs.open(BytesIO(make_recording({"1201-1": TAGS}, made)))


@pytest.mark.parametrize("preset", ["none", "zfast", "fast"])
def test_the_other_pieces_and_blocks_are_read(preset: str) -> None:
    with opened(preset) as recording:
        record = recording[2]
        assert record.metadata_blocks == ({"n": 2, "lost": None, "note": FILLER},)
        assert [block.kind for block in record.blocks] == ["metadata", "custom"]
        assert bytes(record.blocks[1].data) == b"custom"
        assert record.note is None
        assert record.blocks[0].values() == record.metadata_blocks[0]


@pytest.mark.parametrize("preset", ["none", "zfast", "fast"])
def test_a_column_names_record_and_field(preset: str) -> None:
    with opened(preset) as recording:
        stream = recording["1201-1"]
        assert stream.field("n").tolist() == [0, 1, 2, 3]
        assert len(stream.field("note")) == 4
        with pytest.raises(FormatError, match=re.escape("'lost'")) as caught:
            stream.field("lost")
        assert "record 2 " in str(caught.value)
