"""The command line."""

import argparse
import sys

from shop import files, stock
from shop.invoice import invoice
from shop.order import BadLine, Line, Order
from shop.report import sold, table

PRICES = {"TEA": 450, "CUP": 700, "POT": 2400}


def parser():
    top = argparse.ArgumentParser(prog="shop")
    commands = top.add_subparsers(dest="command", required=True)
    add = commands.add_parser("add", help="add an order of one line")
    add.add_argument("file")
    add.add_argument("--customer", required=True)
    add.add_argument("--sku", required=True, choices=sorted(PRICES))
    add.add_argument("--qty", type=int, default=1, help="pieces")
    show = commands.add_parser("invoice", help="print the invoice of an order")
    show.add_argument("file")
    show.add_argument("number", type=int)
    report = commands.add_parser("report", help="print what was sold")
    report.add_argument("file")
    report.add_argument("--min-qty", type=int, default=1, help="only articles of which so many were sold")
    restock = commands.add_parser("restock", help="put pieces on the shelf")
    restock.add_argument("file")
    restock.add_argument("--sku", required=True)
    restock.add_argument("--qty", type=int, required=True, help="pieces")
    return top


def main(arguments, out=None):
    out = out or sys.stdout
    options = parser().parse_args(arguments)
    if options.command == "restock":
        shelves = stock.load(options.file)
        try:
            shelves.put(options.sku, options.qty)
        except KeyError:
            print(f"shop: there is no article {options.sku}", file=sys.stderr)
            return 1
        stock.save(shelves, options.file)
        return 0
    orders = files.load(options.file)
    if options.command == "add":
        number = max((order.number for order in orders), default=0) + 1
        try:
            line = Line(options.sku, qty=options.qty, price=PRICES[options.sku])
        except BadLine as error:
            print(f"shop: {error}", file=sys.stderr)
            return 2
        orders.append(Order(number, options.customer, [line]))
        files.save(orders, options.file)
        print(f"order {number}: {line.qty} x {line.sku}", file=out)
    elif options.command == "report":
        print(table(sold(orders, min_qty=options.min_qty)), file=out)
    else:
        order = next((order for order in orders if order.number == options.number), None)
        if order is None:
            print(f"shop: there is no order {options.number}", file=sys.stderr)
            return 1
        print(invoice(order), file=out)
    return 0
