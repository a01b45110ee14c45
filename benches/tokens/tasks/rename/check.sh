#!/usr/bin/env bash
# Exit 0 if the task is solved. Runs in the project.
set -euo pipefail
export PYTHONDONTWRITEBYTECODE=1

python3 -m unittest
count() { git grep -how --untracked "$1" -- . ':!HISTORY.md' | wc -l | tr -d ' '; }
expect() { [ "$1" = "$2" ] || { echo "$3: $1 instead of $2"; exit 1; }; }
expect "$(count fetch_rate)" 0 "fetch_rate"
expect "$(count fetch_rates)" 7 "fetch_rates"
expect "$(count prefetch_rate)" 8 "prefetch_rate"
git diff --quiet HEAD -- HISTORY.md || { echo "HISTORY.md changed"; exit 1; }
expect "$(python3 -m currency rate USD JPY)" 150.000000 "rate"
expect "$(python3 -m currency rates USD | grep -o EUR)" EUR "rates"
expect "$(python3 scripts/print_table.py EUR USD | head -n 1)" "EUR 1.000000 1.080000" "print_table"
python3 - <<'PY'
import currency
assert currency.exchange_rate("EUR", "USD") and not hasattr(currency.rates, "fetch_rate")
PY
