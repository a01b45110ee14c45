"""Items as a JSON file."""

import json
import os

from todo.item import Item


class Store:
    def __init__(self, path):
        self.path = path
        self.items = []
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                self.items = [from_json(value) for value in json.load(file)["items"]]

    def add(self, text):
        number = max((item.number for item in self.items), default=0) + 1
        item = Item(number, text)
        self.items.append(item)
        return item

    def get(self, number):
        """The item with this number, or None."""
        return next((item for item in self.items if item.number == number), None)

    def select(self, include_done=False):
        return [item for item in self.items if include_done or not item.done]

    def save(self):
        values = [to_json(item) for item in self.items]
        with open(self.path, "w", encoding="utf-8") as file:
            json.dump({"items": values}, file, indent=1, ensure_ascii=False)
            file.write("\n")


def to_json(item):
    return {"number": item.number, "text": item.text, "done": item.done}


def from_json(value):
    return Item(value["number"], value["text"], value["done"])
