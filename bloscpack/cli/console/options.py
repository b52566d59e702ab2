"""The parser, and the options that several commands share.

Names, defaults and unambiguous prefixes of long options are those of bloscpack 0.16. Where a new
option would make one of its prefixes ambiguous, `keep_prefixes` gives the prefix its old meaning.
"""

import argparse
import os
import re
import sys
import textwrap
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from typing import Any, Literal, NoReturn, get_args, get_origin, get_type_hints

from ...format.codec import CODECS, MAX_CHUNK_NBYTES, MAX_TYPESIZE, Shuffle
from ...keywords import foreign_keyword
from ...original.args import (
    DEFAULT_CHUNK_SIZE,
    DEFAULT_CLEVEL,
    DEFAULT_CNAME,
    DEFAULT_TYPESIZE,
    BloscArgs,
    parse_size,
)
from ...storage import disk
from .output import PROG, printable
from .status import ExitCode

Subparsers = Any  # argparse names the type of add_subparsers() only with an underscore
Container = argparse._ActionsContainer  # base of parsers and groups; argparse has no public name

STDIO = "-"  # name of standard input or output among arguments
DEFAULT_SAMPLE = 16 << 20  # decoded bytes that `tune` tries settings on
MAX_THREADS = 256  # BLOSC_MAX_THREADS, the limit of the original's -n
_SHUFFLES = {"none": Shuffle.NONE, "byte": Shuffle.BYTE, "bit": Shuffle.BIT}
_NEGATIVE_SELECTION = re.compile(r"-[0-9][-+0-9:,. ]*[:,][-+0-9:,. ]*")


class HelpFormatter(argparse.HelpFormatter):
    """Formatter that wraps the paragraphs of a description, and keeps what is indented."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        paragraphs = textwrap.dedent(text).strip().split("\n\n")
        return "\n\n".join(
            each if re.search(r"^ ", each, re.MULTILINE) else textwrap.fill(each, width)
            for each in paragraphs
        )


class Parser(argparse.ArgumentParser):
    """Parser that prints an error as one line, like all messages of ``blpk``."""

    def _parse_optional(self, arg_string: str) -> Any:
        return None if isinstance(arg_string, _Operand) else super()._parse_optional(arg_string)

    def _print_message(self, message: str, file: Any = None) -> None:
        if file is None or file is not sys.stdout:
            super()._print_message(message, file)
        else:  # the original ignores errors, such as that of a full disk
            with disk.naming("standard output"):
                file.write(message)

    def error(self, message: str) -> NoReturn:
        """Print the error and exit with the code for wrong usage."""
        advice = _similar(message, self)
        self.exit(
            ExitCode.USAGE,
            f"{PROG}: error: {printable(message)}{advice}; see '{self.prog} --help'\n",
        )


_WRONG_CHOICE = re.compile(r"invalid choice: '(.*)' \(choose from (.*)\)")
_WRONG_OPTION = re.compile(r"unrecognized arguments: (--[\w-]+)")


# Verbs of other programs.
_SYNONYMS = {
    **dict.fromkeys(("describe", "dump", "head", "stat"), "info"),
    **dict.fromkeys(("list", "dir"), "ls"),
    **dict.fromkeys(("read", "get", "print"), "cat"),
    **dict.fromkeys(("check", "test", "validate"), "verify"),
    **dict.fromkeys(("repair", "salvage"), "recover"),
    **dict.fromkeys(("copy", "import"), "convert"),
    **dict.fromkeys(("pack", "zip"), "compress"),
    **dict.fromkeys(("unpack", "extract", "unzip"), "decompress"),
    **dict.fromkeys(("create", "ingest"), "frames create"),
    **dict.fromkeys(("open", "browse", "serve"), "view"),
}


def _similar(message: str, parser: argparse.ArgumentParser) -> str:
    """Return a question for the name that was probably meant, or nothing."""
    choice, option = _WRONG_CHOICE.search(message), _WRONG_OPTION.search(message)
    if choice is not None:
        wrong, names = choice[1], [name.strip("'") for name in choice[2].split(", ")]
        if message.startswith("argument COMMAND: "):
            if wrong in _SYNONYMS and _SYNONYMS[wrong].split()[0] in names:
                return f"; did you mean {_SYNONYMS[wrong]!r}?"
            if os.path.exists(wrong):
                return f"; to describe the file: '{PROG} info {printable(wrong)}'"
    elif option is not None:
        wrong, names = option[1], list(option_strings(parser))
        own = {name.lstrip("-").replace("-", "_") for name in names}
        advice = foreign_keyword([wrong.lstrip("-").replace("-", "_")], own)
        if advice is not None and ": use " in advice:
            return f"; did you mean '--{advice.partition(': use ')[2].partition('=')[0]}'?"
    else:
        return ""
    found = get_close_matches(wrong, names, n=1)
    return f"; did you mean {found[0]!r}?" if found else ""


def option_strings(parser: argparse.ArgumentParser) -> Iterable[str]:
    """Yield the options that the help of a parser lists."""
    for action in parser._actions:
        if action.help != argparse.SUPPRESS:
            yield from action.option_strings


class CommandParser(Parser):
    """Parser of a command: options may stand between its arguments (``cat FILE --text 3``).

    Parameters
    ----------
    complete : callable, optional
        Called once, with the parser, before it is used for the first time: adds the description
        and the arguments.
    """

    _is_intermixing = False

    def __init__(
        self, *args: Any, complete: Callable[["CommandParser"], None] | None = None, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self._complete = complete
        self._is_complete = False

    def complete(self) -> None:
        """Add the arguments, unless they are there already."""
        if self._is_complete:
            return
        self._is_complete = True
        if self._complete is not None:
            self._complete(self)
        add_shared_options(self)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse in two passes, options first; some Python versions call this again in each pass."""
        self.complete()
        # A parser with subcommands has no arguments to mix.
        if self._subparsers is not None:
            return super().parse_known_args(with_json_behind(args), namespace)
        if self._is_intermixing:
            return super().parse_known_args(args, namespace)
        self._is_intermixing = True
        try:
            found, rest = self.parse_known_intermixed_args(args, namespace)
        finally:
            self._is_intermixing = False
        if rest:  # here, and not in the parser of all commands, which does not know the options
            self.error(f"unrecognized arguments: {' '.join(rest)}")
        return found, rest


