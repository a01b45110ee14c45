//! Did the user ask for a test, a build or a lint to be run, and is a command one? Tables; what users say in
//! English and Chinese.

use crate::protocol::command::{
    INTERPRETERS, Simple, must_have_succeeded, name_of, program, unquoted,
};
use crate::protocol::topics;

/// What a user asks to be run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Proof {
    Test,
    Build,
    Lint,
}

/// Of each kind the words that ask for it.
const WORDS: [(Proof, &[&str]); 3] = [
    (
        Proof::Test,
        &[
            "run the test",
            "run tests",
            "run all tests",
            "run the unit test",
            "tests pass",
            "tests must pass",
            "test suite passes",
            "tests are green",
            "tests green",
            "make the tests pass",
            "run cargo test",
            "run pytest",
            "run npm test",
            "run go test",
            "and test it",
            "rerun the test",
            "运行测试",
            "跑测试",
            "跑一下测试",
            "跑一遍测试",
            "执行测试",
            "测试通过",
            "通过测试",
            "测试全部通过",
            "测试都通过",
        ],
    ),
    (
        Proof::Build,
        &[
            "run the build",
            "build it",
            "make sure it builds",
            "make sure it compiles",
            "must compile",
            "must build",
            "still compiles",
            "still builds",
            "run make",
            "run cargo build",
            "编译通过",
            "能编译",
            "可以编译",
            "构建通过",
            "构建成功",
            "运行构建",
        ],
    ),
    (
        Proof::Lint,
        &[
            "run the linter",
            "run lint",
            "run clippy",
            "lint passes",
            "linter passes",
            "no lint errors",
            "no lint warnings",
            "clippy clean",
            "run eslint",
            "run ruff",
            "运行 lint",
            "跑 lint",
            "跑一下 lint",
            "lint 通过",
            "代码检查通过",
        ],
    ),
];

/// Programs whose first argument says what they do.
const BY_FIRST: [&str; 27] = [
    "cargo",
    "npm",
    "pnpm",
    "yarn",
    "bun",
    "go",
    "dotnet",
    "swift",
    "deno",
    "mix",
    "zig",
    "bazel",
    "composer",
    "rails",
    "mkdocs",
    "mdbook",
    "next",
    "nuxt",
    "astro",
    "gatsby",
    "jekyll",
    "zola",
    "docusaurus",
    "vitepress",
    "eleventy",
    "ng",
    "expo",
];
/// Programs that take a list of what to do, and build where there is none.
const BY_ANY: [&str; 32] = [
    "make",
    "gmake",
    "mvn",
    "mvnw",
    "gradle",
    "gradlew",
    "just",
    "rake",
    "task",
    "sbt",
    "ant",
    "bazelisk",
    "buck2",
    "cabal",
    "dart",
    "dune",
    "earthly",
    "fastlane",
    "flutter",
    "hatch",
    "invoke",
    "lein",
    "meson",
    "mill",
    "moon",
    "nx",
    "pants",
    "rebar3",
    "scons",
    "stack",
    "turbo",
    "xcodebuild",
];
/// Those of them that only tell how they are used where nothing is named.
const HELPS_ALONE: [&str; 15] = [
    "bazelisk", "buck2", "cabal", "dart", "earthly", "fastlane", "flutter", "hatch", "invoke",
    "lein", "moon", "nx", "pants", "rebar3", "turbo",
];
/// Programs that run a command elsewhere, with the words before it: `docker compose exec web npm test`. `*` stands for
/// one word that is no option, `--` for itself and whatever comes before it.
const ELSEWHERE: [(&str, &[&str]); 16] = [
    ("docker", &["compose", "exec", "*"]),
    ("docker", &["compose", "run", "*"]),
    ("docker", &["exec", "*"]),
    ("docker", &["run", "*"]),
    ("docker-compose", &["exec", "*"]),
    ("docker-compose", &["run", "*"]),
    ("podman", &["exec", "*"]),
    ("podman", &["run", "*"]),
    ("podman-compose", &["exec", "*"]),
    ("podman-compose", &["run", "*"]),
    ("kubectl", &["exec", "--"]),
    ("sudo", &[]),
    ("xvfb-run", &[]),
    ("direnv", &["exec", "*"]),
    ("nix", &["develop", "-c"]),
    ("mise", &["exec", "--"]),
];
/// Arguments with which nothing of it is done, or nothing that ends.
const ONLY_ASKS: [&str; 19] = [
    "--help",
    "-h",
    "--version",
    "-version",
    "--no-run",
    "--collect-only",
    "--dry-run",
    "--list",
    "--listtests",
    "--list-tests",
    "--showconfig",
    "--show-config",
    "--print-config",
    "--init",
    "--watch",
    "--watchall",
    "--serve",
    "--ui",
    "clean",
];
/// Such tasks of programs that do their work without one. To other programs the word may be a folder.
const TELLING_TASKS: [(&str, &[&str]); 8] = [
    ("cypress", &["help", "info", "verify", "version"]),
    ("golangci-lint", &["cache", "config", "help", "linters", "version"]),
    ("nextest", &["list", "show-config"]),
    ("playwright", &["help", "list"]),
    ("ruff", &["config", "help", "linter", "rule", "version"]),
    ("tox", &["config", "list"]),
    ("vitest", &["list"]),
    ("webpack", &["configtest", "help", "info", "version"]),
];
/// Programs that print or look, and would succeed whatever the work is worth.
const ONLY_LOOKS: [&str; 29] = [
    "echo", "printf", "true", ":", "pwd", "ls", "cat", "head", "tail", "wc", "which", "type",
    "date", "whoami", "env", "export", "set", "cd", "git", "sleep", "mkdir", "touch", "tree",
    "file", "stat", "uname", "sort", "uniq", "command",
];

