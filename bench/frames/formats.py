"""Files of other libraries: Gulp directories, arrays, images and streams of samples."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path

import numpy as np
from peers.formats import HDF5_LIBRARIES

from frames.contenders import (
    BATCH,
    CLIP,
    EPISODES,
    LOADING,
    SINGLE,
    ClipFiles,
    Contender,
    GulpClips,
    ReadBatch,
    ReadClip,
)
from frames.data import decode_frames, encode_frames


class GulpIO2(GulpClips):
    works = (CLIP, SINGLE, LOADING)
    note = "JPEG of quality 90, 4:4:4; gives a list of frames; one thread, the only way"
    libraries = "gulpio2 {gulpio2} (simplejpeg {simplejpeg})"
    modules = ("gulpio2",)

    @contextmanager
    def open(self, path: Path) -> Iterator[ReadClip]:
        directory = self.lib.GulpDirectory(str(path))
        yield lambda key, selection: directory[key, selection][0]


class GulpIO2Stacked(GulpIO2):
    """Frames put into one array, as a model needs them."""

    works = (CLIP,)
    note = "the same, the list made one array"

    @contextmanager
    def open(self, path: Path) -> Iterator[ReadClip]:
        with super().open(path) as read:
            yield lambda key, selection: np.stack(read(key, selection))


class WebDataset(ClipFiles):
    """A tar file for each clip, as the library has no access by key."""

    note = (
        "a tar file of the same JPEG images for each clip, read from its start to the last frame "
        "wanted, those wanted decoded by simplejpeg; one array; one thread"
    )
    libraries = "webdataset {webdataset}"
    modules = ("webdataset",)
    pixels, suffix = "jpeg", ".tar"

    def encode(self, frames: np.ndarray) -> list[bytes]:
        return encode_frames(frames)

    def write_clip(self, path: Path, coded: list[bytes]) -> None:
        with self.lib.TarWriter(str(path)) as sink:
            for number, data in enumerate(coded):
                sink.write({"__key__": f"{number:05d}", "jpg": data})

    def read_clip(self, clip: Path, selection: slice) -> np.ndarray:
        samples = self.lib.WebDataset(str(clip), shardshuffle=False, empty_check=False)
        wanted = range(selection.start, selection.stop, selection.step or 1)
        images = []
        for number, sample in enumerate(samples):
            if number in wanted:
                images.append(sample["jpg"])
            if number >= wanted[-1]:
                break
        return decode_frames(images)


class PngFiles(ClipFiles):
    works = (CLIP, SINGLE)
    note = "a folder of PNG files for each clip, OpenCV's default level; one array; one thread"
    libraries = "OpenCV {opencv-python-headless}"
    modules = ("cv2",)

    def encode(self, frames: np.ndarray) -> list[bytes]:
        return [encode_png(frame) for frame in frames]

    def write_clip(self, path: Path, coded: list[bytes]) -> None:
        path.mkdir()
        for number, data in enumerate(coded):
            (path / f"{number:05d}.png").write_bytes(data)

    def open_clip(self, path: Path) -> list[str]:
        return sorted(map(str, path.iterdir()))

    def read_clip(self, clip: list[str], selection: slice) -> np.ndarray:
        """Read straight into one array, as RGB."""
        cv2, paths = self.lib, clip[selection]
        first = cv2.imread(paths[0])
        frames = np.empty((len(paths), *first.shape), first.dtype)
        for path, frame in zip(paths, frames, strict=True):
            cv2.cvtColor(cv2.imread(path), cv2.COLOR_BGR2RGB, dst=frame)
        return frames


def encode_png(frame: np.ndarray) -> bytes:
    """Return a frame as PNG with OpenCV's defaults; of bools, one bit a pixel."""
    import cv2

    options: list[int] = []
    if frame.dtype == bool:
        frame = frame.astype(np.uint8) * 255
        options = [cv2.IMWRITE_PNG_BILEVEL, 1]
    elif frame.ndim == 3:
        frame = cv2.cvtColor(frame, cv2.COLOR_RGB2BGR)
    is_done, data = cv2.imencode(".png", frame, options)
    if not is_done:
        raise RuntimeError("OpenCV failed to encode a PNG")
    return bytes(data)


