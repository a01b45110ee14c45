"""What lies on the shelves, as a CSV file."""

import csv
from dataclasses import asdict, dataclass, fields


class OutOfStock(Exception):
    """There is less than was asked for."""


@dataclass
class Article:
    sku: str
    qty: int
    price: int


class Stock:
    def __init__(self, articles=()):
        self.articles = {article.sku: article for article in articles}

    def take(self, sku, qty=1):
        article = self.articles.get(sku)
        left = article.qty if article else 0
        if left < qty:
            raise OutOfStock(f"{sku}: {left} left, {qty} wanted")
        article.qty -= qty
        return article

    def put(self, sku, qty):
        if sku not in self.articles:
            raise KeyError(sku)
        self.articles[sku].qty += qty

    def low(self, below_qty=5):
        """The articles of which there are few."""
        return [article for _, article in sorted(self.articles.items()) if article.qty < below_qty]


COLUMNS = [field.name for field in fields(Article)]


def load(path):
    with open(path, newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return Stock(Article(row["sku"], int(row["qty"]), int(row["price"])) for row in rows)


def save(stock, path):
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        for _, article in sorted(stock.articles.items()):
            writer.writerow(asdict(article))
