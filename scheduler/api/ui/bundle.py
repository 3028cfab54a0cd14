"""`bundle`: the ES modules of the page as one script, so that a browser sends one request for all of them.

    import { a, b as c } from "./x.js";      const { a, b: c } = x_js;
    export function f() {}                   function f() {}  …  return { f };

Each module is a function that runs once, after those that it imports, so names of different modules never clash.
"""

import re
from collections.abc import Callable

_IMPORT = re.compile(r'^import \{([^}]*)\} from "\./([\w-]+)\.js";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:function|class|const)\*? (\w+))", re.MULTILINE)
_MODULE_SYNTAX = re.compile(r"^(?:import|export)\b.*", re.MULTILINE)
# Whole lines only: `//` inside of a line may be part of a text.
_COMMENT = re.compile(r"^[ \t]*(?://.*|/\*\*(?:.|\n)*?\*/[ \t]*)\n", re.MULTILINE)


def bundle(entry: str, read: Callable[[str], str]) -> str:
    """Return one script that runs the module `entry`; `read` returns the source of a module by its name."""
    sources: dict[str, str] = {}
    _collect(entry, read, sources, ())
    modules = "\n".join(
        f"const {_variable(name)} = (() => {{\n{_convert(name, sources[name])}}})();" for name in sources
    )
    return f'"use strict";\n(() => {{\n{modules}\n}})();\n'


def _collect(name: str, read: Callable[[str], str], sources: dict[str, str], importers: tuple[str, ...]) -> None:
    """Add the sources of a module and of all that it imports, each after those that it imports."""
    if name in importers:
        raise ValueError(f"Modules import each other: {' → '.join((*importers, name))}.")
    if name in sources:
        return
    source = read(name)
    for _, imported in _IMPORT.findall(source):
        _collect(imported, read, sources, (*importers, name))
    sources[name] = source


def _convert(name: str, source: str) -> str:
    """Return a module as the body of a function that returns its exports."""
    exports = _EXPORT.findall(source)
    body = _EXPORT.sub("", _IMPORT.sub(_convert_import, _COMMENT.sub("", source)))
    if rest := _MODULE_SYNTAX.search(body):
        raise ValueError(f"{name}.js: {rest[0][:100]!r} is not supported. Import and export by name, on one line.")
    return f"{body}return {{ {', '.join(exports)} }};\n"


def _convert_import(match: re.Match[str]) -> str:
    names = ", ".join(name.strip().replace(" as ", ": ") for name in match[1].split(","))
    return f"const {{ {names} }} = {_variable(match[2])};\n"


def _variable(name: str) -> str:
    return name.replace("-", "_") + "_js"
