"""GulpIO2 0.0.4."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import gulpio2
import numpy as np

from frames.contenders import GULPIO2, GULPIO2_STACKED, GulpClips, ReadClip


class GulpIO2(GulpClips):
    """A Gulp directory, read by ``gd[id, slice]``."""

    name = GULPIO2
    note = "JPEG of quality 90, 4:4:4; gives a list of frames; one thread, the only way"
    libraries = "gulpio2 {gulpio2} (simplejpeg {simplejpeg})"
    module = gulpio2


class GulpIO2Stacked(GulpIO2):
    """Frames put into one array, as a model needs them."""

    name = GULPIO2_STACKED
    note = "the same, the list made one array"

    @contextmanager
    def open(self, path: Path) -> Iterator[ReadClip]:
        with super().open(path) as read:
            yield lambda key, selection: np.stack(read(key, selection))
