"""The servers of bench/, under the name that tests know them by."""

from bench.servers import (
    SIGNED,
    Answer,
    FileServer,
    Request,
    S3Server,
    Server,
    cut_range,
    running,
)

__all__ = [
    "SIGNED",
    "Answer",
    "FileServer",
    "Request",
    "S3Server",
    "Server",
    "cut_range",
    "running",
]
