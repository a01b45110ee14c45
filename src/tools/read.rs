//! Read: text with line numbers.

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::file_tool::FileTool;
use super::files::object;
use super::{Tool, ToolCx, spec};
use crate::protocol::envelope::{ErrorCode, Failure, Report};
use crate::workspace::{Line, Page, ProjectPath};

#[derive(Debug, Deserialize, Serialize)]
struct Args {
    path: String,
    #[serde(default = "first")]
    start_line: i64,
    #[serde(default = "five_hundred")]
    limit: u64,
}

fn first() -> i64 {
    1
}

fn five_hundred() -> u64 {
    500
}

/// The tool.
pub(super) fn tool() -> impl Tool {
    let spec = spec(
        "Read",
        include_str!("../../prompts/tools/read.md"),
        include_str!("../../prompts/tools/read.json"),
    );
    FileTool::looking(spec, |args: &Args| &args.path, read)
        .at_once_where(|workspace, path| workspace.is_file_up_to(path, SMALL))
}

/// A file of this size is read in less time than another thread needs to hear of it.
const SMALL: u64 = 64 * 1024;

fn read(args: &Args, cx: &ToolCx) -> Result<Report, Failure> {
    if args.start_line == 0 {
        return Err(Failure::new(ErrorCode::InvalidParam, "start_line is 0")
            .hint("the first line is 1; -1 is the last"));
    }
    let path = cx.workspace.file(&args.path)?;
    let stop = || cx.cancel.is_cancelled();
    let page = cx.workspace.page(&path, args.start_line, args.limit, &stop)?;
    Ok(report(&path, &page))
}

/// A page of more bytes ends earlier, at a whole line: cut in its middle it would be of little use.
const PAGE_BYTES: usize = 48 * 1024;

fn report(path: &ProjectPath, page: &Page) -> Report {
    let mut room = PAGE_BYTES;
    let fitting = page.lines.iter().take_while(|line| {
        let size = line.text.len() + "1234 | \n".len();
        let fits = size <= room;
        room = room.saturating_sub(size);
        fits
    });
    let n_shown = fitting.count().max(1).min(page.lines.len());
    let shown = || page.lines.iter().take(n_shown);
    let more = page.more || n_shown < page.lines.len();
    let n = i64::try_from(n_shown).unwrap_or(i64::MAX);
    let end = page.start_line.saturating_add(n).saturating_sub(1);
    let content = numbered(shown, page.start_line);
    let cut = shown().filter(|line| line.cut_of.is_some()).count();
    let truncated = more || cut > 0;

    let at = path.relative();
    let mut text = match (n, page.total_lines) {
        (0, _) => format!("{at} is empty."),
        (_, Some(total)) if page.start_line == 1 && end.unsigned_abs() == total => {
            format!("Read all of {at} ({total} lines).")
        }
        (_, Some(total)) => format!("Read lines {}-{end} of {total} of {at}.", page.start_line),
        (_, None) if page.start_line < 0 => format!(
            "Read lines {} to {end} of {at}, counted from its end: it is too large to count them from \
             its beginning.",
            page.start_line
        ),
        (_, None) => format!("Read lines {}-{end} of {at}.", page.start_line),
    };
    if more {
        text.push_str(&format!(" More follow: continue with start_line {}.", end + 1));
    }
    if cut > 0 {
        text.push_str(&format!(" {cut} over 2,000 characters cut."));
    }
    if page.charset.is_guessed() {
        text.push_str(&format!(" The encoding, {}, is a guess.", page.charset.name()));
    }
    if page.modified_externally {
        text.push_str(" It was modified externally since it was last read.");
    }
    if page.unsteady {
        text.push_str(" It kept changing meanwhile: read it again before you change it.");
    }

    let mut data = object(json!({
        "content": content,
        "start_line": page.start_line,
        "end_line": end,
        "total_lines": page.total_lines,
        "truncated": truncated,
    }));
    if page.charset.is_guessed() {
        data.insert("encoding_guessed".to_owned(), true.into());
    }
    if page.modified_externally {
        data.insert("modified_externally".to_owned(), true.into());
    }
    Report {
        partial: truncated || page.charset.is_guessed(),
        data,
        text,
        stats: object(json!({
            "file_size_bytes": page.stat.size,
            "file_mtime_ms": page.stat.mtime_ms(),
            "encoding": page.charset.name(),
            "line_ending": page.line_ending.as_str(),
        })),
        path: Some(at.to_owned()),
    }
}

/// The lines, each behind its number.
fn numbered<'a, I: Iterator<Item = Line<'a>>>(lines: impl Fn() -> I, first: i64) -> String {
    let size: usize = lines().map(|line| line.text.len() + "1234 | \n".len()).sum();
    let mut content = String::with_capacity(size);
    for (line, number) in lines().zip(first..) {
        if number > first {
            content.push('\n');
        }
        push_number(&mut content, number);
        content.push_str(line.text);
        if let Some(n) = line.cut_of {
            content.push_str(&format!("… [cut: 2000 of {n} characters]"));
        }
    }
    content
}

/// `%4d | `. (Formatting machinery would take a third of the time of a small Read.)
fn push_number(content: &mut String, number: i64) {
    const WIDTH: usize = "1234 | ".len();
    let mut digits = *b"                     | ";
    let mut at = digits.len() - " | ".len();
    let mut rest = number.unsigned_abs();
    loop {
        at -= 1;
        digits[at] = b"0123456789"[usize::try_from(rest % 10).unwrap_or_default()];
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if number < 0 {
        at -= 1;
        digits[at] = b'-';
    }
    let at = at.min(digits.len() - WIDTH);
    // They are digits.
    content.push_str(std::str::from_utf8(&digits[at..]).unwrap_or_default());
}

#[cfg(test)]
mod tests;