/// Words shortly before that turn the request round.
const NEGATIONS: [&str; 9] =
    ["don't", "do not", "without", "never", "no need to", "not necessary to", "不要", "不用", "别"];
/// How far back they are looked for, in bytes.
const NEAR: usize = 24;

/// What the user asked to be run; nothing where it is a question of something else.
pub(super) fn asked(message: &str) -> Vec<Proof> {
    let text = message.to_lowercase();
    let asks = |words: &&str| {
        text.match_indices(*words).any(|(at, _)| {
            let from = text.floor_char_boundary(at.saturating_sub(NEAR));
            // A sentence of its own.
            let before =
                text[from..at].rsplit(['.', ';', '!', '。', '；', '\n']).next().unwrap_or("");
            !NEGATIONS.iter().any(|no| before.contains(no))
        })
    };
    let asked = WORDS.iter().filter(|(_, words)| words.iter().any(asks));
    asked.map(|(proof, _)| *proof).collect()
}

/// What a command line that ended well proves. `stages_known`: each stage of its pipeline did.
pub(super) fn proves(line: &str, stages_known: bool) -> Vec<Proof> {
    let mut proven = of_each(&line.to_lowercase(), stages_known, proves_alone);
    proven.sort_unstable();
    proven.dedup();
    proven.into_iter().flatten().collect()
}

/// A line of which no part could have failed at the work: that it ran proves nothing.
pub(super) fn can_fail(line: &str, stages_known: bool) -> bool {
    let can_fail = |words: &[&str]| {
        let program = unwrapped(words).first().copied().map_or("", name_of);
        !program.is_empty() && !ONLY_LOOKS.contains(&program)
    };
    of_each(line, stages_known, can_fail).contains(&true)
}

/// This of each command that has succeeded where the line did, from its words without quotes.
fn of_each<T>(line: &str, stages_known: bool, what: impl Fn(&[&str]) -> T) -> Vec<T> {
    let commands = must_have_succeeded(line, stages_known);
    let of = |simple: &Simple<'_>| {
        let words: Vec<String> = simple.words.iter().map(|word| unquoted(word)).collect();
        what(&words.iter().map(String::as_str).collect::<Vec<_>>())
    };
    commands.iter().map(of).collect()
}

