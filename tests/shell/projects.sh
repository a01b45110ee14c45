#!/usr/bin/env bash
# Creates a fixture project deterministically: projects.sh NAME DIR
# NAME is git, python, node, rust, c or shell; only shell is no git repository. No network is used.
# Exit codes: 2 wrong arguments, 3 git is missing but needed.
set -euo pipefail
shopt -s dotglob

name=${1:-} dir=${2:-}
if [ -z "$name" ] || [ -z "$dir" ]; then
    echo "usage: projects.sh git|python|node|rust|c|shell DIR" >&2
    exit 2
fi
umask 022
export LC_ALL=C.UTF-8 TZ=UTC
# Nothing of the caller's repository or configuration may have an effect.
unset GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE GIT_OBJECT_DIRECTORY GIT_COMMON_DIR
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null GIT_TERMINAL_PROMPT=0
export GIT_AUTHOR_NAME='Ada Example' GIT_AUTHOR_EMAIL=ada@example.com
export GIT_COMMITTER_NAME='Ada Example' GIT_COMMITTER_EMAIL=ada@example.com

if [ "$name" != shell ] && ! command -v git >/dev/null; then
    echo "projects.sh: git is needed for the project $name" >&2
    exit 3
fi
mkdir -p "$dir"
cd "$dir"

# put FILE: writes standard input, creating folders.
put() {
    case $1 in */*) mkdir -p "${1%/*}" ;; esac
    cat >"$1"
}

day=0
# Each commit is one day later than the one before it.
commit() {
    day=$((day + 1))
    local date
    date=$(printf '2024-03-%02dT09:00:00+0000' "$day")
    git add -A
    GIT_AUTHOR_DATE=$date GIT_COMMITTER_DATE=$date git commit -q --allow-empty -m "$1"
}

init() {
    git init -q -b main .
    git remote add origin https://example.invalid/team/fixture.git
}

# All files get the same old timestamp; the index then knows it.
finish() {
    find . -path ./.git -prune -o -print0 | xargs -0 touch -h -d '2024-04-01T12:00:00Z'
    if [ -d .git ]; then
        git update-ref refs/remotes/origin/main main
        git update-index -q --refresh || true
    fi
}

project_git() {
    init
    put .gitignore <<'EOF'
build/
cache/
*.log
EOF
    put README.md <<'EOF'
# Demo

A small tool that greets people.

## Usage

    bin/run.sh NAME
EOF
    put src/main.sh <<'EOF'
#!/usr/bin/env bash
# Entry point.
source "$(dirname "$0")/util.sh"
main() {
    greet "${1:-world}"
}
main "$@"
EOF
    put src/util.sh <<'EOF'
# Helpers.
greet() {
    echo "Hello, $1!"
}
EOF
    put bin/run.sh <<'EOF'
#!/usr/bin/env bash
exec bash "$(dirname "$0")/../src/main.sh" "$@"
EOF
    chmod +x bin/run.sh
    commit 'Initial commit'
    put docs/guide.md <<'EOF'
# Guide

1. Install
2. Run
3. Enjoy
EOF
    echo 'Thoughts about the design.' | put 'docs/design notes.md'
    echo 'Prüfung bestanden.' | put docs/überblick.md
    ln -s docs/guide.md latest.md
    commit 'Add documentation'
    GIT_COMMITTER_DATE=2024-03-02T10:00:00+0000 git tag -a v0.1.0 -m 'Version 0.1.0'
    put src/config.json <<'EOF'
{"name": "demo", "version": "0.1.0", "retries": 3}
EOF
    commit 'Add configuration'

    git checkout -q -b feature/login
    put src/login.sh <<'EOF'
login() {
    echo "login $1"
}
EOF
    commit 'Add login'
    printf '\nlogout() {\n    echo "logout $1"\n}\n' >>src/login.sh
    commit 'Add logout'

    git checkout -q -b feature/greeting main
    sed -i 's/Hello, /Good morning, /' src/util.sh
    commit 'Greet in the morning'

    git checkout -q -b obsolete main
    rm -r docs
    commit 'Drop documentation'

    git checkout -q main
    sed -i 's/Hello, /Hi, /' src/util.sh
    commit 'Shorten the greeting'
    put CHANGELOG.md <<'EOF'
# Changelog

## 0.2.0

* Shorter greeting.

## 0.1.0

* First version.
EOF
    sed -i 's/0\.1\.0/0.2.0/' src/config.json
    commit 'Release 0.2.0'
    git tag v0.2.0
    git branch merged-fix main~1

    # Ignored, modified, staged and untracked.
    echo 'built' | put build/output.txt
    echo 'cached' | put cache/index.db
    echo 'debug line' | put debug.log
    printf '\nMore to come.\n' >>README.md
    sed -i 's/"retries": 3/"retries": 5/' src/config.json
    echo 'TODO: write tests' | put notes.txt
    echo 'sketch one' | put drafts/one.md
    echo 'sketch two' | put 'drafts/two words.md'
    mkdir -p spool/empty
}

project_python() {
    init
    put .gitignore <<'EOF'
__pycache__/
*.pyc
.venv/
build/
dist/
*.egg-info/
EOF
    put pyproject.toml <<'EOF'
[project]
name = "calc"
version = "1.2.3"
description = "A small calculator"
requires-python = ">=3.8"

[project.scripts]
calc = "calc.cli:main"
EOF
    put README.md <<'EOF'
# calc

    python3 -m calc "1 + 2 * 3"
EOF
    put calc/__init__.py <<'EOF'
"""A small calculator."""

from .ops import add, div, mul, sub
from .parser import evaluate

__all__ = ["add", "sub", "mul", "div", "evaluate"]
__version__ = "1.2.3"
EOF
    put calc/__main__.py <<'EOF'
from .cli import main

raise SystemExit(main())
EOF
    put calc/ops.py <<'EOF'
"""Basic operations."""


def add(a, b):
    return a + b


def sub(a, b):
    return a - b


def mul(a, b):
    return a * b


def div(a, b):
    if b == 0:
        raise ZeroDivisionError("division by zero")
    return a / b
EOF
    put calc/parser.py <<'EOF'
"""A recursive descent parser for arithmetic."""

import re

from . import ops

TOKEN = re.compile(r"\s*(\d+\.?\d*|[-+*/()])")


