#!/usr/bin/env bash
# Exit 0 if the task is solved. Runs in the project.
set -euo pipefail
export PYTHONDONTWRITEBYTECODE=1

python3 -m unittest
n_tests=$(python3 -m unittest 2>&1 | sed -n 's/^Ran \([0-9]*\) test.*/\1/p')
if [ "$n_tests" -lt 10 ]; then echo "only $n_tests tests"; exit 1; fi
grep -q -- '--tag' README.md || { echo "the README does not say it"; exit 1; }
grep -rq -- '--tag' tests || { echo "no test of the command line"; exit 1; }

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
todo() { python3 -m todo --file "$folder/t.json" "$@"; }
expect() { [ "$1" = "$2" ] || { printf 'expected: %s\ngot:      %s\n' "$2" "$1"; exit 1; }; }

# A file from before.
echo '{"items": [{"number": 1, "text": "old", "done": false}]}' > "$folder/t.json"
expect "$(todo list)" "  1 [ ] old"
expect "$(todo add "buy milk" --tag Shop --tag home --tag SHOP)" "  2 [ ] buy milk #shop #home"
expect "$(todo add "buy nails" --tag shop)" "  3 [ ] buy nails #shop"
expect "$(todo list --tag shop)" "  2 [ ] buy milk #shop #home
  3 [ ] buy nails #shop"
expect "$(todo list --tag Home --tag shop)" "  2 [ ] buy milk #shop #home"
expect "$(todo list --tag none)" ""
todo done 2 > /dev/null
expect "$(todo list --tag home)" ""
expect "$(todo list --all --tag home)" "  2 [x] buy milk #shop #home"
code=0; todo add "bad" --tag "a b" > /dev/null 2> "$folder/errors" || code=$?
expect "$code" 2
[ -s "$folder/errors" ] || { echo "no message for a bad tag"; exit 1; }
code=0; todo add "bad" --tag "" > /dev/null 2>&1 || code=$?
expect "$code" 2
expect "$(todo list --all | wc -l | tr -d ' ')" 3
