"""From tokens to nodes; docs/language.md has the grammar."""

from rowfilter.errors import FilterError
from rowfilter.lexer import tokens
from rowfilter.nodes import And, Comparison

VALUES = ("text", "number", "word")


def parse(source):
    return Parser(tokens(source)).filter()


class Parser:
    def __init__(self, found):
        self.found = found
        self.at = 0

    @property
    def token(self):
        return self.found[self.at]

    def take(self, kinds, expected):
        """The next token, which has to be of one of these kinds."""
        token = self.token
        if token.kind not in kinds:
            raise FilterError(token.position, f"expected {expected}, found {token}")
        self.at += 1
        return token

    def filter(self):
        node = self.conjunction()
        self.take(("end",), "'and' or the end")
        return node

    def conjunction(self):
        parts = [self.comparison()]
        while self.token.kind == "and":
            self.at += 1
            parts.append(self.comparison())
        return parts[0] if len(parts) == 1 else And(tuple(parts))

    def comparison(self):
        field = self.take(("word",), "a field")
        operator = self.take(("operator",), "an operator")
        value = self.take(VALUES, "a value")
        return Comparison(field.value, operator.value, value.value)