class _Operand(str):
    """Argument behind ``--``, which is not an option, although it may begin with a dash.

    argparse forgets this when options may stand between arguments.
    """

    __slots__ = ()


def protect_operands(argv: list[str]) -> list[str]:
    """Protect arguments from being taken for options: selections like ``-5:``, and all after --."""
    end = argv.index("--") if "--" in argv else len(argv)
    return [
        *(f"[{arg}]" if _NEGATIVE_SELECTION.fullmatch(arg) else arg for arg in argv[:end]),
        *map(_Operand, argv[end + 1 :]),
    ]


_OPTION = re.compile(r"-.*[^-]", re.DOTALL)
# The number of threads is then the next word; ``--n`` is short for it, ``--no`` for another option.
_NTHREADS_ALONE = re.compile(r"-[vdqf]*n|--n(t(h(r(e(a(ds?)?)?)?)?)?)?")


def with_json_behind(argv: list[str]) -> list[str]:
    """Move ``--json`` from among the options in front of a command to its end.

    Only some commands have it, and each refuses it by itself.
    """
    front = 0
    while front < len(argv) and _OPTION.match(argv[front]):
        front += 2 if _NTHREADS_ALONE.fullmatch(argv[front]) else 1
    kept = [arg for arg in argv[:front] if arg != "--json"]
    if len(kept) == len(argv[:front]):
        return argv
    end = argv.index("--") if "--" in argv else len(argv)
    return [*kept, *argv[front:end], "--json", *argv[end:]]


def keep_prefixes(parser: Container, *prefixes: str, **kwargs: Any) -> None:
    """Add hidden spellings of an option; `kwargs` are its ``dest`` and ``action``."""
    parser.add_argument(*prefixes, default=argparse.SUPPRESS, help=argparse.SUPPRESS, **kwargs)


def add_global_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that stand before the name of a command."""
    levels = parser.add_mutually_exclusive_group()
    for names, options in _GLOBAL_OPTIONS:
        (levels if names[-1] in _LEVELS else parser).add_argument(*names, **options)


def add_output_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of messages, which the help of every command lists."""
    for names, options in _GLOBAL_OPTIONS:
        if names[-1] in _LISTED:
            parser.add_argument(*names, **options, default=argparse.SUPPRESS)


def add_shared_options(parser: argparse.ArgumentParser) -> None:
    """Let options that stand before a command stand behind it, unless it has others of the name."""
    for names, options in _GLOBAL_OPTIONS:
        free = [name for name in names if name not in parser._option_string_actions]
        if names[-1] in free:
            hidden = {key: value for key, value in options.items() if key != "help"}
            keep_prefixes(parser, *free, dest=names[-1].removeprefix("--"), **hidden)


