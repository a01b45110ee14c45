//! A command's arguments, as the table asks for them.

mod cases;
mod options;
mod places;

use super::Ground;
use super::table::{GLOBAL_VALUES, When};
use super::values::Values;
use crate::permission::shell::{Input, Run, Word, is_harmless_setting};

/// A command and where it runs.
pub(in super::super) struct Args<'a> {
    pub(super) run: &'a Run,
    pub(super) directory: &'a str,
    pub(super) ground: &'a dyn Ground,
    /// What the line gives to variables, for those who ask what a word may name.
    pub(super) values: Option<&'a Values<'a>>,
}

/// What a word behind the program is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Part {
    /// An option before what the program is told to do, or its value.
    Global,
    /// An option behind that.
    Option,
    /// No option.
    Operand,
}

impl<'a> Args<'a> {
    /// A command of which nothing but its words is asked.
    pub(super) fn alone(run: &'a Run) -> Self {
        Self { run, directory: "", ground: &super::Nowhere, values: None }
    }

    /// All words behind the program.
    pub(super) fn words(&self) -> impl Iterator<Item = &'a Word> + Clone + use<'a> {
        self.run.words.iter().skip(1)
    }

    /// The words that are no options; behind `--` all.
    pub(super) fn operands(&self) -> impl Iterator<Item = &'a Word> + use<'a> {
        self.parts().filter(|(_, part)| *part == Part::Operand).map(|(word, _)| word)
    }

    /// All words behind the program, and what each is.
    pub(super) fn parts(&self) -> impl Iterator<Item = (&'a Word, Part)> + use<'a> {
        let mut is_over = false;
        let mut is_value = false;
        let name = self.run.name();
        let mut values = global_values(name);
        // What it is told to do is not known yet.
        let mut is_before = true;
        self.words().map(move |word| {
            let text = word.text.as_str();
            let option = if is_before { Part::Global } else { Part::Option };
            if std::mem::take(&mut is_value) {
                return (word, option);
            }
            if is_over {
                return (word, Part::Operand);
            }
            if text == "--" {
                is_over = true;
                return (word, option);
            }
            if text.starts_with('-') && text.len() > 1 {
                is_value = is_before && values.contains(&text);
                return (word, option);
            }
            // `cargo +nightly`
            if is_before && text.starts_with('+') {
                return (word, option);
            }
            // `docker compose -f x down`
            if is_before {
                values = values_behind(name, text);
                is_before = !values.is_empty();
            }
            (word, Part::Operand)
        })
    }

    /// The words behind those that say what it is told to do.
    pub(super) fn behind(&self, sub: &str) -> impl Iterator<Item = &'a Word> + Clone + use<'a> {
        let last = self.operands().nth(sub.split(' ').count() - 1);
        let mut words = self.words();
        words.find(|word| last.is_some_and(|last| std::ptr::eq(*word, last)));
        words
    }

    /// It has this option: `-x` also among others, `--long` also with a value, or shortened.
    pub(super) fn has(&self, option: &str) -> bool {
        has(self.words(), option)
    }

    /// One of these options stands before the first word behind these: what follows is a command with
    /// options of its own.
    pub(super) fn has_before(&self, sub: &str, options: &[&str]) -> bool {
        const WITH_VALUE: &[&str] = &[
            "-u",
            "-w",
            "-e",
            "-v",
            "-p",
            "-h",
            "-l",
            "-m",
            "-n",
            "-c",
            "--user",
            "--workdir",
            "--env",
            "--volume",
            "--publish",
            "--name",
            "--network",
            "--entrypoint",
            "--mount",
            "--env-file",
            "--add-host",
            "--platform",
            "--container",
            "--namespace",
            "--hostname",
        ];
        let n_sub = self.words().position(|word| sub.ends_with(&word.text)).unwrap_or_default();
        let mut words = self.words().skip(n_sub + 1);
        while let Some(word) = words.next().filter(|word| word.text.starts_with('-')) {
            if word.text == "--" {
                return false;
            }
            if options.iter().any(|option| is_option(word, option)) {
                return true;
            }
            if WITH_VALUE.contains(&word.text.as_str()) {
                words.next();
            }
        }
        // `kubectl exec POD -it -- sh`
        let mut words = self.words();
        words.any(|word| word.text == "--") && options.iter().any(|option| self.has(option))
    }

    /// The same, also where it would be the value of another one: to be certain that it has it not.
    pub(super) fn may_have(&self, option: &str) -> bool {
        may_have(self.words(), option)
    }

    /// It has this option for certain: by itself, or among a few letters that take no value.
    pub(super) fn surely_has(&self, option: &str) -> bool {
        let is_it = |word: &Word| {
            let letters = word.text.strip_prefix('-').unwrap_or_default();
            let name = word.text.split('=').next().unwrap_or_default();
            name == option
                || option.len() == 2
                    && letters.contains(&option[1..])
                    && !letters.is_empty()
                    && letters.chars().all(|letter| "ndxXfqiyvams".contains(letter))
        };
        self.words().take_while(|word| word.text != "--").any(is_it)
    }

    /// Options that change what git does stand before its first word, besides one that names a folder below:
    /// what `cd` says as well.
    pub(super) fn has_globals_but_folder(&self) -> bool {
        let first = self.operands().next();
        let mut before =
            self.words().take_while(|word| !first.is_some_and(|end| std::ptr::eq(*word, end)));
        while let Some(word) = before.next() {
            let is_harmless = match word.text.as_str() {
                "--no-pager" | "-P" | "--no-optional-locks" | "--no-color" => true,
                "-c" => before.next().is_some_and(is_harmless_setting),
                "-C" => before.next().is_some_and(|folder| {
                    let is_below = |folder: &str| {
                        !folder.starts_with(['/', '-'])
                            && folder.split('/').all(|part| part != "..")
                    };
                    folder.known().is_some_and(is_below)
                }),
                text => !text.starts_with('-'),
            };
            if !is_harmless {
                return true;
            }
        }
        false
    }

    /// Its first words that are no options are these.
    pub(super) fn sub_is(&self, words: &str) -> bool {
        let mut operands = self.operands();
        words.split(' ').all(|word| match word.strip_prefix("--") {
            // `git config --get`
            Some(_) => self.has(word),
            None => operands.next().is_some_and(|operand| operand.text == word),
        })
    }

    /// What it is told to do is one of these.
    fn any_sub(&self, subs: &[&str]) -> bool {
        self.fitting(subs).next().is_some()
    }

    /// Those of these that it is told to do. (The first word is looked at once: tables of git's are long.)
    fn fitting<'s>(&self, subs: &'s [&'s str]) -> impl Iterator<Item = &'s str> {
        let first = self.operands().next().map(|first| first.text.as_str());
        let begins =
            move |sub: &&str| first.is_some_and(|first| sub.split(' ').next() == Some(first));
        subs.iter().copied().filter(begins).filter(|sub| self.sub_is(sub))
    }

    /// Whether it is so. What is `grave` is better suspected than missed; what exempts has to be certain.
    pub(super) fn fit(&self, when: &When, is_grave: bool) -> bool {
        match when {
            When::Always => true,
            When::Has(options) => has_any(&self.words(), options, is_grave),
            When::HasNot(options) => !options.iter().any(|option| self.may_have(option)),
            When::Sub(subs) => self.any_sub(subs),
            When::SubHas(subs, options) => {
                self.fitting(subs).any(|sub| has_any(&self.behind(sub), options, is_grave))
            }
            When::SubHasNot(subs, options) => {
                self.any_sub(subs) && !options.iter().any(|option| self.surely_has(option))
            }
            When::SubMayNot(subs, options) => {
                self.any_sub(subs) && !options.iter().any(|option| self.may_have(option))
            }
            When::Is(is_so) => is_so(self),
        }
    }

    /// It reads something that the line gives it.
    pub(super) fn feeds(&self) -> bool {
        self.run.input != Input::None
    }

    fn is_git(&self) -> bool {
        self.run.name() == "git"
    }
}

/// The same behind a first word, for those that have more there.
fn values_behind(program: &str, first: &str) -> &'static [&'static str] {
    let is_it = |own: &str| {
        let behind = own.strip_prefix(program).and_then(|rest| rest.strip_prefix(' '));
        behind == Some(first)
    };
    GLOBAL_VALUES.iter().find(|(own, _)| is_it(own)).map_or(&[], |(_, values)| values)
}

fn global_values(program: &str) -> &'static [&'static str] {
    GLOBAL_VALUES.iter().find(|(own, _)| *own == program).map_or(&[], |(_, values)| values)
}

