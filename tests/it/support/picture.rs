//! A screen of the terminal as an SVG picture.

use std::fmt::Write as _;
use std::ops::Range;

use vt100::Color;

/// Of one character, in units of the picture.
const WIDTH: f32 = 8.4;
const HEIGHT: f32 = 19.0;
const MARGIN: f32 = 14.0;

/// The colours that a terminal has without being told.
#[derive(Clone, Copy)]
pub(crate) struct Paper {
    pub(crate) text: &'static str,
    pub(crate) background: &'static str,
    pub(crate) border: &'static str,
}

pub(crate) const DARK: Paper = Paper { text: "#d6dae0", background: "#1a1d23", border: "#343a46" };
pub(crate) const LIGHT: Paper = Paper { text: "#24292f", background: "#ffffff", border: "#d0d7de" };

/// Of characters of a row.
#[derive(Clone, Default, PartialEq)]
struct Style {
    fill: String,
    background: Option<String>,
    attributes: String,
}

/// Draws these rows of the screen; `settle` replaces text that varies between runs, by text of the
/// same width.
pub(crate) fn draw(
    screen: &vt100::Screen,
    rows: Range<u16>,
    paper: Paper,
    settle: impl Fn(&str) -> String,
) -> String {
    let columns = screen.size().1;
    let (width, height) = (
        f32::from(columns) * WIDTH + 2.0 * MARGIN,
        f32::from(rows.end - rows.start) * HEIGHT + 2.0 * MARGIN,
    );
    let Paper { background, border, .. } = paper;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.1} {height:.1}\" \
         width=\"{width:.0}\" font-family=\"ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace\" \
         font-size=\"14\">\n\
         <style>text{{white-space:pre}}</style>\n\
         <rect x=\".5\" y=\".5\" width=\"{:.1}\" height=\"{:.1}\" rx=\"8\" fill=\"{background}\" \
         stroke=\"{border}\"/>\n",
        width - 1.0,
        height - 1.0,
    );
    for (n, row) in rows.enumerate() {
        let top = MARGIN + f32::from(u16::try_from(n).unwrap()) * HEIGHT;
        for (column, run, style) in runs(screen, row, paper) {
            let run = settle(&run);
            let left = MARGIN + f32::from(column) * WIDTH;
            let length = width_of(&run);
            if let Some(color) = &style.background {
                writeln!(
                    svg,
                    "<rect x=\"{left:.1}\" y=\"{top:.1}\" width=\"{length:.1}\" height=\"{HEIGHT}\" \
                     fill=\"{color}\"/>"
                )
                .unwrap();
            }
            let text = run.trim();
            if text.is_empty() {
                continue;
            }
            let left = left + length - width_of(run.trim_start());
            let length = width_of(text);
            let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
            writeln!(
                svg,
                "<text x=\"{left:.1}\" y=\"{:.1}\" textLength=\"{length:.1}\" fill=\"{}\"{}>{text}</text>",
                top + 0.75 * HEIGHT,
                style.fill,
                style.attributes
            )
            .unwrap();
        }
    }
    svg + "</svg>\n"
}

fn width_of(text: &str) -> f32 {
    f32::from(u16::try_from(text.chars().count()).unwrap()) * WIDTH
}

/// The parts of a row with their first column.
fn runs(screen: &vt100::Screen, row: u16, paper: Paper) -> Vec<(u16, String, Style)> {
    let mut runs: Vec<(u16, String, Style)> = Vec::new();
    for column in 0..screen.size().1 {
        let cell = screen.cell(row, column).unwrap();
        let mut style = Style {
            fill: name(cell.fgcolor()).unwrap_or_else(|| paper.text.to_owned()),
            background: name(cell.bgcolor()),
            attributes: String::new(),
        };
        if cell.inverse() {
            let behind = style.background.unwrap_or_else(|| paper.background.to_owned());
            style.background = Some(std::mem::replace(&mut style.fill, behind));
        }
        for (is_set, attribute) in [
            (cell.bold(), " font-weight=\"bold\""),
            (cell.dim(), " opacity=\".65\""),
            (cell.italic(), " font-style=\"italic\""),
            (cell.underline(), " text-decoration=\"underline\""),
        ] {
            if is_set {
                style.attributes += attribute;
            }
        }
        let char = if cell.has_contents() { cell.contents() } else { " " };
        match runs.last_mut() {
            Some((_, run, same)) if *same == style => run.push_str(char),
            _ => runs.push((column, char.to_owned(), style)),
        }
    }
    for (_, run, style) in &mut runs {
        if style.background.is_none() {
            run.truncate(run.trim_end().len());
        }
    }
    runs
}

/// `None` for the terminal's own colour. (With true colours the program uses no other palette.)
fn name(color: Color) -> Option<String> {
    match color {
        Color::Default => None,
        Color::Rgb(red, green, blue) => Some(format!("#{red:02x}{green:02x}{blue:02x}")),
        Color::Idx(index) => panic!("palette colour {index}"),
    }
}
