"""Names and prefixes of options; wrong usage is an error before anything is done."""

import argparse
import importlib
import inspect
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bloscpack as bp
from bloscpack.cli.console.options import protect_operands
from bloscpack.cli.main import create_parser, main
from bloscpack.format.checksum import CHECKSUMS
from bloscpack.format.codec import CODECS

from .conftest import Blpk

# Long options of bloscpack 0.16 (cli.py), with an argument for those that take one.
ORIGINAL = {
    "": {"help": None, "version": None, "verbose": None, "debug": None, "force": None}
    | {"nthreads": "3"},
    "compress": {"typesize": "4", "clevel": "3", "no-shuffle": None, "codec": "lz4"}
    | {"chunk-size": "2K", "checksum": "md5", "no-offsets": None, "metadata": "F", "help": None},
    "decompress": {"no-check-extension": None, "help": None},
    "append": {"typesize": "4", "clevel": "3", "no-shuffle": None, "codec": "lz4"}
    | {"no-check-extension": None, "metadata": "F", "help": None},
    "info": {"help": None},
}
POSITIONALS = {"compress": ["x"], "decompress": ["x"], "append": ["x", "y"], "info": ["x"]}


def parse(command: str, option: str, value: str | None) -> argparse.Namespace:
    given = [option] if value is None else [option, value]
    where = [command, *given, *POSITIONALS[command]] if command else [*given, "info", "x"]
    return create_parser().parse_args(where)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "name"),
    [(command, name) for command, names in ORIGINAL.items() for name in names],
)
def test_every_unambiguous_prefix_of_the_original_works(
    command: str, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    names, value = ORIGINAL[command], ORIGINAL[command][name]
    prefixes = [name[:length] for length in range(1, len(name) + 1)]
    unambiguous = [
        prefix
        for prefix in prefixes
        if prefix == name or sum(other.startswith(prefix) for other in names) == 1
    ]
    for prefix in unambiguous:
        if name in ("help", "version"):
            with pytest.raises(SystemExit) as ended:
                parse(command, f"--{prefix}", None)
            assert ended.value.code == 0
        else:
            assert parse(command, f"--{prefix}", value) == parse(command, f"--{name}", value)
    capsys.readouterr()


def test_prefixes_set_the_option_they_abbreviate() -> None:
    assert parse("compress", "--m", "F").metadata == "F"
    assert parse("decompress", "--no", None).no_check_extension is True
    assert parse("decompress", "--no-p", None).no_progress is True
    assert parse("", "--n", "3").nthreads == 3


@pytest.mark.parametrize("short", ["c", "d", "a", "i"])
def test_aliases(short: str) -> None:
    name = {"c": "compress", "d": "decompress", "a": "append", "i": "info"}[short]
    positionals = POSITIONALS[name]
    one = vars(create_parser().parse_args([short, *positionals]))
    two = vars(create_parser().parse_args([name, *positionals]))
    assert one | {"subcommand": name} == two


@pytest.mark.parametrize(
    "argv",
    [
        ["nonsense"],
        ["compress"],
        ["c", "a", "b", "c"],
        ["-v", "-d", "i", "x"],
        ["-n", "0", "i", "x"],
        ["-n", "257", "i", "x"],
        ["-n", "two", "i", "x"],
        ["c", "-t", "0", "x"],
        ["c", "-t", "256", "x"],
        ["c", "-l", "10", "x"],
        ["c", "-c", "nonsense", "x"],
        ["c", "-k", "nonsense", "x"],
        ["c", "-s", "--shuffle", "bit", "x"],
        ["c", "--max-app-chunks", "-1", "x"],
        *(["c", "-z", size, "x"] for size in ("", "0", "-1", "0K", "K", "1X", "1e3", "2G", "nanK")),
        ["d", "-e", "x"],
        ["verify"],
        ["ls"],
        ["cat", "x", "1", "--chunk", "2"],
        ["cat", "x", "1+1"],
        ["cat", "--npy", "--text", "x"],
    ],
    ids=" ".join,
)
def test_wrong_usage_is_one_line_and_exit_2(blpk: Blpk, argv: list[str], tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"content")
    ended = blpk(*argv)
    assert (ended.code, ended.raw) == (2, b"")
    assert ended.err.startswith("blpk: error: ")
    assert ended.err.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


@pytest.mark.parametrize("argv", [[], ["-v"]])
def test_without_a_command_it_prints_help(blpk: Blpk, argv: list[str]) -> None:
    ended = blpk(*argv)
    assert (ended.code, ended.err) == (2, "")
    assert ended.out == blpk("--help").out


@pytest.mark.parametrize(
    ("argv", "meant"),
    [
        (["veriy", "x"], "verify"),
        (["frames", "sheeet"], "sheet"),
        (["verify", "--jsn", "x"], "--json"),
        (["compress", "--codec", "zst", "x"], "zstd"),
        (["list", "x"], "ls"),
        (["create", "x"], "frames create"),
        (["convert", "x", "y", "--compression", "lz4"], "--codec"),
    ],
)
def test_a_mistyped_name_is_answered_with_the_right_one(
    blpk: Blpk, argv: list[str], meant: str
) -> None:
    ended = blpk(*argv)
    assert ended.code == 2
    assert f"; did you mean '{meant}'?; see " in ended.err
    assert "did you mean" not in blpk("qqqqqq").err


@pytest.mark.parametrize(
    "words", [["-v"], ["-d"], ["-f"], ["-q"], ["-n", "2"], ["--json"], ["--no-progress"]]
)
def test_shared_options_stand_before_or_behind_a_command(
    blpk: Blpk, tmp_path: Path, words: list[str]
) -> None:
    bp.save(tmp_path / "a.blp", np.arange(10))
    command = ["ls", "a.blp"]
    before, behind = blpk(*words, *command), blpk(*command, *words)
    assert (before.code, behind.code) == (0, 0)
    assert (before.out, before.err) == (behind.out, behind.err)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "words",
    ["-q", "-qf", "-n 2", "-qn 2", "--nt 2", "--nthreads=2", "--no-progress", "-f"],
)
def test_json_stands_anywhere_among_the_options(blpk: Blpk, tmp_path: Path, words: str) -> None:
    with bp.frames.create(tmp_path / "a.blp") as store:
        store.append("walk", np.zeros((1, 4, 4), "u1"))
    others = words.split()
    for group in ([], ["frames"]):
        expected = blpk(*group, "ls", "a.blp", *others, "--json")
        assert (expected.code, isinstance(expected.json, dict), expected.err) == (0, True, "")
        for front in (["--json", *others], [*others, "--json"]):
            for call in (
                [*front, *group, "ls", "a.blp"],
                [*front, *group, "ls", "--", "a.blp"],
                [*group, *front, "ls", "a.blp"],
                [*group, "ls", *front, "a.blp"],
                [*others, *group, "ls", "--json", "a.blp"],
            ):
                assert blpk(*call) == expected, call


