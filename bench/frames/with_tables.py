"""Tables and streams with a row, or sample, for each frame of all clips."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from frames.contenders import CLIP, LOADING, SINGLE, Contender, ReadClip
from frames.data import decode_frames, encode_frames


class FrameRows(Contender):
    """Frames of all clips one after the other, their bytes or JPEG images."""

    def write(self, path: Path, ids: Sequence[str], frames: np.ndarray) -> None:
        is_jpeg = self.pixels == "jpeg"
        rows = encode_frames(frames) if is_jpeg else [frame.tobytes() for frame in frames]
        self.write_rows(path, rows, len(ids))
        # As a program would keep them beside the table.
        np.savez(path / "clips.npz", ids=ids, shape=frames.shape)

    @contextmanager
    def open(self, path: Path) -> Iterator[ReadClip]:
        table = self.open_rows(path)
        with np.load(path / "clips.npz") as about:
            nframes, *shape = about["shape"].tolist()
            starts = {key: place * nframes for place, key in enumerate(about["ids"].tolist())}

        def read(key: str, selection: slice) -> np.ndarray:
            start = starts[key]
            numbers = range(start, start + nframes)[selection]
            rows = self.read_rows(table, numbers)
            if self.pixels == "jpeg":
                return decode_frames(rows)
            frames = np.empty((len(numbers), *shape), np.uint8)
            for frame, row in zip(frames, rows, strict=True):
                frame[...] = np.frombuffer(row, np.uint8).reshape(shape)
            return frames

        yield read

    def write_rows(self, path: Path, rows: list[bytes], nclips: int) -> None:
        """Write the rows of a clip several times, to a new folder."""
        raise NotImplementedError

    def open_rows(self, path: Path) -> Any:
        """Return the table."""
        raise NotImplementedError

    def read_rows(self, table: Any, numbers: range) -> Sequence[Any]:
        """Return the content of rows, bytes or buffers."""
        raise NotImplementedError


class Lance(FrameRows):
    works = (CLIP, SINGLE, LOADING)
    note = "a binary column, a row for each frame; `take`; one array; threads as it chooses"
    libraries = "pylance {pylance}"
    modules = ("lance", "pyarrow")

    def write_rows(self, path: Path, rows: list[bytes], nclips: int) -> None:
        pa = import_module("pyarrow")
        schema = pa.schema([("frame", pa.large_binary())])
        clip = pa.record_batch([pa.array(rows, pa.large_binary())], schema=schema)
        batches = (clip for _ in range(nclips))
        self.lib.write_dataset(pa.RecordBatchReader.from_batches(schema, batches), str(path))

    def open_rows(self, path: Path) -> Any:
        return self.lib.dataset(str(path))

    def read_rows(self, table: Any, numbers: range) -> Sequence[Any]:
        column = table.take([*numbers], columns=["frame"]).column("frame")
        return [value.as_buffer() for value in column]


class HuggingFace(FrameRows):
    works = (CLIP, LOADING)
    note = (
        "Arrow files with a binary column, a row for each frame; mapped, copied to one array; one "
        "thread; no checksums"
    )
    libraries = "datasets {datasets}"
    modules = ("datasets",)

    def write_rows(self, path: Path, rows: list[bytes], nclips: int) -> None:
        def all_rows() -> Iterator[dict[str, bytes]]:
            for _ in range(nclips):
                yield from ({"frame": row} for row in rows)

        self.lib.disable_progress_bars()
        features = self.lib.Features({"frame": self.lib.Value("large_binary")})
        with TemporaryDirectory(dir=path.parent) as cache:
            made = self.lib.Dataset.from_generator(all_rows, features=features, cache_dir=cache)
            made.save_to_disk(str(path))

    def open_rows(self, path: Path) -> Any:
        return self.lib.load_from_disk(str(path)).with_format("arrow")

    def read_rows(self, table: Any, numbers: range) -> Sequence[Any]:
        column = table[[*numbers]].column("frame")
        return [value.as_buffer() for value in column]


class LitData(FrameRows):
    note = "chunks of 64 MB, a sample for each frame, raw pixels; one array; one thread"
    libraries = "litdata {litdata}"
    modules = ("litdata", "litdata.streaming.writer")

    def write_rows(self, path: Path, rows: list[bytes], nclips: int) -> None:
        path.mkdir()
        # The size in its documentation.
        writer = self.lib.streaming.writer.BinaryWriter(str(path), chunk_bytes="64MB")
        for number in range(nclips * len(rows)):
            writer[number] = rows[number % len(rows)]
        writer.done()
        writer.merge()

    def open_rows(self, path: Path) -> Any:
        return self.lib.StreamingDataset(str(path), max_cache_size="100GB")

    def read_rows(self, table: Any, numbers: range) -> Sequence[bytes]:
        return [table[number] for number in numbers]
