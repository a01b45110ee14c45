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
    pub(super) kept_directory: Option<String>,
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
                Comparison::Different(_) => 1,
                Comparison::NotReproducible(..) => 2,
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
                Comparison::Different(_) => "DIFFERENT".to_owned(),
                Comparison::NotReproducible(why, None) => format!("not reproducible: {why}"),
                Comparison::NotReproducible(why, Some(_)) => {
                    format!("not reproducible, and differs: {why}")
                }
                Comparison::NotReached => "not reached".to_owned(),
            };
            page.push_str(&format!("{place:<5} {}  {how}\n", row.what.replace('\n', " ")));
        }
        let first = self.rows.iter().find_map(|row| match &row.result {
            Comparison::Different(how) => Some((row, how)),
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
        if let Some(kept) = &self.kept_directory {
            page.push_str(&format!("The scratch copy is in {kept}\n"));
        }
        page
    }

    pub fn to_json(&self) -> Value {
        let rows = self.rows.iter().map(|row| {
            let mut value = json!({"turn": row.turn, "round": row.round, "what": row.what});
            if !row.call.is_empty() {
                value["call"] = row.call.clone().into();
            }
            let (result, why, how) = match &row.result {
                Comparison::Equal => ("equal", None, None),
                Comparison::Different(how) => ("different", None, Some(how)),
                Comparison::NotReproducible(why, how) => {
                    ("not_reproducible", Some(why), how.as_ref())
                }
                Comparison::NotReached => ("not_reached", None, None),
            };
            value["result"] = result.into();
            for (name, text) in [("reason", why), ("difference", how)] {
                if let Some(text) = text {
                    value[name] = text.clone().into();
                }
            }
            value
        });
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
            "results": rows.collect::<Vec<Value>>(),
            "ended_early": self.divergence,
            "not_reproducible": self.not_reproducible,
            "kept": self.kept_directory,
        })
    }
}
