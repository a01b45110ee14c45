"""Runs the commands of `commands.json`."""

import importlib
import json
import os
import sys


def main(arguments):
    path = os.path.join(os.path.dirname(__file__), "..", "commands.json")
    with open(path, encoding="utf-8") as file:
        commands = json.load(file)
    if not arguments or arguments[0] not in commands:
        for name, command in commands.items():
            print(f"{name:<8} {command['help']}", file=sys.stderr)
        return 2
    command = commands[arguments[0]]
    function = getattr(importlib.import_module(command["module"]), command["function"])
    print(function(*arguments[1:]))
    return 0


sys.exit(main(sys.argv[1:]))
