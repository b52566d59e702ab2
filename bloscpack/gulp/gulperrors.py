"""Errors of Gulp directories that also are what GulpIO2 raises in their place.

GulpIO2 tells by AssertionError, TypeError and ValueError what ours tell by `FormatError`,
`NotFoundError` and `CodecError`; whoever catches the former catches these.
"""

from ..exceptions import BloscpackError, CodecError, FormatError, NotFoundError


class DirectoryError(FormatError, AssertionError):
    """The files of a Gulp directory do not fit together."""


class UnknownItemError(NotFoundError, TypeError):
    """A chunk has no item of this id."""


class FrameError(CodecError, ValueError):
    """The bytes of a frame do not decode."""


class DuplicateIdException(BloscpackError, ValueError):  # noqa: N818 - GulpIO2's name
    """An id that is there already, or that nothing is left after those were removed."""
