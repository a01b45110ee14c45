#!/usr/bin/env bash
# Exit 0 if the task is solved. Runs in the project.
set -euo pipefail
export PYTHONDONTWRITEBYTECODE=1

python3 -m unittest
for file in README.md docs/language.md tests/test_{lexer,parser,evaluate,cli}.py; do
    ! git diff --quiet HEAD -- "$file" || { echo "$file is as it was"; exit 1; }
done
grep -q -- '--count' README.md || { echo "the README does not say --count"; exit 1; }
grep -q '"or"' docs/language.md && grep -q '"not"' docs/language.md && grep -q '"in"' docs/language.md ||
    { echo "the grammar lacks a keyword"; exit 1; }

names() {
    expected=$1; shift
    got=$(python3 -m rowfilter data/people.csv "$1" --columns name | tail -n +2 | tr '\n' ' ') || true
    [ "$got" = "$expected" ] || { printf '%s\nexpected: %s\ngot:      %s\n' "$1" "$expected" "$got"; exit 1; }
}
names "Anna Cleo Dan " "city = Aachen or city = Bonn and age > 30"
names "Cleo " "(city = Aachen OR city = Bonn) and age > 35"
names "Ben Dan Eve Frank " "not city = Bonn"
names "Anna Cleo " "NOT not city = Bonn"
names "Ben Eve " "not (city = Bonn or age > 60) and not name = Dan"
names "Ben Dan Eve " "age in (29, 9.0)"
names "Eve Frank " "city in ('O''Fallon', Köln) and not age In (29)"
names "Anna " "((name = Anna))"
names "" "age = 1 or age = 2"
fails() {
    code=0; errors=$(python3 -m rowfilter data/people.csv "$1" 2>&1 > /dev/null) || code=$?
    [ "$code" = 2 ] && [[ $errors == *"position $2:"* ]] ||
        { printf '%s: exit code %s instead of 2, or position %s is missing: %s\n' "$1" "$code" "$2" "$errors"; exit 1; }
}
fails "age in ()" 9
fails "(age = 1" 9
fails "age = 1 or" 11
fails "age = 1)" 8
fails "not" 4
fails "age in (1 2)" 11
fails "age in 1" 8
fails "()" 2
fails "age = or" 7
code=0; python3 -m rowfilter data/people.csv "age = 1 or not town in (1)" 2> /dev/null || code=$?
[ "$code" = 2 ] || { echo "an unknown column in a list is no error"; exit 1; }
tree=$(python3 -m rowfilter data/people.csv "not (age = 9 or city in (Bonn, 'Köln')) and name ~ a" --explain)
[ "$tree" = "and
  not
    or
      age = '9'
      city in 'Bonn', 'Köln'
  name ~ 'a'" ] || { printf 'explained as:\n%s\n' "$tree"; exit 1; }
[ "$(python3 -m rowfilter data/people.csv "age < 30" --count)" = 3 ]
code=0; n=$(python3 -m rowfilter data/people.csv "age > 100" --count) || code=$?
[ "$n $code" = "0 1" ] || { echo "--count without rows: $n, exit code $code"; exit 1; }
