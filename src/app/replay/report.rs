//! The report of a replay, for people and programs.

use serde_json::{Value, json};

use super::compare::{Compared, Row};

/// The result of a replay.
pub struct Replayed {
    /// The session.
    pub(super) session: String,
    pub(super) rows: Vec<Row>,
    /// Why the replay ended before the end of the record.
    pub(super) divergence: Option<String>,
    /// The divergence is a difference: nothing before it excuses it.
    pub(super) divergence_counts: bool,
    /// Inputs and circumstances that are not as they were.
    pub(super) not_reproducible: Vec<String>,
    /// The scratch copy, if it is kept.
    pub(super) kept: Option<String>,
}

impl Replayed {
    /// Every reproducible result is equal.
    pub fn is_equal(&self) -> bool {
        let is_different = |row: &Row| matches!(row.result, Compared::Different(_));
        let diverged = self.divergence.is_some() && self.divergence_counts;
        !diverged && !self.rows.iter().any(is_different)
    }

    fn count(&self, fits: impl Fn(&Compared) -> bool) -> usize {
        self.rows.iter().filter(|row| fits(&row.result)).count()
    }

    /// The numbers of equal, different, not reproducible and not reached results.
    fn counts(&self) -> [usize; 4] {
        [
            self.count(|it| *it == Compared::Equal),
            self.count(|it| matches!(it, Compared::Different(_))),
            self.count(|it| matches!(it, Compared::NotReproducible(..))),
            self.count(|it| *it == Compared::NotReached),
        ]
    }

    /// As text: one line per result, the first difference, and the counts.
    pub fn in_words(&self) -> String {
        let mut page = String::new();
        for row in &self.rows {
            let place = format!("{}.{}", row.turn, row.round);
            let how = match &row.result {
                Compared::Equal => "equal".to_owned(),
                Compared::Different(_) => "DIFFERENT".to_owned(),
                Compared::NotReproducible(why, None) => format!("not reproducible: {why}"),
                Compared::NotReproducible(why, Some(_)) => {
                    format!("not reproducible, and differs: {why}")
                }
                Compared::NotReached => "not reached".to_owned(),
            };
            page.push_str(&format!("{place:<5} {}  {how}\n", row.what.replace('\n', " ")));
        }
        let first = self.rows.iter().find_map(|row| match &row.result {
            Compared::Different(how) => Some((row, how)),
            Compared::Equal | Compared::NotReproducible(..) | Compared::NotReached => None,
        });
        if let Some((row, how)) = first {
            page.push_str(&format!(
                "\nThe first difference, turn {}, round {}: {}\n{how}\n",
                row.turn, row.round, row.what
            ));
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
        if let Some(kept) = &self.kept {
            page.push_str(&format!("The scratch copy is in {kept}\n"));
        }
        page
    }

    /// As JSON.
    pub fn in_json(&self) -> Value {
        let rows = self.rows.iter().map(|row| {
            let mut value = json!({"turn": row.turn, "round": row.round, "what": row.what});
            if !row.call.is_empty() {
                value["call"] = row.call.clone().into();
            }
            let (result, why, how) = match &row.result {
                Compared::Equal => ("equal", None, None),
                Compared::Different(how) => ("different", None, Some(how)),
                Compared::NotReproducible(why, how) => {
                    ("not_reproducible", Some(why), how.as_ref())
                }
                Compared::NotReached => ("not_reached", None, None),
            };
            value["result"] = result.into();
            if let Some(why) = why {
                value["reason"] = why.clone().into();
            }
            if let Some(how) = how {
                value["difference"] = how.clone().into();
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
            "kept": self.kept,
        })
    }
}
