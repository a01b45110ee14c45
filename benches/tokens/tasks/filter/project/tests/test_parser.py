import unittest

from rowfilter.errors import FilterError
from rowfilter.nodes import And, Comparison
from rowfilter.parser import parse

A, B, C = Comparison("a", "=", "1"), Comparison("b", "<", "x"), Comparison("c", "~", "and")


class ParserTest(unittest.TestCase):
    def fails(self, source, message):
        with self.assertRaises(FilterError) as raised:
            parse(source)
        self.assertEqual(str(raised.exception), message)

    def test_a_comparison(self):
        self.assertEqual(parse("a = 1"), A)
        self.assertEqual(parse("c ~ 'and'"), C)

    def test_and(self):
        self.assertEqual(parse("a = 1 and b < x AND c ~ 'and'"), And((A, B, C)))

    def test_errors(self):
        self.fails("", "position 1: expected a field, found the end")
        self.fails("a = 1 and", "position 10: expected a field, found the end")
        self.fails("a 1", "position 3: expected an operator, found '1'")
        self.fails("a = and", "position 5: expected a value, found 'and'")
        self.fails("a = 1 b < x", "position 7: expected 'and' or the end, found 'b'")


if __name__ == "__main__":
    unittest.main()
