#!/usr/bin/env bash
# Exit 0 if the task is solved. Runs in the project.
set -euo pipefail
export PYTHONDONTWRITEBYTECODE=1

python3 -m unittest
git diff --quiet HEAD -- tests/test_status.py logs || { echo "the test or the log changed"; exit 1; }
python3 -m weblog logs/access.log > "${TMPDIR:-/tmp}/expected-report.txt"
python3 - "${TMPDIR:-/tmp}/expected-report.txt" <<'PY'
import sys

expected = open(sys.argv[1], encoding="utf-8").read()
report = open("report.txt", encoding="utf-8").read()
assert report == expected, "report.txt is not the output"
rows = [line.split() for line in report.splitlines()]
assert ["José", "18"] == [row[i] for row in rows if row[:1] == ["José"] for i in (0, 2)], report
assert ["Müller", "5"] == [row[i] for row in rows if row[:1] == ["Müller"] for i in (0, 2)], report
answer = open("answer.txt", encoding="utf-8").read().split("\n")
assert [line.strip() for line in answer if line.strip()] == ["José", "18", "/café"], answer
PY
