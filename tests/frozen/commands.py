"""Runs commands of ``blpk`` in this process, on files of our own, and keeps what they print.

Parsers are found through ``--help``, not through a table of commands: however they are imported and
registered, users find them there.
"""

import argparse
import io
import json
import os
import re
import shlex
import shutil
import sys
import warnings
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

from bloscpack.cli.main import main
from bloscpack.exceptions import BloscpackWarning

TESTS = Path(__file__).resolve().parents[1]
CASES = Path(__file__).with_name("cases.txt")

# The files that commands work on, by their names in the folder of the commands.
FILES = {
    "array.blp": "conformance/array_chunks_attrs.blp",
    "f8.blp": "conformance/array_f8.blp",
    "bytes.blp": "conformance/v3_bytes_crc32.blp",
    "first.blp": "conformance/v1_bytes.blp",
    "stale.blp": "conformance/trailer_stale_by_append.blp",
    "flipped.blp": "conformance/bad_chunk_flipped.blp",
    "cut.blp": "conformance/bad_table_cut.blp",
    "magic.blp": "conformance/bad_magic.blp",
    "version.blp": "conformance/bad_version.blp",
    "store.blp": "conformance/frames_merged_index.blp",
    "jpeg.blp": "conformance/frames_jpeg.blp",
    "damaged-store.blp": "conformance/frames_damaged_frame.blp",
    "torn-store.blp": "conformance/frames_torn_append.blp",
    "fields.blp": "conformance/archive_fields.blp",
    "torn-fields.blp": "conformance/bad_archive_cut.blp",
    "gulp": "vectors/formats/gulp",
    "gulp-store.blp": "vectors/formats/gulp_store.blp",
    "recording.vrs": "vectors/formats/recording.vrs",
    "split.vrs": "vectors/formats/recording_split.vrs",
    "split.vrs_1": "vectors/formats/recording_split.vrs_1",
    "split.vrs_2": "vectors/formats/recording_split.vrs_2",
    "split.vrs_3": "vectors/formats/recording_split.vrs_3",
    "split.vrs_4": "vectors/formats/recording_split.vrs_4",
    "recording-store.blp": "vectors/formats/recording_store.blp",
    "pictures.bzna": "vectors/formats/h264.bzna",
}
# Those that are cut, and how many bytes are left of them.
CUT = {"cut.vrs": ("recording.vrs", 6000), "cut.bzna": ("pictures.bzna", 12000)}
# Strings in JSON with these names are messages, which belong to the transcripts.
MESSAGES = {"error", "errors", "message", "messages", "notices", "problems", "remarks", "what"}
MESSAGES |= {"left_out", "notes", "reason", "skipped", "warnings", "why"}


