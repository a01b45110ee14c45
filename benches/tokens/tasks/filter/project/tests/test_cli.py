import contextlib
import io
import unittest

from rowfilter.cli import main


def run(*arguments):
    """Exit code, output and errors."""
    out, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stderr(errors):
        code = main(["data/people.csv", *arguments], out)
    return code, out.getvalue(), errors.getvalue()


class CliTest(unittest.TestCase):
    def test_rows(self):
        self.assertEqual(run("city = Bonn and age > 35"), (0, "name  age  city\nCleo  41   Bonn\n", ""))
        self.assertEqual(run("age = 29", "--columns", "name")[1], "name\nBen\nDan\n")

    def test_no_row(self):
        self.assertEqual(run("age > 100"), (1, "", ""))

    def test_errors(self):
        self.assertEqual(run("age >"), (2, "", "rowfilter: position 6: expected a value, found the end\n"))
        self.assertEqual(run("town = 1")[0], 2)
        self.assertEqual(run("age = 1", "--columns", "name,town")[0], 2)

    def test_explain(self):
        self.assertEqual(run("age < 40 and city != Bonn", "--explain")[1], "and\n  age < '40'\n  city != 'Bonn'\n")


if __name__ == "__main__":
    unittest.main()
