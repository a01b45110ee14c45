//! Did a command want input? It had none, and a reader should know that this is why it failed.

use std::sync::LazyLock;

use regex::Regex;

use crate::exec::Outcome;
use crate::permission::Line;

/// What programs say that found nobody to answer them.
static NOBODY: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
        r"(?ix) EOFError | EOF\ when\ reading | unexpected\ EOF\ while\ reading\ (from\ )?(stdin|input)
        | (stdin|standard\ input|the\ input\ device)\ is\ not\ a\ (tty|terminal)
        | not\ (running\ in\ )?an?\ (interactive\ )?(tty|terminal)
        | inappropriate\ ioctl\ for\ device | no\ tty\ present | could\ not\ read\ (username|password)
        | non-interactive\ (mode|shell|terminal) | terminal\ prompts\ disabled | cannot\ prompt",
    )
    .ok()
});

/// The end of an output that asks for something.
static QUESTION: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
        r"(?ix) ( \[y(es)?/n(o)?\] | \(y(es)?/n(o)?\) | password | passphrase | are\ you\ sure | proceed
        | continue | overwrite | press\ \w+ )[^\n]{0,80}[?:\])>.]\s*$",
    )
    .ok()
});

/// A sentence about that, where it is so.
pub(super) fn note(line: &Line, outcome: &Outcome) -> Option<String> {
    let says = |pattern: &LazyLock<Option<Regex>>, text: &str| {
        pattern.as_ref().is_some_and(|pattern| pattern.is_match(text))
    };
    let (stdout, stderr) = (&outcome.stdout.text, &outcome.stderr.text);
    // A question at the end of a line was answered, or is none.
    let asks = |text: &str| !text.ends_with('\n') && says(&QUESTION, last_line(text));
    let wanted = if says(&NOBODY, stderr) || asks(stdout) || asks(stderr) {
        "it asked for input".to_owned()
    } else {
        let reader = line.reads_input()?;
        format!("`{reader}` read standard input")
    };
    Some(format!(
        "{wanted}, and commands have none: give it in the command (a file, a pipe, `<<< text`, an option like \
         --yes)"
    ))
}

fn last_line(text: &str) -> &str {
    text.rsplit('\n').next().unwrap_or(text)
}
