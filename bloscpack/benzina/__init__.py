"""Benzina datasets: pictures, targets and names in one mp4, each picture an mp4 of its own."""

from . import transforms
from .dataset import Dataset, open  # noqa: A004
from .decoder import Planes
from .loader import Loader
from .original import File, Track
from .originaldatasets import ClassificationDataset, ImageNet
from .sample import Sample
from .samplelayout import CleanAperture, InnerTrack, SampleLayout, parse_sample
from .track import DatasetTrack, Location

__all__ = [
    "ClassificationDataset",
    "CleanAperture",
    "Dataset",
    "DatasetTrack",
    "File",
    "ImageNet",
    "InnerTrack",
    "Loader",
    "Location",
    "Planes",
    "Sample",
    "SampleLayout",
    "Track",
    "open",
    "parse_sample",
    "transforms",
]
