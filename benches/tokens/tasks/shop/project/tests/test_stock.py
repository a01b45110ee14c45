import os
import tempfile
import unittest

from shop import stock
from shop.stock import Article, OutOfStock, Stock


class StockTest(unittest.TestCase):
    def test_take_and_put(self):
        shelves = Stock([Article("TEA", qty=3, price=450)])
        self.assertEqual(shelves.take("TEA", qty=2).qty, 1)
        with self.assertRaisesRegex(OutOfStock, "TEA: 1 left, 2 wanted"):
            shelves.take("TEA", qty=2)
        with self.assertRaises(OutOfStock):
            shelves.take("POT")
        shelves.put("TEA", qty=4)
        self.assertEqual(shelves.articles["TEA"].qty, 5)

    def test_low(self):
        shelves = Stock([Article("TEA", 3, 450), Article("CUP", 8, 700)])
        self.assertEqual([article.sku for article in shelves.low()], ["TEA"])
        self.assertEqual([article.sku for article in shelves.low(below_qty=9)], ["CUP", "TEA"])

    def test_load_with_other_order_of_columns(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "stock.csv")
            with open(path, "w", encoding="utf-8") as file:
                file.write("price,sku,qty\n450,TEA,6\n")
            self.assertEqual(stock.load(path).articles["TEA"].qty, 6)


if __name__ == "__main__":
    unittest.main()