def add_command(
    subparsers: Subparsers,
    name: str,
    *aliases: str,
    summary: str,
    description: str | None = None,
    complete: Callable[[CommandParser], None] | None = None,
) -> CommandParser:
    """Add the parser of a command, with the options that all commands take."""
    parser: CommandParser = subparsers.add_parser(
        name,
        aliases=list(aliases),
        help=summary,
        description=description,
        formatter_class=HelpFormatter,
        complete=complete,
    )
    add_output_options(parser)
    return parser


def add_option(parser: Container, usage: str, text: str, **form: Any) -> None:
    """Add an option as its usage shows it, like ``-z, --chunk-size SIZE``; `text` is its help.

    Without a value it is a flag. `form` has other arguments of `add_argument`.
    """
    words = usage.replace(",", "").split()
    names = [word for word in words if word.startswith("-")]
    values = tuple(words[len(names) :])
    if len(values) > 1:
        form |= {"metavar": values, "nargs": len(values)}
    elif values:
        form["metavar"] = values[0]
    elif form.keys().isdisjoint({"action", "choices"}):
        form["action"] = "store_true"
    parser.add_argument(*names, help=text, **form)


def add_locking_option(parser: Container) -> None:
    """Add ``--no-locking``."""
    add_option(
        parser,
        "--no-locking",
        "do not lock the file: for file systems without locks, and only if no other program "
        "writes to the file",
        action="store_false",
        dest="locking",
    )


def add_json_option(parser: Container) -> None:
    """Add ``--json``."""
    add_option(parser, "--json", "print JSON (schema in docs/json.md)")


def add_classic_option(parser: Container) -> None:
    """Add ``--classic``."""
    add_option(
        parser,
        "--classic",
        "on a terminal, print the text that a pipe gets, which scripts can parse",
    )


def add_files(parser: Container) -> None:
    """Add the files of a command that reads every type."""
    parser.add_argument(
        "files",
        metavar="FILE",
        nargs="+",
        help="file of any type, folder, URL or pattern; - for standard input",
    )


def add_force_option(parser: Container, text: str) -> None:
    """Add ``--force`` to a command that replaces what `text`, its help, names."""
    add_option(parser, "-f, --force", text, default=argparse.SUPPRESS)


def add_folder(parser: Container) -> None:
    """Add the output folder, and the option to overwrite files in it."""
    parser.add_argument("folder", metavar="FOLDER", help="output folder; new or empty")
    add_force_option(
        parser, "write into a folder that is not empty, and replace files of the same names"
    )


def add_blosc_group(parser: argparse.ArgumentParser, others: tuple[str, ...] = ()) -> None:
    """Add the settings of chunks; `blosc_args_from` reads them, but for codecs in `others`."""
    group = parser.add_argument_group("blosc settings")
    add_option(
        group,
        "-t, --typesize SIZE",
        f"bytes per item, 1 to {MAX_TYPESIZE} (default: %(default)s)",
        type=lambda text: ranged(text, 1, MAX_TYPESIZE),
        default=DEFAULT_TYPESIZE,
    )
    add_option(
        group,
        "-l, --clevel LEVEL",
        "compression level, 0 (store) to 9 (default: %(default)s)",
        type=int,
        choices=range(10),
        default=DEFAULT_CLEVEL,
    )
    shuffle = group.add_mutually_exclusive_group()
    add_option(
        shuffle,
        "-s, --no-shuffle",
        "do not shuffle; same as --shuffle none",
        action="store_const",
        const="none",
        default="byte",
        dest="shuffle",
    )
    add_option(
        shuffle,
        "--shuffle",
        "filter before the codec (default: %(default)s)",
        choices=tuple(_SHUFFLES),
        default="byte",
    )
    add_option(
        group,
        "-c, --codec CODEC",
        f"{', '.join((*CODECS, *others))} (default: %(default)s)",
        choices=(*CODECS, *others),
        default=DEFAULT_CNAME,
        dest="cname",
    )


def blosc_args_from(args: argparse.Namespace) -> BloscArgs:
    """Return the options of `add_blosc_group`."""
    return BloscArgs(args.typesize, args.clevel, _SHUFFLES[args.shuffle], args.cname)


def add_chunk_size_option(group: Container) -> None:
    """Add ``--chunk-size`` to a parser or a group."""
    add_option(
        group,
        "-z, --chunk-size SIZE",
        "bytes per chunk, with an optional suffix B, K, M, G or T; or 'max' "
        f"(default: {DEFAULT_CHUNK_SIZE})",
        type=_chunk_size,
        default=parse_size(DEFAULT_CHUNK_SIZE),
    )


