"""Page of the site with the options of every command, made from the recorded help.

The help of all commands is in tests/frozen/transcripts.txt, which a test compares with `blpk`.
"""

import re
from pathlib import Path

TRANSCRIPTS = Path(__file__).resolve().parents[1] / "tests" / "frozen" / "transcripts.txt"
# Options of every command, which stand in the first section only.
COMMON = ("-h, --help", "-q, --quiet", "--no-progress")


def recorded_help() -> dict[str, str]:
    """Return the help of each command, by its name such as ``blpk vrs copy``."""
    text = TRANSCRIPTS.read_text("utf-8")
    found = re.findall(
        r"^\$ (blpk(?: [a-z-]+)*) +--help\n(.*?)(?=^\$ |\Z)", text, re.MULTILINE | re.DOTALL
    )
    return dict(found[::-1])  # the first of a name that is there again


def as_markdown(text: str) -> str:
    """Return a text in one line, in which no character has a meaning for Markdown."""
    return re.sub(r"[*|]", r"\\\g<0>", " ".join(text.split())).replace("<", "&lt;")


def table(lines: list[str], is_first: bool) -> str:
    """Return the arguments under a heading of the help as a table."""
    rows: list[list[str]] = []
    for line in lines:
        item = re.match(r" {2,4}(\S.*?)(?: {2,}(\S.*))?$", line)
        if item and not (rows and line.startswith(" " * 5)):
            rows.append([item[1], item[2] or ""])
        elif rows:
            rows[-1][1] += " " + line.strip()
    texts = [
        f"| `{name}` | {as_markdown(meaning)} |"
        for name, meaning in rows
        if name != "COMMAND" and (is_first or name not in COMMON)
    ]
    return "\n".join(["| | |", "| --- | --- |", *texts]) if texts else ""


def section(name: str, text: str) -> str:
    """Return the section of a command: its usage, its description and its arguments."""
    usage, *parts = text.strip().split("\n\n")
    usage = " ".join(usage.removeprefix("usage: ").split())
    result = [f"## {name}", f"```text\n{usage}\n```"]
    for part in parts:
        heading, *lines = part.split("\n")
        if heading.endswith(":") and lines and lines[0].startswith("  "):
            found = table(lines, name == "blpk")
            result += [f"*{heading}*", found] if found else []
        else:
            result.append(as_markdown(part))
    return "\n\n".join(result)


def page() -> str:
    """Return the Markdown of the page."""
    sections = [section(name, text) for name, text in sorted(recorded_help().items())]
    return "\n\n".join(["# Options of every command", *sections]) + "\n"
