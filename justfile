# For people: `just` lists what there is.
default:
    @just --list

# Exactly what CI runs.
ci:
    bash .ci/run

# Format, then lint.
tidy:
    cargo fmt --all
    cargo clippy --all-targets -- -D warnings

# The figures of docs/BENCHMARKS.md.
bench:
    cargo bench --bench forty_turns
    cargo bench --bench sandbox

# Accept what the snapshots say now (look at the diff first).
accept:
    INSTA_UPDATE=always cargo test

# Licences, bans and sources of the dependencies.
deny:
    cargo deny check licenses bans sources
