#!/usr/bin/env bash
# Exit 0 if the task is solved. Runs in the project.
set -euo pipefail
export PYTHONDONTWRITEBYTECODE=1

python3 -m unittest
n_tests=$(python3 -m unittest 2>&1 | sed -n 's/^Ran \([0-9]*\) test.*/\1/p')
if [ "$n_tests" -le 9 ]; then echo "no test was added"; exit 1; fi

python3 - <<'PY'
from rooms.intervals import Interval, merge, minutes
from rooms.schedule import Schedule, Taken

def span(text):
    start, end = text.split("-")
    return Interval(minutes(start), minutes(end))

assert not span("09:00-10:00").overlaps(span("10:00-11:00"))
assert not span("10:00-11:00").overlaps(span("09:00-10:00"))
assert span("09:00-10:01").overlaps(span("10:00-11:00"))
assert span("09:00-12:00").overlaps(span("10:00-11:00"))
assert merge([span("09:00-10:00"), span("10:00-11:00")]) == [span("09:00-11:00")]
assert merge([span("09:00-10:00"), span("10:01-11:00")]) == [span("09:00-10:00"), span("10:01-11:00")]
assert merge([span("09:00-12:00"), span("10:00-11:00")]) == [span("09:00-12:00")]

schedule = Schedule([("Blue", span("09:00-10:00"), "ann")])
schedule.add("Blue", span("10:00-11:00"), "ben")
schedule.add("Blue", span("08:00-09:00"), "cleo")
assert schedule.free("Blue") == [span("11:00-18:00")], schedule.free("Blue")
try:
    schedule.add("Blue", span("10:59-12:00"), "dan")
except Taken:
    pass
else:
    raise AssertionError("a taken room was given away")
PY

out=$(python3 -m rooms data/monday.csv free Blue)
[ "$out" = "08:00-09:00
10:00-13:30
14:15-16:00" ] || { echo "free: $out"; exit 1; }
