"""The command line."""

import argparse
import sys

from todo.item import BadItem
from todo.store import Store


def parser():
    top = argparse.ArgumentParser(prog="todo")
    top.add_argument("--file", default="todo.json", help="where the items are kept")
    commands = top.add_subparsers(dest="command", required=True)
    add = commands.add_parser("add", help="add an item")
    add.add_argument("text")
    show = commands.add_parser("list", help="show items")
    show.add_argument("--all", action="store_true", help="done ones too")
    done = commands.add_parser("done", help="mark an item as done")
    done.add_argument("number", type=int)
    return top


def main(arguments, out=None):
    out = out or sys.stdout
    options = parser().parse_args(arguments)
    store = Store(options.file)
    if options.command == "add":
        try:
            item = store.add(options.text)
        except BadItem as error:
            print(f"todo: {error}", file=sys.stderr)
            return 2
        store.save()
        print(item.line(), file=out)
    elif options.command == "list":
        for item in store.select(include_done=options.all):
            print(item.line(), file=out)
    elif options.command == "done":
        item = store.get(options.number)
        if item is None:
            print(f"todo: there is no item {options.number}", file=sys.stderr)
            return 1
        item.done = True
        store.save()
        print(item.line(), file=out)
    return 0
