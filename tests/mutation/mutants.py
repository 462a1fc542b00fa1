"""The mutants of one module: mutmut's operators, and two of our own, on every node of the source.

mutmut itself changes function bodies only and switches between them at run time. Here the table is data that is made at import,
so that a mutant is a whole source; what of it is run, and how fast, is for `trial.py` to find out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from hashlib import blake2b

import libcst as cst
from attrs import frozen
from libcst.metadata import CodeRange, MetadataWrapper, PositionProvider
from mutmut.mutation.mutators import mutation_operators, operator_arg_removal, operator_string

IMPORT_TIME = ""
"""The `function` of a mutant in what runs when the module is imported."""


@frozen
class Mutant:
    """`module` with one change. `function` is the outermost function around it, as `Class.name`."""

    module: str
    function: str
    line: int
    change: str
    source: str
    key: str
    """The same for the same change of the same function, wherever that stands."""

    @property
    def name(self) -> str:
        return f"{self.module}:{self.line} {self.function or 'module'}: {self.change}"


def operator_no_call(node: cst.Expr) -> Iterable[cst.CSTNode]:
    """Leave out a call that stands for itself: what it was for does not happen."""
    if isinstance(node.value, cst.Call):
        yield cst.Pass()


def opposite(test: cst.BaseExpression) -> Iterable[cst.CSTNode]:
    """Ask the opposite of a condition that no operator of mutmut changes: a name, an attribute, a call."""
    if isinstance(test, cst.Name | cst.Attribute | cst.Call):
        yield cst.UnaryOperation(cst.Not(), test)


OPERATORS = (*mutation_operators, (cst.Expr, operator_no_call))

_LEFT_ALONE = cst.Annotation | cst.Decorator | cst.Import | cst.ImportFrom | cst.FormattedStringText
"""What says nothing about what the code does, or is somebody else's."""


def _worth_asking(operator: object, node: cst.CSTNode, changed: list[cst.CSTNode]) -> list[cst.CSTNode]:
    """Less of what asks the same question again, or is no call at all."""
    if operator is operator_string:
        return changed[:1]  # another text; upper and lower case are as good
    if operator is operator_arg_removal:
        # An argument left out before the last positional one shifts the others: each of those calls fails for its number.
        assert isinstance(node, cst.Call)
        whole = len(node.args)
        by_place = sum(arg.keyword is None and not arg.star for arg in node.args)
        return [
            one for one in changed
            if isinstance(one, cst.Call) and (len(one.args) == whole or one.args[: by_place - 1] == node.args[: by_place - 1])
        ]  # fmt: skip
    return changed


class _Finder(cst.CSTVisitor):
    """Each `(function, line, node, changed node)`, from the top of the module to its end."""

    METADATA_DEPENDENCIES = (PositionProvider,)

    def __init__(self) -> None:
        self.found: list[tuple[str, CodeRange, cst.CSTNode, cst.CSTNode]] = []
        self._classes: list[str] = []
        self._function = IMPORT_TIME
        self._depth = 0

    def on_visit(self, node: cst.CSTNode) -> bool:
        if isinstance(node, _LEFT_ALONE):
            return False
        if isinstance(node, cst.ClassDef):
            self._classes.append(node.name.value)
        if isinstance(node, cst.Parameters) and self._depth == 1:
            self._defaults(node)
            return False
        if isinstance(node, cst.FunctionDef):
            self._depth += 1
            if self._depth == 1:
                self._function = ".".join([*self._classes, node.name.value])
        self._mutate(node)
        return True

    def on_leave(self, original_node: cst.CSTNode) -> None:
        if isinstance(original_node, cst.ClassDef):
            self._classes.pop()
        if isinstance(original_node, cst.FunctionDef):
            self._depth -= 1
            if self._depth == 0:
                self._function = IMPORT_TIME

    def _defaults(self, node: cst.Parameters) -> None:
        """Default values are made at import."""
        function, self._function, self._depth = self._function, IMPORT_TIME, self._depth + 1
        for parameter in (*node.params, *node.kwonly_params):
            if parameter.default is not None:
                parameter.default.visit(self)
        self._function, self._depth = function, self._depth - 1

    def _mutate(self, node: cst.CSTNode) -> None:
        for kind, operator in OPERATORS:
            if isinstance(node, kind):
                self._add(node, _worth_asking(operator, node, list(operator(node))))
        if isinstance(node, cst.If | cst.While):
            self._add(node.test, opposite(node.test))

    def _add(self, node: cst.CSTNode, changed: Iterable[cst.CSTNode]) -> None:
        for other in changed:
            self.found.append((self._function, self.get_metadata(PositionProvider, node), node, other))


def mutants_of(module: str, source: str) -> list[Mutant]:
    """Every mutant of `source`, each once, from top to bottom. (Whether one is Python at all is found out when it is tried.)"""
    wrapper = MetadataWrapper(cst.parse_module(source), unsafe_skip_copy=True)
    finder = _Finder()
    wrapper.visit(finder)
    seen = {source}
    times: Counter[str] = Counter()
    lines = source.splitlines(keepends=True)
    made: list[Mutant] = []
    for function, span, node, changed in finder.found:
        text, change = _replaced(wrapper.module, lines, span, node, changed)
        if text in seen:
            continue
        seen.add(text)
        what = f"{module} {function} {change}"
        times[what] += 1
        key = blake2b(f"{what} {times[what]}".encode(), digest_size=8).hexdigest()
        made.append(Mutant(module, function, span.start.line, change, text, key))
    return made


def _replaced(
    module: cst.Module, lines: list[str], span: CodeRange, node: cst.CSTNode, changed: cst.CSTNode
) -> tuple[str, str]:
    """The whole text with `changed` where `node` was, and the change in one line."""
    if isinstance(node, cst.BaseCompoundStatement):  # its own indentation is not in its span
        whole = module.deep_replace(node, changed)
        assert isinstance(whole, cst.Module)
        return whole.code, f"a case left out of line {span.start.line}"
    first, last = span.start.line - 1, span.end.line - 1
    before = "".join(lines[first : last + 1])
    after = lines[first][: span.start.column] + module.code_for_node(changed) + lines[last][span.end.column :]
    text = "".join(lines[:first]) + after + "".join(lines[last + 1 :])
    return text, f"{' '.join(before.split())}  =>  {' '.join(after.split())}"
