//! One command with other words: another task or program, options more, less or others, variables in front.

use super::super::super::chain::{has_same_stem, targets};
use super::super::super::command::{ANY, SYSTEM, has_options_more, head, is_option};
use super::super::super::difference::common;
use super::super::super::evidence::{
    blames_option, fails_tests, has_word, knows_no_option, mention_of, names, narrows, only_talks,
    speaks_of_screen,
};
use super::super::super::item::Fix;
use super::super::super::leads::source_of;
use super::super::Lesson;
use super::missing::RUNNERS;
use super::{Case, heads, of_machine, on_this_system};
use crate::protocol::command::{
    INTERPRETERS, Simple, WITH_TASK, is_assignment, is_script, name_of, unquoted,
};
use crate::protocol::topics;

/// So many words may differ.
const MAX_WORDS: usize = 3;
/// In so many places words may have been added.
const MAX_PLACES: usize = 2;
/// Programs that run another one where what it needs is there.
const WRAPPERS: [&str; 10] =
    ["docker", "podman", "nix", "nix-shell", "direnv", "mise", "conda", "hatch", "rye", "xvfb-run"];

/// Options by which a program is linked with a part of the system's own library.
const OF_SYSTEM: [&str; 5] = ["-lm", "-pthread", "-lpthread", "-ldl", "-lrt"];

/// A command as it failed and as it worked: words behind the variables in front of it.
struct Change<'c, 'a> {
    bad: &'c Simple<'a>,
    good: &'c Simple<'a>,
    old: &'c [&'a str],
    new: &'c [&'a str],
    /// So many words agree at the front, and behind those at the back.
    front: usize,
    back: usize,
}

impl<'c, 'a> Change<'c, 'a> {
    fn of(bad: &'c Simple<'a>, good: &'c Simple<'a>) -> Option<Self> {
        let (n_old, n_new) = (bad.own_words(), good.own_words());
        let (old, new) = (bad.program(), good.program());
        if old.is_empty() || new.is_empty() {
            return None;
        }
        // A program that is named by its path needs no PATH in front.
        let by_path = n_new == 0 && old[0] != new[0] && name_of(old[0]) == name_of(new[0]);
        if bad.words[..n_old] != good.words[..n_new] && !by_path {
            return None;
        }
        let (front, back) = common(old, new);
        Some(Self { bad, good, old, new, front, back })
    }

    fn from(&self) -> &'c [&'a str] {
        &self.old[self.front..self.old.len() - self.back]
    }

    fn to(&self) -> &'c [&'a str] {
        &self.new[self.front..self.new.len() - self.back]
    }

    /// What was added, and before which of the old words; nothing where one of those is gone.
    fn added(&self) -> Option<Vec<(usize, Vec<&'a str>)>> {
        let mut places: Vec<(usize, Vec<&str>)> = Vec::new();
        let mut at = self.front;
        for (n, word) in self.new.iter().enumerate().skip(self.front) {
            // The words at the back stand where they stood.
            let is_back = self.new.len() - n <= self.back;
            if self.old.get(at) == Some(word) && (is_back || self.old.len() - at > self.back) {
                at += 1;
            } else if let Some((_, words)) = places.last_mut().filter(|(place, _)| *place == at) {
                words.push(word);
            } else {
                places.push((at, vec![word]));
            }
        }
        (at == self.old.len()).then_some(places)
    }
}

