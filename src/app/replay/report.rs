//! The report of a replay, for people and programs.

use serde_json::{Value, json};

use super::compare::{Comparison, ComparisonRow};

pub struct ReplayReport {
    pub(super) session: String,
    pub(super) rows: Vec<ComparisonRow>,
    /// Why the replay ended before the end of the record.
    pub(super) divergence: Option<String>,
    /// The divergence is a difference: nothing before it excuses it.
    pub(super) divergence_counts: bool,
    /// Inputs and circumstances that differ from the record.
    pub(super) not_reproducible: Vec<String>,
}

impl ReplayReport {
    pub fn is_equal(&self) -> bool {
        let [_, different, ..] = self.counts();
        let diverged = self.divergence.is_some() && self.divergence_counts;
        !diverged && different == 0
    }

    /// Equal, different, not reproducible, not reached.
    fn counts(&self) -> [usize; 4] {
        let mut counts = [0; 4];
        for row in &self.rows {
            counts[match row.result {
                Comparison::Equal => 0,
                Comparison::Different { .. } => 1,
                Comparison::NotReproducible { .. } => 2,
                Comparison::NotReached => 3,
            }] += 1;
        }
        counts
    }

    pub fn to_text(&self) -> String {
        let mut page = String::new();
        for row in &self.rows {
            let place = format!("{}.{}", row.turn, row.round);
            let how = match &row.result {
                Comparison::Equal => "equal".to_owned(),
                Comparison::Different { .. } => "DIFFERENT".to_owned(),
                Comparison::NotReproducible { reason, difference: None } => {
                    format!("not reproducible: {reason}")
                }
                Comparison::NotReproducible { reason, .. } => {
                    format!("not reproducible, and differs: {reason}")
                }
                Comparison::NotReached => "not reached".to_owned(),
            };
            page.push_str(&format!("{place:<5} {}  {how}\n", row.what.replace('\n', " ")));
        }
        let first = self.rows.iter().find_map(|row| match &row.result {
            Comparison::Different { difference } => Some((row, difference)),
            _ => None,
        });
        if let Some((ComparisonRow { turn, round, what, .. }, how)) = first {
            let place = format!("turn {turn}, round {round}");
            page.push_str(&format!("\nThe first difference, {place}: {what}\n{how}\n"));
        }
        if let Some(why) = &self.divergence {
            page.push_str(&format!("\nThe replay ended early: {why}\n"));
        }
        if !self.not_reproducible.is_empty() {
            page.push_str("\nNot reproducible:\n");
            for line in &self.not_reproducible {
                page.push_str(&format!("- {line}\n"));
            }
        }
        let [equal, different, not_reproducible, not_reached] = self.counts();
        page.push_str(&format!("\n{equal} equal, {different} different"));
        for (n, what) in [(not_reproducible, "not reproducible"), (not_reached, "not reached")] {
            if n > 0 {
                page.push_str(&format!(", {n} {what}"));
            }
        }
        page.push('\n');
        page
    }

    pub fn to_json(&self) -> Value {
        let [equal, different, not_reproducible, not_reached] = self.counts();
        json!({
            "session": self.session,
            "is_equal": self.is_equal(),
            "counts": {
                "equal": equal,
                "different": different,
                "not_reproducible": not_reproducible,
                "not_reached": not_reached,
            },
            "results": self.rows,
            "ended_early": self.divergence,
            "not_reproducible": self.not_reproducible,
        })
    }
}
