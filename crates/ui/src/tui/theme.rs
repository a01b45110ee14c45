//! Colours of the parts of the screen, for each colour depth of terminals.

use ratatui::style::{Color, Modifier, Style};

/// The colour depth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Depth {
    /// None: only bold and dim.
    None,
    /// The sixteen colours of the terminal's palette.
    Sixteen,
    /// The 256-colour palette.
    Palette,
    /// True colour.
    True,
}

impl Depth {
    /// From the environment.
    pub fn of(variable: &dyn Fn(&str) -> Option<String>) -> Self {
        let has = |name: &str| variable(name).filter(|value| !value.is_empty());
        let term = has("TERM").unwrap_or_default();
        if has("NO_COLOR").is_some() || term == "dumb" {
            Self::None
        } else if has("COLORTERM").is_some_and(|it| it == "truecolor" || it == "24bit") {
            Self::True
        } else if term.contains("256color") || term.contains("direct") {
            Self::Palette
        } else {
            Self::Sixteen
        }
    }
}

/// The terminal's background.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Background {
    /// Dark, with light text.
    Dark,
    /// Light, with dark text.
    Light,
}

/// The colours of the parts of the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Theme {
    depth: Depth,
    background: Background,
}

/// A part of the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// The model's text.
    Text,
    /// Secondary text.
    Quiet,
    /// The user's mark in front of messages and the input field.
    User,
    /// The user's messages.
    Prompt,
    /// Headings and selections.
    Strong,
    /// Names of tools.
    Tool,
    /// Success.
    Good,
    /// A warning.
    Warn,
    /// An error.
    Bad,
    /// An added line.
    Added,
    /// A removed line.
    Removed,
    /// Code in a sentence.
    Code,
    /// A link.
    Link,
    /// A keyword.
    Keyword,
    /// A string.
    String,
    /// A number.
    Number,
    /// A comment.
    Comment,
    /// The name of a function or type.
    Name,
}

impl Theme {
    /// For this colour depth and background.
    pub fn new(depth: Depth, background: Background) -> Self {
        Self { depth, background }
    }

    /// The same on another background.
    #[must_use]
    pub fn on(self, background: Background) -> Self {
        Self { background, ..self }
    }

    /// The background.
    pub fn background(self) -> Background {
        self.background
    }

    /// Colours are used.
    pub(super) fn is_colored(self) -> bool {
        self.depth > Depth::None
    }

    pub(super) fn style(self, part: Part) -> Style {
        let style = Style::new();
        let dim = style.add_modifier(Modifier::DIM);
        let bold = style.add_modifier(Modifier::BOLD);
        match part {
            Part::Text => style,
            Part::Quiet | Part::Comment => match self.color(part) {
                // A grey is more readable than dimmed text, which some terminals do not support.
                Some(color) if self.depth > Depth::Sixteen => style.fg(color),
                _ => dim,
            },
            Part::Strong => bold,
            Part::Prompt => match self.prompt() {
                Some((text, background)) => style.fg(text).bg(background),
                None => bold,
            },
            Part::Tool | Part::User => self.fg(bold, part),
            Part::Link => self.fg(style.add_modifier(Modifier::UNDERLINED), part),
            Part::Keyword if self.depth == Depth::None => bold,
            Part::Good
            | Part::Warn
            | Part::Bad
            | Part::Added
            | Part::Removed
            | Part::Code
            | Part::Keyword
            | Part::String
            | Part::Number
            | Part::Name => self.fg(style, part),
        }
    }

    /// Text and background of the user's messages. Both are set: the terminal's background may have another
    /// colour than assumed.
    fn prompt(self) -> Option<(Color, Color)> {
        let (text, background) = match self.background {
            Background::Dark => (0xe4_e7_ec, 0x2f_34_40),
            Background::Light => (0x1d_21_27, 0xe6_e9_ee),
        };
        (self.depth > Depth::Sixteen).then(|| (self.exact(text), self.exact(background)))
    }

    fn fg(self, style: Style, part: Part) -> Style {
        self.color(part).map_or(style, |color| style.fg(color))
    }

