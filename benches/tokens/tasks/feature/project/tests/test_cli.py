import contextlib
import io
import os
import tempfile
import unittest

from todo.cli import main


class CliTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "todo.json")

    def todo(self, *arguments):
        """Exit code, output and errors of a command."""
        out, errors = io.StringIO(), io.StringIO()
        with contextlib.redirect_stderr(errors):
            code = main(["--file", self.path, *arguments], out)
        return code, out.getvalue(), errors.getvalue()

    def test_add_and_list(self):
        self.assertEqual(self.todo("add", "water the plants"), (0, "  1 [ ] water the plants\n", ""))
        self.todo("add", "sleep")
        self.todo("done", "1")
        self.assertEqual(self.todo("list")[1], "  2 [ ] sleep\n")
        self.assertEqual(self.todo("list", "--all")[1], "  1 [x] water the plants\n  2 [ ] sleep\n")

    def test_no_such_item(self):
        self.assertEqual(self.todo("done", "7"), (1, "", "todo: there is no item 7\n"))

    def test_an_empty_text(self):
        self.assertEqual(self.todo("add", ""), (2, "", "todo: an item needs a text\n"))


if __name__ == "__main__":
    unittest.main()
