//! What the table asks of single programs, beyond their options.

use super::{Args, may_have};
use crate::permission::judge::Place;
use crate::permission::shell::{Effects, Input, Kind, Word, join};

impl<'a> Args<'a> {
    /// `rm`, `git rm` or `unlink` of files that are all named.
    pub(in super::super) fn removes_literal_files(&self) -> bool {
        let is_recursive =
            ["-r", "-R", "--recursive", "-d", "--dir"].iter().any(|option| self.has(option));
        let is_shred = self.run.words[0].text == "shred";
        if is_shred || self.is_git() && self.git_is_elsewhere() {
            return false;
        }
        let mut operands = self.operands().skip(usize::from(self.is_git()));
        operands.all(|word| {
            self.file(word).is_some_and(|(_, place)| {
                // Of what is not there yet nobody knows what it will be.
                !is_recursive || place == Place::File && !word.text.ends_with('/')
            })
        })
    }

    /// `mv` or `git mv` of files, to a place of the project, that are all named.
    pub(in super::super) fn moves_literal_files(&self) -> bool {
        let elsewhere = ["-t", "--target-directory", "-T", "-b", "--backup"];
        if elsewhere.iter().any(|option| self.has(option))
            || self.is_git() && self.git_is_elsewhere()
        {
            return false;
        }
        let operands: Vec<&Word> = self.operands().skip(usize::from(self.is_git())).collect();
        let Some((target, sources)) = operands.split_last() else { return false };
        let Some((to, place)) = self.place(target).filter(|_| target.is_literal()) else {
            return false;
        };
        let is_folder = matches!(place, Place::Folder | Place::Project);
        let is_free = |within: &str| {
            matches!(self.ground.look(within), Place::File | Place::Nothing)
                && self.is_changeable(within)
        };
        let mut sources = sources.iter();
        (is_folder || matches!(place, Place::File | Place::Nothing))
            && self.is_changeable(&to)
            && sources.all(|source| {
                self.file(source).is_some_and(|(path, place)| {
                    let name = path.rsplit('/').next().unwrap_or(&path);
                    place == Place::Nothing || !is_folder || is_free(&join(&to, name))
                })
            })
    }

    /// What the scripts of a `sed` do besides to the text.
    pub(in super::super) fn sed(&self) -> Effects {
        Effects::of(&self.run.words[1..])
    }

    fn git_is_elsewhere(&self) -> bool {
        self.words().any(|word| {
            ["-C", "--git-dir", "--work-tree"].iter().any(|begin| word.text.starts_with(begin))
        })
    }

    /// `git checkout` of files, which throws away what they are.
    pub(in super::super) fn checks_out_files(&self) -> bool {
        let creates = ["-b", "-B", "--orphan"].iter().any(|option| self.has(option));
        let mut words = self.words();
        let names = words.any(|word| word.text == "--") && words.next().is_some();
        let is_file = |word: &Word| {
            let is_there = |path: &String| {
                matches!(self.ground.look(path), Place::File | Place::Folder | Place::Project)
            };
            self.paths(word).is_some_and(|paths| paths.iter().any(is_there))
        };
        // No branch has such a name.
        let is_pattern =
            |word: &Word| word.text.starts_with(':') || word.text.contains(['*', '?', '[']);
        let is_path = |word: &Word| word.text == "." || is_pattern(word) || is_file(word);
        names
            || self.has("-f")
            || self.may_have("--force")
            || self.may_have("--pathspec-from-file")
            || !creates && self.operands().skip(1).any(is_path)
    }

    /// `git clean` that says what it would remove, and removes nothing.
    pub(in super::super) fn cleans_nothing(&self) -> bool {
        let sub = self.operands().next();
        let mut words =
            self.words().skip_while(|word| !sub.is_some_and(|sub| std::ptr::eq(*word, sub)));
        let mut is_dry = false;
        while let Some(word) = words.next().filter(|word| word.text != "--") {
            if let Some(long) = word.text.strip_prefix("--") {
                let name = long.split('=').next().unwrap_or(long);
                is_dry |= "dry-run".starts_with(name);
                is_dry &= !name.starts_with("no-");
                if "exclude".starts_with(name) && !long.contains('=') {
                    words.next();
                }
            } else if let Some(letters) = word.text.strip_prefix('-') {
                // What stands behind `-e` is a pattern, in the same word or the next.
                let own = letters.split('e').next().unwrap_or(letters);
                is_dry |= own.contains('n');
                if letters.ends_with('e') && own.len() + 1 == letters.len() {
                    words.next();
                }
            }
        }
        is_dry
    }

    /// `git apply` that takes away what a patch brought, and does not only look.
    pub(in super::super) fn applies_back(&self) -> bool {
        let looks = ["--check", "--stat", "--numstat", "--summary"];
        let only_looks =
            looks.iter().any(|option| self.surely_has(option)) && !self.may_have("--apply");
        ["-R", "--reverse"].iter().any(|option| self.may_have(option)) && !only_looks
    }