def tokenize(text):
    tokens, pos = [], 0
    text = text.rstrip()
    while pos < len(text):
        match = TOKEN.match(text, pos)
        if not match:
            raise ValueError(f"unexpected character at {pos}: {text[pos]!r}")
        tokens.append(match.group(1))
        pos = match.end()
    return tokens


def evaluate(text):
    tokens = tokenize(text)
    value = _sum(tokens)
    if tokens:
        raise ValueError(f"unexpected token {tokens[0]!r}")
    return value


def _sum(tokens):
    value = _product(tokens)
    while tokens and tokens[0] in "+-":
        op = tokens.pop(0)
        value = (ops.add if op == "+" else ops.sub)(value, _product(tokens))
    return value


def _product(tokens):
    value = _atom(tokens)
    while tokens and tokens[0] in "*/":
        op = tokens.pop(0)
        value = (ops.mul if op == "*" else ops.div)(value, _atom(tokens))
    return value


def _atom(tokens):
    token = tokens.pop(0)
    if token == "(":
        value = _sum(tokens)
        tokens.pop(0)
        return value
    return float(token) if "." in token else int(token)
EOF
    put calc/cli.py <<'EOF'
"""Command line."""

import sys

from .parser import evaluate


def main(argv=None):
    args = sys.argv[1:] if argv is None else argv
    if not args:
        print("usage: calc EXPRESSION", file=sys.stderr)
        return 2
    print(evaluate(" ".join(args)))
    return 0
EOF
    : | put tests/__init__.py
    put tests/test_ops.py <<'EOF'
import unittest

from calc import ops


class OpsTest(unittest.TestCase):
    def test_add(self):
        self.assertEqual(ops.add(2, 3), 5)

    def test_div(self):
        self.assertEqual(ops.div(9, 3), 3)

    def test_div_by_zero(self):
        with self.assertRaises(ZeroDivisionError):
            ops.div(1, 0)


if __name__ == "__main__":
    unittest.main()
EOF
    put tests/test_parser.py <<'EOF'
