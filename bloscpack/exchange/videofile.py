"""Video files and animated GIFs: the frames of a file are a clip, and a clip is written as one.

Frames are decoded in order, by PyAV. MP4 and GIF lose detail, so that a copy is compared by the
number and the size of its frames alone; ``to="images"`` keeps every pixel.
"""

from collections import deque
from collections.abc import Iterator
from contextlib import closing, contextmanager
from threading import Lock
from typing import Any

import numpy as np

from ..plugin import (
    RATE_KEY,
    RATE_KEYS,
    AnyArray,
    ByteSource,
    Clips,
    Conversion,
    CopyJob,
    DecodedClip,
    FormatError,
    FrameSource,
    IntArray,
    Tally,
    UnsupportedError,
    VideoFrames,
    check_crf,
    clip_id,
    data_of,
    gif_length,
    gif_rate,
    is_images,
    is_same,
    leave_out_of_clips,
    open_source,
    probe,
    rate_of,
    read_video,
    rgb_frames,
    write_copy,
    write_gif,
    write_mp4,
)

# Frames that are decoded at once to compare a copy of packets.
_COMPARED_NFRAMES = 32
_DEFAULT_CRF = 18


class VideoClip(DecodedClip):
    """Frames of a video as a clip; see `frames.protocol.Clip`.

    Reading forward continues where the last read ended; going back by more than 16 frames starts
    from the beginning. Safe from many threads.
    """

    is_upright = True

    def __init__(self, path: str) -> None:
        self.id = clip_id(path)
        self._path = path
        self._frames: VideoFrames | None = None
        self._position = 0
        # Threads that each read one frame ask for them nearly in order.
        self._recent: deque[AnyArray] = deque(maxlen=16)
        self._lock = Lock()
        with read_video(path, raw=True) as frames:
            first = next(frames, None)
            count = sum(1 for _ in frames) + (first is not None)
            self.content = frames.content
            self.meta = {RATE_KEY: frames.report.rate} if frames.report.rate else {}
            if not frames.report.ok:
                what = frames.report.describe().removeprefix(f"{path}: ")
                raise FormatError(what).at(path=path, whole="")
        if first is None:
            raise FormatError("a video without frames").at(path=path, whole="")
        # An alpha channel that is not used is left away.
        self._channels = slice(3 if self.content.is_opaque and first.ndim == 3 else None)
        self.shape = (count, *self._used(first).shape)
        self.dtype: np.dtype[Any] = first.dtype

    @property
    def left_out(self) -> tuple[str, ...]:
        """Contents of the file beside pixels, as short texts."""
        return self.content.left_out

    @property
    def is_raw(self) -> bool:
        """Whether frames have the values that the file stores."""
        return self.content.is_raw

    def _frames_at(self, indices: IntArray) -> AnyArray:
        found: AnyArray = np.empty((len(indices), *self.shape[1:]), self.dtype)
        with self._lock:
            for at in np.argsort(indices, kind="stable"):
                found[at] = self._frame(int(indices[at]))
        return found

    def _frame(self, number: int) -> AnyArray:
        if self._frames is None or number < self._position - len(self._recent):
            self.close()
            self._frames, self._position = read_video(self._path, raw=True), 0
            self._recent.clear()
        while self._position <= number:
            frame = next(self._frames, None)
            if frame is None or self._used(frame).shape != self.shape[1:]:
                what = f"frame {number} is missing or has another size"
                raise FormatError(what).at(path=self._path, whole="")
            self._recent.append(self._used(frame))
            self._position += 1
        return self._recent[number - self._position]

    def _used(self, frame: AnyArray) -> AnyArray:
        return frame[..., self._channels] if frame.ndim == 3 else frame

    def close(self) -> None:
        """Close the file, until it is read again."""
        if self._frames is not None:
            self._frames.close()
            self._frames = None