def add_options(
    parser: Container,
    record: Any,
    helps: Mapping[str, str],
    forms: Mapping[str, dict[str, Any]],
    defaults: Mapping[str, Any],
) -> None:
    """Add options that a function takes in a record, with the names and types of its keys.

    Parameters
    ----------
    parser : ArgumentParser or group
        Gets the options, in the order of `helps`.
    record : type of TypedDict
        A Literal gives the choices, a bool a flag, and a number its type.
    helps : mapping
        The help of each option, by its key.
    forms : mapping
        Other arguments of `add_argument`, by its key; ``"short"`` has other names of the option.
    defaults : mapping
        Defaults that are not None.
    """
    hints = get_type_hints(record)
    for name, text in helps.items():
        form = _form_of(hints[name]) | forms.get(name, {})
        form["default"] = defaults.get(name, False if hints[name] is bool else None)
        names = [*form.pop("short", ()), f"--{name.replace('_', '-')}"]
        parser.add_argument(*names, help=text, **form)


def _form_of(hint: Any) -> dict[str, Any]:
    """Return the arguments of `add_argument` for a type."""
    if hint is bool:
        return {"action": "store_true"}
    kinds = get_args(hint) or (hint,)
    literals = [kind for kind in (hint, *kinds) if get_origin(kind) is Literal]
    choices = tuple(word for kind in literals for word in get_args(kind))
    if choices:
        return {"choices": choices}
    return {"metavar": "N", "type": float if float in kinds else count}


def series(*parts: str, last: str = "and") -> str:
    """Return an enumeration for a help: ``a, b and c``."""
    *front, end = parts
    return f"{', '.join(front)} {last} {end}" if front else end


def passed_on(args: argparse.Namespace, *names: str) -> dict[str, Any]:
    """Return the options that a function takes by the names that they have in `args`."""
    return {name: getattr(args, name) for name in names}


def nthreads(text: str) -> int:
    """Parse a number of threads."""
    return ranged(text, 1, MAX_THREADS)


def count(text: str) -> int:
    """Parse a number of items, 0 or more."""
    return ranged(text, 0, 2**63 - 1)


def positive(text: str) -> int:
    """Parse a number of items, 1 or more."""
    number = count(text)
    if not number:
        raise argparse.ArgumentTypeError(f"must be at least 1, not {text!r}")
    return number


def byte_size(text: str) -> int:
    """Parse a number of bytes with an optional suffix, 1 or more."""
    nbytes = _parse_size(text)
    if nbytes < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1 byte, not {text!r}")
    return nbytes


def _chunk_size(text: str) -> int:
    if text == "max":
        return MAX_CHUNK_NBYTES
    nbytes = _parse_size(text)
    if not 1 <= nbytes <= MAX_CHUNK_NBYTES:
        raise argparse.ArgumentTypeError(f"must be 1 to {MAX_CHUNK_NBYTES} bytes, not {text!r}")
    return nbytes


def _parse_size(text: str) -> int:
    try:
        return int(text) if text[-1:].isdigit() else parse_size(text)
    except ValueError as err:
        raise argparse.ArgumentTypeError(str(err)) from None


def ranged(text: str, low: int, high: int) -> int:
    """Parse an integer in ``low <= value <= high``."""
    try:
        value = int(text)
    except ValueError:
        value = low - 1
    if not low <= value <= high:
        raise argparse.ArgumentTypeError(f"must be {low} to {high}, not {text!r}")
    return value


# Options that may stand before and behind every command.
_GLOBAL_OPTIONS: tuple[tuple[tuple[str, ...], dict[str, Any]], ...] = (
    (("-v", "--verbose"), {"action": "store_true", "help": "print each step"}),
    (("-d", "--debug"), {"action": "store_true", "help": "print each step and all settings"}),
    (("-q", "--quiet"), {"action": "store_true", "help": "print only results and errors"}),
    (("--no-progress",), {"action": "store_true", "help": "never show a progress bar"}),
    (
        ("-f", "--force"),
        {
            "action": "store_true",
            "help": "overwrite existing files; write binary data to a terminal",
        },
    ),
    (
        ("-n", "--nthreads"),
        {
            "metavar": "N",
            "type": nthreads,
            "help": f"threads, 1 to {MAX_THREADS} (default: the number of processors, at most 8)",
        },
    ),
)
_LEVELS = ("--verbose", "--debug")
_LISTED = ("--quiet", "--no-progress")