def test_every_command_takes_the_global_options_before_and_behind_it() -> None:
    names = ["-v", "-d", "-f", "-q", "-n", "--no-progress", "--verbose", "--nthreads"]
    assert set(names) <= create_parser()._option_string_actions.keys()
    for words, command in every_command():
        command.complete()
        assert set(names) <= command._option_string_actions.keys(), words


def every_command(parser: Any = None, before: tuple[str, ...] = ()) -> Iterator[Any]:
    """Yield the words and the parser of each command that has no subcommands."""
    parser = create_parser() if parser is None else parser
    if before:
        parser.complete()
    groups = [one for one in parser._actions if isinstance(one, argparse._SubParsersAction)]
    for name, each in groups[0].choices.items() if groups else ():
        yield from every_command(each, (*before, name))
    if before and not groups:
        yield before, parser


# Arguments in usage lines. ``append`` changes a file in place, in the order of bloscpack 0.16.
INPUTS = {"FILE", "SRC", "IN_FILE", "INPUT", "STORE", "PATH", "ORIGINAL_FILE", "NEW_FILE"}
INPUTS |= {"ID", "NAME", "SELECTION", "SHELL", "LIST", "CLIPS", "IMAGES", "VIDEOS", "FILE::/NAME"}
INPUTS |= {"FILE::/OLD", "NEW", "VALUE"}
OUTPUTS = {"OUT", "OUT_FILE", "DST", "FOLDER", "DIR"}


def test_an_output_stands_last_in_every_usage_line() -> None:
    for words, command in every_command():
        command.complete()
        # argparse prints them in this order, behind the options.
        arguments = [each for each in command._actions if not each.option_strings]
        names = [each.metavar for each in arguments if each.help != argparse.SUPPRESS]
        assert {*names[:-1]} <= INPUTS, words
        assert names[-1] in INPUTS | OUTPUTS, words


def test_json_is_refused_by_commands_without_it(blpk: Blpk, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"content")
    for front in (["--json"], ["-q", "--json"], ["--n", "2", "--json", "-f"]):
        assert "unrecognized arguments: --json" in blpk(*front, "compress", "x").err
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