impl Case<'_> {
    /// One command has other words.
    pub(super) fn changed(&self, bad: &Simple<'_>, good: &Simple<'_>) -> Option<Lesson> {
        if let Some(lesson) = self.with_variables(bad, good) {
            return Some(lesson);
        }
        if self.bad.is_missing() {
            return None;
        }
        let change = Change::of(bad, good)?;
        if !self.may_be_what_was_added() {
            return None;
        }
        if let Some(lesson) = self.wrapped(&change).or_else(|| self.elsewhere(&change)) {
            return Some(lesson);
        }
        if !self.may_be_the_call() {
            return self.with_more(&change);
        }
        let are_akin = has_options_more(change.old, change.new);
        if head(change.old) != head(change.new) && !are_akin {
            return self.another(&change);
        }
        match (change.from(), change.to()) {
            ([], _) => self.with_more(&change),
            (gone, []) => self.with_less(&change, gone),
            (gone, come) if gone.len().max(come.len()) <= MAX_WORDS => {
                self.with_others(&change, gone, come).or_else(|| self.with_more(&change))
            }
            (_, _) => self.with_more(&change),
        }
    }

    /// The output blames this word: by itself, or as an option.
    fn blames(&self, word: &str) -> bool {
        let word = unquoted(word);
        names(self.bad.error, &word).is_some() || blames_option(self.bad.error, &word)
    }

    /// `python3 a.py` → `poetry run python3 a.py`: the same, run where what it needs is there.
    fn wrapped(&self, change: &Change<'_, '_>) -> Option<Lesson> {
        let (old, new) = (change.old, change.new);
        let n = new.len().checked_sub(old.len()).filter(|n| (1..=4).contains(n))?;
        let wraps = |program: &str| RUNNERS.contains(&program) || WRAPPERS.contains(&program);
        if !new.ends_with(old) || !wraps(name_of(new[0])) {
            return None;
        }
        let (from, to) = (old[0], new[..=n].join(" "));
        let fix = Fix::ReplaceWords { from: from.to_owned(), to: to.clone() };
        Some(self.lesson(&format!("Run `{to}`, not `{from}`"), from, Some(fix)))
    }

    /// The same program, found at another place: `node a.js` → `.node20/bin/node a.js`.
    fn elsewhere(&self, change: &Change<'_, '_>) -> Option<Lesson> {
        let (old, new) = (change.old, change.new);
        let is_it = old[0] != new[0] && name_of(old[0]) == name_of(new[0]) && old[1..] == new[1..];
        let fix = Fix::ReplaceWords { from: old[0].to_owned(), to: new[0].to_owned() };
        let text = format!("Run `{}`, not `{}`", new[0], old[0]);
        is_it.then(|| self.lesson(&text, old[0], Some(fix)))
    }

    /// What the command is, is another: `make test` → `make check`.
    fn another(&self, change: &Change<'_, '_>) -> Option<Lesson> {
        let (old, new) = (change.old, change.new);
        let (old_head, new_head) = (head(old), head(new));
        let same_program = old_head.first() == new_head.first();
        let same_purpose = topics::of_simple(change.bad) == topics::of_simple(change.good);
        let is_named = has_word(self.bad.error, name_of(new[0]));
        let akin = change.from().iter().any(|word| self.blames(word))
            || (!same_program && (self.blamed || is_named) && same_purpose);
        if !akin || old[old_head.len()..] != new[new_head.len()..] {
            return None;
        }
        // Where they are to do the same it is the program alone that is another.
        let of_program = old_head[1..] == new_head[1..];
        let n_old = if of_program { 1 } else { old_head.len() };
        let n_new = if of_program { 1 } else { new_head.len() };
        let (from, to) = (old_head[..n_old].join(" "), new_head[..n_new].join(" "));
        let fix = Fix::ReplaceWords { from: from.clone(), to: to.clone() };
        Some(self.lesson(&format!("Run `{to}`, not `{from}`"), &from, Some(fix)))
    }

    /// Options that were missing, each with its value. Other words that stand there more are another target, unless
    /// the output names them.
    fn with_more(&self, change: &Change<'_, '_>) -> Option<Lesson> {
        let places = change.added()?;
        let added: Vec<&str> = places.iter().flat_map(|(_, words)| words.iter().copied()).collect();
        // `(see shellcheck -x)`: the output writes it behind the program.
        let program = name_of(change.old[0]);
        let is_shown = |word: &&str| has_word(self.bad.error, &format!("{program} {word}"));
        let are_shown = !self.judged && added.iter().all(is_shown);
        let is_named = are_shown || added.iter().any(|word| self.blames(word));
        let are_options = places.iter().all(|(_, words)| is_option(words[0]));
        let (first, last) = (places.first()?.0, places.last()?.0);
        if added.len() > MAX_WORDS * places.len() || places.len() > MAX_PLACES {
            return None;
        }
        let old_head = head(change.old);
        let topic = topics::of_simple(change.bad);
        // `dotnet test` → `dotnet test src/Shop.sln`: what it works on was not given, and is no one file of the work.
        let is_subject = places.len() == 1
            && self.blamed
            && topic.is_some_and(|topic| topics::BUILDS.contains(&topic))
            && targets(change.old).next().is_none()
            && added.iter().all(|word| is_whole(word));
        if (places.len() > 1 || !is_named) && !are_options && !is_subject {
            return None;
        }
        // It may choose fewer tests, or less of what is wrong.
        let looks = matches!(topic, Some("test" | "lint" | "format"));
        let is_of_program = are_options && last < old_head.len();
        let is_fault = self.judged && !fails_tests(self.bad.error);
        if (looks && !self.blamed && !is_named && !is_of_program && !is_fault)
            || added.iter().any(|word| narrows(word) && !are_shown && !self.may_choose(word, looks))
            || (!self.blamed && !is_named && SYSTEM.contains(&change.old[0]))
            || (!is_named && added.iter().all(|word| only_talks(word)))
        {
            return None;
        }
        let (mut told, mut known) = heads(change.bad, self.bad.error);
        // What is for the program behind it (`--`) is so for this one alone.
        if added.contains(&"--") || !(are_options || is_subject) {
            known.clone_from(&told);
        }
        if last < old_head.len() || last == 1 {
            told = change.old[..last].join(" ");
            known.clone_from(&told);
        }
        // Behind other arguments it stays at the end; else it belongs to what stands before it.
        let is_last = first == last && last == change.old.len() && last > old_head.len();
        let fix = if is_last {
            Fix::ReplaceWords { from: String::new(), to: added.join(" ") }
        } else {
            template(change, &known, &places, last)
        };
        let mut lesson = self.lesson(
            &format!("Run `{told}` with `{}`", added.join(" ")),
            &known,
            are_options.then_some(fix),
        );
        lesson.condition = lesson.condition.replacen(&known, &told, 1);
        Some(if change.old[0] != program {
            lesson
        } else if added.iter().all(|word| OF_SYSTEM.contains(word)) {
            on_this_system(lesson)
        } else if is_named {
            of_machine(lesson, program)
        } else {
            // What it does not ask for itself (`-u me:x`, after a 401) is the project's.
            lesson
        })
    }

    /// Where nothing could be looked at, an option that says where to look does not hide what is wrong.
    fn may_choose(&self, option: &str, looks: bool) -> bool {
        const PLACES: [&str; 6] = ["-p", "--package", "--filter", "--bin", "--lib", "--test"];
        !self.judged && (!looks || (self.blamed && PLACES.contains(&option)))
    }

    /// An option that is refused, and was left out. What looks at the work and says no without it may be the option's
    /// own doing (`--locked`, `-D warnings`): there it has to be one that the program does not know.
    fn with_less(&self, change: &Change<'_, '_>, gone: &[&str]) -> Option<Lesson> {
        let looks = topics::of_simple(change.bad)
            .is_some_and(|topic| topic == "format" || topics::BUILDS.contains(&topic));
        let is_unknown = gone.iter().any(|word| knows_no_option(self.bad.error, word));
        let is_refused = gone.len() <= MAX_WORDS
            && gone.iter().any(|word| self.blames(word))
            && gone.iter().any(|word| word.starts_with('-'))
            && (!looks || is_unknown);
        let gone = is_refused.then(|| gone.join(" "))?;
        let head = head(change.old).join(" ");
        let fix = Fix::ReplaceWords { from: gone.clone(), to: String::new() };
        let lesson = self.lesson(&format!("Run `{head}` without `{gone}`"), &head, Some(fix));
        Some(if is_unknown { of_machine(lesson, &head) } else { lesson })
    }

    /// Words in the place of others, which the output blames.
    fn with_others(&self, change: &Change<'_, '_>, gone: &[&str], come: &[&str]) -> Option<Lesson> {
        let program = change.old[0];
        let head = head(change.old).join(" ");
        let before = change.front.checked_sub(1).map(|at| change.old[at]).unwrap_or_default();
        let is_blamed = gone.iter().any(|word| self.blames(word));
        if let ([old], [new]) = (gone, come)
            && let Some((from, to)) = moved_down(old, new)
            && let line = mention_of(self.bad.error, old)
            && (is_blamed || self.blamed || line.is_some())
        {
            let folders = format!(" paths below `{to}/`, not below `{from}/`:");
            let folders = if from.is_empty() { "" } else { &folders };
            let text = format!("Give `{head}`{folders} `{new}`, not `{old}`");
            let fix = Fix::ReplaceWords { from: (*old).to_owned(), to: (*new).to_owned() };
            let mut lesson = self.lesson(&text, &head, Some(fix));
            if let Some(line) = line {
                lesson.when.signature = self.bad.signature_of_line(line, &head, "");
            }
            return Some(lesson);
        }
        if let ([old], [new]) = (gone, come)
            && is_blamed
        {
            if let Some((from, to)) = name_in_range(old, new) {
                return Some(self.given(program, from, to));
            }
            let same_place = is_same_thing(old, new);
            if let Some(front) = new.strip_suffix(old).filter(|_| !old.contains(['.', '/'])) {
                let text = format!("Give `{head}` names as in `{front}…`: `{new}`, not `{old}`");
                return Some(self.lesson(&text, &head, None));
            }
            if same_place && !old.contains('/') && new.contains('/') {
                let text =
                    format!("Give `{head}` a path like `{new}`, not a dotted name like `{old}`");
                let fix = Fix::ReplaceWords { from: (*old).to_owned(), to: (*new).to_owned() };
                let mut lesson = self.lesson(&text, &head, Some(fix));
                // The name stands in what it says.
                lesson.when.signature = None;
                return Some(lesson);
            }
            if same_place {
                return Some(self.given(&head, old, new));
            }
        }
        // `-p a.json` → `-p b.json`: the value of an option goes with it.
        if let ([old], [new]) = (gone, come)
            && change.front > 1
            && is_option(before)
            && !is_option(old)
            && !is_option(new)
            && (is_blamed || self.blames(before))
        {
            let (from, to) = (format!("{before} {old}"), format!("{before} {new}"));
            return Some(self.given(program, &from, &to));
        }
        if !is_blamed {
            return None;
        }
        if let ([old], [new]) = (gone, come) {
            // A branch, a service, a package of another name.
            let is_name = |word: &str| !word.contains(['/', '.', '*', '$']) && !is_option(word);
            let takes_names = WITH_TASK.contains(&name_of(program)) || is_script(program);
            if is_name(old) && is_name(new) && takes_names {
                return Some(self.given(&head, old, new));
            }
        }
        // `stat -c %s` → `stat -f %z`, `date -v-7d` → `date -d '7 days ago'`.
        let refused = is_option(gone[0]) && is_option(come[0]) && self.blames(gone[0]);
        let lesson = refused.then(|| self.given(&head, &gone.join(" "), &come.join(" ")))?;
        let is_unknown = knows_no_option(self.bad.error, gone[0]);
        Some(if is_unknown { of_machine(lesson, &head) } else { lesson })
    }

    fn given(&self, head: &str, from: &str, to: &str) -> Lesson {
        let fix = Fix::ReplaceWords { from: from.to_owned(), to: to.to_owned() };
        self.lesson(&format!("Give `{head}` `{to}`, not `{from}`"), head, Some(fix))
    }

    /// `LC_ALL=C make test`. What an interpreter needs it needs for other scripts too, if it does not blame this one.
    fn with_variables(&self, bad: &Simple<'_>, good: &Simple<'_>) -> Option<Lesson> {
        let set =
            |simple: &Simple<'_>| simple.words.iter().take_while(|w| is_assignment(w)).count();
        let (n_old, n_new) = (set(bad), set(good));
        let stays = bad.words[..n_old].iter().all(|word| good.words[..n_new].contains(word));
        let added: Vec<&str> =
            good.words[..n_new].iter().filter(|word| !bad.words.contains(word)).copied().collect();
        let rest_is_same = bad.words[n_old..] == good.words[n_new..];
        if !stays || added.is_empty() || !rest_is_same || !self.may_be_what_was_added() {
            return None;
        }
        let program = bad.program();
        let (first, script) = (*program.first()?, program.get(1).copied().unwrap_or_default());
        let is_of_script = names(self.bad.error, script).is_some()
            || names(self.bad.error, name_of(script)).is_some();
        let (told, known) = if INTERPRETERS.contains(&name_of(first)) && !is_of_script {
            (first.to_owned(), first.to_owned())
        } else {
            heads(bad, self.bad.error)
        };
        let with = added.join(" ");
        let fix = Fix::Prefix { with: format!("{with} ") };
        let text = format!("Run `{told}` with `{with}` in front");
        let mut lesson = self.lesson(&text, &known, Some(fix));
        lesson.condition = lesson.condition.replacen(&known, &told, 1);
        if added.iter().all(|word| is_of_terminal(word)) {
            let plain = if first == "git" { "less" } else { first };
            lesson = of_machine(lesson, plain);
        } else if speaks_of_screen(self.bad.error) && !first.contains('/') && !with.contains('/') {
            lesson = on_this_system(lesson);
        }
        Some(lesson)
    }
}

