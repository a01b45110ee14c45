//! Read: shows text with line numbers, and images.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::file_tool::FileTool;
use super::{Tool, ToolCx, embedded_spec, json_object, ls};
use agent_host::workspace::{
    Charset, ImageData, LineEnding, NumberedLines, Page, ProjectPath, io_failure,
};
use agent_protocol::embedded;
use agent_protocol::envelope::{ErrorCode, Failure, Report};
use agent_protocol::{Object, format_thousands, pluralize};

#[derive(Debug, Deserialize, Serialize)]
struct Args {
    path: String,
    #[serde(default = "first_line")]
    start_line: i64,
    #[serde(skip_serializing_if = "super::is_default::<DEFAULT_LIMIT>")]
    limit: Option<usize>,
}

const DEFAULT_LIMIT: usize = 500;

fn first_line() -> i64 {
    1
}

pub(super) fn tool() -> impl Tool {
    let spec = embedded_spec("Read", embedded::READ);
    FileTool::new(spec, |args: &Args| &args.path, read)
}

fn read(args: &Args, cx: &ToolCx, path: &ProjectPath) -> Result<Report, Failure> {
    if args.start_line == 0 {
        return Err(Failure::new(ErrorCode::InvalidParam, "start_line is 0")
            .with_hint("the first line is 1; -1 is the last"));
    }
    let stop = || cx.cancel.is_cancelled();
    let limit = args.limit.unwrap_or(DEFAULT_LIMIT) as u64;
    match cx.workspace.read_page(path, args.start_line, limit, &stop) {
        Ok(page) => Ok(text_report(path, page, args.limit)),
        Err(failure) if failure.code == ErrorCode::IsDirectory => {
            let may_list = cx.hidden_files.hidden_reason("LS", path.relative()).is_none();
            if may_list { ls::list_whole(cx, path) } else { Err(failure) }
        }
        // (No image is text: each has zero bytes near its beginning.)
        Err(failure) if failure.code == ErrorCode::BinaryFile => image_report(cx, path, failure),
        Err(failure) => Err(failure),
    }
}

fn image_report(cx: &ToolCx, path: &ProjectPath, not_text: Failure) -> Result<Report, Failure> {
    let Some(picture) = cx.workspace.read_image(path)? else { return Err(not_text) };
    if !cx.takes_images {
        return Err(not_text.with_hint(
            "you receive no images: look at it with a command that knows the format, or ask the user to describe it",
        ));
    }
    let at = path.relative();
    let report = stored_image(cx, picture, &format!("Read {at}"))?;
    Ok(Report { path: Some(at.to_owned()), ..report })
}

/// The report of an image, which is kept for the model. `what` begins its text.
pub(super) fn stored_image(cx: &ToolCx, picture: ImageData, what: &str) -> Result<Report, Failure> {
    let (width, height) = (picture.width, picture.height);
    let image = cx.images.store(picture).map_err(|error| io_failure(&error, "store", what))?;
    let size = format_thousands(image.bytes);
    Ok(Report {
        text: format!("{what}: {}, {width} x {height}, {size} bytes.", image.media_type),
        data: json_object(json!({
            "type": "image",
            "hash": image.hash,
            "media_type": image.media_type,
            "bytes": image.bytes,
            "width": width,
            "height": height,
        })),
        ..Report::default()
    })
}

/// The lines of the file in `data`, and the `start_line` that continues.
pub(crate) fn describe_lines(at: &str, data: &Object) -> String {
    let number = |name: &str| data.get(name).and_then(Value::as_i64);
    let (start, end) = (number("start_line").unwrap_or(1), number("end_line").unwrap_or_default());
    let total = number("total_lines");
    let mut text = match total {
        Some(0) => format!("{at} is empty"),
        Some(total)
            if start == 1 && end == total && data.get("truncated") != Some(&true.into()) =>
        {
            format!("Read all of {at} ({})", pluralize(total.unsigned_abs(), "line"))
        }
        Some(total) => format!("Read lines {start}-{end} of {total} of {at}"),
        None if start < 0 => format!(
            "Read lines {start} to {end} of {at}, counted from its end: it is too large to count them from \
             its beginning"
        ),
        None => format!("Read lines {start}-{end} of {at}"),
    };
    if total.map_or(end != -1, |total| end < total) {
        text.push_str(&format!("; continue with start_line {}", end + 1));
    }
    text + "."
}

/// `limit`: the number of lines that the model asked for, if it did.
fn text_report(path: &ProjectPath, page: Page, limit: Option<usize>) -> Report {
    let NumberedLines { content, count: n, n_cut } = page.lines;
    let end = page.start_line.saturating_add_unsigned(n).saturating_sub(1);
    let truncated = page.more && limit.is_none_or(|limit| limit as u64 != n) || n_cut > 0;
    let at = path.relative();
    // (Not with `json!`, which would copy the content.)
    let mut data = Object::from_iter([
        ("content".to_owned(), content.into()),
        ("start_line".to_owned(), page.start_line.into()),
        ("end_line".to_owned(), end.into()),
        ("total_lines".to_owned(), page.total_lines.into()),
        ("truncated".to_owned(), truncated.into()),
    ]);
    let mut text = describe_lines(at, &data);
    if n_cut > 0 {
        let were = if n_cut == 1 { "line was" } else { "lines were" };
        text.push_str(&format!(" {n_cut} {were} cut at 2,000 characters."));
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
