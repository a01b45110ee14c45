#!/usr/bin/env bash
# Prints the smallest, the largest and the mean of its arguments, which are whole numbers.
set -euo pipefail

smallest() {
    local min=$1
    for n in "$@"; do
        ((n < min)) && min=$n
    done
    echo "$min"
}

largest() {
    local max=0
    for n in "$@"; do
        ((n > max)) && max=$n
    done
    echo "$max"
}

mean() {
    local sum=0
    for n in "$@"; do
        sum=$((sum + n))
    done
    echo $((sum / $#))
}

if (($# == 0)); then
    echo "usage: stats.sh NUMBER..." >&2
    exit 2
fi
echo "$(smallest "$@") $(largest "$@") $(mean "$@")"
