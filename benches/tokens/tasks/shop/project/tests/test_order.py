import unittest

from shop.order import BadLine, Line, Order
from shop.pricing import Discount, discount_of


class OrderTest(unittest.TestCase):
    def test_a_line_of_the_same_article_grows(self):
        order = Order(1, "ann", [Line("TEA", qty=3, price=450)])
        order.add(Line("TEA", qty=2, price=450))
        order.add(Line("TEA", qty=1, price=400))
        self.assertEqual([line.qty for line in order.lines], [5, 1])
        self.assertEqual(order.total_qty, 6)
        self.assertEqual(order.amount, 5 * 450 + 400)

    def test_change(self):
        order = Order(1, "ann", [Line("TEA", 3, 450), Line("CUP", 1, 700)])
        order.change("TEA", qty=7)
        order.change("CUP", qty=0)
        self.assertEqual(order.lines, [Line("TEA", 7, 450)])
        with self.assertRaisesRegex(BadLine, "POT: not in order 1"):
            order.change("POT", qty=1)

    def test_a_bad_qty(self):
        with self.assertRaises(BadLine):
            Line("TEA", qty=0, price=450)


class DiscountTest(unittest.TestCase):
    def test_the_greatest_min_qty_counts(self):
        discounts = [Discount(min_qty=2, percent=10), Discount(min_qty=4, percent=50)]
        self.assertEqual(discount_of(Line("TEA", 1, 100), discounts), 0)
        self.assertEqual(discount_of(Line("TEA", 2, 100), discounts), 20)
        self.assertEqual(discount_of(Line("TEA", 4, 100), discounts), 200)


if __name__ == "__main__":
    unittest.main()
