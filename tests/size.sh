#!/usr/bin/env bash
# Lines of src/ and crates/ without tests, for each crate and in all. Not counted: `tests.rs`, `*_tests.rs`,
# `tests/`, and inline test modules.
set -euo pipefail
cd "$(dirname "$0")/.."
{ git ls-files -- '*.rs'; git ls-files --others --exclude-standard -- '*.rs'; } |
  grep -E '^(src|crates)/' | grep -vE '(^|/|_)tests(\.rs$|/)' |
  while read -r file; do [ -f "$file" ] && echo "$file"; done |
  xargs awk '
    FNR == 1 { test = 0; attribute = 0; name = FILENAME; sub(/^crates\//, "", name); sub(/\/.*/, "", name) }
    attribute { if (/^ *#\[/) next; attribute = 0; if (/^ *(pub )?mod [a-z_]+ *\{/) test = 1; next }
    /^#\[cfg\(test\)\]/ { attribute = 1; next }
    !test { lines[name]++; all++ }
    END { for (name in lines) printf "%7d %s\n", lines[name], name | "sort -rn"; close("sort -rn"); printf "%7d in all\n", all }'
