"""Hooks of mkdocs.yml: pages that are not in docs/, links that leave it, and a check of the result.

The README is the front page, CHANGELOG.md a page, and the reference is one page for each public
module, and one for the options of all commands (commands.py). Public modules, names and parameters
are those of tests/frozen/interface.json, which tests compare with the package; their text comes
from docstrings.
"""

import ast
import html
import json
import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

sys.path.insert(0, str(Path(__file__).parent))
import commands

REPOSITORY = Path(__file__).resolve().parents[1]
INTERFACE = json.loads((REPOSITORY / "tests" / "frozen" / "interface.json").read_text("utf-8"))
# Pages outside docs/, by their path from there.
OUTSIDE = {
    "../README.md": "index.md",
    "../CHANGELOG.md": "changes.md",
    "../SECURITY.md": "security.md",
}
OPTIONS = "reference/commands.md"
# Attributes that only base classes describe.
INHERITED = {"all_meta", "codec_id", "json_storage", "lock", "open_dataset_parameters"}
INHERITED |= {"dtype", "reads_configuration", "vid_storage"}


def names_of(module: str) -> list[str]:
    """Return the names of a public module: functions first."""
    names = [name for name, value in INTERFACE[module].items() if value != "module"]
    return sorted(names, key=lambda name: (name[0].isupper(), name))


def reference_path(module: str) -> str:
    """Return the path of a module's page in docs/."""
    return f"reference/{module.removeprefix('bloscpack.')}.md"


def home_of(module: str, name: str) -> str:
    """Return the dotted path of a public name, of its definition where a module has its name."""
    package = REPOSITORY.joinpath(*module.split("."))
    if not any((package / each).exists() for each in (f"{name}.py", f"{name}/__init__.py")):
        return f"{module}.{name}"
    text = (package / "__init__.py").read_text("utf-8")
    found = re.search(rf"^ *from \.([\w.]+) import .*\b{name}\b", text, re.MULTILINE)
    return f"{module}.{found[1]}.{name}" if found else f"{module}.{name}"


def reference_page(module: str) -> str:
    """Return the Markdown of a module's page: a directive for each name."""
    options = "{members: false, show_root_heading: false, show_root_toc_entry: false}"
    summary = f"::: {module}\n    options: {options}\n"
    names = ""
    for name in names_of(module):
        names += f"\n::: {home_of(module, name)}\n    options:\n      heading: {name}\n"
        if module.endswith(".exceptions"):  # each has the methods of the first
            names += f"      inherited_members: {str(name == 'BloscpackError').lower()}\n"
        if name.endswith("Layout"):  # its fields are class attributes with a value
            names += "      show_if_no_docstring: true\n"
    return f"# `{module}`\n\n{summary}{names}"


def on_config(config: Any) -> None:
    """Add the pages of the reference to the navigation."""
    [pages] = [each["Reference"] for each in config.nav if "Reference" in each]
    pages += [{module.removeprefix("bloscpack."): reference_path(module)} for module in INTERFACE]
    [pages] = [each["Command line"] for each in config.nav if "Command line" in each]
    pages.append({"Options": OPTIONS})