/// A text for people, that nothing is built from.
pub(super) fn is_prose(path: &str) -> bool {
    const NAMES: [&str; 8] =
        ["changes", "changelog", "readme", "news", "history", "authors", "notes", "todo"];
    let name = name_of(path).to_lowercase();
    NAMES.contains(&name.as_str())
        || [".md", ".rst", ".adoc"].iter().any(|ending| name.ends_with(ending))
}

/// What one simple command proves.
fn proves_alone(words: &[&str]) -> Option<Proof> {
    let words = unwrapped(words);
    let (program, arguments) = words.split_first()?;
    if arguments.iter().any(|argument| ONLY_ASKS.contains(argument)) {
        return None;
    }
    let name = name_of(program);
    let mut elsewhere = ELSEWHERE.iter().filter(|(program, _)| *program == name);
    if let Some(command) = elsewhere.find_map(|(_, before)| behind(arguments, before)) {
        return proves_alone(command);
    }
    let mut named = arguments.iter().filter(|argument| !argument.starts_with(['-', '+']));
    if BY_FIRST.contains(&name) {
        let task = named.find(|argument| **argument != "run")?;
        return kind_of_task(name, task);
    }
    if BY_ANY.contains(&name) {
        let tasks: Vec<&&str> = named.filter(|argument| !argument.contains('=')).collect();
        if tasks.is_empty() {
            let builds = !HELPS_ALONE.contains(&name) && !arguments.contains(&"-n");
            return builds.then_some(Proof::Build);
        }
        return tasks.iter().find_map(|task| kind_of_task(name, task));
    }
    if let Some(topic) = topics::of_call(name, arguments) {
        return of_topic(topic, name, arguments);
    }
    if INTERPRETERS.contains(&name) {
        return match arguments.first()? {
            &"--test" => Some(Proof::Test),
            script if script.starts_with('-') && !["-e", "-u", "-x", "-ex"].contains(script) => {
                None
            }
            _ => kind_of_task(name, stem(named.next()?)),
        };
    }
    // A script of the project's.
    (program.contains('/') || program.contains('.')).then(|| kind_of_task(name, stem(program)))?
}

