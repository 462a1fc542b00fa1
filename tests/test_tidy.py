"""The shape of the house, as tests: who may import whom, how large a room may be, what is not left.

The rules are the tables below. If a rule is in the way, change its table in the same commit, with the reason.
"""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())

# Layer -> the other layers that it may import. `pinfold` is the public face: what lies in that folder itself.
ARROWS: dict[str, set[str]] = {
    "core": set(),
    "backends": {"core"},
    "transport": {"core"},
    "chaos": {"core", "backends", "transport"},
    "pinfold": {"core", "backends", "transport", "chaos"},
}

# The standard library as far as the core may use it: nothing that knows the time, the machine, or chance.
CORE_STDLIB = {
    "__future__", "abc", "bisect", "collections", "contextlib", "enum", "functools", "hashlib", "heapq",
    "itertools", "math", "operator", "re", "struct", "types", "typing", "zlib",
}  # fmt: skip

# What the core may not call: answers that differ from run to run, or that reach outside.
CORE_BANNED_CALLS = {"breakpoint", "eval", "exec", "hash", "id", "input", "open", "print"}

# Heavy library -> the layers in which one module (and no second one) may import it.
HEAVY: dict[str, set[str]] = {
    "click": {"pinfold"},
    "lmdb": {"backends"},
    "msgspec": {"backends", "transport"},
    "numpy": {"backends", "transport"},
    "xxhash": {"backends"},
    "zmq": {"transport"},
}
LIGHT = {"attr", "attrs"}

# A library whose one module is a family: click is the grammar of the command line, and the command line is many commands.
# What is not a `cli_*` module stays free of it.
FAMILIES = {"click": "pinfold/cli_"}

# A distribution whose import name is another one.
IMPORT_NAMES = {"pyzmq": "zmq"}

FILE_LINES_MAX = 400
FUNCTION_LINES_MAX = 70
# Path, or path::function -> why it is one piece all the same.
LARGE: dict[str, str] = {}

SOURCE_FOLDERS = [*ARROWS, "proofs", "tests", "examples", "benchmarks"]
TEXT_SUFFIXES = {".cfg", ".json", ".md", ".py", ".tla", ".toml", ".txt", ".yaml", ".yml"}

# In pieces, so that this file does not find itself.
UNFINISHED = re.compile("|".join(["TO" + "DO", "FIX" + "ME", r"\bX" + r"XX\b", "NotImplemented" + "Error"]))
MACHINE_PATH = re.compile("(?<![\\w.~])/(?:" + "|".join(["home", "root", "work", "Users", "farm"]) + ")/")

INVARIANT_ID = re.compile(
    r"\b(?:OWN|EPOCH|FENCE|INV|COPY|BYTES|USE|HOLD|ONCE|REFUSE|MOVE|DUR|CAP|ROUTE|ANSWER|LIVE|DET|LIN)-\d+\b"
)


def sources(*folders: str) -> list[Path]:
    """The Python files of these top-level folders, in a stated order, each once (links are not followed)."""
    return sorted(
        path
        for folder in folders
        for path in (ROOT / folder).rglob("*.py")
        if path.resolve() == path  # not through the links in pinfold/
    )


def texts() -> list[Path]:
    loose = [
        path
        for path in ROOT.iterdir()
        if path.is_file() and (path.suffix in TEXT_SUFFIXES or path.name == "Makefile")
    ]
    inner = [
        path
        for folder in [*SOURCE_FOLDERS, "specs", "docs", "deploy"]
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and path.suffix in TEXT_SUFFIXES and path.resolve() == path
    ]
    return sorted(loose + inner)


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), filename=str(path))


def imports(path: Path) -> Iterator[tuple[int, str]]:
    """Each name that a module imports, with its line, absolute: `from . import ids` is `pinfold.core.ids`."""
    layer = path.relative_to(ROOT).parts[0]
    package = ["pinfold"] if layer == "pinfold" else ["pinfold", layer]
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            stem = ".".join([*base, *filter(None, [node.module])])
            yield from ((node.lineno, f"{stem}.{alias.name}") for alias in node.names)


def top(module: str) -> str:
    return module.partition(".")[0]


def layer_of(module: str) -> str:
    second = module.split(".")[1:2]
    return second[0] if second and second[0] in ARROWS else "pinfold"


def test_imports_follow_the_arrows() -> None:
    wrong = [
        f"{name(path)}:{line}: {layer} imports {module}"
        for layer, allowed in ARROWS.items()
        for path in sources(layer)
        for line, module in imports(path)
        if top(module) in ARROWS  # a bare `core` counts too
        and (top(module) != "pinfold" or layer_of(module) not in {layer, *allowed})
    ]
    assert wrong == []


def test_core_imports_only_what_is_deterministic() -> None:
    allowed = CORE_STDLIB | LIGHT | {"pinfold"}
    wrong = [
        f"{name(path)}:{line}: {module}"
        for path in sources("core")
        for line, module in imports(path)
        if top(module) not in allowed
    ]
    assert wrong == []


