//! Parses a script into turns.

use std::time::Duration;

use regex::{Regex, RegexBuilder};
use serde::de::DeserializeOwned;

use super::fault::Fault;
use super::template::Template;
use super::{Script, ScriptCall, ScriptTurn};
use agent_protocol::model::{Purpose, Usage};
use agent_protocol::variant_names::variant_names;

/// Line and message.
pub(super) type LineError = (usize, String);

pub(super) fn parse(text: &str) -> Result<Script, LineError> {
    let mut turns = Vec::new();
    let mut draft = TurnDraft::default();
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    for (number, line) in (1..).zip(text.lines()) {
        if line.trim_end() == "---" {
            turns.extend(std::mem::take(&mut draft).finish()?);
        } else if line.starts_with([' ', '\t']) && !line.trim().is_empty() {
            draft.continue_call(line).map_err(|wrong| (number, wrong))?;
        } else if !line.trim().is_empty() && !line.starts_with('#') {
            draft.parse_line(number, line).map_err(|wrong| (number, wrong))?;
        }
    }
    turns.extend(draft.finish()?);
    if turns.is_empty() {
        return Err((1, "it contains no turn; a turn has `text: …` or `call: NAME {…}`".into()));
    }
    Ok(turns)
}

#[derive(Default)]
struct TurnDraft {
    /// First line with content; 0 if there is none yet.
    line: usize,
    purpose: Option<Purpose>,
    when: Vec<Regex>,
    expect: Vec<Regex>,
    reasoning: Vec<String>,
    text: Vec<String>,
    /// Line, name and JSON text.
    calls: Vec<(usize, String, String)>,
    times: Option<u32>,
    usage: Option<Usage>,
    pause: Option<Duration>,
    fault: Option<Fault>,
    /// The last line was a `call:`, or continued one.
    in_call: bool,
}

impl TurnDraft {
    /// The line is `word: value`.
    fn parse_line(&mut self, number: usize, line: &str) -> Result<(), String> {
        const WORDS: &str = "text, call, expect, when, times, for, usage, pause, reasoning, fault";
        let (word, value) = line.split_once(':').ok_or_else(|| {
            format!("a line begins with a word and a colon; the words are {WORDS}")
        })?;
        let value = value.strip_prefix(' ').unwrap_or(value);
        if self.line == 0 {
            self.line = number;
        }
        self.in_call = word == "call";
        match word {
            "text" => self.text.push(value.to_owned()),
            "reasoning" => self.reasoning.push(value.to_owned()),
            "call" => {
                let value = value.trim();
                let end =
                    value.find(|c: char| c.is_whitespace() || c == '{').unwrap_or(value.len());
                let (name, json) = value.split_at(end);
                if name.is_empty() {
                    return Err("`call:` wants a tool's name: `call: NAME {…}`".into());
                }
                self.calls.push((number, name.to_owned(), json.trim().to_owned()));
            }
            "expect" => self.expect.push(parse_regex(value)?),
            "when" => self.when.push(parse_regex(value)?),
            "times" => set_once(word, &mut self.times, parse_times(value.trim())?)?,
            "for" => set_once(word, &mut self.purpose, parse_name(word, value.trim())?)?,
            "usage" => set_once(word, &mut self.usage, parse_usage(value)?)?,
            "pause" => set_once(word, &mut self.pause, parse_duration(value.trim())?)?,
            "fault" => set_once(word, &mut self.fault, parse_name(word, value.trim())?)?,
            _ => return Err(format!("unknown word `{word}`; the words are {WORDS}")),
        }
        Ok(())
    }

    fn continue_call(&mut self, line: &str) -> Result<(), String> {
        match self.calls.last_mut() {
            Some((_, _, json)) if self.in_call => {
                json.push('\n');
                json.push_str(line);
                Ok(())
            }
            _ => Err(
                "an indented line goes on with the JSON of a `call:`, and there is none above it"
                    .into(),
            ),
        }
    }

    fn finish(self) -> Result<Option<ScriptTurn>, LineError> {
        let line = self.line;
        if line == 0 {
            return Ok(None);
        }
        let at_turn = |wrong: String| (line, wrong);
        let is_silent = self.text.is_empty() && self.calls.is_empty() && self.reasoning.is_empty();
        match self.fault {
            None if is_silent => {
                return Err((
                    line,
                    "the turn says nothing; if it means that: `fault: empty`".into(),
                ));
            }
            Some(fault) if fault.replaces_answer() && !is_silent => {
                return Err((line, format!("the fault {fault:?} allows no text")));
            }
            Some(Fault::BrokenJson) if self.calls.is_empty() => {
                return Err((line, "`fault: broken_json` wants a `call:` to break".into()));
            }
            _ => {}
        }
        let mut calls = Vec::new();
        for (line, name, json) in self.calls {
            let json = if json.trim().is_empty() { "{}".to_owned() } else { json };
            let arguments = Template::parse(&json).map_err(|wrong| (line, wrong))?;
            arguments.check_json().map_err(|wrong| {
                (line, format!("the arguments of `{name}` are not JSON: {wrong}"))
            })?;
            calls.push(ScriptCall { name, arguments });
        }
        let text = match self.text.as_slice() {
            [] => None,
            lines => Some(Template::parse(&lines.join("\n")).map_err(at_turn)?),
        };
        let offered = self.expect.iter().map(|regex| regex.captures_len() - 1).sum::<usize>();
        let templates = text.iter().chain(calls.iter().map(|call| &call.arguments));
        let highest = templates.map(Template::max_group).max().unwrap_or_default();
        if highest > offered {
            return Err((
                line,
                format!(
                    "{{{{match.{highest}}}}} is used, but `expect:` of this turn has {offered} groups"
                ),
            ));
        }
        Ok(Some(ScriptTurn {
            line,
            purpose: self.purpose.unwrap_or(Purpose::Main),
            when: self.when,
            expect: self.expect,
            times: self.times.unwrap_or(1),
            reasoning: (!self.reasoning.is_empty()).then(|| self.reasoning.join("\n")),
            text,
            calls,
            usage: self.usage,
            pause: self.pause,
            fault: self.fault,
        }))
    }
}

