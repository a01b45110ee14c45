#!/usr/bin/env bash
# Each line: the arguments, then what stats.sh should print.
failed=0
check() {
    local expected=$1 actual
    shift
    actual=$(bash stats.sh "$@" 2>&1)
    if [[ $actual == "$expected" ]]; then
        echo "ok    stats.sh $*"
    else
        echo "FAIL  stats.sh $*: expected '$expected', got '$actual'"
        failed=1
    fi
}
check "1 9 5" 1 5 9
check "7 7 7" 7
check "-9 -1 -5" -9 -5 -1
exit $failed
