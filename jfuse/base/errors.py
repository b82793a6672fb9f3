"""The errors that jfuse raises: fields first, text made from the fields."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from difflib import get_close_matches
from traceback import walk_tb
from typing import Any


def printable(text: str) -> str:
    """The text with escape sequences instead of control characters, which a terminal would obey; lines stay lines."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode() for c in text)


def shown(value: object) -> str:
    """A value in a few characters: of integers with thousands of digits Python refuses to write any."""
    if isinstance(value, int) and value.bit_length() > 256:
        return f"a number of {value.bit_length():,} bits"
    try:
        return repr(value)[:80]
    except ValueError:
        return f"a {type(value).__name__}"


def raised_in(file: str | None, error: Exception) -> str:
    """Format an error of the user's code: its last line in that file, and a likely intended name."""
    text = f"{type(error).__name__}: {error}"
    lines = [number for frame, number in walk_tb(error.__traceback__) if frame.f_code.co_filename == file]
    if lines and file is not None:
        text += f" ({file}, line {lines[-1]})"
    if isinstance(error, AttributeError) and error.name is not None and error.obj is not None:
        close = get_close_matches(error.name, dir(error.obj), n=1)
        text += f"; did you mean {close[0]!r}?" if close else ""
    return text


class JfuseError(Exception):
    """Base of every error that jfuse raises on purpose.

    `op` is the op or step that failed, `where` the position in the user's model, `expected`/`found` the disagreement,
    `remedy` the next step, `context` the text of the equation. Every field is optional; the message prints those that
    are there.
    """

    def __init__(
        self,
        message: str,
        *,
        where: str | None = None,
        expected: object = None,
        found: object = None,
        remedy: str | None = None,
        context: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.where = where
        self.expected = expected
        self.found = found
        self.remedy = remedy
        self.context = context

    def __str__(self) -> str:
        lines = [self.message + (f" at {self.where}" if self.where else "")]
        rows = (("expected", self.expected), ("found", self.found), ("try", self.remedy), ("in", self.context))
        lines += [f"  {label:<9} {text}" for label, text in rows if text is not None]
        return printable("\n".join(lines))

    @property
    def reason(self) -> str:
        """The message with the expected and found values in one line; the remedy in a second one."""
        rows = (("expected", self.expected), ("found", self.found))
        details = ", ".join(f"{label} {value}" for label, value in rows if value is not None)
        line = f"{self.message} ({details})" if details else self.message
        return f"{line}\n{self.remedy}" if self.remedy else line


class ImportFailed(JfuseError):
    """The source could not be read: a corrupt file, a missing signature, an object of an unknown kind."""


class TypeMismatch(JfuseError):
    """An equation's operands, parameters or result types do not fit its op."""


class LowerError(JfuseError):
    """The graph holds something that TFLite's builtin ops cannot say."""


class VerifyFailed(JfuseError):
    """Two forms of the model answer differently. `verification` has the result, if a whole model was compared.

    report: of the conversion that ended by it; None where two models were compared.
    """

    verification: Any = None
    report: Any = None


class KernelFailed(VerifyFailed):
    """A kernel of TensorFlow failed, or returned an impossible result: the model cannot be judged."""


class NoEnd(VerifyFailed):
    """A call of the reference did not come to an end within its time: other inputs are not tried."""


class BadFlatbuffer(JfuseError):
    """The bytes are not a TFLite file that can be read."""


class RuleError(JfuseError):
    """A rule was registered or called in a way that cannot work."""


class UnknownOption(JfuseError, TypeError):
    """A function or an object of options has no such keyword; the remedy says where the option is."""


class InternalError(JfuseError):
    """jfuse itself failed unexpectedly; the cause is `__cause__`."""


class NotFused(JfuseError):
    """Raised by `need` and caught by the passes: a refusal with a name, never seen by users as an error.

    near: how far the reading got before it failed. Of several refusals of one loop the nearest is reported.
    """

    def __init__(self, condition: str, *, want: object = None, got: object = None, near: int = 0) -> None:
        super().__init__(condition, expected=want, found=got)
        self.condition = condition
        self.want = want
        self.got = got
        self.near = near

    @property
    def detail(self) -> str:
        """The expected and the actual value, if the refusal has them."""
        parts = (f"{word} {value}" for word, value in (("want", self.want), ("got", self.got)) if value is not None)
        return ", ".join(parts)

    def __str__(self) -> str:
        return f"{self.condition}: {self.detail}" if self.detail else self.condition


def need_choice(name: str, value: object, choices: Sequence[object]) -> None:
    """Raise JfuseError unless the option of this name has one of these values."""
    if not isinstance(value, Hashable) or value not in choices:  # arrays are compared element by element
        known = " or ".join(map(repr, choices))
        raise JfuseError(f"no {name} {shown(value)}", expected=known, remedy=f"{name}={nearest(value, choices)!r}")


def nearest(value: object, choices: Sequence[object]) -> object:
    """The choice that is spelled most like a value; the first one if none is."""
    words = [choice for choice in choices if isinstance(choice, str)]
    return next(iter(get_close_matches(value, words, n=1) if isinstance(value, str) else ()), choices[0])


def note_place(error: Exception, *, where: str = "", step: str = "") -> None:
    """Keep with an exception of any kind at which node and in which step it was raised, for the message about it."""
    for name, value in (("jfuse_where", where), ("jfuse_step", step)):
        if value and not hasattr(error, name):
            setattr(error, name, value)
