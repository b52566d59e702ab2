"""``blpk completion``: scripts that complete command lines in bash, zsh and fish.

A script only calls ``blpk completion SHELL -- WORD...``, which finds the candidates in the parser:
they are always those of the installed version. Without candidates, the shell completes file names.

Bash splits words at colons (``COMP_WORDBREAKS``), and replaces only what is behind the last one.
So its script joins the words that no blank separates, and removes from the candidates what stays.
"""

import argparse
import os
import shlex
import sys
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress

from ..archive.reader import Archive
from ..exceptions import BloscpackError
from ..filetypes.open import frames_of
from ..filetypes.table import ARCHIVES
from ..storage.file import Place
from .console.inputfile import open_input
from .console.options import CommandParser, option_strings
from .console.output import PROG
from .console.status import ExitCode

INNER = "::/"  # before the name of an array or a clip in a file

_SCRIPTS = {
    "bash": f"""\
_{PROG}() {{
    local IFS=$'\\n' words=() line=$COMP_LINE last= at word
    for word in "${{COMP_WORDS[@]:0:COMP_CWORD+1}}"; do
        if [[ -n "${{words[*]}}" && $line != [[:space:]]* ]]
        then last=$last$word; words[${{#words[@]}}-1]=$last
        else last=$word; words+=("$word")
        fi
        line=${{line#*"$word"}}
    done
    COMPREPLY=($({PROG} completion bash -- "${{words[@]:1}}" 2>/dev/null))
    [[ $last == [\\"\\']* ]] && return
    last=${{last//\\\\/}}
    [[ $COMP_WORDBREAKS == *:* ]] && last=${{last%"${{last##*:}}"}} || last=
    for at in "${{!COMPREPLY[@]}}"; do COMPREPLY[at]=$(printf %q "${{COMPREPLY[at]#"$last"}}"); done
}}
complete -o default -F _{PROG} {PROG}
""",
    "zsh": f"""\
#compdef {PROG}
_{PROG}() {{
    local -a found
    found=("${{(@f)$({PROG} completion zsh -- "${{(@)words[2,CURRENT]}}" 2>/dev/null)}}")
    if [[ -n "${{found[*]}}" ]]; then compadd -a found; else _files; fi
}}
compdef _{PROG} {PROG}
""",
    "fish": f"""\
function __{PROG}_words
    set -l words (commandline -opc) (commandline -ct)
    {PROG} completion fish -- $words[2..-1] 2>/dev/null
end
complete -c {PROG} -a '(__{PROG}_words)'
""",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Print a script that completes commands, options, their choices and ids of clips.\n\n"
        f'  bash:  eval "$({PROG} completion bash)"      in ~/.bashrc\n'
        f'  zsh:   eval "$({PROG} completion zsh)"       in ~/.zshrc, after compinit\n'
        f"  fish:  {PROG} completion fish | source       in ~/.config/fish/config.fish"
    )
    parser.add_argument("shell", metavar="SHELL", choices=tuple(_SCRIPTS), help="bash, zsh or fish")
    parser.add_argument("words", nargs="*", help=argparse.SUPPRESS)


def run(args: argparse.Namespace) -> int:
    """Print the script, or the candidates for the last of the words."""
    if not args.words:
        sys.stdout.write(_SCRIPTS[args.shell])
        return ExitCode.OK
    from .main import create_parser

    *before, last = map(_unquoted, args.words)
    found = {each for each in _candidates(create_parser(), before, last) if each.startswith(last)}
    # A name with a newline would be two candidates.
    sys.stdout.writelines(f"{each}\n" for each in sorted(found) if each.isprintable())
    return ExitCode.OK


def _unquoted(word: str) -> str:
    """Return a word as a command gets it; its closing quote may be missing."""
    for end in ("", '"', "'", "\\"):
        with suppress(ValueError):
            return "".join(shlex.split(word + end))
    return word


def _candidates(parser: argparse.ArgumentParser, before: list[str], last: str) -> Iterator[str]:
    """Yield what may stand behind the words `before`; `last` is the beginning of it."""
    if isinstance(parser, CommandParser):
        parser.complete()
    commands = _commands(parser)
    for position, word in enumerate(before):
        if word in commands:
            return (yield from _candidates(commands[word], before[position + 1 :], last))
    option = parser._option_string_actions.get(before[-1]) if before else None
    if option is not None and option.nargs != 0:
        yield from map(str, option.choices or ())
    elif last.startswith("-"):
        yield from option_strings(parser)
    elif INNER in last or last.endswith(":"):
        path = last.rpartition(INNER)[0] or last.rstrip(":")
        yield from (f"{path}{INNER}{name}" for name in _names(path))
    else:
        yield from commands
        if any(
            each.metavar in ("ID", "NAME") and not each.option_strings for each in parser._actions
        ):
            yield from _names(next(filter(os.path.exists, before), ""))


def _commands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """Return the parsers of the commands of a complete parser, by name."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return {name: each for name, each in action.choices.items() if len(name) > 1}
    return {}


def _names(path: str) -> Iterator[str]:
    """Yield the name of each array, clip or stream in a file; URLs are not asked."""
    with suppress(BloscpackError, OSError, ValueError, ImportError):
        if os.path.exists(path):
            filetype, source = open_input(Place(path))
            with closing(source):
                names: Iterable[str] = (
                    Archive(source) if filetype is ARCHIVES else frames_of(filetype, source)
                )
                yield from map(str, names)
