"""Lance: a row of a table for each frame."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa

from frames.contenders import LANCE
from frames.rows import FrameRows

_SCHEMA = pa.schema([("frame", pa.large_binary())])


class Lance(FrameRows):
    """A dataset with a binary column, read by `take`."""

    name = files = LANCE
    note = "a binary column, a row for each frame; `take`; one array; threads as it chooses"
    libraries = "pylance {pylance}"

    def write_rows(self, path: Path, rows: list[bytes], nclips: int) -> None:
        clip = pa.record_batch([pa.array(rows, pa.large_binary())], schema=_SCHEMA)

        def batches() -> Iterator[pa.RecordBatch]:
            for _ in range(nclips):
                yield clip

        lance.write_dataset(pa.RecordBatchReader.from_batches(_SCHEMA, batches()), str(path))

    def open_rows(self, path: Path) -> Any:
        return lance.dataset(str(path))

    def read_rows(self, table: Any, numbers: range) -> Sequence[Any]:
        column = table.take([*numbers], columns=["frame"]).column("frame")
        return [value.as_buffer() for value in column]
