//! What the suite came to, as the table of `docs/LEARNING.md`.

use super::{Case, SETS, Set};
use crate::support::{say, stands_in};

const BEGIN: &str =
    "<!-- the learning suite's table: UPDATE_TABLE=1 cargo test --test it learning -->\n";

/// Compares the table with the page; with `UPDATE_TABLE=1` writes it there.
pub(super) fn check(cases: &[Case]) {
    let table = table(cases);
    say(&table);
    stands_in("docs/LEARNING.md", BEGIN, &table);
}

fn table(cases: &[Case]) -> String {
    let mut table = String::from(
        "| half | families | first session: failed calls | model calls | second, without memory: failed calls | \
         model calls | second, with memory: failed calls | model calls | avoided at once | made good without the \
         model | worse | unrelated tasks: told something |\n|---|---|---|---|---|---|---|---|---|---|---|---|\n",
    );
    for Set { name: half, .. } in SETS {
        let cases: Vec<&Case> = cases.iter().filter(|case| case.half == half).collect();
        if !cases.is_empty() {
            table.push_str(&row(half, &cases));
        }
    }
    table
}

fn row(half: &str, cases: &[&Case]) -> String {
    let (controls, families): (Vec<&Case>, Vec<&Case>) =
        cases.iter().partition(|case| case.family.is_control);
    let sum = |of: &dyn Fn(&Case) -> usize| families.iter().map(|case| of(case)).sum::<usize>();
    let part = |is_one: &dyn Fn(&Case) -> bool, is_right: &dyn Fn(&Case) -> bool| {
        let all: Vec<&&Case> = families.iter().filter(|case| is_one(case)).collect();
        let right = all.iter().filter(|case| is_right(case)).count();
        format!("{right} of {}", all.len())
    };
    let told = controls.iter().filter(|case| case.is_told()).count();
    format!(
        "| {half} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {told} of {} |\n",
        families.len(),
        sum(&|case| case.first().n_failed),
        sum(&|case| case.first().n_answers),
        sum(&|case| case.without().n_failed),
        sum(&|case| case.without().n_answers),
        sum(&|case| case.with().n_failed),
        sum(&|case| case.with().n_answers),
        part(&Case::is_to_avoid, &Case::avoids),
        part(&|case| !case.is_to_avoid(), &Case::mends),
        cases.iter().filter(|case| case.is_worse()).count(),
        controls.len(),
    )
}