def test_help_fits_80_columns(blpk: Blpk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    commands: set[tuple[str, ...]] = {()}
    for words, _ in every_command():
        commands |= {words[:length] for length in range(1, len(words) + 1)}
    for command in commands:
        lines = blpk(*command, "--help").out.split("\n")
        assert max(map(len, lines)) <= 80, command


def test_version_and_help_go_to_standard_output(blpk: Blpk) -> None:
    ended = blpk("--version")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.startswith("bloscpack: '1.")
    assert "blosc: '1." in ended.out
    for argv, word in product([["--help"], ["c", "-h"]], ["--quiet", "--no-progress"]):
        assert word in blpk(*argv).out


def test_help_names_all_codecs_and_checksums(blpk: Blpk) -> None:
    text = " ".join(blpk("compress", "--help").out.split())
    assert ", ".join(CODECS) in text
    assert ", ".join(row.name for row in CHECKSUMS) in text
    assert "need format version 4" in text


def test_every_command_has_help_and_a_section_in_the_docs(blpk: Blpk) -> None:
    page = Path(__file__).resolve().parents[2] / "docs" / "howto" / "commands.md"
    docs = page.read_text("utf-8")
    parser = create_parser()
    (subparsers,) = (one for one in parser._actions if isinstance(one, argparse._SubParsersAction))
    for name, command in subparsers.choices.items():
        assert blpk(name, "--help").code == 0
        command.complete()
        if len(name) > 1:
            assert f"\n## blpk {name}\n" in docs


def test_arguments_of_the_process_are_the_default(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["blpk", "--version"])
    assert main() == 0
    assert "bloscpack" in capsys.readouterr().out


@pytest.mark.parametrize(
    "argv",
    [
        ["--text", "x", "[-5:]"],
        ["x", "--text", "[-5:]"],
        ["x", "[-5:]", "--text"],
        ["--text", "--", "x", "[-5:]"],
        ["--text", "x", "--", "[-5:]"],
    ],
    ids=" ".join,
)
def test_options_may_stand_anywhere(argv: list[str]) -> None:
    args = create_parser().parse_args(["cat", *argv])
    assert (args.file_, args.selection, args.text) == ("x", "[-5:]", True)


def test_options_between_files(blpk: Blpk, plain: Path) -> None:
    assert blpk("c", plain, "-l", "1", "out.blp", "-o").code == 0
    assert Path("out.blp").exists()


def test_selections_are_not_options() -> None:
    assert protect_operands(["cat", "x", "-5:"]) == ["cat", "x", "[-5:]"]
    assert protect_operands(["cat", "x", "-1,2"]) == ["cat", "x", "[-1,2]"]
    assert protect_operands(["cat", "x", "-1"]) == ["cat", "x", "-1"]
    assert protect_operands(["-n", "2", "-z1K", "--", "-5:"]) == ["-n", "2", "-z1K", "-5:"]


def test_arguments_behind_two_dashes_are_not_options(blpk: Blpk) -> None:
    for name in ("-x.blp", "--fix"):
        bp.save(name, np.arange(3))
    assert blpk("verify", "--", "-x.blp", "--fix").out == "-x.blp: ok\n--fix: ok\n"
    assert blpk("cat", "--text", "--", "-x.blp", "-1:").out == "[2]\n"
    assert blpk("convert", "--", "-x.blp", "-y.npy").code == 0
    assert np.load("-y.npy").tolist() == [0, 1, 2]
    assert blpk("frames", "create", "--", "-y.npy", "-s.blp").code == 0
    assert blpk("--", "info", "-x.blp").code == 0


@pytest.mark.parametrize(
    ("module", "name", "argv"),
    [
        ("convert", "convert", ["convert", "x.npy", "x.blp"]),
        (
            "frames.create",
            "ingest",
            ["frames", "create", "--from", "arrays", "x.npy", "x.blp", "--video", "recode"],
        ),
    ],
)
def test_every_option_reaches_its_parameter(
    blpk: Blpk,
    monkeypatch: pytest.MonkeyPatch,
    module: str,
    name: str,
    argv: list[str],
) -> None:
    """A parameter that has the name of an option gets its value."""
    np.save("x.npy", np.zeros((2, 4, 4)))
    found = importlib.import_module(f"bloscpack.cli.{module}")
    parameters = {*inspect.signature(getattr(found, name)).parameters}
    seen: dict[str, object] = {}

    def record(*args: object, **options: object) -> None:
        seen.update(options)
        raise ValueError("enough")

    monkeypatch.setattr(found, name, record)
    argv = [*argv, "--allow-empty", "--crf", "7", "-n", "2"]
    ended = blpk(*argv)
    assert (ended.code, ended.err) == (1, "blpk: error: enough\n")
    args = vars(create_parser().parse_args(argv))
    shared = parameters & {*args} - {"log"}  # a function, and the name of a file
    assert {"crf", "allow_empty", "nthreads", "codec"} <= shared
    assert {each: seen[each] for each in shared} == {each: args[each] for each in shared}
