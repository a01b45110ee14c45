import contextlib
import io
import os
import tempfile
import unittest

from shop.cli import main
from shop.invoice import invoice
from shop.order import Line, Order
from shop.report import Sold, sold, table

ORDER = Order(4, "ann", [Line("TEA", 12, 450), Line("CUP", 2, 700)])


class OutputTest(unittest.TestCase):
    def test_invoice(self):
        self.assertEqual(invoice(ORDER).splitlines(), [
            "Invoice 4 for ann",
            "",
            "Article     Qty     Price    Amount",
            "TEA          12      4.50     54.00",
            "CUP           2      7.00     14.00",
            "discount                      -2.70",
            "total        14               65.30",
        ])

    def test_sold(self):
        more = Order(5, "ben", [Line("CUP", 3, 700)])
        self.assertEqual(sold([ORDER, more]), [Sold("TEA", 12, 5400), Sold("CUP", qty=5, amount=3500)])
        self.assertEqual(len(sold([ORDER, more], min_qty=6)), 1)
        self.assertEqual(table(sold([more])), "CUP           3      2100")


class CliTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "orders.json")

    def shop(self, command, *arguments):
        out, errors = io.StringIO(), io.StringIO()
        with contextlib.redirect_stderr(errors):
            code = main([command, self.path, *arguments], out)
        return code, out.getvalue(), errors.getvalue()

    def test_add_and_report(self):
        added = self.shop("add", "--customer", "ann", "--sku", "TEA", "--qty", "3")
        self.assertEqual(added, (0, "order 1: 3 x TEA\n", ""))
        self.shop("add", "--customer", "ben", "--sku", "CUP")
        self.assertEqual(self.shop("report")[1], "TEA           3      1350\nCUP           1       700\n")
        self.assertEqual(self.shop("report", "--min-qty", "2")[1], "TEA           3      1350\n")

    def test_a_bad_qty(self):
        code, out, errors = self.shop("add", "--customer", "ann", "--sku", "TEA", "--qty", "0")
        self.assertEqual((code, out), (2, ""))
        self.assertIn("must be 1 or more, not 0", errors)

    def test_no_such_order(self):
        self.assertEqual(self.shop("invoice", "9"), (1, "", "shop: there is no order 9\n"))


if __name__ == "__main__":
    unittest.main()
