"""Part of a recording, for ``blpk cat``: payloads of records, images of a stream, or a field."""

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from ...plugin import (
    AnyArray,
    ByteSource,
    FileType,
    NotFoundError,
    Part,
    Whole,
    parse_range,
    parse_selection_text,
    part_of,
)
from .recordings import open_recording

if TYPE_CHECKING:
    from ..recording import Recording
    from ..sequence import RecordSequence
    from ..stream import Stream

_UINT8 = np.dtype(np.uint8)


@contextmanager
def open_part(
    args: argparse.Namespace, filetype: FileType, source: ByteSource, inner: str
) -> Iterator[Part]:
    """Open the payloads of the selected records, or with a name the images or the field."""
    with open_recording(args.file_, args.nthreads, source=source) as recording:
        if not inner:
            yield _Payloads(recording[parse_range(args.selection, len(recording), "records")])
            return
        name, _, field = inner.partition("/")
        stream = recording.streams[name]
        if field:
            yield _field(args, stream, field)
        else:
            yield _images(args, recording, stream)


def _images(args: argparse.Namespace, recording: "Recording", stream: "Stream") -> Part:
    from ..export.documents import field_lines, stream_formats
    from ..framesource import RecordingSource

    if stream.has_images:
        return part_of(args, RecordingSource(recording), stream.id)
    names = dict.fromkeys(
        line.partition(":")[0]
        for form in stream_formats(stream)
        if form.record_type == "data"
        for definition in form.layouts.values()
        for line in field_lines(definition)
    )
    fields = ", ".join(f"::/{stream.id}/{name}" for name in [*names][:8])
    advice = f"its fields are {fields}" if fields else "'blpk vrs extract' writes its audio"
    raise NotFoundError(f"stream {stream.id} has no images; {advice}")


def _field(args: argparse.Namespace, stream: "Stream", field: str) -> Part:
    values = _as_array(stream.field(field, nthreads=args.nthreads))
    index: Any = parse_selection_text(args.selection)
    try:
        chosen: AnyArray = np.asarray(values[index])
    except IndexError as err:
        raise ValueError(f"selection: {err}; the shape is {values.shape}") from None
    return Whole(chosen)


def _as_array(column: Any) -> AnyArray:
    """Return a column as an array: rows of different lengths follow each other."""
    values = getattr(column, "values", column)
    if isinstance(values, np.ndarray):
        return values
    return np.array([text.encode("utf-8", "surrogateescape") for text in values])


class _Payloads:
    """Payloads of records, one after the other."""

    is_large = True

    def __init__(self, records: "RecordSequence") -> None:
        self._records = records
        self.dtype = _UINT8
        # The payloads are decoded twice, as the header of an .npy file begins with their size, and
        # as all of them may not fit into memory.
        self.nbytes = sum(len(payload) for payload in self._payloads())
        self.shape = (self.nbytes,)

    def _payloads(self) -> Iterator[bytes]:
        for number in range(len(self._records)):
            yield self._records.read_payload(number)

    def read(self) -> AnyArray:
        """Return all payloads."""
        return np.frombuffer(b"".join(self._payloads()), _UINT8)

    def pieces(self) -> Iterator[AnyArray]:
        """Yield each payload."""
        for payload in self._payloads():
            yield np.frombuffer(payload, _UINT8)