def test_each_heavy_library_is_imported_in_one_module_of_its_layers() -> None:
    users: dict[tuple[str, str], set[str]] = {}
    for layer in ARROWS:
        for path in sources(layer):
            for _, module in imports(path):
                if top(module) not in sys.stdlib_module_names | LIGHT | set(ARROWS):
                    users.setdefault((top(module), layer), set()).add(name(path))
    wrong = {
        use: paths
        for use, paths in users.items()
        if use[1] not in HEAVY.get(use[0], set())
        or (len(paths) > 1 and not all(path.startswith(FAMILIES.get(use[0], " ")) for path in paths))
    }
    assert wrong == {}


def test_each_heavy_library_is_in_an_extra() -> None:
    extras = PYPROJECT["project"]["optional-dependencies"]
    declared = {
        IMPORT_NAMES.get(found.group(), found.group())
        for extra, lines in extras.items()
        if extra not in {"all", "dev", "prove", "server"}  # tools are no library of a layer
        for line in lines
        if (found := re.match(r"[\w-]+", line))
    }
    assert declared == set(HEAVY)


def functions(node: ast.AST, prefix: str = "") -> Iterator[tuple[str, int]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            if not isinstance(child, ast.ClassDef):
                yield prefix + child.name, (child.end_lineno or child.lineno) - child.lineno + 1
            yield from functions(child, f"{prefix}{child.name}.")
        else:
            yield from functions(child, prefix)


def test_files_and_functions_have_a_readable_size() -> None:
    large: dict[str, int] = {}
    for path in sources(*SOURCE_FOLDERS):
        lines = len(path.read_text().splitlines())
        if lines > FILE_LINES_MAX:
            large[name(path)] = lines
        large.update({f"{name(path)}::{f}": n for f, n in functions(tree(path)) if n > FUNCTION_LINES_MAX})
    assert {piece: lines for piece, lines in large.items() if piece not in LARGE} == {}
    assert set(LARGE) - set(large) == set(), "no longer large: take them off the table"
    assert all(LARGE.values()), "each exception has its reason"


def test_core_calls_nothing_that_differs_from_run_to_run() -> None:
    wrong = [
        f"{name(path)}:{node.lineno}: {node.func.id}()"
        for path in sources("core")
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in CORE_BANNED_CALLS
    ]
    assert wrong == []


def is_set(node: ast.expr) -> bool:
    """Whether an expression is a set at sight: a display, a comprehension, a call of `set` or `frozenset`."""
    return isinstance(node, ast.Set | ast.SetComp) or (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in {"set", "frozenset"}
    )


def test_core_never_iterates_over_a_set_in_no_stated_order() -> None:
    loops = (ast.For, ast.comprehension)
    makers = {"list", "tuple", "iter", "next", "enumerate", "dict"}
    wrong = []
    for path in sources("core"):
        for node in ast.walk(tree(path)):
            if isinstance(node, loops) and is_set(node.iter):
                wrong.append(f"{name(path)}:{node.iter.lineno}: a loop over a set")
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in makers:
                wrong += [
                    f"{name(path)}:{arg.lineno}: {node.func.id}() of a set"
                    for arg in node.args
                    if is_set(arg)
                ]
    assert wrong == []


def test_no_handler_catches_everything_in_silence() -> None:
    wrong = [
        f"{name(path)}:{node.lineno}"
        for path in sources(*SOURCE_FOLDERS)
        for node in ast.walk(tree(path))
        if isinstance(node, ast.ExceptHandler)
        and (
            node.type is None
            or (
                isinstance(node.type, ast.Name)
                and node.type.id in {"Exception", "BaseException"}
                and is_silent(node.body)
            )
        )
    ]
    assert wrong == []


def is_silent(body: list[ast.stmt]) -> bool:
    return all(
        isinstance(line, ast.Pass) or (isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant))
        for line in body
    )


@pytest.mark.parametrize("pattern", [UNFINISHED, MACHINE_PATH], ids=["unfinished", "machine-path"])
def test_nothing_unfinished_and_no_path_of_one_machine_is_left(pattern: re.Pattern[str]) -> None:
    wrong = [
        f"{name(path)}:{number}: {line.strip()}"
        for path in texts()
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if pattern.search(line)
    ]
    assert wrong == []


def test_each_package_says_what_it_is_and_each_module_too() -> None:
    assert [name(path) for path in sources(*ARROWS) if not ast.get_docstring(tree(path))] == []


def test_the_ids_of_the_invariants_are_the_same_in_the_specs_the_code_and_all_that_quotes_them() -> None:
    from pinfold.core.invariants import INVARIANTS

    coded = set(INVARIANTS)
    specified = set(INVARIANT_ID.findall((ROOT / "specs" / "invariants.md").read_text()))
    assert specified == coded
    quoted = {(name(path), quote) for path in texts() for quote in INVARIANT_ID.findall(path.read_text())}
    assert {pair for pair in quoted if pair[1] not in coded} == set()