import unittest

from calc import evaluate


class ParserTest(unittest.TestCase):
    def test_precedence(self):
        self.assertEqual(evaluate("1 + 2 * 3"), 7)

    def test_parentheses(self):
        self.assertEqual(evaluate("(1 + 2) * 3"), 9)

    def test_garbage(self):
        with self.assertRaises(ValueError):
            evaluate("1 + x")
EOF
    put tests/test_server.py <<'EOF'
"""Opens sockets on 127.0.0.1, as many web frameworks' tests do."""

import http.server
import socket
import threading
import unittest
import urllib.request


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = b"pong"
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


class ServerTest(unittest.TestCase):
    def test_http(self):
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        with urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}/") as answer:
            self.assertEqual(answer.read(), b"pong")
        server.shutdown()
        server.server_close()

    def test_socketpair(self):
        a, b = socket.socketpair()
        with a, b:
            a.sendall(b"x")
            self.assertEqual(b.recv(1), b"x")
EOF
    put scripts/report.py <<'EOF'
#!/usr/bin/env python3
"""Prints the total per region of a CSV file."""
import collections
import csv
import sys

totals = collections.Counter()
with open(sys.argv[1]) as file:
    for row in csv.DictReader(file):
        totals[row["region"]] += int(row["amount"])
for region, amount in sorted(totals.items()):
    print(f"{region}\t{amount}")
EOF
    chmod +x scripts/report.py
    put data/sales.csv <<'EOF'
region,product,amount
north,apple,10
south,pear,7
north,pear,3
west,apple,12
south,apple,5
EOF
    put 'data/monthly report.csv' <<'EOF'
region,product,amount
east,plum,4
EOF
    put data/users.json <<'EOF'
[
  {"name": "ann", "age": 31, "active": true},
  {"name": "bob", "age": 25, "active": false},
  {"name": "cleo", "age": 47, "active": true}
]
EOF
    ln -s sales.csv data/latest.csv
    echo '# Größe der Zahlen' | put docs/größe.md
    commit 'Add the calculator'
    put CHANGES.txt <<'EOF'
1.2.3
  - parentheses
EOF
    commit 'Add the list of changes'
    git checkout -q -b feature/power
    printf '\n\ndef power(a, b):\n    return a**b\n' >>calc/ops.py
    commit 'Add power'
    git checkout -q main

    echo 'stale' | put calc/__pycache__/removed.cpython-30.pyc
    echo 'stale' | put tests/__pycache__/removed.cpython-30.pyc
    echo 'home = /usr/bin' | put .venv/pyvenv.cfg
    echo '# installed' | put .venv/lib/python3/site-packages/pkg/__init__.py
    echo 'old' | put build/lib/calc/ops.py
    echo 'old wheel' | put dist/calc-1.2.2.txt
    sed -i '1s/.*/"""Basic arithmetic operations."""/' calc/ops.py
    echo 'ship it' | put TODO.txt
    echo 'x = 1' | put scratch/try.py
    mkdir -p out
}

