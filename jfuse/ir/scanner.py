"""Reads the small parts of the text form: names, literals, dimensions and types, with a place for every complaint."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, NoReturn

import numpy as np

from jfuse.base.errors import JfuseError
from jfuse.ir.dims import Dim, symbol
from jfuse.ir.literals import BYTES, STRING, parse_bytes, parse_word
from jfuse.ir.quantization import Quantization
from jfuse.ir.types import DType, HeldType, TensorType

_SPACE = re.compile(r"[ \t]*")
_BLANK = re.compile(r"(?:\s|#[^\n]*)*")
_WORD = re.compile(r"[A-Za-z_][\w.$/:-]*")
_KEY = re.compile(r"\w+")
_DTYPE = re.compile(rf"(?:{'|'.join(d.value for d in DType)})(?=\[)")
_HELD = re.compile(rf"({'|'.join(d.value for d in DType)})\[([\d?,]*|\*)\]")
_HOLDS = re.compile(rf"\{{(?:{_HELD.pattern} ?)+\}}")
DIGEST = re.compile(r"\d+B ([0-9a-f]{16})>")


class Scanner:
    """A position in a text, and what may stand there. Every method skips blanks first, but no line end.

    arrays: by digest, what is too long to be in the text.
    """

    def __init__(self, text: str, arrays: Mapping[str, np.ndarray]) -> None:
        self.text = text
        self.arrays = arrays
        self.pos = 0
        self._dims: dict[str, Dim] = {}

    def fail(self, expected: str, *, found: str | None = None, at: int | None = None) -> NoReturn:
        """Raise JfuseError for the present position, or for `at`."""
        self.pos = self.pos if at is None else at
        rest = self.text[self.pos :].split("\n")[0]
        raise JfuseError(
            "this is not the text of a graph",
            where=self.place(self.pos),
            expected=expected,
            found=found or (rest[:60] if rest else "the end of the line"),
        )

    def place(self, pos: int) -> str:
        """Line and column, counted from 1."""
        line_start = self.text.rfind("\n", 0, pos) + 1
        return f"line {self.text.count(chr(10), 0, pos) + 1}, column {pos - line_start + 1}"

    def skip(self) -> int:
        """Skip blanks; the position after them."""
        self.pos = self._after(_SPACE)
        return self.pos

    def skip_lines(self) -> int:
        """Skip blanks, line ends and comments; the position after them."""
        self.pos = self._after(_BLANK)
        return self.pos

    def peek(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """Match the pattern at the next token, without taking it."""
        return pattern.match(self.text, self.skip())

    def take(self, pattern: re.Pattern[str], expected: str) -> re.Match[str]:
        """Take the next token, which must match the pattern."""
        match = self.peek(pattern)
        if match is None:
            self.fail(expected)
        self.pos = match.end()
        return match

    def accept(self, literal: str) -> bool:
        """Whether `literal` is next; then it is skipped."""
        is_next = self.text.startswith(literal, self.skip())
        self.pos += len(literal) if is_next else 0
        return is_next

    def accept_line(self, literal: str) -> bool:
        """Whether `literal` is next, on this line or below; then it is skipped."""
        self.skip_lines()
        return self.accept(literal)

    def expect(self, literal: str) -> None:
        """Skip `literal`, which must be next."""
        if not self.accept(literal):
            self.fail(repr(literal))

    def at_line_end(self) -> bool:
        """Whether nothing but blanks is left on the line."""
        return self.skip() >= len(self.text) or self.text[self.pos] == "\n"

    def end(self) -> None:
        """Nothing but blanks and comments may follow."""
        if self.skip_lines() < len(self.text):
            self.fail("the end of the text")

    def string(self) -> str:
        """Read a string in double quotes, with JSON's escapes."""
        match = self.take(STRING, "a string in double quotes")
        try:
            value: str = json.loads(match[0])
        except json.JSONDecodeError as error:
            self.fail("a string in double quotes", found=str(error), at=match.start())
        return value

    def name(self, expected: str) -> str:
        """A word, or anything in double quotes."""
        return self.string() if self.peek(STRING) else self.take(_WORD, expected)[0]

    def type(self) -> TensorType:
        """Read a type: `f32[B,8]`, or `i8[B,8]{scale=(0.5,) zero_point=(3,) axis=0}`."""
        dtype = DType(self.take(_DTYPE, "a type, such as f32[B,8]")[0])
        self.expect("[")
        if self.accept("*]"):
            return TensorType((), dtype, ranked=False, holds=self._holds())
        dims: list[Dim] = []
        while not self.accept("]"):
            if dims:
                self.expect(",")
            start = self.skip()
            dims.append(self._dim(self._word(), start))
        shape, holds, start = tuple(dims), self._holds(), self.pos
        if not self.text.startswith("{scale=", start):
            return TensorType(shape, dtype, holds=holds)
        self.expect("{")
        try:
            return TensorType(shape, dtype, Quantization(**self.params("}")), holds=holds)
        except (TypeError, ValueError) as error:
            self.fail("scale, zero_point and axis", found=str(error), at=start)

    def _holds(self) -> tuple[HeldType, ...]:
        """Take the element types of a variant: `{f32[?,8] i32[*]}` right after its type."""
        match = _HOLDS.match(self.text, self.pos)
        self.pos = match.end() if match else self.pos
        return tuple(_held(t) for t in _HELD.finditer(match[0])) if match else ()

    def digest(self) -> tuple[str, np.ndarray, int]:
        """`2048B 0123456789abcdef>`: the digest, its array, and where it stands."""
        match = self.take(DIGEST, "the size in bytes and the digest of a constant, as '2048B 0123456789abcdef>'")
        if match[1] not in self.arrays:
            self.fail(
                "an array for every digest: consts={digest: array}, or a model that has them",
                found=match[1],
                at=match.start(),
            )
        return match[1], self.arrays[match[1]], match.start()

    def params(self, end: str) -> dict[str, Any]:
        """`key=value` pairs, and the closing bracket."""
        params: dict[str, Any] = {}
        while not self.accept(end):
            key = self.take(_KEY, f"a parameter or {end!r}")
            self.expect("=")
            if key[0] in params:
                self.fail("each parameter once", at=key.start())
            params[key[0]] = self.value()
        return params

    def value(self) -> Any:
        """A literal: scalar, text, DType, dimension, tuple or mapping; a long tuple of numbers by its digest."""
        if self.accept("const<"):
            self.type()
            return tuple(self.digest()[1].tolist())
        if self.peek(STRING):
            return self.string()
        if self.peek(BYTES):
            return parse_bytes(self.take(BYTES, "bytes")[0])
        if self.accept("("):
            return self._tuple()
        if self.accept("{"):
            return self._mapping()
        start = self.pos
        word = self._word()
        value = parse_word(word)
        if value is not ...:
            return value
        if not word or word[0] in "<[":
            self.fail("a literal", at=start)
        return self._dim(word.removeprefix("dim(").removesuffix(")") if word.startswith("dim(") else word, start)

    def _tuple(self) -> tuple[Any, ...]:
        values: list[Any] = []
        while not self.accept(")"):
            values.append(self.value())
            if not self.accept(","):
                self.expect(")")
                break
        return tuple(values)

    def _mapping(self) -> dict[Any, Any]:
        mapping: dict[Any, Any] = {}
        while not self.accept("}"):
            key = self.value()
            self.expect(":")
            mapping[key] = self.value()
            if not self.accept(","):
                self.expect("}")
                break
        return mapping

    def _word(self) -> str:
        """The characters up to a blank, comma, colon or closing bracket outside of parentheses."""
        start, depth = self.pos, 0
        while self.pos < len(self.text):
            char = self.text[self.pos]
            if char == "\n" or (depth == 0 and char in " \t,:)]}"):
                break
            depth += (char == "(") - (char == ")")
            self.pos += 1
        return self.text[start : self.pos]

    def _dim(self, text: str, start: int) -> Dim:
        if text not in self._dims:
            try:
                self._dims[text] = symbol(text)
            except ValueError:
                self.fail("a number, a symbol or an expression over symbols", at=start)
        return self._dims[text]

    def _after(self, pattern: re.Pattern[str]) -> int:
        match = pattern.match(self.text, self.pos)
        return match.end() if match else self.pos


def _held(match: re.Match[str]) -> HeldType:
    dims = None if match[2] == "*" else tuple(-1 if d == "?" else int(d) for d in match[2].split(",") if d)
    return HeldType(DType(match[1]), dims)
