//! The results of the suite, as the table of `docs/RECOVERY.md`.

use super::run::{Measured, Setting};
use super::scenario::Outcome;
use super::{Case, HALVES};
use crate::support::{check_generated_table, say};

const BEGIN: &str =
    "<!-- the fault suite's table: UPDATE_TABLE=1 cargo test --test it recovery -- --ignored -->\n";

/// Compares the table with the page; with `UPDATE_TABLE=1`, writes it there.
pub(super) fn check(cases: &[Case]) {
    let table = table(cases);
    say(&table);
    check_generated_table("docs/RECOVERY.md", BEGIN, &table);
}

fn table(cases: &[Case]) -> String {
    let mut table = String::from(
        "| half | setting | recovered | calls a recovery | impossible: stopped in time | calls until then | \
         nothing wrong: done | calls |\n|---|---|---|---|---|---|---|---|\n",
    );
    for half in HALVES {
        let cases: Vec<&Case> = cases.iter().filter(|case| case.half == half).collect();
        for setting in Setting::ALL {
            table.push_str(&row(half, setting, &cases));
        }
    }
    table
}

fn row(half: &str, setting: Setting, cases: &[&Case]) -> String {
    let runs = |is: &dyn Fn(&Case) -> bool| -> Vec<&Measured> {
        let cases = cases.iter().filter(|case| is(case));
        cases.map(|case| case.in_setting(setting)).collect()
    };
    let is_harmless = |case: &Case| case.scenario.is_control;
    let is_impossible = |case: &Case| matches!(case.scenario.outcome, Outcome::Stopped(_));
    let faulty = runs(&|case| !is_harmless(case) && !is_impossible(case));
    let impossible = runs(&is_impossible);
    let harmless = runs(&is_harmless);
    let n_done = |runs: &[&Measured]| runs.iter().filter(|run| run.code == 0).count();
    let in_time = cases.iter().filter(|case| is_impossible(case));
    let in_time = in_time.filter(|case| case.stopped_in_time(case.in_setting(setting))).count();
    let of = |n: usize, all: &[&Measured]| format!("{n} of {}", all.len());
    // Failed attempts count towards the cost.
    let spent = |runs: &[&Measured], on: usize| {
        let spent: usize = runs.iter().map(|run| run.n_answers).sum();
        let tenths = (spent * 10).checked_div(on);
        tenths.map_or("–".to_owned(), |tenths| format!("{}.{}", tenths / 10, tenths % 10))
    };
    format!(
        "| {half} | {} | {} | {} | {} | {} | {} | {} |\n",
        setting.name(),
        of(n_done(&faulty), &faulty),
        spent(&faulty, n_done(&faulty)),
        of(in_time, &impossible),
        spent(&impossible, impossible.len()),
        of(n_done(&harmless), &harmless),
        spent(&harmless, harmless.len()),
    )
}