project_node() {
    init
    put .gitignore <<'EOF'
node_modules/
dist/
coverage/
*.tgz
EOF
    put package.json <<'EOF'
{
  "name": "fixture",
  "version": "1.0.0",
  "description": "A fixture",
  "license": "MIT",
  "main": "src/index.js",
  "bin": { "fixture": "bin/cli.js" },
  "files": ["src", "bin"],
  "scripts": {
    "build": "node scripts/build.js",
    "clean": "rm -rf dist coverage",
    "lint": "node scripts/lint.js",
    "pretest": "npm run --silent lint",
    "start": "node src/server.js",
    "test": "node --test test/"
  },
  "dependencies": { "tiny-pad": "1.0.0" }
}
EOF
    put package-lock.json <<'EOF'
{
  "name": "fixture",
  "version": "1.0.0",
  "lockfileVersion": 3,
  "requires": true,
  "packages": {
    "": { "name": "fixture", "version": "1.0.0", "dependencies": { "tiny-pad": "1.0.0" } },
    "node_modules/tiny-pad": { "version": "1.0.0" }
  }
}
EOF
    put README.md <<'EOF'
# fixture

Run `npm test`.
EOF
    put src/math.js <<'EOF'
function add(a, b) {
  return a + b;
}

function range(n) {
  return Array.from({ length: n }, (_, i) => i);
}

module.exports = { add, range };
EOF
    put src/index.js <<'EOF'
const pad = require("tiny-pad");
const { add, range } = require("./math");

// TODO: support more formats
function table(n) {
  return range(n).map((i) => pad(String(add(i, i)), 4)).join("\n");
}

module.exports = { table, add, range };
EOF
    put src/server.js <<'EOF'
const http = require("node:http");

function create() {
  return http.createServer((request, response) => {
    response.setHeader("content-type", "application/json");
    response.end(JSON.stringify({ path: request.url, ok: true }));
  });
}

if (require.main === module) {
  const port = Number(process.env.PORT || 3000);
  create().listen(port, "127.0.0.1", () => console.log(`listening on ${port}`));
}

module.exports = { create };
EOF
    put bin/cli.js <<'EOF'
#!/usr/bin/env node
const { table } = require("../src");
console.log(table(Number(process.argv[2] || 3)));
EOF
    chmod +x bin/cli.js
    put scripts/build.js <<'EOF'
const fs = require("node:fs");
fs.mkdirSync("dist", { recursive: true });
for (const name of fs.readdirSync("src").sort()) {
  fs.writeFileSync(`dist/${name}`, `"use strict";\n${fs.readFileSync(`src/${name}`, "utf8")}`);
  console.log(`built dist/${name}`);
}
EOF
    put scripts/lint.js <<'EOF'
const fs = require("node:fs");
let bad = 0;
for (const name of fs.readdirSync("src").sort()) {
  fs.readFileSync(`src/${name}`, "utf8").split("\n").forEach((line, i) => {
    if (line.includes("\t")) {
      console.log(`src/${name}:${i + 1}: tab`);
      bad = 1;
    }
  });
}
process.exitCode = bad;
EOF
    put test/math.test.js <<'EOF'
const test = require("node:test");
const assert = require("node:assert");
const { add, range } = require("../src/math");

test("add", () => assert.strictEqual(add(1, 2), 3));
test("range", () => assert.deepStrictEqual(range(3), [0, 1, 2]));
EOF
    put test/server.test.js <<'EOF'
const test = require("node:test");
const assert = require("node:assert");
const http = require("node:http");
const { create } = require("../src/server");

test("answers on 127.0.0.1", (t, done) => {
  const server = create().listen(0, "127.0.0.1", () => {
    http.get({ host: "127.0.0.1", port: server.address().port, path: "/x" }, (response) => {
      let body = "";
      response.on("data", (part) => (body += part));
      response.on("end", () => {
        assert.deepStrictEqual(JSON.parse(body), { path: "/x", ok: true });
        server.close(done);
      });
    });
  });
});
EOF
    echo 'a logo' | put 'assets/large logo.txt'
    echo 'naïve' | put assets/naïve.txt
    ln -s src lib
    commit 'Add the fixture'
    printf '\n## License\n\nMIT\n' >>README.md
    commit 'Name the license'

    put node_modules/tiny-pad/package.json <<'EOF'
{ "name": "tiny-pad", "version": "1.0.0", "main": "index.js" }
EOF
    put node_modules/tiny-pad/index.js <<'EOF'
module.exports = (text, width) => text.padStart(width);
EOF
    mkdir -p node_modules/.bin
    ln -s ../tiny-pad/index.js node_modules/.bin/tiny-pad
    echo '// old' | put dist/removed.js
    sed -i 's/a fixture/a small fixture/I' README.md
    sed -i 's|// TODO: support more formats|// TODO: support all formats|' src/index.js
    echo '{"level": "debug"}' | put local.json
    echo 'draft' | put notes/draft.md
    mkdir -p uploads
}

