"""litdata: a sample for each frame, read by its index."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from litdata import StreamingDataset
from litdata.streaming.writer import BinaryWriter

from frames.contenders import LITDATA_JPEG, LITDATA_RAW
from frames.rows import FrameRows

_CHUNK_BYTES = "64MB"  # the size in its documentation


class LitData(FrameRows):
    """Chunks of samples of bytes."""

    libraries = "litdata {litdata}"

    def __init__(self, name: str, pixels: str, what: str) -> None:
        self.name = self.files = name
        self.pixels = pixels
        self.note = f"chunks of 64 MB, a sample for each frame, {what}; one array; one thread"

    def write_rows(self, path: Path, rows: list[bytes], nclips: int) -> None:
        path.mkdir()
        writer = BinaryWriter(str(path), chunk_bytes=_CHUNK_BYTES)
        for number in range(nclips * len(rows)):
            writer[number] = rows[number % len(rows)]
        writer.done()
        writer.merge()

    def open_rows(self, path: Path) -> Any:
        return StreamingDataset(str(path), max_cache_size="100GB")

    def read_rows(self, table: Any, numbers: range) -> Sequence[bytes]:
        return [table[number] for number in numbers]


LitDataRaw = partial(LitData, LITDATA_RAW, "frames", "raw pixels")
LitDataJpeg = partial(LitData, LITDATA_JPEG, "jpeg", "the same JPEG images, simplejpeg")
