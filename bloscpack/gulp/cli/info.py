"""Description of a gulp directory, for ``blpk info``."""

import argparse

from ...plugin import (
    Console,
    Description,
    FormatError,
    ListedFolder,
    exact_size_text,
    print_notices,
)


def about(args: argparse.Namespace, folder: ListedFolder) -> Description:
    """Describe a directory by its indexes; no data file is read."""
    from ..verify import verify

    report = verify(folder, records=False)
    print_notices(Console(args), args.file_, report)
    return Description(
        {
            "kind": "gulp",
            "cbytes": report.nbytes + report.meta_nbytes,
            "nchunks": report.nchunks,
            "nclips": report.nitems,
            "nframes": report.nframes,
        },
        (
            ("kind", "gulp directory"),
            ("items", report.nitems),
            ("frames", report.nframes),
            ("stored", exact_size_text(report.nbytes + report.meta_nbytes)),
            ("chunks", f"{report.nchunks}, with {exact_size_text(report.meta_nbytes)} of indexes"),
        ),
        errors=[FormatError(str(each)).at(path=folder.name) for each in report.damage],
    )