project_rust() {
    init
    put .gitignore <<'EOF'
/target
EOF
    put Cargo.toml <<'EOF'
[package]
name = "wordcount"
version = "0.3.0"
edition = "2021"

[dependencies]

# Cargo otherwise looks for a workspace in every parent directory.
[workspace]

[profile.dev]
debug = false
incremental = false
EOF
    put Cargo.lock <<'EOF'
# This file is automatically @generated by Cargo.
# It is not intended for manual editing.
version = 3

[[package]]
name = "wordcount"
version = "0.3.0"
EOF
    put src/lib.rs <<'EOF'
//! Counts words.

/// The number of words in a text.
///
/// ```
/// assert_eq!(wordcount::count("a b"), 2);
/// ```
pub fn count(text: &str) -> usize {
    text.split_whitespace().count()
}

/// The longest word.
pub fn longest(text: &str) -> Option<&str> {
    text.split_whitespace().max_by_key(|word| word.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts() {
        assert_eq!(count("one two  three"), 3);
    }

    #[test]
    fn finds_the_longest() {
        assert_eq!(longest("a bcd ef"), Some("bcd"));
    }
}
EOF
    put src/main.rs <<'EOF'
use std::io::Read;

fn main() {
    let mut text = String::new();
    match std::env::args().nth(1) {
        Some(path) => text = std::fs::read_to_string(path).expect("readable file"),
        None => {
            std::io::stdin().read_to_string(&mut text).expect("readable input");
        }
    }
    println!("{}", wordcount::count(&text));
}
EOF
    put tests/integration.rs <<'EOF'
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

#[test]
fn counts_what_came_over_a_socket() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    client.write_all(b"three small words").unwrap();
    drop(client);
    let mut text = String::new();
    listener.accept().unwrap().0.read_to_string(&mut text).unwrap();
    assert_eq!(wordcount::count(&text), 3);
}
EOF
    put examples/hello.rs <<'EOF'
fn main() {
    println!("hello from an example");
}
EOF
    put README.md <<'EOF'
# wordcount

Counts words.
EOF
    put samples/text.txt <<'EOF'
the quick brown fox
jumps over the lazy dog
EOF
    echo 'words with spaces' | put 'samples/two words.txt'
    echo 'straße überall' | put samples/straße.txt
    ln -s text.txt samples/default.txt
    put scripts/check.sh <<'EOF'
#!/bin/sh
set -e
cargo build --offline --quiet
echo checked
EOF
    chmod +x scripts/check.sh
    commit 'Count words'
    printf '\nIt also finds the longest one.\n' >>README.md
    commit 'Describe longest'
    git checkout -q -b feature/lines
    printf '\n/// The number of lines.\npub fn lines(text: &str) -> usize {\n    text.lines().count()\n}\n' >>src/lib.rs
    commit 'Count lines'
    git checkout -q main

    echo 'stale' | put target/debug/stale.txt
    sed -i 's|//! Counts words\.|//! Counts words in texts.|' src/lib.rs
    echo 'idea: count letters' | put ideas.md
    echo 'fn main() {}' | put playground/try.rs
    mkdir -p fixtures
}

