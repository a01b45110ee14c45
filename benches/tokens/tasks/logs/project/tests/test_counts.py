import unittest

from weblog.counts import Counts, table
from weblog.entries import parse

LINES = [
    "2024-03-05T10:00:00 10.0.0.7 anna GET /cart 200 512 12",
    "2024-03-05T10:00:01 10.0.0.7 anna POST /pay 503 90 2001",
    "2024-03-05T10:00:02 10.0.0.9 - GET / 500 90 3",
]


class CountsTest(unittest.TestCase):
    def test_counts(self):
        counts = Counts(parse(line) for line in LINES)
        self.assertEqual(counts.as_json(), {
            "requests": {"anna": 2},
            "failed": {"anna": 1},
            "statuses": {"200": 1, "500": 1, "503": 1},
        })

    def test_table(self):
        shown = table(Counts([parse(LINES[0])]))
        self.assertEqual(shown.splitlines()[1], "anna                1      0")


if __name__ == "__main__":
    unittest.main()