    /// `git restore` of files, and not of the index alone.
    pub(in super::super) fn restores_files(&self) -> bool {
        let is_staged = self.has("--staged") || self.has("-S");
        !is_staged || self.may_have("--worktree") || self.has("-W")
    }

    /// `git push` that takes away, or puts something else in the place of, what is there.
    pub(in super::super) fn pushes_over(&self) -> bool {
        let long = ["--force", "--force-with-lease", "--mirror", "--delete", "--prune"];
        self.has("-f")
            || self.has("-d")
            || long.iter().any(|option| self.may_have(option))
            || self.operands().any(|word| word.text.starts_with([':', '+']))
    }

    /// `git rebase -s x/y main` runs `git-merge-x/y`.
    pub(in super::super) fn merges_by_a_program(&self) -> bool {
        const OF_GIT: &[&str] = &["octopus", "ort", "ours", "recursive", "resolve", "subtree"];
        let has_letter = self.any_sub(&["merge", "pull", "rebase"]);
        let is_strategy = |word: &&Word| {
            let letters = word.text.strip_prefix('-').filter(|letters| !letters.starts_with('-'));
            // (Behind these letters stands a value.)
            let own = letters.and_then(|letters| letters.split(['X', 'm', 'F', 'S', 'C']).next());
            has_letter && own.is_some_and(|own| own.contains('s'))
                || may_have(std::iter::once(*word), "--strategy")
        };
        let n_asked = self.words().filter(is_strategy).count();
        let options: &[&'static str] =
            if has_letter { &["-s", "--strategy"] } else { &["--strategy"] };
        let named = || self.values_of(options);
        let is_gits = |name: &Word| name.known().is_some_and(|name| OF_GIT.contains(&name));
        n_asked > 0 && (named().len() != n_asked || !named().iter().all(is_gits))
    }

    /// The repository that `git push` names.
    pub(in super::super) fn pushed_to(&self) -> Option<&'a Word> {
        let mut words = self.behind("push");
        loop {
            let word = words.next()?;
            match word.text.as_str() {
                "--" => return words.next(),
                "-o" | "--push-option" => _ = words.next(),
                option if option.starts_with('-') && word.is_literal() => {}
                _ => return Some(word),
            }
        }
    }

    /// `git push "$x"`, `git remote add y "$x"`: what is there may run hooks of its own.
    pub(in super::super) fn names_somewhere(&self) -> bool {
        let is_unknown = |word: &Word| !word.is_literal();
        self.sub_is("push") && (self.may_have("--repo") || self.pushed_to().is_some_and(is_unknown))
            || self.sub_is("remote") && self.operands().any(is_unknown)
    }

    /// `gh api -X DELETE`
    pub(in super::super) fn requests_deletion(&self) -> bool {
        let words: Vec<String> = self.words().map(|word| word.text.to_ascii_lowercase()).collect();
        let is_method = |option: &str| matches!(option, "-x" | "--method");
        words.windows(2).any(|pair| is_method(&pair[0]) && pair[1] == "delete")
            || words
                .iter()
                .any(|word| matches!(word.as_str(), "-xdelete" | "-x=delete" | "--method=delete"))
    }

    /// A statement among its words or in its input drops or empties something.
    pub(in super::super) fn drops(&self) -> bool {
        self.words().chain(self.text_given()).any(|word| {
            let text = word.text.to_ascii_lowercase();
            text.split(';').any(drops) || text.contains("dropdatabase")
        })
    }

    /// A command of sqlite's own runs a program.
    pub(in super::super) fn runs_from_sqlite(&self) -> bool {
        let database = self.operands().next();
        let is_other = |word: &&Word| !database.is_some_and(|own| std::ptr::eq(*word, own));
        let mut texts = self.words().filter(is_other).chain(self.text_given());
        texts.any(|word| word.text.lines().any(sqlite_runs))
    }

