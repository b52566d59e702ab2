"""Base of contenders that keep a row, or sample, for each frame of all clips in one table."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from frames.contenders import Contender, ReadClip
from frames.data import decode_frames, encode_frames


class FrameRows(Contender):
    """Frames of all clips one after the other, their bytes or JPEG images."""

    def encode(self, frames: np.ndarray) -> list[bytes]:
        """Return the content of a clip's rows."""
        if self.pixels == "jpeg":
            return encode_frames(frames)
        return [frame.tobytes() for frame in frames]

    def write(self, path: Path, ids: Sequence[str], frames: np.ndarray) -> None:
        self.write_rows(path, self.encode(frames), len(ids))
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
