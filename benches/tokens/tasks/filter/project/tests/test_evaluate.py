import unittest

from rowfilter.errors import UnknownField
from rowfilter.evaluate import check_fields, holds
from rowfilter.explain import explain
from rowfilter.parser import parse

ROW = {"name": "Anna", "age": "34", "city": "Bonn"}


class EvaluateTest(unittest.TestCase):
    def test_holds(self):
        for source, expected in [
            ("age = 34.0", True),
            ("age < 9", False),
            ("name < 9", False),
            ("name ~ 'NN'", True),
            ("city != Bonn", False),
            ("age > 30 and city = Bonn", True),
            ("age > 30 and city = Aachen", False),
        ]:
            with self.subTest(source):
                self.assertEqual(holds(parse(source), ROW), expected)

    def test_fields_are_checked(self):
        with self.assertRaisesRegex(UnknownField, "there is no column town; there are name, age, city"):
            check_fields(parse("age = 1 and town = 2"), list(ROW))

    def test_explain(self):
        self.assertEqual(explain(parse("age > 30 and name = 'O''Hara'")), "and\n  age > '30'\n  name = 'O''Hara'")


if __name__ == "__main__":
    unittest.main()
