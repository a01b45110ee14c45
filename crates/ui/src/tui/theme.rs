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
            Background::Dark => (0xfe_e4_e7_ec, 0xed_2f_34_40),
            Background::Light => (0xeb_1d_21_27, 0xff_e6_e9_ee),
        };
        (self.depth > ColorDepth::Sixteen).then(|| (self.to_color(text), self.to_color(background)))
    }

    /// Of an added or removed line. In the palette, the colours nearest to those of 24 bits are grey.
    fn change_background(self, role: StyleRole) -> Option<Color> {
        let (added, removed) = match self.background {
            Background::Dark => (0x16_1b_2f_23, 0x34_3a_22_26),
            Background::Light => (0xc2_e3_f4_e3, 0xe0_fb_e6_e6),
        };
        let color = if role == StyleRole::Added { added } else { removed };
        (self.depth > ColorDepth::Sixteen).then(|| self.to_color(color))
    }

    fn with_foreground(self, style: Style, role: StyleRole) -> Style {
        self.color(role).map_or(style, |color| style.fg(color))
    }

    fn color(self, role: StyleRole) -> Option<Color> {
        // The sixteen colours; on dark; on light.
        let (sixteen, dark, light) = match role {
            StyleRole::Text | StyleRole::Strong | StyleRole::Prompt => return None,
            StyleRole::Quiet | StyleRole::Comment => {
                (Color::DarkGray, 0xf6_8a_8f_98, 0xf3_6b_70_78)
            }
            StyleRole::User => (Color::Cyan, 0x50_6c_c7_d9, 0x18_0b_72_85),
            StyleRole::Tool | StyleRole::Name => (Color::Blue, 0x6f_7a_b0_ff, 0x1a_1d_5f_c4),
            StyleRole::Good | StyleRole::Added => (Color::Green, 0x72_7f_c9_7f, 0x1c_2a_7a_2a),
            StyleRole::Warn | StyleRole::Number => (Color::Yellow, 0xb3_e0_b0_5c, 0x5e_96_64_00),
            StyleRole::Bad | StyleRole::Removed => (Color::Red, 0xd2_f0_7a_7a, 0x7c_b4_25_25),
            StyleRole::Code | StyleRole::Link => (Color::Cyan, 0x74_8e_c9_d4, 0x18_0e_6a_7a),
            StyleRole::Keyword => (Color::Magenta, 0xb0_c9_97_e8, 0x5b_8a_2c_b8),
            StyleRole::String => (Color::Green, 0x96_9c_c8_8c, 0x40_3a_75_20),
        };
        let value = if self.background == Background::Dark { dark } else { light };
        match self.depth {
            ColorDepth::None => None,
            ColorDepth::Sixteen => Some(sixteen),
            ColorDepth::Palette | ColorDepth::True => Some(self.to_color(value)),
        }
    }

    /// `value`: the number in the palette of 256 colours, then red, green and blue.
    fn to_color(self, value: u32) -> Color {
        let [index, red, green, blue] = value.to_be_bytes();
        match self.depth {
            ColorDepth::True => Color::Rgb(red, green, blue),
            _ => Color::Indexed(index),
        }
    }
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
}