@dataclass(frozen=True, slots=True)
class Case:
    """A command line, its input, and whether scripts may read its text."""

    line: str
    is_data: bool
    position: int

    @property
    def key(self) -> str:
        """Name the case; a command that is run again behaves differently."""
        return f"{self.line} (again)" if self.position else self.line

    @property
    def argv(self) -> list[str]:
        return shlex.split(self.line.partition(" < ")[0])

    @property
    def input(self) -> str:
        return self.line.partition(" < ")[2]


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended, with the files that it made."""

    code: int
    out: bytes
    err: str
    new_files: list[str]

    @property
    def text(self) -> str:
        """Standard output; that of binary data is a checksum."""
        try:
            text = self.out.decode()
        except UnicodeDecodeError:
            text = "\0"
        return (
            f"{len(self.out)} bytes, crc32 {zlib.crc32(self.out):08x}\n" if "\0" in text else text
        )


def cases() -> list[Case]:
    """Return the commands to run, in order."""
    lines = CASES.read_text("utf-8").splitlines()
    found: list[Case] = []
    for line in lines:
        if line[:1] in ("$", "="):
            position = sum(each.line == line[2:] for each in found)
            found.append(Case(line[2:], line[0] == "=", position))
    return found


def run(argv: list[str], stdin: bytes = b"") -> tuple[int, bytes, str]:
    """Run a command in this process; return its exit code, output and messages."""
    out, err = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.TextIOWrapper(io.BytesIO(), "utf-8")
    with (
        patch.object(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin))),
        patch.object(sys, "stdout", out),
        patch.object(sys, "stderr", err),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore", BloscpackWarning)
        try:
            code = main(argv)
        except Exception as bug:  # one command must not keep the others from being compared
            code = -1
            err.write(f"{bug!r}\n")
    for stream in (out, err):
        stream.flush()
    return code, out.buffer.getvalue(), err.buffer.getvalue().decode()


@contextmanager
def work_folder() -> Iterator[Path]:
    """Make a folder with the files, and run commands there as on any machine."""
    before = Path.cwd()
    with TemporaryDirectory() as name:
        folder = Path(name).resolve()
        for target, source in FILES.items():
            if (TESTS / source).is_dir():
                shutil.copytree(TESTS / source, folder / target)
            else:
                shutil.copyfile(TESTS / source, folder / target)
        for target, (source, nbytes) in CUT.items():
            (folder / target).write_bytes((folder / source).read_bytes()[:nbytes])
        (folder / "empty.blp").write_bytes(b"")
        (folder / "plain.bin").write_bytes(bytes(i * i // 7 % 251 for i in range(10_000)))
        (folder / "meta.json").write_text('{"unit": "m"}')
        (folder / "text.txt").write_text("not a file of ours\n" * 4)
        environment = {"COLUMNS": "80", "LC_ALL": "C.UTF-8", "TZ": "UTC"}
        with patch.dict(os.environ, environment):
            os.environ.pop("BLOSCPACK_NTHREADS", None)
            os.chdir(folder)
            try:
                yield folder
            finally:
                os.chdir(before)


@cache
def run_cases() -> dict[str, Ended]:
    """Run all cases, one after the other, in one folder."""
    ended: dict[str, Ended] = {}
    with work_folder() as folder:
        before = files_in(folder)
        for case in cases():
            stdin = (folder / case.input).read_bytes() if case.input else b""
            code, out, err = run(case.argv, stdin)
            after = files_in(folder)
            assert case.key not in ended, case.key
            out = out.replace(str(folder).encode(), b"FOLDER")
            err = re.sub(r" at 0x[0-9a-f]+", "", err.replace(str(folder), "FOLDER"))
            ended[case.key] = Ended(code, out, err, sorted(after - before))
            before = after
    return ended


def files_in(folder: Path) -> set[str]:
    return {str(each.relative_to(folder)) for each in folder.rglob("*") if each.is_file()}


def commands() -> dict[str, Any]:
    """Return exit codes, new files, JSON without its messages, and data."""
    found: dict[str, Any] = {}
    for case in cases():
        ended = run_cases()[case.key]
        entry: dict[str, Any] = {"exit code": ended.code}
        if ended.new_files:
            entry["new files"] = ended.new_files
        document = parsed(ended)
        if document is not None:
            entry["json"] = without_messages(document)
        elif case.is_data:
            entry["output"] = without_versions(ended.text).splitlines()
        found[case.key] = entry
    return found


def schemas() -> dict[str, Any]:
    """Return the keys and types in the JSON of each command, over all cases."""
    found: dict[str, Any] = {}
    for case in cases():
        document = parsed(run_cases()[case.key])
        if isinstance(document, dict) and "command" in document:
            name = document["command"]
            found[name] = merged(found.get(name, {}), shape(document))
    return dict(sorted(found.items()))


def transcripts() -> str:
    """Return help, messages and text for people."""
    parts = [f"$ blpk {command} --help\n{text}" for command, text in helps().items()]
    for case in cases():
        ended = run_cases()[case.key]
        document = parsed(ended)
        text = "" if case.is_data else ended.text
        if document is not None:
            text = "".join(f"{where}: {message}\n" for where, message in messages(document))
        code = f"[exit code {ended.code}]\n" if ended.code else ""
        parts.append(f"$ blpk {case.line}\n{text}{ended.err}{code}")
    return without_versions("\n".join(parts))


def parsed(ended: Ended) -> Any:
    """Return the JSON that a command printed, if it did."""
    try:
        found = json.loads(ended.out)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def without_versions(text: str) -> str:
    """Return a text without the versions of bloscpack and C-Blosc."""
    return re.sub(r"(bloscpack|blosc): '[^']*'", r"\1: 'VERSION'", text)


def without_messages(value: Any) -> Any:
    """Return JSON with an ellipsis for each message."""
    if isinstance(value, dict):
        return {
            name: _ellipses(each) if name in MESSAGES else without_messages(each)
            for name, each in value.items()
        }
    if isinstance(value, list):
        return [without_messages(each) for each in value]
    return value


def _ellipses(value: Any) -> Any:
    if isinstance(value, list):
        return [_ellipses(each) for each in value]
    return "..." if isinstance(value, str) else without_messages(value)


def messages(value: Any, where: str = "", *, is_message: bool = False) -> Iterator[tuple[str, str]]:
    """Return the place and text of each message in JSON."""
    if isinstance(value, dict):
        for name, each in value.items():
            yield from messages(each, f"{where}.{name}", is_message=name in MESSAGES)
    elif isinstance(value, list):
        for index, each in enumerate(value):
            yield from messages(each, f"{where}[{index}]", is_message=is_message)
    elif is_message and isinstance(value, str):
        yield where, value


def shape(value: Any) -> Any:
    """Return the keys of objects in JSON and the types of other values."""
    if isinstance(value, dict):
        return {name: shape(each) for name, each in value.items()}
    if isinstance(value, list):
        items: Any = {}
        for each in value:
            items = merged(items, shape(each))
        return [items] if value else []
    names = {bool: "boolean", int: "number", float: "number", str: "string"}
    return names.get(type(value), "null")


def merged(first: Any, second: Any) -> Any:
    """Return the shape of values of either shape; alternatives are a set, written with bars."""
    if first in ({}, second):
        return second
    if isinstance(first, dict) and isinstance(second, dict):
        names = [*first, *(name for name in second if name not in first)]
        return {name: merged(first.get(name, {}), second.get(name, {})) for name in names}
    if isinstance(first, list) and isinstance(second, list):
        if not first or not second:
            return first or second
        return [merged(first[0], second[0])]
    if isinstance(first, str) and isinstance(second, str):
        return " | ".join(sorted({*first.split(" | "), *second.split(" | ")}))
    if second in ({}, "null") or (isinstance(second, str) and not isinstance(first, str)):
        return first
    return second


@cache
def parsers() -> dict[str, tuple[list[str], argparse.ArgumentParser, str]]:
    """Return the parser of each command, with its names and its help."""
    found: dict[str, tuple[list[str], argparse.ArgumentParser, str]] = {}
    todo: list[list[str]] = [[]]
    with work_folder():
        while todo:
            words = todo.pop(0)
            parser, text = _parser_of(words)
            known = found.get(parser.prog)
            if known:
                known[0].append(words[-1])
                continue
            found[parser.prog] = ([words[-1]] if words else [], parser, text)
            todo += [[*words, name] for action in subcommands(parser) for name in action.choices]
    return found


def _parser_of(words: list[str]) -> tuple[argparse.ArgumentParser, str]:
    shown: list[argparse.ArgumentParser] = []
    inner = argparse.ArgumentParser.format_help

    def format_help(parser: argparse.ArgumentParser) -> str:
        shown.append(parser)
        return inner(parser)

    with patch.object(argparse.ArgumentParser, "format_help", format_help):
        code, out, err = run([*words, "--help"])
    assert (code, err) == (0, ""), words
    return shown[-1], out.decode()


def subcommands(parser: argparse.ArgumentParser) -> list[Any]:
    """Return the arguments that choose a command."""
    return [each for each in parser._actions if isinstance(each, argparse._SubParsersAction)]


def helps() -> dict[str, str]:
    """Return the help of each command."""
    return {prog.partition(" ")[2]: text for prog, (_, _, text) in parsers().items()}


def options() -> dict[str, Any]:
    """Return the arguments of each command; the texts of their help are not part of it."""
    return {
        prog: {"names": names, "arguments": [_argument(each) for each in _arguments(parser)]}
        for prog, (names, parser, _) in parsers().items()
    }


def _arguments(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    return [each for each in parser._actions if not isinstance(each, argparse._SubParsersAction)]


def _argument(action: argparse.Action) -> dict[str, Any]:
    described = {
        "flags": action.option_strings,
        "dest": action.dest if not action.option_strings else None,
        "nargs": action.nargs,
        "const": action.const,
        "default": None if action.default is argparse.SUPPRESS else action.default,
        "choices": None if action.choices is None else [*action.choices],
        "required": action.required or None,
        "hidden": (action.help is argparse.SUPPRESS) or None,
    }
    return {name: _jsonable(value) for name, value in described.items() if value not in (None, [])}


def _jsonable(value: Any) -> Any:
    plain = isinstance(value, bool | int | float | str | list)
    return value if plain else repr(value)
