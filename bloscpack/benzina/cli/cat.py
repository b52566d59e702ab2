"""Part of a dataset, for ``blpk cat``: a sample as it is stored, or the picture of one."""

import argparse
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from ...plugin import (
    ByteSource,
    FileType,
    Part,
    UsageError,
    Whole,
    parse_range,
    part_of,
    shown_name,
)
from .datasets import open_dataset


@contextmanager
def open_part(
    args: argparse.Namespace, filetype: FileType, source: ByteSource, inner: str
) -> Iterator[Part]:
    """Open the mp4 of the selected sample, or with a name its picture."""
    with open_dataset(args.file_, args.nthreads, source=source) as dataset:
        if inner:
            yield part_of(args, dataset, inner)
            return
        chosen = dataset[parse_range(args.selection, len(dataset), "samples")]
        if len(chosen) != 1:
            raise UsageError(
                f"'{shown_name(args.file_)}': {len(chosen)} samples, and each is a file: give the "
                "number of one, or its name behind '::/'; 'blpk bzna extract' writes many"
            )
        yield Whole(np.frombuffer(chosen[0].data, np.uint8))
