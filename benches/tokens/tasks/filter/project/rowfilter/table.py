"""Rows of a CSV file."""

import csv


def load(path):
    """Columns and rows."""
    with open(path, newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        rows = list(reader)
        return list(reader.fieldnames or ()), rows


def shown(rows, columns):
    widths = {name: max([len(name), *(len(row[name]) for row in rows)]) for name in columns}
    lines = ["  ".join(name.ljust(widths[name]) for name in columns)]
    lines += ["  ".join(row[name].ljust(widths[name]) for name in columns) for row in rows]
    return "\n".join(line.rstrip() for line in lines)
