"""Tar files of JPEG images, by webdataset."""

from pathlib import Path

import numpy as np
import webdataset

from frames.contenders import ClipFiles
from frames.data import decode_frames, encode_frames


class WebDataset(ClipFiles):
    """A tar file for each clip, as the library has no access by key."""

    name = files = "webdataset, JPEG"
    note = (
        "a tar file of the same JPEG images for each clip, read from its start to the last frame "
        "wanted, those wanted decoded by simplejpeg; one array; one thread"
    )
    libraries = "webdataset {webdataset}"
    pixels, suffix = "jpeg", ".tar"

    def encode(self, frames: np.ndarray) -> list[bytes]:
        return encode_frames(frames)

    def write_clip(self, path: Path, coded: list[bytes]) -> None:
        with webdataset.TarWriter(str(path)) as sink:
            for number, data in enumerate(coded):
                sink.write({"__key__": f"{number:05d}", "jpg": data})

    def read_clip(self, clip: Path, selection: slice) -> np.ndarray:
        samples = webdataset.WebDataset(str(clip), shardshuffle=False, empty_check=False)
        wanted = range(selection.start, selection.stop, selection.step or 1)
        images = []
        for number, sample in enumerate(samples):
            if number in wanted:
                images.append(sample["jpg"])
            if number >= wanted[-1]:
                break
        return decode_frames(images)