/// A folder, or what a whole project is described in: no source.
fn is_whole(word: &str) -> bool {
    let is_plain = word.contains(['/', '.']) && !word.starts_with(['/', '~', '-', '$']);
    is_plain && !word.contains('*') && source_of(word).is_none()
}

/// The folders below which one file was looked for and found, where the latter has more in it: `spec/a.rb` and
/// `spec/unit/a.rb`, `test/a.js` and `core/test/a.js`.
fn moved_down<'a>(old: &'a str, new: &'a str) -> Option<(&'a str, &'a str)> {
    let (to, other) = new.rsplit_once('/')?;
    let (from, name) = old.rsplit_once('/').unwrap_or(("", old));
    let mut parts = to.split('/');
    let is_deeper = from.is_empty() || from.split('/').all(|part| parts.any(|other| other == part));
    (name == other && name.contains('.') && from != to && is_deeper).then_some((from, to))
}

/// A variable that says what the terminal is like, and not the project: `GIT_EDITOR=true`, `PAGER=cat`, `LC_ALL=C`.
fn is_of_terminal(assignment: &str) -> bool {
    let name = assignment.split('=').next().unwrap_or_default();
    ["EDITOR", "VISUAL", "PAGER", "TERM"].iter().any(|end| name.ends_with(end))
        || name.starts_with("LC_")
        || name == "LANG"
}