@contextmanager
def open_mp4(source: ByteSource, inner: str, *, nthreads: int | None) -> Iterator[Clips]:
    """Yield a video file of any kind as a source of one clip."""
    path = source.place()
    if not isinstance(path, str):
        raise UnsupportedError("a video is read from a local file").at(path=source.name)
    with closing(VideoClip(path)) as clip:
        yield Clips({clip.id: clip}, path, clip)


def copy_to_mp4(source: FrameSource, job: CopyJob) -> Conversion:
    """Copy the only clip of a source to an MP4 file, H.264 with the option `crf`."""
    return write_copy("mp4", source, VideoWriter(source, job, write_mp4), job)


def copy_to_gif(source: FrameSource, job: CopyJob) -> Conversion:
    """Copy the only clip of a source to an animated GIF; all its frames are in memory."""
    return write_copy("gif", source, VideoWriter(source, job, write_gif), job)


class VideoWriter:
    """Writes the only clip of a source to a video file; see `copyjob.CopyWriter`."""

    total = 1

    def __init__(self, source: FrameSource, job: CopyJob, write: Any) -> None:
        if len(source) != 1:
            raise ValueError(
                f"{source.name}: {len(source)} clips, and a video is made of one: name it, such as "
                f"'{source.name}::/{next(iter(source), 'ID')}'"
            )
        clip: Any = source[next(iter(source))]
        self._clip = clip
        self._write = write
        is_video = getattr(clip, "codec", None) == "video"
        # Its packets are copied.
        self.lossless = is_video and write is write_mp4 and "crf" not in job.options
        self._crf = job.options.get("crf", _DEFAULT_CRF)
        check_crf(self._crf)
        has_alpha = clip.shape[3:] == (4,) and not is_images(clip)
        is_shown = has_alpha or clip.shape[3:] in ((), (1,), (3,))
        if clip.dtype != np.uint8 or not is_shown or not len(clip):
            raise ValueError(
                f"clip {clip.id!r:.80}: a video has frames of uint8, (H, W) or (H, W, 3), not "
                f"{clip.dtype} of {clip.shape[1:]}"
            )
        for number, data in enumerate(data_of(clip) if is_images(clip) else ()):
            found = probe(data).shape
            if found[2:] not in ((), (3,)):
                raise ValueError(f"clip {clip.id!r:.80}: frame {number} is an image of {found}")
        self._rate = rate = rate_of(clip.meta)
        written = gif_rate(rate) if write is write_gif else rate
        kept = [key for key in RATE_KEYS if self.lossless or clip.meta.get(key) == float(written)]
        leave_out_of_clips(
            job,
            source,
            meta=lambda _: kept,
            keeps=lambda channels: self.lossless or channels == (3,),
            decodes=lambda _: True,
            keeps_packets=self.lossless,
        )

    def write(self, path: str, tally: Tally) -> None:
        """Write the frames; of a clip of video the packets, unless `crf` asks for others."""
        if self.lossless:
            self._clip.to_mp4(path, overwrite=True)
        else:
            self._write(path, rgb_frames(self._clip), self._rate, self._crf)
        tally.add_frames(len(self._clip), is_image=False)
        tally.advance()

    def difference(self, path: str, tally: Tally) -> str | None:
        """Return a description of the first difference from the source, or None."""
        with closing(open_source(path)) as opened, open_mp4(opened, "", nthreads=None) as clips:
            written = clips[next(iter(clips))]
            length, *size = written.shape[:3]
            if self._write is write_gif:
                length = gif_length(path, self._rate)
            if (length, *size) != self._clip.shape[:3]:
                return f"{(length, *size)} instead of {self._clip.shape[:3]}"
            for start in range(0, len(self._clip) if self.lossless else 0, _COMPARED_NFRAMES):
                frames = slice(start, start + _COMPARED_NFRAMES)
                if not is_same(written[frames], self._clip[frames]):
                    return f"other frames from {start} on"
        tally.advance()
        return None
