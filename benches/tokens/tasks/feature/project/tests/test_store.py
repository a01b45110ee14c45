import os
import tempfile
import unittest

from todo.item import BadItem, Item
from todo.store import Store


class ItemTest(unittest.TestCase):
    def test_line(self):
        self.assertEqual(Item(3, "water the plants").line(), "  3 [ ] water the plants")
        self.assertEqual(Item(12, "sleep", True).line(), " 12 [x] sleep")

    def test_an_empty_text_is_refused(self):
        with self.assertRaises(BadItem):
            Item(1, "  ")


class StoreTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "todo.json")

    def test_items_are_kept(self):
        store = Store(self.path)
        store.add("water the plants")
        store.add("sleep").done = True
        store.save()
        self.assertEqual(Store(self.path).items, store.items)

    def test_select(self):
        store = Store(self.path)
        store.add("one").done = True
        store.add("two")
        self.assertEqual([item.text for item in store.select()], ["two"])
        self.assertEqual(len(store.select(include_done=True)), 2)


if __name__ == "__main__":
    unittest.main()
