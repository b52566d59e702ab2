"""Fail unless mypy finds the mistakes planted in a page of user code, and nothing else.

The page is checked without its ignore comments: each of them gives the line and the code of an
error that must be reported.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
PAGE = REPOSITORY / "tests" / "typing" / "planted_errors.py"
IGNORE = re.compile(r"  # type: ignore\[([a-z-]+)\]")
ERROR = re.compile(r"^(.*?):(\d+): error: .*\[([a-z-]+)\]$", re.MULTILINE)
COUNT = 5


def main() -> int:
    """Print each mistake that is not found and each other error, and return the exit code."""
    text = PAGE.read_text()
    planted = {
        (number, found[1])
        for number, line in enumerate(text.splitlines(), 1)
        if (found := IGNORE.search(line))
    }
    name = str(PAGE.relative_to(REPOSITORY))
    with tempfile.TemporaryDirectory() as folder:
        shadow = Path(folder) / "page.py"
        shadow.write_text(IGNORE.sub("", text))
        # In place of the page, under its name: mypy's cache would report the name of the last copy.
        run = subprocess.run(  # noqa: S603 - a fixed command
            [
                *(sys.executable, "-m", "mypy", "--strict", "--hide-error-context"),
                *("--no-error-summary", "--shadow-file", name, str(shadow), name),
            ],
            cwd=REPOSITORY,
            capture_output=True,
            text=True,
            check=False,
        )
    errors = [
        (Path(path) == Path(name), int(line), code)
        for path, line, code in ERROR.findall(run.stdout)
    ]
    found = {(line, code) for on_page, line, code in errors if on_page}
    faults = [
        *(f":{line}: mypy does not find the planted [{code}]" for line, code in planted - found),
        *(f":{line}: mypy finds [{code}], not planted" for line, code in found - planted),
    ]
    if len(planted) != COUNT:
        faults.append(f": {len(planted)} mistakes are planted, expected {COUNT}")
    # 1: errors were found; others, such as 2, are failures of mypy itself.
    if not faults and len(errors) == COUNT and run.returncode == 1 and not run.stderr:
        return 0
    sys.stdout.writelines(f"{name}{fault}\n" for fault in sorted(faults))
    sys.stdout.write(run.stdout + run.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
