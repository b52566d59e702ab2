"""Exit codes and messages of errors, and the options that every command passes on."""

from pathlib import Path
from typing import Any

import pytest

import bloscpack as bp
from bloscpack.cli import info, verify
from bloscpack.cli.original import compress, decompress
from bloscpack.exceptions import ChunkingException, CodecError

from .conftest import Blpk

COMMANDS = [
    ("c", compress, "pack_stream", "plain.bin"),
    ("d", decompress, "unpack_stream", "packed.blp"),
]


@pytest.mark.parametrize(("name", "module", "function", "file"), COMMANDS)
@pytest.mark.parametrize(("options", "nthreads"), [([], None), (["-n", "3"], 3)])
@pytest.mark.usefixtures("plain", "packed")
def test_the_number_of_threads_is_passed_on(
    blpk: Blpk,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    module: Any,
    function: str,
    file: str,
    options: list[str],
    nthreads: int | None,
) -> None:
    seen = []
    original = getattr(module, function)

    def spy(*args: object, **kwargs: object) -> object:
        seen.append(kwargs["nthreads"])
        return original(*args, **kwargs)

    monkeypatch.setattr(module, function, spy)
    assert blpk(*options, name, file, "out").code == 0
    assert seen == [nthreads]


@pytest.mark.usefixtures("ramp")
def test_the_number_of_threads_is_passed_on_to_arrays_and_verify(
    blpk: Blpk, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    monkeypatch.setattr(
        verify,
        "verify_source",
        lambda _, source, fix, decode, nthreads, progress: (
            seen.append(nthreads) or bp.verify(source)
        ),
    )
    assert blpk("-n", "3", "verify", "ramp.blp").code == 0
    array = bp.Array
    monkeypatch.setattr(
        "bloscpack.cli.array.cat.Array",
        lambda where, nthreads, version: seen.append(nthreads) or array(where, nthreads=nthreads),
    )
    assert blpk("-n", "3", "cat", "ramp.blp").code == 0
    assert seen == [3, 3]


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (BrokenPipeError(32, "Broken pipe"), 1, ""),
        (KeyboardInterrupt(), 130, "blpk: interrupted\n"),
        (MemoryError(), 1, "blpk: error: not enough memory\n"),
        (OSError(28, "No space left", "a\nb"), 1, "blpk: error: a\\nb: No space left\n"),
        (OSError("odd"), 1, "blpk: error: odd\n"),
        (ImportError("install x"), 1, "blpk: error: install x\n"),
        (CodecError("failed"), 3, "blpk: error: failed\n"),
        (ChunkingException("too many"), 1, "blpk: error: too many\n"),
        (ValueError("a\x1b[2J"), 1, "blpk: error: a\\x1b[2J\n"),
    ],
)
@pytest.mark.parametrize("name", ["info", "verify"])
def test_errors_become_one_line_and_a_code(
    blpk: Blpk,
    ramp: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    error: BaseException,
    code: int,
    text: str,
) -> None:
    def fail(*args: object, **kwargs: object) -> None:
        raise error

    monkeypatch.setattr(info, "open_item", fail)
    monkeypatch.setattr(verify, "verify_source", fail)
    ended = blpk(name, ramp)
    assert (ended.code, ended.raw, ended.err) == (code, b"", text)


def test_bugs_keep_their_traceback(blpk: Blpk, ramp: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: object) -> None:
        raise KeyError("a fault")

    monkeypatch.setattr(info, "open_item", fail)
    with pytest.raises(KeyError, match="a fault"):
        blpk("info", ramp)


def test_a_bad_number_of_threads_in_the_environment(
    blpk: Blpk, ramp: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BLOSCPACK_NTHREADS", "many")
    ended = blpk("info", ramp)
    assert ended.code == 1
    assert "BLOSCPACK_NTHREADS" in ended.err


def test_debug_prints_all_settings(blpk: Blpk, plain: Path) -> None:
    ended = blpk("-d", "c", "-l", "3", plain)
    assert ended.code == 0
    lines = ended.err.splitlines()
    assert lines[0] == "blpk: command line argument parsing complete"
    assert "blpk:     clevel: 3" in lines
    assert "blpk: BloscpackArgs:" in lines
    assert "run" not in {line.split()[1].rstrip(":") for line in lines}
    assert lines[-1] == "blpk: done"