    fn text_given(&self) -> Option<&'a Word> {
        match &self.run.input {
            Input::Text(text) => Some(text),
            Input::None | Input::Pipe | Input::File(_) => None,
        }
    }

    /// What is there is cut off; a file that is not there is made.
    pub(in super::super) fn empties(&self) -> bool {
        let size = |word: &Word| word.text.ends_with(|char: char| "0123456789KMG".contains(char));
        let mut files = self.operands().filter(|word| !size(word));
        !files.all(|word| matches!(self.place(word), Some((_, Place::Nothing))))
    }

    /// `sed` that prints lines and does nothing else.
    pub(in super::super) fn only_prints(&self) -> bool {
        let quiet = [
            "-", "-e", "-ne", "-n", "-E", "-r", "-nE", "-nr", "-u", "-z", "-s", "--quiet",
            "--silent",
        ];
        let mut options = self.words().filter(|word| word.text.starts_with('-'));
        options.all(|word| quiet.contains(&word.text.as_str())) && self.sed().are_none()
    }

    /// `set -euo pipefail`
    pub(in super::super) fn sets_how_it_ends(&self) -> bool {
        let mut words = self.words();
        while let Some(word) = words.next() {
            let letters = word.known().and_then(|text| text.strip_prefix(['-', '+']));
            let letters = letters.unwrap_or_default();
            let is_name =
                |name: &str| matches!(name, "errexit" | "nounset" | "pipefail" | "xtrace");
            let ends = letters.ends_with('o');
            if letters.is_empty()
                || !letters.trim_end_matches('o').bytes().all(|letter| b"eux".contains(&letter))
                || ends && !words.next().and_then(Word::known).is_some_and(is_name)
            {
                return false;
            }
        }
        self.run.words.len() > 1
    }

    /// `awk` that neither writes nor runs anything.
    pub(in super::super) fn only_computes(&self) -> bool {
        let mut words = self.words().peekable();
        while let Some(word) = words.peek() {
            match word.text.as_str() {
                "-F" | "-v" => {
                    words.next();
                    words.next();
                }
                text if text.starts_with("-F") || text.starts_with("-v") => _ = words.next(),
                text if text.starts_with('-') => return false,
                _ => break,
            }
        }
        words.next().and_then(Word::known).is_some_and(|program| {
            let program = program.replace("||", " or ");
            !["system", "getline", "|", "@", "close", "fflush"]
                .iter()
                .any(|word| program.contains(word))
                && !prints_to_a_file(&program)
        })
    }

    /// `--version` or `--help` and nothing else. (Of few programs is `version` no file and no target.)
    pub(in super::super) fn only_asks_version(&self) -> bool {
        const HAVE_VERSION: &[&str] =
            &["cargo", "docker", "go", "helm", "kubectl", "npm", "pnpm", "terraform", "yarn"];
        const HAVE_V: &[&str] = &[
            "node", "npm", "npx", "pnpm", "yarn", "ruby", "perl", "php", "gcc", "g++", "clang",
            "cmake",
        ];
        let name = self.run.name();
        let mut words = self.words();
        let asks = words.next().and_then(Word::known).is_some_and(|word| {
            matches!(word, "--version" | "--help" | "-V" | "-vV")
                || word == "version" && HAVE_VERSION.contains(&name)
                || word == "-v" && HAVE_V.contains(&name)
                || word == "-version" && name == "java"
        });
        let is_more =
            |word: &Word| matches!(word.text.as_str(), "--verbose" | "--client" | "--short");
        asks && words.all(is_more)
    }

    /// Nothing is put into its words that could be an option.
    pub(in super::super) fn has_known_words(&self) -> bool {
        self.words().all(|word| match word.kind {
            Kind::Literal | Kind::Home => true,
            Kind::Pattern => !word.text.starts_with(['*', '?', '[']),
            Kind::Quoted | Kind::Variable | Kind::Output => false,
        })
    }
}

/// The statement, in small letters, takes a table or all that is in it away.
fn drops(statement: &str) -> bool {
    let code: Vec<&str> = statement.lines().filter_map(|line| line.split("-- ").next()).collect();
    let code = code.join(" ");
    let words: Vec<&str> = code
        .split(|char: char| !char.is_ascii_alphanumeric() && char != '_')
        .filter(|word| !word.is_empty())
        .collect();
    // `where 1` holds for all.
    let holds_always = |word: &&str| *word == "true" || word.parse::<u64>().is_ok();
    let chooses = |words: &[&str]| {
        let at = words.iter().position(|word| *word == "where");
        at.is_some_and(|at| !words[at + 1..].iter().all(holds_always))
    };
    words.windows(2).enumerate().any(|(at, pair)| match pair {
        ["drop", what] => {
            ["table", "database", "schema", "view", "index", "column", "user", "role"]
                .contains(what)
        }
        ["truncate", _] => true,
        ["delete", "from"] => !chooses(&words[at + 2..]),
        _ => false,
    })
}

/// `.shell make`, `.sy make`, `.once |make`
fn sqlite_runs(line: &str) -> bool {
    let Some(command) = line.trim_start().strip_prefix('.') else { return false };
    let mut words = command.split_ascii_whitespace();
    let Some(name) = words.next() else { return false };
    // A beginning that can be no other command is enough.
    let is_one = |of: &[&str]| of.iter().any(|whole| whole.starts_with(name)) && name.len() > 1;
    is_one(&["shell", "system"])
        || is_one(&["once", "output", "import", "read"])
            && words.any(|word| word.trim_start_matches(['"', '\'']).starts_with('|'))
}

/// In a statement of `awk` that prints, `>` names a file; anywhere else it compares.
fn prints_to_a_file(program: &str) -> bool {
    if !program.contains('>') {
        return false;
    }
    // Where a quote may stand in a pattern, it is not certain where a text ends.
    if program.contains('"') && program.contains('/') || program.contains('\\') {
        return true;
    }
    let outside_texts = program.split('"').step_by(2).collect::<Vec<_>>().join(" ");
    outside_texts.split([';', '{', '}', '\n']).any(|statement| {
        let after_print = statement.find("print").map(|at| &statement[at..]);
        after_print.is_some_and(|rest| rest.contains('>'))
    })
}
