"""Verification, errors and the original's functions, as type checkers see them; never run."""

from pathlib import Path
from typing import Any, assert_type

import bloscpack as bp
from bloscpack import exceptions


def verifying(path: Path) -> bool:
    report = bp.verify(path, nthreads=1)
    assert_type(report, bp.Report)
    assert_type(report.path, str | None)
    assert_type(report.damage, list[bp.Damage])
    for damage in report.damage:
        assert_type(damage.what, str)
        assert_type(damage.index, int | None)
        assert_type(damage.offset, int | None)
    assert_type(report.nchunks, int)
    return report.ok


def handling(path: Path) -> str | None:
    try:
        bp.load(path)
    except exceptions.ChecksumError as err:
        assert_type(err.index, int | None)
        assert_type(err.expected, bytes | None)
        return err.name
    except exceptions.FormatError as err:
        assert_type(err.offset, int | None)
        return err.field
    except exceptions.CodecError as err:
        assert_type(err.code, int | None)
        return err.codec
    except exceptions.BloscpackError as err:
        return err.path
    return None


def originals(path: Path) -> None:
    assert_type(bp.pack_bytes_to_bytes(b"content"), bytes)
    assert_type(bp.unpack_bytes_from_bytes(b"packed"), tuple[bytes, Any])
    assert_type(bp.__version__, str)
