"""Frame source over a recording: one clip per stream that has images; see `frames.protocol`."""

from collections.abc import Iterator, Sequence
from typing import Any

from ..plugin import AnyArray, Batch, ClipMapping, Wanted, at_hand, importing, read_batch
from .recording import Recording
from .recording import open as open_recording
from .streamclips import StreamClip


class RecordingSource(ClipMapping[StreamClip]):
    """Clips of the streams of a recording that have images; see `frames.protocol.FrameSource`.

    Parameters
    ----------
    where : Recording, str, PathLike, list of these, buffer or binary file
        The recording. The source opens and later closes it, unless it is a `Recording` already.
    nthreads : int, optional
        Number of decoding threads, if the source opens the recording.

    Attributes
    ----------
    name : str or None
        Path of the recording.
    recording : Recording
        The open recording.

    Raises
    ------
    FormatError, UnsupportedError, OSError
        As by `recording.open`.
    """

    def __init__(self, where: Any, *, nthreads: int | None = None) -> None:
        self._is_own = not isinstance(where, Recording)
        self.recording = open_recording(where, nthreads=nthreads) if self._is_own else where
        self.name: str | None = self.recording.name
        try:
            streams = self.recording.streams.values()
            self._keys = tuple(stream.id for stream in streams if stream.has_images)
        except BaseException:
            self.close()
            raise

    def __reduce__(self) -> tuple[Any, ...]:
        return _own_source if self._is_own else RecordingSource, (self.recording,)

    def __repr__(self) -> str:
        return f"<{len(self)} streams with images of {self.name!r}>"

    def iter_columns(self) -> Iterator[tuple[str, str, AnyArray, AnyArray]]:
        """Yield stream, field, times and numbers of each field that a viewer plots."""
        with importing:
            from .column.numberfields import iter_columns
        return iter_columns(self.recording)

    @property
    def left_out(self) -> tuple[str, ...]:
        """Contents of the recording beside the streams with images, as short texts."""
        recording = self.recording
        others = (each for each in recording.streams.values() if each.id not in self._keys)
        return (
            *(f"tag {name!r:.80} of the file" for name in recording.file_tags),
            *(f"stream {each.id}, with {len(each.records)} records" for each in others),
            *recording.report._losses(),
        )

    def _ids(self) -> Sequence[str]:
        # Those of the streams that have images, sorted by type and instance.
        return self._keys

    def __contains__(self, key: object) -> bool:
        """Return whether `key` is the id of a stream that has images."""
        return key in self._keys

    def __getitem__(self, key: str) -> StreamClip:
        """Return the images of a stream as a lazy clip.

        Raises
        ------
        NotFoundError
            No stream has this id, or the stream has no images.
        """
        return self.recording.streams[key].clip()

    def as_pictures(self) -> "RecordingSource":
        """Return a source of the same clips for files of pictures; see `StreamClip.as_pictures`."""
        clips = object.__new__(_Pictures)
        clips.__dict__.update(self.__dict__, _is_own=False)
        return clips

    def _read(self, clips: Sequence[Wanted], out: Any, nthreads: int | None) -> Batch:
        if nthreads is None:
            nthreads = self.recording.nthreads
        with at_hand(place for clip, selection in clips for place in clip.places(selection)):
            planned = [(clip.typed(selection), selection) for clip, selection in clips]
            return read_batch(planned, out=out, nthreads=nthreads)

    def close(self) -> None:
        """Close the recording if the source opened it; idempotent."""
        if self._is_own:
            self.recording.close()


class _Pictures(RecordingSource):
    def __getitem__(self, key: str) -> StreamClip:
        return super().__getitem__(key).as_pictures()


def _own_source(recording: Recording) -> RecordingSource:
    source = RecordingSource(recording)
    source._is_own = True
    return source
