//! The learning suite: is a failure that was resolved once avoided the next time, and does a lesson
//! do no harm where it does not apply? `tests/learning/README.md` describes the files.
//! `LEARNING=PART cargo test --test it learning -- --ignored` runs the families whose name contains PART and
//! prints their traces.

mod run;
mod scenario;

use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use self::run::{Measured, Memory, measure};
use self::scenario::Family;
use crate::support::say;

/// A set of families, and the minimum percentage of failures that must be avoided.
struct Set {
    name: &'static str,
    avoided_percent: usize,
}

const SETS: [Set; 4] = [
    Set { name: "sealed", avoided_percent: 80 },
    Set { name: "development", avoided_percent: 80 },
    Set { name: "earlier", avoided_percent: 70 },
    // Only controls.
    Set { name: INNOCENT, avoided_percent: 0 },
];

const INNOCENT: &str = "innocent";

/// A family, and the result of its last session without memory, with memory that was empty at the
/// start, and with 300 unrelated lessons.
struct Case {
    set: &'static str,
    family: Family,
    without: Measured,
    alone: Measured,
    among_others: Measured,
}

#[test]
#[ignore = "slow"]
fn most_known_failures_are_avoided() {
    for Set { name, avoided_percent } in SETS {
        let families: Vec<&Case> =
            cases().iter().filter(|case| case.set == name && !case.family.is_control).collect();
        if families.is_empty() {
            continue;
        }
        for (how, of) in HOWS {
            let met: Vec<String> = families
                .iter()
                .filter(|case| !of(case).avoids())
                .map(|case| case.in_short())
                .collect();
            let (n, n_met) = (families.len(), met.len());
            say(&format!("{name}, {how}: {} of {n} avoided", n - n_met));
            assert!((n - n_met) * 100 >= n * avoided_percent, "{}", met.join("\n"));
        }
    }
}

#[test]
#[ignore = "slow"]
fn inapplicable_lessons_do_no_harm() {
    let worse = |case: &&Case| HOWS.iter().any(|(_, of)| of(case).is_worse_than(&case.without));
    let worse: Vec<String> = cases().iter().filter(worse).map(Case::in_short).collect();
    assert!(worse.is_empty(), "{}", worse.join("\n"));
}

#[test]
#[ignore = "slow"]
fn innocent_sessions_show_nothing_to_an_unrelated_task() {
    let innocent = || cases().iter().filter(|case| case.set == INNOCENT);
    assert!(innocent().count() > 0);
    let shown = innocent().filter(|case| !case.alone.recalled.is_empty());
    let shown: Vec<String> = shown.map(Case::in_short).collect();
    say(&format!(
        "innocent sessions after which nothing is shown: {} of {}",
        innocent().count() - shown.len(),
        innocent().count()
    ));
    assert!(shown.is_empty(), "{}", shown.join("\n"));
}

#[test]
#[ignore = "slow"]
fn a_task_recalls_at_most_400_tokens() {
    for case in cases() {
        for (how, of) in HOWS {
            let tokens = crate::kernel::prompts::tokens(&of(case).recalled.join("\n"));
            assert!(tokens <= 400, "{}, {how}: {tokens}", case.family.name);
        }
    }
}

#[test]
#[ignore = "slow"]
fn learning_scripts_match_the_actual_calls() {
    let mut wrong = Vec::new();
    for case in cases() {
        for run in [&case.without, &case.alone, &case.among_others] {
            wrong.extend(run.script_errors.iter().map(|it| format!("{}: {it}", case.in_short())));
        }
        let expected = case.family.sessions.last().and_then(|session| session.failures);
        if expected.is_some_and(|expected| expected != case.without.n_failed) {
            wrong.push(format!("{}: expected {expected:?} failed calls", case.in_short()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

type Of = fn(&Case) -> &Measured;

const HOWS: [(&str, Of); 2] =
    [("alone", |case| &case.alone), ("among 300 others", |case| &case.among_others)];

/// Every family, run once for all tests.
fn cases() -> &'static [Case] {
    static CASES: OnceLock<Vec<Case>> = OnceLock::new();
    CASES.get_or_init(|| {
        let families: Vec<(&'static str, Family)> =
            SETS.iter().flat_map(|set| families(set.name)).collect();
        let next = AtomicUsize::new(0);
        let work = || {
            let mut done = Vec::new();
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                let Some((_, family)) = families.get(at) else { return done };
                let runs = [Memory::None, Memory::Empty, Memory::Full];
                done.push((at, runs.map(|memory| measure(family, memory))));
            }
        };
        // Each run mostly waits for its child processes.
        let n_threads = 2 * std::thread::available_parallelism().map_or(1, usize::from);
        let mut runs: Vec<(usize, [Measured; 3])> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..n_threads).map(|_| scope.spawn(work)).collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        runs.sort_by_key(|(at, _)| *at);
        let cases = families.into_iter().zip(runs);
        let cases: Vec<Case> = cases
            .map(|((set, family), (_, [without, alone, among_others]))| Case {
                set,
                family,
                without,
                alone,
                among_others,
            })
            .collect();
        if wanted().is_some() {
            cases.iter().for_each(Case::show);
        }
        cases
    })
}

fn families(set: &'static str) -> Vec<(&'static str, Family)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/learning").join(set);
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "txt"));
    paths.retain(|path| {
        let name = path.file_stem().unwrap().to_string_lossy();
        wanted().is_none_or(|wanted| name.contains(&wanted))
    });
    paths.sort();
    paths.iter().map(|path| (set, Family::read(path))).collect()
}

fn wanted() -> Option<String> {
    std::env::var("LEARNING").ok().filter(|part| !part.is_empty())
}

impl Case {
    fn in_short(&self) -> String {
        let Self { without, alone, among_others, .. } = self;
        let run = |run: &Measured| {
            format!("{} failed, {} model calls, exit {}", run.n_failed, run.n_answers, run.code)
        };
        format!(
            "{}/{} ({}): without memory {}; alone {}; among others {}\n    learnt: {}\n    recalled: {}",
            self.set,
            self.family.name,
            self.family.title,
            run(without),
            run(alone),
            run(among_others),
            alone.learnt.join(" | "),
            alone.recalled.join(" | ")
        )
    }

    fn show(&self) {
        for (how, run) in [("without memory", &self.without), ("with memory", &self.alone)] {
            say(&format!("\n=== {} {how}\n{}", self.family.name, run.trace));
        }
        say(&self.in_short());
    }
}
