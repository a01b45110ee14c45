//! Did the user ask for a test, a build or a lint to be run, and is a command one? A table, English and Chinese.

/// What a user asks to be run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Proof {
    Test,
    Build,
    Lint,
}

/// Of each kind: the words that ask for it, and the words of commands that are it.
const TABLE: [(Proof, &[&str], &[&str]); 3] = [
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
        &["test", "pytest", "jest", "vitest", "rspec", "tox", "unittest", "mocha", "spec", "check"],
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
        &[
            "build",
            "make",
            "compile",
            "tsc",
            "gcc",
            "cargo check",
            "mvn",
            "gradle",
            "ninja",
            "cmake",
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
        &["lint", "clippy", "ruff", "flake8", "mypy", "shellcheck", "fmt", "prettier"],
    ),
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
    let table = TABLE.iter().filter(|(_, words, _)| words.iter().any(asks));
    table.map(|(proof, ..)| *proof).collect()
}

/// What a command that ended well proves.
pub(super) fn proves(command: &str) -> impl Iterator<Item = Proof> {
    let command = command.to_lowercase();
    TABLE
        .iter()
        .filter(move |(_, _, commands)| commands.iter().any(|word| command.contains(word)))
        .map(|(proof, ..)| *proof)
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
            ("npm run build", &[Build]),
            ("cargo clippy -- -D warnings", &[Lint]),
            ("make test", &[Test, Build]),
            ("git status", &[]),
        ] {
            assert_eq!(proves(command).collect::<Vec<_>>(), expected, "{command}");
        }
    }
}
