"""The words and marks of BIF, with their places in the text."""

from __future__ import annotations

import re

from goalmeter._errors import InvalidFileError
from goalmeter.causal.model_files import Draft

# A // behind a colon is no comment, or the address in a property would eat its semicolon.
_TOKEN = re.compile(
    r"""//[^\n]* | /\*.*?\*/ | /\*            # comments, and one that is not closed
      | "(?:[^"\\\n]|\\.)*" | "               # a quoted name, and one that is not closed
      | [;(){}\[\]|]
      | (?:[^\s,;(){}\[\]|"/] | (?<=:)/ | /(?![/*]))+""",
    re.VERBOSE | re.DOTALL,
)
PUNCTUATION = frozenset(";(){}[]|")
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\0": "\\0"}
_ESCAPED = {"n": "\n", "0": "\0"}


def quoted(name: str) -> str:
    """A name as one token, in quotes only if it needs them."""
    plain = _TOKEN.fullmatch(name)
    if plain and name not in PUNCTUATION and not name.startswith(('"', "//", "/*")):
        return name
    return '"' + "".join(_ESCAPES.get(c, c) for c in name) + '"'


class Tokens:
    """The tokens of a text, taken one by one from left to right, and errors that name a line.

    Args:
        text: in BIF.
        draft: makes the errors.

    Attributes:
        start: where the token taken last begins, as an offset in the text.
    """

    def __init__(self, text: str, draft: Draft) -> None:
        self.text = text
        self.start = 0
        self._draft = draft
        self._matches = _TOKEN.finditer(text)
        self._counted = 0, 1  # an offset, and the line that it lies in

    def take(self) -> str:
        """The next token as it is written; "" at the end of the text."""
        for match in self._matches:
            token = match[0]
            if token[0] == "/" and token.startswith(("//", "/*")):
                if token == "/*":
                    self.start = match.start()
                    raise self.error("this comment is not closed, expected */ behind it")
                continue
            self.start = match.start()
            return token
        self.start = len(self.text)
        return ""

    def line(self, start: int) -> int:
        """The line, from 1, that an offset lies in."""
        # Counted from the place asked for last: places come in order, but for errors.
        place, line = self._counted if start >= self._counted[0] else (0, 1)
        self._counted = start, line + self.text.count("\n", place, start)
        return self._counted[1]

    def error(self, message: str, start: int | None = None) -> InvalidFileError:
        """The error for an offset, or for the token taken last."""
        return self._draft.error(self.line(self.start if start is None else start), message)

    def expected(self, what: str, token: str, start: int | None = None) -> InvalidFileError:
        """The error for a token that stands where something else is expected."""
        got = f'"{token[:40]}"' if token else "the end of the file"
        return self.error(f"expected {what}, got {got}", start)

    def punctuation(self, mark: str, where: str) -> None:
        """Take a mark that has to be there; `where` says in the error what for."""
        token = self.take()
        if token != mark:
            raise self.expected(f'"{mark}" {where}', token)

    def name(self, token: str, what: str) -> str:
        """The name that a token stands for; `what` says in the error what was expected."""
        if token == '"':
            raise self.error("this quote is not closed, expected another one in the same line")
        if not token or token in PUNCTUATION:
            raise self.expected(what, token)
        if token[0] != '"':
            return token
        return re.sub(r"\\([\\\"n0])", lambda m: _ESCAPED.get(m[1], m[1]), token[1:-1])

    def names(self, end: str, what: str) -> list[str]:
        """Names up to a closing mark."""
        names = []
        while (token := self.take()) != end:
            names.append(self.name(token, f'{what} or "{end}"'))
        return names