/// One of them is one of these options, or may be where it is `grave`.
fn has_any<'a>(
    words: &(impl Iterator<Item = &'a Word> + Clone),
    options: &[&str],
    is_grave: bool,
) -> bool {
    let has = |option: &&str| {
        if is_grave { may_have(words.clone(), option) } else { has(words.clone(), option) }
    };
    options.iter().any(has)
}

/// One of them is this option.
fn has<'a>(words: impl Iterator<Item = &'a Word>, option: &str) -> bool {
    let mut words = words.take_while(|word| word.text != "--");
    words.any(|word| is_option(word, option))
}

/// One of them is, or may be, this option.
fn may_have<'a>(words: impl Iterator<Item = &'a Word> + Clone, option: &str) -> bool {
    let is_short = option.len() == 2;
    let may_be = |word: &Word| {
        is_short
            && word.text.starts_with('-')
            && !word.text.starts_with("--")
            && word.text.contains(&option[1..])
    };
    // Git takes any beginning that can be no other option.
    let is_begun = |word: &Word| {
        let name = word.text.strip_prefix("--").and_then(|given| given.split('=').next());
        let long = option.strip_prefix("--");
        name.zip(long).is_some_and(|(name, long)| !name.is_empty() && long.starts_with(name))
    };
    has(words.clone(), option) || words.into_iter().any(|word| may_be(word) || is_begun(word))
}

/// `-x` also among others, `--long` also with a value, or shortened.
fn is_option(word: &Word, option: &str) -> bool {
    let text = word.text.as_str();
    if text == option {
        return true;
    }
    match option.strip_prefix("--") {
        Some(long) => {
            let Some(given) = text.strip_prefix("--") else { return false };
            let name = given.split('=').next().unwrap_or(given);
            // The programs take a beginning that can be no other option.
            name == long || name.len() >= 4 && long.starts_with(name)
        }
        None => {
            let letter = option.strip_prefix('-').filter(|letter| letter.len() == 1);
            let Some(letters) = text.strip_prefix('-') else { return false };
            letter.is_some_and(|letter| {
                !letters.starts_with('-')
                    && letters.split('=').next().unwrap_or(letters).contains(letter)
                    && letters.len() <= 6
            })
        }
    }
}