/// The command that stands behind these words and the options among them, if they are there. What an option takes is
/// not known: a value of its own looks like one of the words.
fn behind<'a>(mut words: &'a [&'a str], before: &[&str]) -> Option<&'a [&'a str]> {
    for wanted in before {
        let at = match *wanted {
            "--" | "-c" => words.iter().position(|word| word == wanted),
            "*" => words.iter().position(|word| !word.starts_with('-')),
            task => {
                words.iter().position(|word| !word.starts_with('-')).filter(|at| words[*at] == task)
            }
        };
        words = &words[at? + 1..];
    }
    Some(behind_options(words))
}

fn behind_options<'a>(words: &'a [&'a str]) -> &'a [&'a str] {
    &words[words.iter().take_while(|word| word.starts_with('-')).count()..]
}

/// What a task of this name does: `test:unit`, `run-tests`, `lint`.
fn kind_of_task(program: &str, task: &str) -> Option<Proof> {
    let parts = || task.split(|c: char| !c.is_alphabetic());
    let has = |names: &[&str]| parts().any(|part| names.contains(&part));
    if has(&["lint", "clippy", "fmt", "format", "typecheck", "vet"]) {
        return Some(Proof::Lint);
    }
    if has(&["test", "tests", "nextest", "unittest", "runtests", "spec", "specs", "verify"]) {
        return Some(Proof::Test);
    }
    if has(&["check"]) {
        return Some(if program == "cargo" { Proof::Build } else { Proof::Test });
    }
    let is_short_of_test = task == "t" && ["cargo", "npm"].contains(&program);
    let builds = has(&["build", "compile", "all", "assemble", "package"]);
    match (is_short_of_test, builds || (program == "cargo" && task == "b")) {
        (true, _) => Some(Proof::Test),
        (false, true) => Some(Proof::Build),
        (false, false) => None,
    }
}

/// The command behind programs that only start another one: `timeout 60 cargo test`, `python -m pytest`.
fn unwrapped<'a>(words: &'a [&'a str]) -> &'a [&'a str] {
    let words = program(words);
    let Some((first, rest)) = words.split_first() else { return words };
    match (name_of(first), rest) {
        ("python" | "python3", ["-m", module @ ..]) => unwrapped(module),
        ("npx", command) => unwrapped(behind_options(command)),
        ("uv" | "poetry" | "pipenv" | "pdm" | "rye", ["run", command @ ..])
        | ("bundle" | "pnpm" | "npm" | "yarn", ["exec" | "dlx", command @ ..]) => {
            unwrapped(command)
        }
        // `yarn jest`, `cargo nextest`: a program of the project's.
        ("yarn" | "pnpm" | "bun" | "cargo", [command, ..])
            if topics::of_call(command, &rest[1..]).is_some() =>
        {
            rest
        }
        _ => words,
    }
}

/// What a program of this topic proves, which needs no task for it.
fn of_topic(topic: &str, name: &str, arguments: &[&str]) -> Option<Proof> {
    let tells = |first: &&str| {
        TELLING_TASKS.iter().any(|(program, tasks)| *program == name && tasks.contains(first))
    };
    match topic {
        _ if arguments.first().is_some_and(tells) => None,
        "test" => Some(Proof::Test),
        "build" => Some(Proof::Build),
        "lint" | "format" => Some(Proof::Lint),
        "docs" if name.ends_with("-build") => Some(Proof::Build),
        _ => None,
    }
}

/// A script's name without folder and ending.
fn stem(path: &str) -> &str {
    let name = name_of(path);
    name.rsplit_once('.').map_or(name, |(stem, _)| stem)
}

impl Proof {
    /// In a word.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Test => "tests",
            Self::Build => "a build",
            Self::Lint => "a linter",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_to_run_something_is_heard() {
        use Proof::{Build, Lint, Test};
        for (message, expected) in [
            ("Fix the bug and run the tests.", &[Test][..]),
            ("rename foo; make sure it compiles and the tests pass", &[Test, Build]),
            ("Tidy up. Run clippy at the end", &[Lint]),
            ("修复这个错误，然后运行测试", &[Test]),
            ("重构这个函数，要保证编译通过", &[Build]),
            ("改完之后跑一下 lint", &[Lint]),
            ("Fix it. Don't run the tests, they take an hour.", &[]),
            ("改掉这个拼写，不要运行测试", &[]),
            ("write a test for parse()", &[]),
            ("why does this test fail?", &[]),
            ("explain how the build works", &[]),
            ("这个测试为什么失败？", &[]),
            ("Don't touch main.rs. Run the tests.", &[Test]),
        ] {
            assert_eq!(asked(message), expected, "{message}");
        }
    }

    #[test]
    fn a_command_proves_what_it_runs() {
        use Proof::{Build, Lint, Test};
        for (command, expected) in [
            ("cargo test -q", &[Test][..]),
            ("python -m pytest tests", &[Test]),
            ("python3 -m unittest", &[Test]),
            ("python tests/test_a.py", &[Test]),
            ("bash -e run_tests.sh", &[Test]),
            ("./scripts/test", &[Test]),
            ("cd a && CI=1 timeout 60 npm run test:unit 2>&1", &[Test]),
            ("yarn jest", &[Test]),
            ("npm run build", &[Build]),
            ("make", &[Build]),
            ("cargo check", &[Build]),
            ("cargo build && cargo test", &[Test, Build]),
            ("cargo clippy -- -D warnings", &[Lint]),
            ("go vet ./...", &[Lint]),
            ("make test", &[Test]),
            ("make -j4 lint", &[Lint]),
            ("xcodebuild -scheme Trips -destination x test", &[Test]),
            ("docker compose exec -T web npm test", &[Test]),
            ("kubectl exec web -- python -m pytest tests", &[Test]),
            ("docker compose up -d web", &[]),
            ("docker run --rm app cargo test", &[Test]),
            ("sudo ls tests", &[]),
            ("sudo apt-get install -y bats", &[]),
            ("sudo npm install -g jest", &[]),
            ("docker compose -f docker-compose.test.yml up -d", &[]),
            ("kubectl apply -f k8s/test.yaml", &[]),
            ("sudo rm -rf build/test", &[]),
            ("npm \\\n  test", &[Test]),
            ("{ npm run build && npm test; } 2>&1", &[Test, Build]),
            ("command -v pytest", &[]),
            ("command -V cargo test", &[]),
            ("type pytest", &[]),
            ("which pytest", &[]),
            ("true || (echo x; pytest)", &[]),
            ("vite build", &[Build]),
            ("yarn vite build", &[Build]),
            ("npx vite build --outDir dist", &[Build]),
            ("vite", &[]),
            ("vite dev", &[]),
            ("vite --port 80", &[]),
            ("vite preview", &[]),
            ("vite optimize", &[]),
            ("webpack", &[Build]),
            ("webpack --mode production", &[Build]),
            ("webpack --watch", &[]),
            ("webpack serve", &[]),
            ("npx webpack watch", &[]),
            ("tsc -p .", &[Build]),
            ("tsc --init", &[]),
            ("tsc --showConfig", &[]),
            ("npx playwright test", &[Test]),
            ("npx playwright install --with-deps", &[]),
            ("python -m playwright install", &[]),
            ("playwright show-report", &[]),
            ("cypress run", &[Test]),
            ("cypress open", &[]),
            ("vitest run", &[Test]),
            ("vitest list", &[]),
            ("cargo nextest run", &[Test]),
            ("cargo nextest list", &[]),
            ("pytest dev", &[Test]),
            ("pytest -k list", &[Test]),
            ("mypy server", &[Lint]),
            ("ruff check .", &[Lint]),
            ("ruff rule F401", &[]),
            ("eslint --init", &[]),
            ("jest --listTests", &[]),
            ("pytest -h", &[]),
            ("mkdocs build --strict", &[Build]),
            ("bin/mkdocs build --strict", &[Build]),
            ("bin/mkdocs serve", &[]),
            ("mdbook test", &[Test]),
            (".venv/bin/sphinx-build -b html docs out", &[Build]),
            ("sphinx-build -b html docs out", &[Build]),
            ("./node_modules/.bin/tsc --noEmit", &[Build]),
            ("node_modules/.bin/next lint", &[Lint]),
            ("./node_modules/.bin/eslint src", &[Lint]),
            (".venv/bin/pytest -q", &[Test]),
            (".venv/bin/python -m pytest", &[Test]),
            (".venv/bin/mypy src", &[Lint]),
            ("bin/rails test", &[Test]),
            ("bin/elm-test init", &[]),
            ("bin/golangci-lint run", &[Lint]),
            ("bin/golangci-lint linters", &[]),
            ("flutter", &[]),
            ("make clean", &[]),
            ("git status", &[]),
            ("git checkout test", &[]),
            ("git diff tests/", &[]),
            ("grep -n f tests/a.py", &[]),
            ("head test.py", &[]),
            ("cat Makefile build.rs", &[]),
            ("npm install --save-dev jest", &[]),
            ("bash -n test.sh", &[]),
            ("cargo test --no-run", &[]),
            ("cargo test | tail", &[]),
            ("cargo test || true", &[]),
            ("cargo test; echo done", &[]),
        ] {
            assert_eq!(proves(command, false), expected, "{command}");
        }
        assert_eq!(proves("cargo test | tail", true), [Test], "every stage ended well");
    }

    #[test]
    fn a_note_for_people_is_prose() {
        assert!(["CHANGES", "docs/guide.md", "README.rst"].into_iter().all(is_prose));
        assert!(!["CMakeLists.txt", "a.py", "Makefile"].into_iter().any(is_prose));
    }

    #[test]
    fn what_only_looks_can_not_fail() {
        for line in [
            "echo ok",
            "git status",
            "git diff tests/",
            "cat a && ls",
            "cargo test | tail",
            "command -v a",
        ] {
            assert!(!can_fail(line, false), "{line}");
        }
        for line in ["cargo test", "cd a && ./run", "test -f a", "grep -q total a.py"] {
            assert!(can_fail(line, false), "{line}");
        }
        assert!(can_fail("cargo test | tail", true));
    }
}
