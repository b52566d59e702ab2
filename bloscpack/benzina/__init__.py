"""Benzina datasets: pictures, targets and names in one mp4, each picture an mp4 of its own."""

from .checking import verify
from .dataset import Dataset, open  # noqa: A004
from .decoder import Planes
from .extraction import ExtractReport, extract
from .original import File, Track
from .originaldatasets import ClassificationDataset, ImageNet
from .packing import PackReport, SkippedPicture, pack
from .sample import Sample
from .samplelayout import CleanAperture, InnerTrack, SampleLayout, parse_sample
from .track import DatasetTrack, Location
from .writer import Writer

__all__ = [
    "ClassificationDataset",
    "CleanAperture",
    "Dataset",
    "DatasetTrack",
    "ExtractReport",
    "File",
    "ImageNet",
    "InnerTrack",
    "Location",
    "PackReport",
    "Planes",
    "Sample",
    "SampleLayout",
    "SkippedPicture",
    "Track",
    "Writer",
    "extract",
    "open",
    "pack",
    "parse_sample",
    "verify",
]
