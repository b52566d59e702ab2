"""Benzina datasets: pictures, targets and names in one mp4, each picture an mp4 of its own."""

from .checking import verify
from .dataset import Dataset, open  # noqa: A004
from .extraction import ExtractReport, extract
from .packing import PackReport, SkippedPicture, pack
from .sample import Sample
from .samplelayout import CleanAperture, InnerTrack, SampleLayout, parse_sample
from .track import DatasetTrack, Location
from .writer import Writer

__all__ = [
    "CleanAperture",
    "Dataset",
    "DatasetTrack",
    "ExtractReport",
    "InnerTrack",
    "Location",
    "PackReport",
    "Sample",
    "SampleLayout",
    "SkippedPicture",
    "Writer",
    "extract",
    "open",
    "pack",
    "parse_sample",
    "verify",
]
