"""H.264 by PyAV: seek, decode, and keep the frames that are wanted, as most programs do."""

from pathlib import Path

import av
import numpy as np

from frames.contenders import PYAV
from frames.videofiles import VideoFiles


class PyAv(VideoFiles):
    """A file that is opened for each read."""

    name = PYAV
    note = "the mp4 files, opened for each read: seek, decode, convert frames wanted; one thread"
    libraries = "PyAV {av}"

    def read_clip(self, clip: Path, selection: slice) -> np.ndarray:
        wanted = range(selection.start, selection.stop, selection.step or 1)
        frames = []
        with av.open(str(clip)) as container:
            stream = container.streams.video[0]
            stream.codec_context.thread_count = 1
            step = round(1 / (stream.average_rate * stream.time_base))
            container.seek(wanted[0] * step, stream=stream)
            for frame in container.decode(stream):
                number = round(frame.pts / step)
                if number in wanted:
                    frames.append(frame.to_ndarray(format="rgb24"))
                if number >= wanted[-1]:
                    break
        return np.stack(frames)
