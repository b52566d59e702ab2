"""Tar files of JPEG images, by webdataset."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import simplejpeg
import webdataset

from frames.contender import Frames, ReadClip
from frames.with_bloscpack import encode_frames


class WebDataset:
    """A tar file for each clip: there is no access by key."""

    name = files = "webdataset, JPEG"
    note = (
        "a tar file of the same JPEG images for each clip, read from its start to the last frame "
        "wanted, those wanted decoded by simplejpeg; one array; one thread"
    )
    is_lossy = True

    def version(self) -> str:
        """Return name and version."""
        return f"webdataset {webdataset.__version__}"

    def write(self, path: Path, ids: Sequence[str], frames: np.ndarray) -> None:
        """Write the files."""
        path.mkdir()
        images = encode_frames(frames)
        for key in ids:
            with webdataset.TarWriter(str(path / f"{key}.tar")) as sink:
                for number, data in enumerate(images):
                    sink.write({"__key__": f"{number:05d}", "jpg": data})

    @contextmanager
    def open(self, path: Path) -> Iterator[ReadClip]:
        """Make the dataset of a clip for each read."""

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
