"""Exceptions of pyvrs for streams and records that are not found."""

from collections.abc import Iterable

from ...plugin import NotFoundError
from ..format.format import StreamId
from ..format.typenames import type_name


class StreamNotFoundError(NotFoundError):
    """No stream matches; the message lists the available streams."""

    def __init__(self, wanted: str, stream_ids: Iterable[str] = ()) -> None:
        lines = [f"No matching stream for {wanted}. Available streams are:"]
        lines += [f"  {stream_id} - {type_name_of(stream_id)}" for stream_id in stream_ids]
        super().__init__("\n".join(lines))
        self._arguments = wanted, tuple(stream_ids)

    def __reduce__(self) -> tuple[type, tuple[str, tuple[str, ...]]]:
        return type(self), self._arguments


class TimestampNotFoundError(NotFoundError):
    """No record is near enough to a time."""


def type_name_of(stream_id: str) -> str:
    """Return the type name for a stream id such as ``"1201-1"``; "Undefined" if it is invalid."""
    try:
        return type_name(StreamId.parse(stream_id).type_id)
    except ValueError:
        return "Undefined"
