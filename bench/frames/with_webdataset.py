"""Tar files of JPEG images, by webdataset."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import simplejpeg
import webdataset

from frames.contenders import Contender, Frames, ReadClip
from frames.data import encode_frames


class WebDataset(Contender):
    """A tar file for each clip, as the library has no access by key."""

    name = files = "webdataset, JPEG"
    note = (
        "a tar file of the same JPEG images for each clip, read from its start to the last frame "
        "wanted, those wanted decoded by simplejpeg; one array; one thread"
    )
    libraries = "webdataset {webdataset}"
    is_lossy = True

    def write(self, path: Path, ids: Sequence[str], frames: np.ndarray) -> None:
        path.mkdir()
        images = encode_frames(frames)
        for key in ids:
            with webdataset.TarWriter(str(path / f"{key}.tar")) as sink:
                for number, data in enumerate(images):
                    sink.write({"__key__": f"{number:05d}", "jpg": data})

    @contextmanager
    def open(self, path: Path) -> Iterator[ReadClip]:
        def read(key: str, selection: slice) -> Frames:
            samples = webdataset.WebDataset(
                str(path / f"{key}.tar"), shardshuffle=False, empty_check=False
            )
            wanted = range(selection.start, selection.stop, selection.step or 1)
            images = []
            for number, sample in enumerate(samples):
                if number in wanted:
                    images.append(sample["jpg"])
                if number >= wanted[-1]:
                    break
            return np.stack(
                [simplejpeg.decode_jpeg(data, fastdct=True, fastupsample=True) for data in images]
            )

        yield read
