"""Fail on phrases that are not plain English: ``python .ci/words.py`` lists file, line and text.

The list holds habits of ours, found by readers who had to read a sentence twice. It is a floor; a
sentence can be obscure without any of them.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
PLACES = (
    "bloscpack",
    "ext",
    "bench",
    "tests",
    "docs",
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
)
SUFFIXES = {".h", ".js", ".md", ".pxd", ".py", ".pyi", ".pyx"}
PHRASES = re.compile(
    r"(?<![Tt]here )\b(is|are|was) no\b(?! longer| more than| less than)"
    r"|(?<![Tt]here )\bis none\b|\bnone is\b"
    r"|(?<!\.)\b(tell|tells|told|telling)\b(?!\()"  # not the method of a file
    r"|\banew\b"
    r"|\b(whoever|whatever|somebody|nobody|anybody)\b"
    r"|\bby (then|now)\b|\bmeanwhile\b"
    r"|\bso (many|much)\b"
    r"|\bbears? (it|this|that) out\b"
    r"|\bhad before\b"
)
SUMMARY = re.compile(r'(?:"""\W*|^ *)(What|Whoever|Of)\b')
TEST = re.compile(r" *def (test_\w+)")


def files() -> Iterator[Path]:
    """Yield every file with prose of ours."""
    for place in PLACES:
        path = REPOSITORY / place
        found = [path] if path.is_file() else sorted(path.rglob("*"))
        yield from (each for each in found if each.suffix in SUFFIXES and each.is_file())


def main() -> int:
    """Print each phrase that was found, and return 1 if there is one."""
    count = 0
    for path in files():
        name = path.relative_to(REPOSITORY).as_posix()
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
            name_of_test = TEST.match(line)
            text = name_of_test[1].replace("_", " ") if name_of_test else line
            if not PHRASES.search(text) and not SUMMARY.search(text):
                continue
            count += 1
            sys.stdout.write(f"{name}:{number}: {line.strip()}\n")
    if count:
        sys.stderr.write(f'{count} lines to rewrite: see "Rules" in docs/contributing.md\n')
    return int(count > 0)


if __name__ == "__main__":
    sys.exit(main())
