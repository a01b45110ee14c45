import unittest

from rowfilter.errors import FilterError
from rowfilter.lexer import Token, tokens


def kinds(source):
    return [token.kind for token in tokens(source)]


class LexerTest(unittest.TestCase):
    def test_kinds(self):
        self.assertEqual(kinds("age >= 30 AND city = 'Bonn'"), [
            "word", "operator", "number", "and", "word", "operator", "text", "end",
        ])
        self.assertEqual(kinds("-1.5 30th android"), ["number", "word", "word", "end"])

    def test_values_and_positions(self):
        self.assertEqual(tokens("a~'it''s'"), [
            Token("word", "a", 1), Token("operator", "~", 2), Token("text", "it's", 3), Token("end", "", 10),
        ])

    def test_what_is_no_token(self):
        with self.assertRaisesRegex(FilterError, "position 5: unexpected '\\$'"):
            tokens("a = $")


if __name__ == "__main__":
    unittest.main()
