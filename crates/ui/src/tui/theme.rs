//! Colours of the parts of the screen, for each colour depth of terminals.

use ratatui::style::{Color, Modifier, Style};

/// The colour depth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ColorDepth {
    /// Only bold and dim.
    None,
    /// The terminal's own palette.
    Sixteen,
    /// 256 colours.
    Palette,
    /// 24 bits.
    True,
}

impl ColorDepth {
    /// Reads the colour depth from the environment.
    pub fn from_env(variable: &dyn Fn(&str) -> Option<String>) -> Self {
        let has = |name: &str| variable(name).filter(|value| !value.is_empty());
        let term = has("TERM").unwrap_or_default();
        if has("NO_COLOR").is_some() || term == "dumb" {
            Self::None
        } else if has("COLORTERM").is_some_and(|depth| depth == "truecolor" || depth == "24bit") {
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
    Dark,
    Light,
}

/// The colours of the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Theme {
    depth: ColorDepth,
    pub(super) background: Background,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StyleRole {
    Text,
    /// Secondary text.
    Quiet,
    /// The mark in front of the user's messages and the input field.
    User,
    Prompt,
    /// Headings and selections.
    Strong,
    Tool,
    Good,
    Warn,
    Bad,
    Added,
    Removed,
    Code,
    Link,
    Keyword,
    String,
    Number,
    Comment,
    /// Names of functions and types.
    Name,
}

impl Theme {
    /// Creates a theme for this colour depth and background.
    pub fn new(depth: ColorDepth, background: Background) -> Self {
        Self { depth, background }
    }

    pub(super) fn is_colored(self) -> bool {
        self.depth > ColorDepth::None
    }

    pub(super) fn style(self, role: StyleRole) -> Style {
        let style = Style::new();
        let dim = style.add_modifier(Modifier::DIM);
        let bold = style.add_modifier(Modifier::BOLD);
        match role {
            StyleRole::Text => style,
            StyleRole::Quiet | StyleRole::Comment => match self.color(role) {
                // A grey is more readable than dimmed text, which some terminals do not support.
                Some(color) if self.depth > ColorDepth::Sixteen => style.fg(color),
                _ => dim,
            },
            StyleRole::Strong => bold,
            StyleRole::Prompt => match self.prompt_colors() {
                Some((text, background)) => style.fg(text).bg(background),
                None => bold,
            },
            StyleRole::Tool | StyleRole::User => self.with_foreground(bold, role),
            StyleRole::Link => self.with_foreground(style.add_modifier(Modifier::UNDERLINED), role),
            StyleRole::Keyword if self.depth == ColorDepth::None => bold,
            StyleRole::Added | StyleRole::Removed => {
                let style = self.with_foreground(style, role);
                self.change_background(role).map_or(style, |color| style.bg(color))
            }
            _ => self.with_foreground(style, role),
        }
    }

    /// Both are set: the terminal's background may have another colour than assumed.
    fn prompt_colors(self) -> Option<(Color, Color)> {
        let (text, background) = match self.background {
            Background::Dark => (0xe4_e7_ec, 0x2f_34_40),
            Background::Light => (0x1d_21_27, 0xe6_e9_ee),
        };
        (self.depth > ColorDepth::Sixteen).then(|| (self.to_color(text), self.to_color(background)))
    }

    /// Of an added or removed line. In the palette, the colours nearest to those of 24 bits are grey.
    fn change_background(self, role: StyleRole) -> Option<Color> {
        let (added, removed) = match (self.depth, self.background) {
            (ColorDepth::True, Background::Dark) => (0x1b_2f_23, 0x3a_22_26),
            (ColorDepth::True, Background::Light) => (0xe3_f4_e3, 0xfb_e6_e6),
            (ColorDepth::Palette, Background::Dark) => (0x00_5f_00, 0x5f_00_00),
            (ColorDepth::Palette, Background::Light) => (0xd7_ff_d7, 0xff_d7_d7),
            (ColorDepth::None | ColorDepth::Sixteen, _) => return None,
        };
        Some(self.to_color(if role == StyleRole::Added { added } else { removed }))
    }

    fn with_foreground(self, style: Style, role: StyleRole) -> Style {
        self.color(role).map_or(style, |color| style.fg(color))
    }

    fn color(self, role: StyleRole) -> Option<Color> {
        // The sixteen colours; on dark; on light.
        let (sixteen, dark, light) = match role {
            StyleRole::Text | StyleRole::Strong | StyleRole::Prompt => return None,
            StyleRole::Quiet | StyleRole::Comment => (Color::DarkGray, 0x8a_8f_98, 0x6b_70_78),
            StyleRole::User => (Color::Cyan, 0x6c_c7_d9, 0x0b_72_85),
            StyleRole::Tool | StyleRole::Name => (Color::Blue, 0x7a_b0_ff, 0x1d_5f_c4),
            StyleRole::Good | StyleRole::Added => (Color::Green, 0x7f_c9_7f, 0x2a_7a_2a),
            StyleRole::Warn | StyleRole::Number => (Color::Yellow, 0xe0_b0_5c, 0x96_64_00),
            StyleRole::Bad | StyleRole::Removed => (Color::Red, 0xf0_7a_7a, 0xb4_25_25),
            StyleRole::Code | StyleRole::Link => (Color::Cyan, 0x8e_c9_d4, 0x0e_6a_7a),
            StyleRole::Keyword => (Color::Magenta, 0xc9_97_e8, 0x8a_2c_b8),
            StyleRole::String => (Color::Green, 0x9c_c8_8c, 0x3a_75_20),
        };
        let value = if self.background == Background::Dark { dark } else { light };
        match self.depth {
            ColorDepth::None => None,
            ColorDepth::Sixteen => Some(sixteen),
            ColorDepth::Palette | ColorDepth::True => Some(self.to_color(value)),
        }
    }

    /// The nearest colour if the terminal does not support this one.
    fn to_color(self, value: u32) -> Color {
        let [_, red, green, blue] = value.to_be_bytes();
        match self.depth {
            ColorDepth::True => Color::Rgb(red, green, blue),
            _ => Color::Indexed(nearest_palette_color(red, green, blue)),
        }
    }
}

/// A colour of the 6 × 6 × 6 cube, or a grey.
fn nearest_palette_color(red: u8, green: u8, blue: u8) -> u8 {
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
            ColorDepth::from_env(&variable)
        };
        assert_eq!(depth(&[("TERM", "linux")]), ColorDepth::Sixteen);
        assert_eq!(depth(&[("TERM", "tmux-256color")]), ColorDepth::Palette);
        assert_eq!(depth(&[("TERM", "xterm"), ("COLORTERM", "truecolor")]), ColorDepth::True);
        assert_eq!(depth(&[("TERM", "xterm-256color"), ("NO_COLOR", "1")]), ColorDepth::None);
        assert_eq!(depth(&[("TERM", "xterm-256color"), ("NO_COLOR", "")]), ColorDepth::Palette);
    }

    #[test]
    fn nearest_palette_colour_is_found() {
        assert_eq!(nearest_palette_color(255, 0, 0), 196);
        assert_eq!(nearest_palette_color(0x8a, 0x8f, 0x98), 246);
        assert_eq!(nearest_palette_color(0, 0, 0), 16);
    }
}