def on_files(files: Files, config: Any) -> None:
    """Add the pages that are not in docs/."""
    for source, path in OUTSIDE.items():
        text = (REPOSITORY / "docs" / source).read_text("utf-8")
        text = re.sub(r"(\]\(|\")docs/", r"\1", text)
        text = re.sub(r"\[([^]]*)\]\((?:bench|tests)/[^)]*\)", r"\1", text)  # not on the site
        if path == "index.md":
            text = f"---\nhide: [navigation]\n---\n{text}"
        files.append(File.generated(config, path, content=text))
    for module in INTERFACE:
        files.append(File.generated(config, reference_path(module), content=reference_page(module)))
    files.append(File.generated(config, OPTIONS, content=commands.page()))


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Point links to pages outside docs/ to their place on the site."""
    root = "../" * page.file.src_uri.count("/")
    for source, path in OUTSIDE.items():
        markdown = markdown.replace(f"]({root}{source}", f"]({root}{path}")
        if page.file.src_uri in OUTSIDE.values():
            markdown = markdown.replace(f"]({source.removeprefix('../')}", f"]({path}")
    if page.file.src_uri == "api.md":  # names in its tables lead to the reference
        markdown = re.sub(r"^\| .*? \| ", lambda row: linked(row[0]), markdown, flags=re.MULTILINE)
    if page.file.src_uri == "cli.md":
        markdown = markdown.replace(
            "a page with all of them", f"[a page]({OPTIONS}) with all of them"
        )
    return markdown


def linked(text: str) -> str:
    """Return a text whose names, such as `bp.save` and `frames.open`, link to their reference."""

    def link(name: re.Match[str]) -> str:
        folder, _, last = name[1].rpartition(".")
        module = {"": "bloscpack", "bp": "bloscpack"}.get(folder, f"bloscpack.{folder}")
        if last not in INTERFACE.get(module, ()) or INTERFACE[module][last] == "module":
            return name[0]
        return f"[{name[0]}][{home_of(module, last)}]"

    return re.sub(r"`([\w.]+)`", link, text)


def parameters(signature: str) -> list[str] | None:
    """Return the parameters' names of a signature such as ``(a, *, b: int = 1) -> None``."""
    try:
        [function] = ast.parse(f"def f{re.sub(r'<[^>]*>', 'None', signature)}: ...").body
    except SyntaxError:  # the value of a constant
        return None
    found = function.args  # type: ignore[attr-defined]
    every = [*found.posonlyargs, *found.args, found.vararg, *found.kwonlyargs, found.kwarg]
    return [each.arg for each in every if each is not None and each.arg not in ("self", "cls")]


def shown_members(page: str) -> dict[str, str]:
    """Return the HTML of each documented name on a page, by its full name."""
    parts = re.split(r'<h\d id="(bloscpack\.[^"]+)"', page)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def faults(name: str, value: Any, shown: dict[str, str]) -> list[str]:
    """Return what is missing of a public name."""
    if name not in shown:
        return [f"{name} is missing"]
    expected = parameters(str(value.get("call") if isinstance(value, dict) else value))
    # Overloads come before the signature that has all parameters.
    blocks = re.findall(r'<div class="[^"]*doc-signature.*?</pre>', shown[name], re.DOTALL)
    texts = [html.unescape(re.sub(r"<[^>]*>", "", block)).strip() for block in blocks] or [""]
    if not expected or expected == ["args"] or "doc-symbol-attribute" in shown[name][:400]:
        return []  # a constant, a class without parameters, or an alias
    if not re.match(r"\w+\s*\(", texts[0]):  # named tuples: their fields
        members = {each.rpartition(".")[2] for each in shown if each.startswith(f"{name}.")}
        words = members | {"args", "kwargs", *re.findall(r"\w+", shown[name])}
        return [f"{name}: no parameter {each}" for each in expected if each not in words]
    found = [parameters(text[text.find("(") :]) for text in texts]
    return [] if expected in found else [f"{name}: parameters {found}, expected {expected}"]


def on_post_build(config: Any) -> None:
    """Compare the built reference with the public names and their parameters."""
    found = []
    for module, names in INTERFACE.items():
        path = Path(config.site_dir, reference_path(module)).with_suffix("") / "index.html"
        page = path.read_text("utf-8")
        shown = shown_members(page)
        for name in names_of(module):
            found += faults(home_of(module, name), names[name], shown)
            if not isinstance(names[name], dict):
                continue
            for attribute, value in names[name].get("attributes", {}).items():
                full = f"{module}.{name}.{attribute}"
                if full in shown:
                    found += faults(full, value, shown)
                elif attribute in INHERITED or attribute.startswith("__"):
                    continue
                elif not re.search(rf"\b{attribute}\b", page):
                    found.append(f"{full} is missing")
    if found:
        raise PluginError("the reference differs from the package:\n" + "\n".join(found))