project_c() {
    init
    put .gitignore <<'EOF'
build/
*.o
*.a
EOF
    printf '%s\n' \
        'CC ?= cc' 'CFLAGS ?= -O0 -Wall -Iinclude' 'PREFIX ?= /usr/local' '' \
        'all: build/app' '' \
        'build/app: build/main.o build/util.o' '	$(CC) $^ -o $@' '' \
        'build/%.o: src/%.c include/util.h' '	@mkdir -p build' '	$(CC) $(CFLAGS) -c $< -o $@' '' \
        'build/test_util: tests/test_util.c build/util.o' '	$(CC) $(CFLAGS) $^ -o $@' '' \
        'test: build/test_util' '	./build/test_util' '' \
        'install: all' '	mkdir -p $(PREFIX)/bin' '	cp build/app $(PREFIX)/bin/app' '' \
        'clean:' '	rm -rf build' '' \
        '.PHONY: all test install clean' | put Makefile
    put include/util.h <<'EOF'
#ifndef UTIL_H
#define UTIL_H

#define VERSION "1.0"

int add(int a, int b);
int clamp(int value, int low, int high);

#endif
EOF
    put src/util.c <<'EOF'
#include "util.h"

int add(int a, int b) { return a + b; }

int clamp(int value, int low, int high) {
    if (value < low) return low;
    if (value > high) return high;
    return value;
}
EOF
    put src/main.c <<'EOF'
#include <stdio.h>
#include <stdlib.h>

#include "util.h"

int main(int argc, char **argv) {
    int sum = 0;
    for (int i = 1; i < argc; i++) sum = add(sum, atoi(argv[i]));
    printf("%d\n", sum);
    return 0;
}
EOF
    put tests/test_util.c <<'EOF'
#include <assert.h>
#include <stdio.h>

#include "util.h"

int main(void) {
    assert(add(2, 3) == 5);
    assert(clamp(9, 0, 5) == 5);
    puts("all tests passed");
    return 0;
}
EOF
    put configure <<'EOF'
#!/bin/sh
# Writes config.mk.
prefix=/usr/local
for arg in "$@"; do
    case $arg in --prefix=*) prefix=${arg#--prefix=} ;; esac
done
echo "PREFIX = $prefix" >config.mk
echo "configured for $prefix"
EOF
    chmod +x configure
    put README.md <<'EOF'
# sum

Adds numbers.
EOF
    put patches/version.patch <<'EOF'
--- a/include/util.h
+++ b/include/util.h
@@ -1,7 +1,7 @@
 #ifndef UTIL_H
 #define UTIL_H
 
-#define VERSION "1.0"
+#define VERSION "1.1"
 
 int add(int a, int b);
 int clamp(int value, int low, int high);
EOF
    echo 'release notes' | put 'docs/release notes.txt'
    echo 'Änderungen' | put docs/änderungen.txt
    ln -s src/util.c util-link.c
    commit 'Add numbers'
    printf '\nBuild with make.\n' >>README.md
    commit 'Describe the build'

    echo 'stale object' | put build/stale.o
    printf '\n/* end */\n' >>src/main.c
    echo 'scratch' | put scratch.txt
    mkdir -p third_party
}

project_shell() {
    put bin/deploy.sh <<'EOF'
#!/usr/bin/env bash
set -euo pipefail
source "$(dirname "$0")/../lib/common.sh"
log "deploying ${1:-nothing}"
EOF
    put bin/count.sh <<'EOF'
#!/bin/sh
wc -l <"$1" | tr -d ' '
EOF
    chmod +x bin/deploy.sh bin/count.sh
    put lib/common.sh <<'EOF'
log() { printf '[%s] %s\n' "${LEVEL:-info}" "$*"; }
EOF
    put conf/app.conf <<'EOF'
host = localhost
port = 8080
debug = false
# comment
name = demo
EOF
    put conf/db.conf <<'EOF'
host = localhost
port = 5432
user = demo
EOF
    local i
    for i in 1 2 3; do
        for n in 1 2 3 4; do
            echo "2024-03-0$i 10:00:0$n INFO request $n took $((i * n * 7)) ms"
            [ $(((i + n) % 3)) != 0 ] || echo "2024-03-0$i 10:00:0$n ERROR failed $n"
        done | put "logs/app-$i.log"
    done
    put data/people.csv <<'EOF'
id,name,city,age
1,Ann,Berlin,31
2,Bob,Paris,25
3,Cleo,Berlin,47
4,Dan,Rome,38
5,Eve,Paris,29
EOF
    put data/fruits.txt <<'EOF'
pear
apple
plum
apple
cherry
pear
apple
EOF
    put data/config.json <<'EOF'
{"services": [{"name": "web", "port": 80}, {"name": "db", "port": 5432}], "debug": false}
EOF
    echo 'release one' | put releases/1/app.txt
    echo 'release two' | put releases/2/app.txt
    ln -s releases/1 current
    echo 'kept' | put 'old backups/keep me.txt'
    echo 'gone soon' | put 'old backups/a b c.bak'
    echo 'Übersicht' | put übersicht.txt
    echo 'temporary' | put work/a.tmp
    echo 'temporary' | put work/b.tmp
    echo 'kept' | put work/c.txt
    printf 'one\r\ntwo\r\n' | put work/dos.txt
    printf '#!/bin/sh\necho new tool\n' | put work/tool.sh
    mkdir -p spool/in spool/out
}

case $name in
git | python | node | rust | c | shell) "project_$name" ;;
*)
    echo "projects.sh: unknown project: $name" >&2
    exit 2
    ;;
esac
finish
