#!/usr/bin/env bash
# Exit 0 if the task is solved. Runs in the project.
set -euo pipefail
export PYTHONDONTWRITEBYTECODE=1

python3 -m unittest
git diff --quiet HEAD -- docs data || { echo "docs or data changed"; exit 1; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cp data/orders.json data/stock.csv "$folder"
expect() { [ "$1" = "$2" ] || { printf 'expected: %s\ngot:      %s\n' "$2" "$1"; exit 1; }; }
shop() { command=$1; file=$2; shift 2; python3 -m shop "$command" "$folder/$file" "$@"; }

python3 - "$folder" <<'PY'
import inspect, pathlib, sys, tokenize
from shop import files, stock
from shop.order import Line, Order
from shop.pricing import Discount
from shop.report import Sold, sold

for path in sorted(pathlib.Path(".").glob("*/*.py")):
    with open(path, "rb") as file:
        for token in tokenize.tokenize(file.readline):
            if token.type == tokenize.NAME and "qty" in token.string.lower():
                sys.exit(f"{path}:{token.start[0]}: {token.string}")
order = Order(7, "ann", [Line("TEA", quantity=3, price=450)])
order.change("TEA", quantity=5)
assert order.total_quantity == 5 and Discount(min_quantity=5, percent=1).applies_to(order.lines[0])
assert sold([order], min_quantity=1) == [Sold(sku="TEA", quantity=5, amount=2250)]
shelves = stock.Stock([stock.Article("TEA", quantity=3, price=1)])
assert shelves.take("TEA", quantity=1).quantity == 2 and shelves.low(below_quantity=3)
for name in ("orders.json", "stock.csv"):
    module = files if name == "orders.json" else stock
    module.save(module.load(f"data/{name}"), f"{sys.argv[1]}/again")
    assert open(f"{sys.argv[1]}/again").read() == open(f"data/{name}").read(), name
PY
for option in --qty --quantity; do
    shop restock stock.csv --sku POT $option 4
    shop add orders.json --customer ben --sku POT $option 2 > /dev/null
done
expect "$(grep POT "$folder/stock.csv")" "POT,11,2400"
expect "$(grep -c '"qty": 2,' "$folder/orders.json")" 3
expect "$(shop report orders.json --min-qty 3 | tail -n 1)" "POT           4      9600"
expect "$(shop invoice orders.json 1 | sed -n 3p)" "Article     Qty     Price    Amount"
python3 -m shop add --help | grep -q -- '--qty' && python3 -m shop add --help | grep -q -- '--quantity'
grep -q 'order.total_quantity' README.md && grep -q 'Discount(min_quantity=10' README.md
grep -rq -- '--quantity' tests || { echo "no test of the option"; exit 1; }
