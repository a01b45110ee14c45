//! The fault suite: small repositories and a scripted model that makes a typical mistake and
//! follows advice when it receives any; the tests check how the kernel reacts.
//! `tests/recovery/README.md` describes the files. `RECOVERY=PART cargo test --test it recovery -- --ignored`
//! runs the scenarios whose name contains PART and shows their traces; `UPDATE_TABLE=1` writes the
//! table of `docs/RECOVERY.md`.

mod concurrent_changes;
pub(crate) mod run;
pub(crate) mod scenario;
mod table;

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use self::run::{Measured, Setting, measure};
use self::scenario::{Outcome, Scenario};
use crate::support::say;

/// The halves of the suite: one written with knowledge of the kernel, one from the failure texts
/// alone.
const HALVES: [&str; 2] = ["own", "blind"];

/// A scenario and its result in each setting.
struct Case {
    half: &'static str,
    scenario: Scenario,
    runs: Vec<Measured>,
}

#[test]
#[ignore = "slow"]
fn scenarios_written_with_kernel_knowledge_match_expectations() {
    check("own");
}

#[test]
#[ignore = "slow"]
fn scenarios_written_from_failure_texts_match_expectations() {
    check("blind");
}

#[test]
#[ignore = "slow"]
fn recovery_table_in_the_docs_is_up_to_date() {
    if wanted().is_none() {
        table::check(cases());
    }
}

fn check(half: &str) {
    let cases = || cases().iter().filter(|case| case.half == half);
    let complaints: Vec<String> = cases().flat_map(|case| case.complaints()).collect();
    let n_wrong = cases().filter(|case| !case.complaints().is_empty()).count();
    assert!(
        complaints.is_empty(),
        "{n_wrong} of {} scenarios:\n\n{}",
        cases().count(),
        complaints.join("\n")
    );
}

/// Every scenario in every setting, run once for all tests.
fn cases() -> &'static [Case] {
    static CASES: OnceLock<Vec<Case>> = OnceLock::new();
    CASES.get_or_init(|| {
        let scenarios: Vec<(&'static str, Scenario)> =
            HALVES.iter().flat_map(|h| half(h)).collect();
        let next = AtomicUsize::new(0);
        let work = || {
            let mut done = Vec::new();
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                let Some((_, scenario)) = scenarios.get(at) else { return done };
                done.push((at, Setting::ALL.map(|setting| measure(scenario, setting))));
            }
        };
        // Each run mostly waits for its child processes.
        let n_threads = 2 * std::thread::available_parallelism().map_or(1, usize::from);
        let mut runs: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..n_threads).map(|_| scope.spawn(work)).collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        runs.sort_by_key(|(at, _)| *at);
        let runs = runs.into_iter().map(|(_, runs)| Vec::from(runs));
        let case = |((half, scenario), runs)| Case { half, scenario, runs };
        let cases: Vec<Case> = scenarios.into_iter().zip(runs).map(case).collect();
        if wanted().is_some() {
            cases.iter().for_each(Case::show);
        }
        cases
    })
}

fn half(half: &'static str) -> Vec<(&'static str, Scenario)> {
    let is_wanted = |path: &PathBuf| {
        let name = path.file_stem().unwrap().to_string_lossy();
        wanted().is_none_or(|wanted| name.contains(&wanted))
    };
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recovery").join(half);
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "txt"));
    paths.retain(is_wanted);
    paths.sort();
    paths.iter().map(|path| (half, Scenario::read(path))).collect()
}

/// The part of the name to filter by, if any.
fn wanted() -> Option<String> {
    std::env::var("RECOVERY").ok().filter(|part| !part.is_empty())
}

impl Case {
    fn in_setting(&self, setting: Setting) -> &Measured {
        self.runs.iter().find(|run| run.setting == setting).unwrap()
    }

    /// Differences from the scenario's expectations, each with its trace.
    fn complaints(&self) -> Vec<String> {
        let mut complaints = Vec::new();
        for run in &self.runs {
            let wrong = self.wrong_in(run);
            if !wrong.is_empty() {
                let (half, name, setting) = (self.half, &self.scenario.name, run.setting.name());
                let wrong = wrong.join("\n  ");
                let trace = last_lines(&run.trace, 60);
                complaints.push(format!("{half}/{name} ({setting}):\n  {wrong}\n{trace}\n"));
            }
        }
        complaints
    }

    fn wrong_in(&self, run: &Measured) -> Vec<String> {
        let scenario = &self.scenario;
        let mut wrong: Vec<String> =
            run.script_errors.iter().map(|e| format!("script: {e}")).collect();
        let mut differs =
            |what: &str, expected: &dyn std::fmt::Display, is: &dyn std::fmt::Display| {
                wrong.push(format!("{what}: expected {expected}, got {is}"));
            };
        let ended = format!("{} ({})", run.code, run.reason);
        match run.setting {
            Setting::Full => {
                if !scenario.outcome.is(run.code) {
                    differs("outcome", &scenario.outcome, &ended);
                }
                if scenario.reason.as_ref().is_some_and(|expected| *expected != run.reason) {
                    differs("reason", &scenario.reason.as_deref().unwrap_or_default(), &run.reason);
                }
                let decisions = run.decisions.join(", ");
                if scenario.decisions.as_ref().is_some_and(|expected| *expected != decisions) {
                    differs(
                        "decisions",
                        &scenario.decisions.as_deref().unwrap_or_default(),
                        &decisions,
                    );
                }
                if scenario.reflections.is_some_and(|expected| expected != run.n_reflections) {
                    let expected = scenario.reflections.unwrap_or_default();
                    differs("reflections", &expected, &run.n_reflections);
                }
                if scenario.answers.is_some_and(|most| run.n_answers > most) {
                    let most = format!("at most {}", scenario.answers.unwrap_or_default());
                    differs("answers", &most, &run.n_answers);
                }
            }
            Setting::WithoutReflection => {
                // An impossible task does not succeed without reflections either.
                if matches!(scenario.outcome, Outcome::Stopped(_)) && run.code == 0 {
                    differs("outcome", &scenario.outcome, &ended);
                }
            }
            Setting::Plain => {
                if scenario.plain.as_ref().is_some_and(|plain| plain.is_done() != (run.code == 0)) {
                    differs("plain", &"the other", &ended);
                }
            }
        }
        if scenario.is_control {
            let plain = self.in_setting(Setting::Plain).n_answers;
            if !run.decisions.is_empty() || run.n_reflections > 0 || run.n_answers != plain {
                wrong.push("nothing went wrong, and something was done about it".to_owned());
            }
        }
        if run.setting != Setting::Plain && run.code != 0 && !self.stopped_in_time(run) {
            wrong.push("it did not stop within the limits of recovery".to_owned());
        }
        if run.code != 0 && !run.has_report {
            wrong.push("it stopped without a report".to_owned());
        }
        wrong
    }

    /// It stopped, and not only because of the turn limit, unless that is the expected outcome.
    fn stopped_in_time(&self, run: &Measured) -> bool {
        run.code != 0 && (run.code != 124 || self.scenario.outcome == Outcome::Stopped(124))
    }

    fn show(&self) {
        for run in &self.runs {
            say(&format!(
                "\n=== {}/{} ({}): {} ({}), decisions: {}, {} reflections, {} answers\n{}",
                self.half,
                self.scenario.name,
                run.setting.name(),
                run.code,
                run.reason,
                run.decisions.join(", "),
                run.n_reflections,
                run.n_answers,
                run.trace
            ));
        }
    }
}

fn last_lines(text: &str, most: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(most)..].join("\n")
}
