"""Images of frames: JPEG in Gulp directories, in tar files and in memory, and PNG files."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from race.timing import NTHREADS

import bloscpack as bp
from frames.contenders import CLIP, LOADING, SINGLE, ClipFiles, GulpClips, ReadClip
from frames.data import decode_frames, encode_frames
from frames.with_bloscpack import Store


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


class BareJpeg(Store):
    """Decoding without a container, on threads that wait for work: their limit on this machine."""

    note = (
        "no more than decoding: the same images in memory, into one array, simplejpeg on as many "
        "threads as there are processors"
    )
    libraries = "simplejpeg {simplejpeg}"
    modules = ("simplejpeg",)
    kind = "jpeg"

    @contextmanager
    def open(self, path: Path) -> Iterator[ReadClip]:
        with bp.frames.open(path) as source:
            images = {key: source[key].read_images() for key in source}
            shape = source[next(iter(images))].shape[1:]
        decode_jpeg = self.lib.decode_jpeg
        with ThreadPoolExecutor(NTHREADS) as pool:

            def read(key: str, selection: slice) -> np.ndarray:
                chosen = images[key][selection]
                frames = np.empty((len(chosen), *shape), np.uint8)

                def decode(first: int) -> None:
                    for k in range(first, len(chosen), NTHREADS):
                        decode_jpeg(chosen[k], fastdct=True, fastupsample=True, buffer=frames[k])

                list(pool.map(decode, range(NTHREADS)))
                return frames

            yield read


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
