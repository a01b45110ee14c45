//! The order of the runs.

/// One run, by the indices of its task and variant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlannedRun {
    pub task: usize,
    pub variant: usize,
    /// From 1.
    pub repetition: u32,
}

/// The variants of a task and repetition follow each other, so that a slower server affects all; the first changes.
pub fn plan_runs(n_tasks: usize, n_variants: usize, repetitions: u32) -> Vec<PlannedRun> {
    let mut runs = Vec::new();
    let mut first = 0;
    for repetition in 1..=repetitions {
        for task in 0..n_tasks {
            let variants = (0..n_variants).map(|at| (first + at) % n_variants);
            runs.extend(variants.map(|variant| PlannedRun { task, variant, repetition }));
            first += 1;
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variants_alternate_and_each_run_occurs_once() {
        let order = plan_runs(2, 2, 2);
        let shown: Vec<String> = order
            .iter()
            .map(|run| format!("{}{}{}", run.task, ["a", "b"][run.variant], run.repetition))
            .collect();
        assert_eq!(shown, ["0a1", "0b1", "1b1", "1a1", "0a2", "0b2", "1b2", "1a2"]);
    }
}
