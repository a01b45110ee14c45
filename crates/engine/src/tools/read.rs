//! Read: shows text with line numbers, and images.

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::file_tool::FileTool;
use super::{Tool, ToolCx, embedded_spec, json_object};
use agent_host::workspace::{
    Charset, CheckedPath, LineEnding, NumberedLines, Page, ProjectPath, io_failure,
};
use agent_protocol::embedded;
use agent_protocol::envelope::{ErrorCode, Failure, Report};
use agent_protocol::{Object, format_thousands, pluralize};

#[derive(Debug, Deserialize, Serialize)]
struct Args {
    path: String,
    #[serde(default = "first_line")]
    start_line: i64,
    #[serde(default = "default_limit")]
    limit: u64,
}

fn first_line() -> i64 {
    1
}

fn default_limit() -> u64 {
    500
}

pub(super) fn tool() -> impl Tool {
    let spec = embedded_spec("Read", embedded::READ);
    FileTool::new(spec, |args: &Args| &args.path, read).with_fast_path(read_small_file)
}

/// Size up to which a file is read faster than another thread is started.
const MAX_FAST_READ_BYTES: u64 = 64 * 1024;

fn read_small_file(
    args: &Args,
    cx: &ToolCx,
    checked_path: &CheckedPath,
) -> Option<Result<Report, Failure>> {
    let is_small = checked_path.file_size().is_some_and(|size| size <= MAX_FAST_READ_BYTES);
    is_small.then(|| read(args, cx, checked_path))
}

fn read(args: &Args, cx: &ToolCx, checked_path: &CheckedPath) -> Result<Report, Failure> {
    if args.start_line == 0 {
        return Err(Failure::new(ErrorCode::InvalidParam, "start_line is 0")
            .with_hint("the first line is 1; -1 is the last"));
    }
    let stop = || cx.cancel.is_cancelled();
    match cx.workspace.read_page(checked_path, args.start_line, args.limit, &stop) {
        Ok(page) => Ok(text_report(checked_path.path(), page)),
        // (No image is text: each has zero bytes near its beginning.)
        Err(failure) if failure.code == ErrorCode::BinaryFile => {
            image_report(cx, checked_path, failure)
        }
        Err(failure) => Err(failure),
    }
}

fn image_report(
    cx: &ToolCx,
    checked_path: &CheckedPath,
    not_text: Failure,
) -> Result<Report, Failure> {
    let Some(picture) = cx.workspace.read_image(checked_path.path())? else { return Err(not_text) };
    if !cx.takes_images {
        return Err(not_text.with_hint(
            "you receive no images: look at it with a command that knows the format, or ask the user to describe it",
        ));
    }
    let at = checked_path.path().relative();
    let (width, height) = (picture.width, picture.height);
    let image = cx.images.store(picture).map_err(|error| io_failure(&error, "store", at))?;
    let size = format_thousands(image.bytes);
    Ok(Report {
        text: format!("Read {at}: {}, {width} x {height}, {size} bytes.", image.media_type),
        data: json_object(json!({
            "type": "image",
            "hash": image.hash,
            "media_type": image.media_type,
            "bytes": image.bytes,
            "width": width,
            "height": height,
        })),
        path: Some(at.to_owned()),
        ..Report::default()
    })
}

fn text_report(path: &ProjectPath, page: Page) -> Report {
    let NumberedLines { content, count: n, n_cut } = page.lines;
    let end = page.start_line.saturating_add_unsigned(n).saturating_sub(1);
    let truncated = page.more || n_cut > 0;

    let at = path.relative();
    let mut text = match (n, page.total_lines) {
        (0, _) => format!("{at} is empty."),
        (_, Some(total)) if page.start_line == 1 && end.unsigned_abs() == total => {
            format!("Read all of {at} ({}).", pluralize(total, "line"))
        }
        (_, Some(total)) => format!("Read lines {}-{end} of {total} of {at}.", page.start_line),
        (_, None) if page.start_line < 0 => format!(
            "Read lines {} to {end} of {at}, counted from its end: it is too large to count them from \
             its beginning.",
            page.start_line
        ),
        (_, None) => format!("Read lines {}-{end} of {at}.", page.start_line),
    };
    if page.more {
        text.push_str(&format!(" More follow: continue with start_line {}.", end + 1));
    }
    if n_cut > 0 {
        text.push_str(&format!(" {n_cut} over 2,000 characters cut."));
    }
    if page.line_ending == LineEnding::CrLf {
        text.push_str(" CRLF line ends.");
    }
    if page.charset != Charset::UTF_8 {
        let guessed = if page.charset.is_guessed() { " (guessed)" } else { "" };
        text.push_str(&format!(" Encoding {}{guessed}.", page.charset.name()));
    }
    if page.modified_externally {
        text.push_str(" It was modified externally since it was last read.");
    }
    if page.unsteady {
        text.push_str(" It kept changing meanwhile: read it again before you change it.");
    }

    // (Not with `json!`, which would copy the content.)
    let mut data = Object::from_iter([
        ("content".to_owned(), content.into()),
        ("start_line".to_owned(), page.start_line.into()),
        ("end_line".to_owned(), end.into()),
        ("total_lines".to_owned(), page.total_lines.into()),
        ("truncated".to_owned(), truncated.into()),
    ]);
    if page.charset.is_guessed() {
        data.insert("encoding_guessed".to_owned(), true.into());
    }
    let mut stats = json_object(json!({
        "file_size_bytes": page.stat.size,
        "file_mtime_ms": page.stat.mtime_ms(),
        "encoding": page.charset.name(),
        "line_ending": page.line_ending,
    }));
    if n_cut > 0 {
        stats.insert("lines_cut".to_owned(), n_cut.into());
    }
    Report { partial: truncated, data, text, stats, path: Some(at.to_owned()) }
}

#[cfg(test)]
mod tests;