/// The words up to the last that was added, and the same with those: what other calls may have otherwise is left open.
fn template(
    change: &Change<'_, '_>,
    known: &str,
    places: &[(usize, Vec<&str>)],
    last: usize,
) -> Fix {
    let head: Vec<&str> = known.split_whitespace().collect();
    let (mut from, mut to) = (Vec::new(), Vec::new());
    for at in 0..=last {
        to.extend(places.iter().filter(|(place, _)| *place == at).flat_map(|(_, words)| words));
        if at < last {
            let word = change.old[at];
            let is_fixed = word.starts_with('-');
            let word = head.get(at).copied().unwrap_or(if is_fixed { word } else { ANY });
            from.push(word);
            to.push(word);
        }
    }
    Fix::ReplaceWords { from: from.join(" "), to: to.join(" ") }
}

/// One name in another place or notation: `tests.unit` and `tests/unit`, `a/x.py` and `b/x.py`.
fn is_same_thing(one: &str, other: &str) -> bool {
    let letters = |text: &str| -> String { text.chars().filter(|c| c.is_alphanumeric()).collect() };
    let without_ending = |text: &str| -> String {
        let (stem, ending) = text.rsplit_once('.').unwrap_or((text, ""));
        letters(if ending.contains('/') { text } else { stem })
    };
    // `spec.cart` and `spec/cart_spec.x`: its parts are parts of the path, in order.
    let mut at = 0;
    let is_dotted = one.contains('.') && !one.contains('/') && other.contains('/');
    let parts_are_there = is_dotted
        && one.split('.').all(|part| {
            let found = other[at..].find(part).filter(|_| part.len() > 1);
            at += found.map_or(0, |found| found + part.len());
            found.is_some()
        });
    parts_are_there
        || letters(one) == letters(other)
        || (other.contains('/') && letters(one) == without_ending(other))
        || ((one.contains('/') || other.contains('/') || one.contains('.'))
            && has_same_stem(one, other))
}

/// The name that is another in a range: `master..HEAD` and `main..HEAD`.
fn name_in_range<'a>(one: &'a str, other: &'a str) -> Option<(&'a str, &'a str)> {
    let dots = ["...", ".."].into_iter().find(|dots| one.contains(dots))?;
    let ((from, to), (new_from, new_to)) = (one.split_once(dots)?, other.split_once(dots)?);
    match (from == new_from, to == new_to) {
        (false, true) => Some((from, new_from)),
        (true, false) => Some((to, new_to)),
        _ => None,
    }
}