    fn color(self, part: Part) -> Option<Color> {
        // Of the sixteen; on dark; on light.
        let (sixteen, dark, light) = match part {
            Part::Text | Part::Strong | Part::Prompt => return None,
            Part::Quiet | Part::Comment => (Color::DarkGray, 0x8a_8f_98, 0x6b_70_78),
            Part::User => (Color::Cyan, 0x6c_c7_d9, 0x0b_72_85),
            Part::Tool | Part::Name => (Color::Blue, 0x7a_b0_ff, 0x1d_5f_c4),
            Part::Good | Part::Added => (Color::Green, 0x7f_c9_7f, 0x2a_7a_2a),
            Part::Warn | Part::Number => (Color::Yellow, 0xe0_b0_5c, 0x96_64_00),
            Part::Bad | Part::Removed => (Color::Red, 0xf0_7a_7a, 0xb4_25_25),
            Part::Code | Part::Link => (Color::Cyan, 0x8e_c9_d4, 0x0e_6a_7a),
            Part::Keyword => (Color::Magenta, 0xc9_97_e8, 0x8a_2c_b8),
            Part::String => (Color::Green, 0x9c_c8_8c, 0x3a_75_20),
        };
        let value: u32 = match self.background {
            Background::Dark => dark,
            Background::Light => light,
        };
        match self.depth {
            Depth::None => None,
            Depth::Sixteen => Some(sixteen),
            Depth::Palette | Depth::True => Some(self.exact(value)),
        }
    }

    /// This colour, or the nearest one of the palette.
    fn exact(self, value: u32) -> Color {
        let [_, red, green, blue] = value.to_be_bytes();
        match self.depth {
            Depth::True => Color::Rgb(red, green, blue),
            _ => Color::Indexed(nearest(red, green, blue)),
        }
    }
}

/// The nearest colour of the 256-colour palette: of its 6 × 6 × 6 cube, or of its greys.
fn nearest(red: u8, green: u8, blue: u8) -> u8 {
    const LEVELS: [u8; 6] = [0, 95, 135, 175, 215, 255];
    let level = |value: u8| -> u8 {
        let distance = |level: &u8| level.abs_diff(value);
        let at = LEVELS.iter().enumerate().min_by_key(|(_, level)| distance(level));
        at.map_or(0, |(at, _)| u8::try_from(at).unwrap_or(0))
    };
    let (r, g, b) = (level(red), level(green), level(blue));
    let far = |from: [u8; 3]| -> u32 {
        let differences =
            from.iter().zip([red, green, blue]).map(|(a, b)| u32::from(a.abs_diff(b)));
        differences.map(|difference| difference * difference).sum()
    };
    let cube = far([r, g, b].map(|at| LEVELS[usize::from(at)]));
    let mean = (u16::from(red) + u16::from(green) + u16::from(blue)) / 3;
    let step = u8::try_from(mean.saturating_sub(3) / 10).unwrap_or(0).min(23);
    let gray = 8 + 10 * step;
    if far([gray; 3]) < cube { 232 + step } else { 16 + 36 * r + 6 * g + b }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colour_depth_follows_the_environment() {
        let depth = |set: &[(&str, &str)]| {
            let variable = |name: &str| {
                let found = set.iter().find(|(of, _)| *of == name);
                found.map(|(_, value)| (*value).to_owned())
            };
            Depth::of(&variable)
        };
        assert_eq!(depth(&[("TERM", "linux")]), Depth::Sixteen);
        assert_eq!(depth(&[("TERM", "tmux-256color")]), Depth::Palette);
        assert_eq!(depth(&[("TERM", "xterm"), ("COLORTERM", "truecolor")]), Depth::True);
        assert_eq!(depth(&[("TERM", "xterm-256color"), ("NO_COLOR", "1")]), Depth::None);
        assert_eq!(depth(&[("TERM", "xterm-256color"), ("NO_COLOR", "")]), Depth::Palette);
    }

    #[test]
    fn nearest_palette_colour_is_found() {
        assert_eq!(nearest(255, 0, 0), 196);
        assert_eq!(nearest(0x8a, 0x8f, 0x98), 246);
        assert_eq!(nearest(0, 0, 0), 16);
    }
}
