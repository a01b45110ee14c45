"""Cuts a filter into tokens."""

import re
from dataclasses import dataclass

from rowfilter.errors import FilterError

OPERATORS = ("!=", "<=", ">=", "=", "<", ">", "~")
KEYWORDS = ("and",)

PATTERN = re.compile(
    r"""(?P<blank>\s+)
      | (?P<text>'(?:[^']|'')*')
      | (?P<number>-?\d+(?:\.\d+)?(?!\w))
      | (?P<word>\w+)
      | (?P<operator>!=|<=|>=|=|<|>|~)""",
    re.VERBOSE,
)


@dataclass(frozen=True)
class Token:
    kind: str  # text, number, word, operator, end, or a keyword itself
    value: str
    position: int  # from 1

    def __str__(self):
        return "the end" if self.kind == "end" else repr(self.value)


def tokens(source):
    found = []
    at = 0
    while at < len(source):
        match = PATTERN.match(source, at)
        if match is None:
            raise FilterError(at + 1, f"unexpected {source[at]!r}")
        kind, value = match.lastgroup, match.group()
        if kind == "word" and value.lower() in KEYWORDS:
            kind = value.lower()
        elif kind == "text":
            value = value[1:-1].replace("''", "'")
        if kind != "blank":
            found.append(Token(kind, value, at + 1))
        at = match.end()
    found.append(Token("end", "", len(source) + 1))
    return found
