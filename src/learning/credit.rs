//! What became of the items that were recalled: which of them helped, which did not, and which the task never came
//! near.

use std::collections::BTreeMap;

use super::call::{CHECK, Made};
use super::evidence::{blames, is_verdict, printed};
use super::fold::{Harvest, Shown};
use super::item::Item;
use super::pattern::CHANGES;
use super::store::Outcome;
use crate::protocol::envelope::ErrorCode;
use crate::protocol::message::ToolCall;
use crate::protocol::recall::{FailedAs, Moment};

/// Ids of items that were used in a turn, and how that turned out; `known`: the items as they were then. An item
/// that the task never touched is not among them.
///
/// Shown, and the failure happened all the same: lost, but for what was told beforehand (at the task's start, or below
/// a call that leads there), was not heard and helped once it was done. Tried by the kernel, and failed: lost. Shown, no such
/// failure, and a call did what it advises: won. Where the kernel tried it that alone decides: a model that did
/// not listen says nothing of the fix. What was told beforehand wins only where a call shows that it was heard:
/// most calls of Read name their argument rightly, whatever they were told. One loss outweighs what went well
/// beside it.
pub fn credits(harvest: &Harvest, known: &[Item]) -> Vec<(String, Outcome)> {
    let mut outcomes: BTreeMap<&str, Outcome> = BTreeMap::new();
    let applied_ids = |id: &str| {
        let mut tried = harvest.recalled.iter().filter(|shown| shown.applied);
        tried.any(|shown| shown.items.iter().any(|item| item.id == id))
    };
    for shown in &harvest.recalled {
        for recalled in &shown.items {
            if !shown.applied && applied_ids(&recalled.id) {
                continue;
            }
            let Some(item) = known.iter().find(|item| item.id == recalled.id) else { continue };
            let outcome =
                if shown.applied { applied(harvest, shown) } else { told(harvest, shown, item) };
            match (outcome, outcomes.get(item.id.as_str())) {
                (None, _) | (Some(Outcome::Won), Some(Outcome::Lost)) => {}
                (Some(outcome), _) => {
                    outcomes.insert(&item.id, outcome);
                }
            }
        }
    }
    outcomes.into_iter().map(|(id, outcome)| (id.to_owned(), outcome)).collect()
}

/// How the kernel's own calls went, up to the evaluation behind them: the last of them decides. One that was made,
/// and whose output judges the work, was called as it has to be.
fn applied(harvest: &Harvest, shown: &Shown) -> Option<Outcome> {
    let own = |call: &&Made| {
        call.seq > shown.seq
            && shown.until.is_none_or(|until| call.seq < until)
            && call.parent.is_some()
            && call.parent == shown.call
    };
    let last = harvest.calls.iter().rfind(own)?;
    Some(if was_called_well(last) { Outcome::Won } else { Outcome::Lost })
}

fn told(harvest: &Harvest, shown: &Shown, item: &Item) -> Option<Outcome> {
    let pattern = item.failure.as_ref()?;
    let later = || harvest.calls.iter().filter(|call| call.seq > shown.seq);
    let is_beforehand = match shown.moment {
        Moment::Task | Moment::Call => true,
        Moment::Failure => false,
    };
    let follows =
        || later().any(|made| was_called_well(made) && pattern.is_followed_by(&as_command(made)));
    let mut was_heard = false;
    let happened = later().any(|made| {
        let call = as_command(made);
        was_heard |= pattern.is_followed_by(&call);
        made.failed.as_ref().is_some_and(|failed| {
            pattern.fits(&FailedAs {
                call: &call,
                code: failed.code,
                signature: &failed.signature,
                evidence: &failed.evidence,
            })
        })
    });
    // What was told beforehand and not heard, and then did help, is as good as it was.
    if happened && is_beforehand && !was_heard && follows() {
        return None;
    }
    if happened {
        return Some(Outcome::Lost);
    }
    // Told below the very change that the check would have said no to: that it says yes then is the advice's doing.
    if pattern.when.leads_to.is_some() && is_below_a_change(harvest, shown) {
        let says_yes =
            later().any(|made| made.failed.is_none() && pattern.is_followed_by(&as_command(made)));
        return says_yes.then_some(Outcome::Won);
    }
    // Told beforehand, such a call says nothing where it is made without the advice too.
    if is_beforehand && !pattern.shows_when_followed() {
        return None;
    }
    follows().then_some(Outcome::Won)
}

/// It was told below a call that changed a file.
fn is_below_a_change(harvest: &Harvest, shown: &Shown) -> bool {
    let is_it = |made: &&Made| shown.call.as_ref() == Some(&made.id);
    let call = harvest.calls.iter().rev().find(is_it);
    shown.moment == Moment::Call && call.is_some_and(|made| CHANGES.contains(&made.tool.as_str()))
}

/// It succeeded, or what it ran said no to the work and nothing against the call.
fn was_called_well(made: &Made) -> bool {
    made.failed.as_ref().is_none_or(|failed| !blames_call(failed.code, &failed.evidence))
}

/// A failure that speaks against how it was called, or where; else what was run said no to the work.
fn blames_call(code: ErrorCode, evidence: &str) -> bool {
    code != ErrorCode::CommandFailed
        || !is_verdict(printed(evidence))
        || printed(evidence).lines().any(blames)
}

/// The call; a check is run by the kernel as a command is by a model.
fn as_command(made: &Made) -> ToolCall {
    let mut call = made.call();
    if call.name == CHECK {
        "Bash".clone_into(&mut call.name);
    }
    call
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_test_is_called_does_not_blame_the_call() {
        let says = |line: &str| format!("`python3 -m pytest` exited with status 1\n{line}");
        let verdict = says("FAILED tests/test_api.py::test_forbidden - assert 200 == 403");
        assert!(!blames_call(ErrorCode::CommandFailed, &verdict));
        let call = says("assert 1 == 2\nERROR: unrecognized arguments: --fast");
        assert!(blames_call(ErrorCode::CommandFailed, &call));
    }
}
