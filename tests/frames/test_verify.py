"""Verification of sources of clips: each fault is found and reported once."""

from typing import Any

import numpy as np

from bloscpack.exceptions import CodecError, FormatError
from bloscpack.frames.verify import verify

from .memory_source import MemoryClip, MemorySourceOfClips


class Faulty(MemoryClip):
    """A clip with two frames and metadata that cannot be read."""

    bad = (0, 40)

    @property
    def meta(self) -> dict[str, Any]:
        raise FormatError("metadata")

    def read(self, selection: Any = None, *, out: Any = None) -> Any:
        picked = np.arange(len(self))[selection]
        if set(self.bad) & set(np.atleast_1d(picked).tolist()):
            raise CodecError(f"frames {picked}")
        return super().read(selection, out=out)


class Source(MemorySourceOfClips):
    def __getitem__(self, key: str) -> MemoryClip:
        if key == "lost":
            raise FormatError("no index")
        clip = super().__getitem__(key)
        clip.__class__ = Faulty if key == "bad" else MemoryClip
        return clip


def test_faults_are_named() -> None:
    frames = np.zeros((50, 2, 2), "u1")
    source = Source({"good": frames, "bad": frames, "lost": frames, "empty": frames[:0]})
    steps: list[tuple[int, int]] = []
    report = verify(source, progress=lambda *step: steps.append(step))
    assert [(damage.clip, damage.frames, damage.what) for damage in report.damage] == [
        ("bad", None, "metadata"),
        ("bad", (0, 1), "frames 0"),
        ("bad", (40, 41), "frames 40"),
        ("lost", None, "no index"),
    ]
    assert report.nchunks == 4
    assert steps == [(1, 4), (2, 4), (3, 4), (4, 4)]
