"""Conversions of 1 GiB in a process of its own, whose memory stays under 300 MiB."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.lib import format as npy

SHAPE = (1024, 1024, 256)
CHUNKS = (16, 256, 256)
MAX_NBYTES = 300 << 20

# The peak that getrusage returns would include that of the process that started this one.
STATUS = Path("/proc/self/status")
CONVERT = f"""
import sys
import bloscpack as bp
bp.convert(sys.argv[1], sys.argv[2], verify=False)
for line in open("{STATUS}"):
    if line.startswith("VmHWM:"):
        print(int(line.split()[1]) << 10)
"""


def make_npy(path: Path) -> None:
    with path.open("wb") as stream:
        header: Any = {"descr": "<f4", "fortran_order": False, "shape": SHAPE}
        npy.write_array_header_1_0(stream, header)
        stream.truncate(stream.tell() + 4 * int(np.prod(SHAPE)))


def make_h5(path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "w") as file:
        file.create_dataset("data", SHAPE, "f4", chunks=CHUNKS, compression="gzip")


def make_zarr(path: Path) -> None:
    zarr = pytest.importorskip("zarr")
    zarr.create_array(path, shape=SHAPE, dtype="f4", chunks=CHUNKS)


MAKERS = {"npy": make_npy, "h5": make_h5, "zarr": make_zarr}


@pytest.mark.slow
@pytest.mark.skipif(not STATUS.exists(), reason="the peak of memory is read from /proc")
@pytest.mark.parametrize(
    ("source", "target"),
    [("h5", "blp"), ("zarr", "blp"), ("npy", "tif")],
)
def test_a_gigabyte(source: str, target: str, tmp_path: Path) -> None:
    MAKERS[source](tmp_path / f"a.{source}")
    if target == "tif":
        pytest.importorskip("tifffile")
    names = [str(tmp_path / f"a.{source}"), str(tmp_path / f"b.{target}")]
    done = subprocess.run(
        [sys.executable, "-c", CONVERT, *names], check=True, capture_output=True, text=True
    )
    assert int(done.stdout) < MAX_NBYTES
