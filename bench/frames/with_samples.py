"""Streams of samples, one for each frame of all clips."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from frames.contenders import Contender, ReadClip
from frames.data import decode_frames, encode_frames


class LitData(Contender):
    note = "chunks of 64 MB, a sample for each frame, raw pixels; one array; one thread"
    libraries = "litdata {litdata}"
    modules = ("litdata", "litdata.streaming.writer")

    def write(self, path: Path, ids: Sequence[str], frames: np.ndarray) -> None:
        """Write the frames of all clips one after the other, their bytes or JPEG images."""
        is_jpeg = self.pixels == "jpeg"
        samples = encode_frames(frames) if is_jpeg else [frame.tobytes() for frame in frames]
        path.mkdir()
        # The size in its documentation.
        writer = self.lib.streaming.writer.BinaryWriter(str(path), chunk_bytes="64MB")
        for number in range(len(ids) * len(samples)):
            writer[number] = samples[number % len(samples)]
        writer.done()
        writer.merge()
        # As a program would keep them beside the samples.
        np.savez(path / "clips.npz", ids=ids, shape=frames.shape)

    @contextmanager
    def open(self, path: Path) -> Iterator[ReadClip]:
        samples = self.lib.StreamingDataset(str(path), max_cache_size="100GB")
        with np.load(path / "clips.npz") as about:
            nframes, *shape = about["shape"].tolist()
            starts = {key: place * nframes for place, key in enumerate(about["ids"].tolist())}

        def read(key: str, selection: slice) -> np.ndarray:
            numbers = range(starts[key], starts[key] + nframes)[selection]
            found = [samples[number] for number in numbers]
            if self.pixels == "jpeg":
                return decode_frames(found)
            frames = np.empty((len(numbers), *shape), np.uint8)
            for frame, sample in zip(frames, found, strict=True):
                frame[...] = np.frombuffer(sample, np.uint8).reshape(shape)
            return frames

        yield read
