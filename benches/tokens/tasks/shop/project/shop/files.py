"""Orders as a JSON file; docs/format.md describes it."""

import json
import os

from shop.order import Line, Order


def load(path):
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as file:
        return [order_of(value) for value in json.load(file)["orders"]]


def save(orders, path):
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"orders": [value_of(order) for order in orders]}, file, indent=1, ensure_ascii=False)
        file.write("\n")


def order_of(value):
    return Order(value["number"], value["customer"], [Line(**line) for line in value["lines"]])


def value_of(order):
    return {"number": order.number, "customer": order.customer, "lines": [vars(line) for line in order.lines]}
