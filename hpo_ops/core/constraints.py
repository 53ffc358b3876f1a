"""Constraints: inequalities of parameters and metrics, such as ``latency <= 2 * width``."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

_OPERATORS: dict[type[ast.AST], Callable[..., float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.USub: operator.neg,
}
_FUNCTIONS: dict[str, Callable[..., float]] = {"abs": abs, "min": min, "max": max, "log": math.log}
MAX_LENGTH = 200
UNDEFINED = 1e300
"""Violation of a constraint with a side that cannot be computed, such as a division by zero."""


@dataclass(frozen=True)
class Constraint:
    """An inequality ``left <= right`` or ``left >= right`` between two arithmetic expressions.

    The expressions consist of numbers and the names of parameters and metrics.

    >>> Constraint("width * depth <= 512").violation({"width": 64, "depth": 10})
    128
    """

    text: str

    def __post_init__(self) -> None:
        _ = self.names  # raises if the text is not a constraint

    @cached_property
    def _sides(self) -> tuple[ast.expr, ast.expr]:
        """Both sides of the inequality, ordered so that the constraint is ``first <= second``."""
        if len(self.text) > MAX_LENGTH:
            raise ValueError(
                f"has {len(self.text)} characters, but must have {MAX_LENGTH} or less"
            )
        try:
            tree = ast.parse(self.text, mode="eval").body
        except (SyntaxError, ValueError, RecursionError) as error:
            raise ValueError(f"is {self.text!r}, but must be like width * depth <= 512") from error
        match tree:
            case ast.Compare(left=left, ops=[ast.LtE()], comparators=[right]):
                return left, right
            case ast.Compare(left=left, ops=[ast.GtE()], comparators=[right]):
                return right, left
        raise ValueError(f"is {self.text!r}, but must have one <= or >=")

    @cached_property
    def names(self) -> frozenset[str]:
        """The names of the parameters and metrics in the constraint."""
        found: set[str] = set()
        for side in self._sides:
            _check(side, self.text, found)
        return frozenset(found)

    def violation(self, values: Mapping[str, object]) -> float | None:
        """Returns how far ``values`` violate the constraint; 0 or less if they satisfy it.

        Returns None if a name in the constraint has no number in ``values``.
        """
        numbers: dict[str, float] = {}
        for name in self.names:
            value = values.get(name)
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                return None
            numbers[name] = value
        left, right = self._sides
        try:
            return _evaluate(left, numbers) - _evaluate(right, numbers)
        except (ArithmeticError, ValueError):
            return UNDEFINED


def _check(node: ast.AST, text: str, names: set[str]) -> None:
    match node:
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            _check(left, text, names)
            _check(right, text, names)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            _check(operand, text, names)
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in _FUNCTIONS:
            for arg in args:
                _check(arg, text, names)
        case ast.Name(id=name):
            names.add(name)
        case ast.Constant(value=value) if type(value) in (int, float):
            pass
        case _:
            raise ValueError(
                f"is {text!r}, but may only have names, numbers, + - * /, "
                f"{', '.join(_FUNCTIONS)}, and one <= or >="
            )


def _evaluate(node: ast.AST, numbers: Mapping[str, float]) -> float:
    match node:
        case ast.BinOp(left=left, op=op, right=right):
            return _OPERATORS[type(op)](_evaluate(left, numbers), _evaluate(right, numbers))
        case ast.UnaryOp(op=op, operand=operand):
            return _OPERATORS[type(op)](_evaluate(operand, numbers))
        case ast.Call(func=ast.Name(id=name), args=args):
            return _FUNCTIONS[name](*(_evaluate(arg, numbers) for arg in args))
        case ast.Name(id=name):
            return numbers[name]
        case ast.Constant(value=value):
            return float(value) if isinstance(value, float) else int(value)  # type: ignore[arg-type]
    raise ValueError("not arithmetic")
