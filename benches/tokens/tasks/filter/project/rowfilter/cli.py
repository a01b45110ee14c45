"""The command line."""

import argparse
import sys

from rowfilter import table
from rowfilter.errors import FilterError, UnknownField
from rowfilter.evaluate import check_fields, holds
from rowfilter.explain import explain
from rowfilter.parser import parse


def options_of(arguments):
    parser = argparse.ArgumentParser(prog="rowfilter")
    parser.add_argument("file")
    parser.add_argument("filter")
    parser.add_argument("--columns", help="only these, with commas between")
    parser.add_argument("--explain", action="store_true", help="print how the filter is understood")
    return parser.parse_args(arguments)


def main(arguments, out=None):
    out = out or sys.stdout
    options = options_of(arguments)
    columns, rows = table.load(options.file)
    try:
        node = parse(options.filter)
        check_fields(node, columns)
        wanted = options.columns.split(",") if options.columns else columns
        for name in wanted:
            if name not in columns:
                raise UnknownField(f"there is no column {name}; there are {', '.join(columns)}")
    except (FilterError, UnknownField) as error:
        print(f"rowfilter: {error}", file=sys.stderr)
        return 2
    if options.explain:
        print(explain(node), file=out)
        return 0
    matching = [row for row in rows if holds(node, row)]
    if not matching:
        return 1
    print(table.shown(matching, wanted), file=out)
    return 0
