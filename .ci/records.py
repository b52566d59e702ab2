"""Extension of griffe: options that a function takes as a record stand in its signature.

The reference then has the signatures that `help` shows of functions with `explain_keywords`:
``**options: Unpack[SaveOptions]`` becomes ``chunks``, ``codec`` and so on. Their defaults are in
the docstring.
"""

import ast
import re
from pathlib import Path
from typing import Any

import griffe

PACKAGE = Path(__file__).resolve().parents[1] / "bloscpack"


def records() -> dict[str, ast.ClassDef]:
    """Return the classes of the package that are a record, by name."""
    trees = (ast.parse(path.read_text("utf-8")) for path in PACKAGE.rglob("*.py"))
    classes = (node for tree in trees for node in tree.body if isinstance(node, ast.ClassDef))
    return {node.name: node for node in classes if any(key.arg == "total" for key in node.keywords)}


RECORDS = records()


def fields(record: str) -> dict[str, str]:
    """Return the names and annotations of a record, those of its base first."""
    node = RECORDS[record]
    found = {}
    for base in map(ast.unparse, node.bases):
        found |= fields(base) if base in RECORDS else {}
    own = [each for each in node.body if isinstance(each, ast.AnnAssign)]
    return found | {ast.unparse(each.target): ast.unparse(each.annotation) for each in own}


class Records(griffe.Extension):
    """Put the options in place of the record."""

    def on_function(self, *, func: griffe.Function, **_: Any) -> None:
        """Change the parameters of a function that takes a record."""
        if not any("explain_keywords" in str(each.value) for each in func.decorators):
            return
        for parameter in list(func.parameters):
            record = re.fullmatch(r"Unpack\[(\w+)\]", str(parameter.annotation))
            if record and parameter.kind is griffe.ParameterKind.var_keyword:
                del func.parameters[parameter.name]
                for name, annotation in fields(record[1]).items():
                    func.parameters.add(
                        griffe.Parameter(
                            name,
                            annotation=annotation,
                            kind=griffe.ParameterKind.keyword_only,
                            default="...",
                        )
                    )