class MemoryMap(ClipFiles):
    works = (CLIP, SINGLE, BATCH, LOADING)
    note = "a .npy file for each clip, mapped and copied to one array; one thread, no checksums"
    suffix = ".npy"

    def write_clip(self, path: Path, coded: np.ndarray) -> None:
        np.save(path, coded)

    def open_clip(self, path: Path) -> np.ndarray:
        return np.load(path, mmap_mode="r")

    def read_clip(self, clip: np.ndarray, selection: slice) -> np.ndarray:
        return np.array(clip[selection])

    @contextmanager
    def open_batch(self, path: Path) -> Iterator[ReadBatch]:
        clips = self.open_clips(path)

        def read(requests: list[tuple[str, slice]]) -> np.ndarray:
            parts = [clips[key][which] for key, which in requests]
            batch = np.empty((len(parts), *parts[0].shape), parts[0].dtype)
            for place, part in zip(batch, parts, strict=True):
                place[...] = part
            return batch

        yield read


class Hdf5(Contender):
    works = (CLIP, SINGLE)
    note = (
        "a dataset for each clip, chunk = frame, level 5, byte shuffle; one array, frame by frame, "
        "because a slice with a step takes it some 80 times as long; one thread"
    )
    libraries = HDF5_LIBRARIES
    modules = ("h5py", "hdf5plugin")
    codec = ("lz4", 5)

    def write(self, path: Path, ids: Sequence[str], frames: np.ndarray) -> None:
        cname, clevel = self.codec
        blosc = import_module("hdf5plugin").Blosc(cname=cname, clevel=clevel, shuffle=1)
        with self.lib.File(path, "w") as file:
            for key in ids:
                file.create_dataset(key, data=frames, chunks=(1, *frames.shape[1:]), **blosc)

    @contextmanager
    def open(self, path: Path) -> Iterator[ReadClip]:
        with self.lib.File(path, "r") as file:
            datasets = {key: file[key] for key in file}

            def read(key: str, selection: slice) -> np.ndarray:
                dataset = datasets[key]
                numbers = range(*selection.indices(len(dataset)))
                frames = np.empty((len(numbers), *dataset.shape[1:]), dataset.dtype)
                for place, number in enumerate(numbers):
                    dataset.read_direct(frames, number, place)
                return frames

            yield read


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


def distinct(images: Sequence[bytes], key: str) -> list[bytes]:
    """Return JPEG images with a key after their end: Lance would store equal ones only once."""
    return [data + key.encode() for data in images]


class Lance(Contender):
    works = (CLIP, SINGLE, LOADING, EPISODES)
    note = (
        "a table of Lance 2.2 with a row for each frame, its JPEG image a binary column; `take` of "
        "the rows, decoded by simplejpeg; one array; one thread decodes"
    )
    libraries = "pylance {pylance}"
    modules = ("lance", "pyarrow")
    pixels = "jpeg"

    def write(self, path: Path, ids: Sequence[str], frames: np.ndarray) -> None:
        pyarrow = import_module("pyarrow")
        images = encode_frames(frames)
        schema = pyarrow.schema([("clip", pyarrow.string()), ("image", pyarrow.binary())])
        batches = (
            pyarrow.record_batch([[key] * len(images), distinct(images, key)], schema=schema)
            for key in ids
        )
        self.lib.write_dataset(batches, str(path), schema=schema, data_storage_version="2.2")

    @contextmanager
    def open(self, path: Path) -> Iterator[ReadClip]:
        table = self.lib.dataset(str(path))
        clips = table.to_table(columns=["clip"])["clip"].to_pylist()
        starts = {key: row for row, key in reversed([*enumerate(clips)])}
        nframes = len(clips) // len(starts)

        def read(key: str, selection: slice) -> np.ndarray:
            rows = range(starts[key], starts[key] + nframes)[selection]
            images = table.take([*rows], columns=["image"])["image"].to_pylist()
            return decode_frames(images)

        yield read
