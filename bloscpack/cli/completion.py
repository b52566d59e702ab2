"""``blpk completion``: scripts that complete command lines in bash, zsh and fish.

A script only calls ``blpk completion SHELL -- WORD...``, which finds the candidates in the parser:
they are always those of the installed version. Without candidates, the shell completes file names.
"""

import argparse
import os
import sys
from collections.abc import Iterator
from contextlib import suppress

from ..exceptions import BloscpackError
from .console.options import CommandParser, option_strings
from .console.output import PROG
from .console.status import ExitCode
from .frames.clips import open_clips

_SCRIPTS = {
    "bash": f"""\
_{PROG}() {{
    local IFS=$'\\n'
    COMPREPLY=($({PROG} completion bash -- "${{COMP_WORDS[@]:1:COMP_CWORD}}" 2>/dev/null))
    local at
    for at in "${{!COMPREPLY[@]}}"; do COMPREPLY[at]=$(printf %q "${{COMPREPLY[at]}}"); done
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
    """Add the description and the arguments."""
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

    *before, last = args.words
    found = sorted(
        {each for each in _candidates(create_parser(), before, last) if each.startswith(last)}
    )
    sys.stdout.writelines(f"{each}\n" for each in found)
    return ExitCode.OK


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
    else:
        yield from commands
        if any(action.metavar == "ID" and not action.option_strings for action in parser._actions):
            yield from _ids(before)


def _commands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """Return the parsers of the commands of a complete parser, by name."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return {name: each for name, each in action.choices.items() if len(name) > 1}
    return {}


def _ids(arguments: list[str]) -> Iterator[str]:
    """Yield the ids of clips in the first file among `arguments`."""
    found = [name for name in arguments if os.path.exists(name)]
    with suppress(BloscpackError, OSError, ValueError):  # not a store: there is nothing to offer
        if found:
            with open_clips(found[0], None) as clips:
                yield from map(str, clips)