fn set_once<T>(word: &str, slot: &mut Option<T>, value: T) -> Result<(), String> {
    match slot.replace(value) {
        Some(_) => Err(format!("a second `{word}:` in one turn")),
        None => Ok(()),
    }
}

/// `^` and `$` match at every line.
fn parse_regex(text: &str) -> Result<Regex, String> {
    let regex = RegexBuilder::new(text).multi_line(true).build();
    regex.map_err(|error| format!("`{text}` is not a regular expression: {error}"))
}

fn parse_name<T: DeserializeOwned>(word: &str, name: &str) -> Result<T, String> {
    serde_json::from_value(name.into()).map_err(|_| {
        let names = variant_names::<T>().join(", ");
        format!("`{word}: {name}` is unknown; there are {names}")
    })
}

fn parse_times(value: &str) -> Result<u32, String> {
    match value.parse() {
        Ok(times @ 1..) => Ok(times),
        _ if value == "any" => Ok(u32::MAX),
        _ => {
            Err("`times:` wants how often the turn may be used, `times: 3`, or `times: any`".into())
        }
    }
}

fn parse_usage(value: &str) -> Result<Usage, String> {
    let numbers = value.split_whitespace().map(str::parse).collect::<Result<Vec<u64>, _>>();
    match numbers.as_deref() {
        Ok(&[input_tokens, output_tokens]) => {
            Ok(Usage { input_tokens, output_tokens, ..Usage::default() })
        }
        Ok(&[input_tokens, output_tokens, cached_tokens]) => {
            Ok(Usage { input_tokens, output_tokens, cached_tokens, ..Usage::default() })
        }
        _ => Err("`usage:` wants the tokens of request and answer: `usage: 1200 35`".into()),
    }
}

fn parse_duration(value: &str) -> Result<Duration, String> {
    let span = value.parse::<jiff::SignedDuration>().ok();
    span.and_then(|span| Duration::try_from(span).ok())
        .ok_or_else(|| format!("`{value}` is not a duration: write `200ms`, `3s` or `1m`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, line: usize, part: &str) {
        let (at, wrong) = parse(text).expect_err(text);
        assert_eq!(at, line, "{text}: {wrong}");
        assert!(wrong.contains(part), "`{part}` is not in: {wrong}");
    }

    #[test]
    fn script_turns_are_parsed() {
        let script = "\u{feff}# a comment\n\ncall: Edit {\"a\":\n  1,\n\n  \"b\":2}\r\ncall: LS\n---\n\
            ---\nfor: reflect\ntext: one\ntext:\ntext:  two: 2\nusage: 5 6\npause: 3s\nwhen: x$\n\
            expect: (a)(b)\nreasoning: hm {{match.2}}\ntext: {{match.2}}\nfault: length\n---\n";
        let turns = parse(script).expect("a script");
        assert_eq!(turns.len(), 2);
        assert_eq!((turns[0].line, turns[1].line), (3, 10));
        let filling = super::super::template::TemplateValues::default();
        let calls = turns[0].calls.iter();
        let calls = calls.map(|call| (call.name.as_str(), call.arguments.render_text(&filling)));
        assert_eq!(
            calls.collect::<Vec<_>>(),
            [("Edit", "{\"a\":\n  1,\n  \"b\":2}".to_owned()), ("LS", "{}".to_owned())]
        );
        let text = turns[1].text.as_ref().map(|text| text.render_text(&filling));
        assert_eq!(text.as_deref(), Some("one\n\n two: 2\n"));
        assert_eq!(turns[1].purpose, Purpose::Reflect);
        assert_eq!(turns[1].pause, Some(Duration::from_secs(3)));
    }

    #[test]
    fn script_errors_name_their_line() {
        check("", 1, "no turn");
        check("# only\n---\n", 1, "no turn");
        check("text: a\n---\ntxet: b", 3, "unknown word `txet`; the words are text, call");
        check("hello", 1, "a word and a colon");
        check("call: Read {\"path\": }", 1, "the arguments of `Read` are not JSON");
        check("call: Read {\"path\":\n  }", 1, "are not JSON");
        check("call:", 1, "NAME");
        check("text: a\n  b", 2, "an indented line");
        check("text: a\nexpect: (", 2, "not a regular expression");
        check("text: a\nfor: fun", 2, "main, reflect, plan, summary, learn, task, agent");
        check("text: a\ntimes: 0", 2, "`times: 3`, or `times: any`");
        check("text: a\ntimes: 2\ntimes: any", 3, "a second `times:`");
        check("text: a\nusage: 1", 2, "usage: 1200 35");
        check("text: a\npause: 10", 2, "200ms");
        check("text: a\npause: 1s\npause: 1s", 3, "a second `pause:`");
        check("fault: boom", 1, "broken_json, unknown_tool, empty");
        check("# x\nusage: 1 2", 2, "says nothing");
        check("text: a\nfault: unauthorized", 1, "allows no text");
        check("text: a\nfault: broken_json", 1, "a `call:` to break");
        check("text: {{last.txt}}", 1, "unknown `{{last.txt}}`");
        check("expect: (a)\ntext: {{match.2}}", 1, "has 1 groups");
    }
}
