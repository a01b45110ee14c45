//! Which settings of git make it run a program, or read more settings.

use std::path::Path;

use crate::disk;

/// Sections, and their keys that do so; `*`: each of them. (Git's manual: `git help config`, and those of
/// the commands that have settings of their own.)
const RUNNING: &[(&str, &[&str])] = &[
    ("alias", &["*"]),
    ("browser", &["cmd", "path"]),
    (
        "core",
        &[
            "alternaterefscommand",
            "askpass",
            "attributesfile",
            "editor",
            "fsmonitor",
            "gitproxy",
            "hookspath",
            "pager",
            "sshcommand",
            "virtualfilesystem",
            "worktree",
        ],
    ),
    ("credential", &["helper"]),
    ("diff", &["command", "external", "guitool", "textconv", "tool"]),
    ("difftool", &["cmd", "path"]),
    ("extensions", &["worktreeconfig"]),
    ("filter", &["clean", "process", "smudge"]),
    ("gc", &["recentobjectshook"]),
    ("gitcvs", &["dbdriver"]),
    ("gpg", &["defaultkeycommand", "program"]),
    ("guitool", &["*"]),
    ("help", &["browser"]),
    ("hook", &["*"]),
    ("imap", &["tunnel"]),
    ("include", &["*"]),
    ("includeif", &["*"]),
    ("init", &["templatedir"]),
    ("instaweb", &["browser", "httpd", "modulepath"]),
    ("interactive", &["difffilter"]),
    ("lfs", &["*"]),
    ("man", &["cmd", "path", "viewer"]),
    ("merge", &["driver", "guitool", "tool"]),
    ("mergetool", &["cmd", "path"]),
    ("pager", &["*"]),
    ("protocol", &["allow"]),
    ("remote", &["proxy", "receivepack", "uploadpack", "vcs"]),
    ("sendemail", &["cccmd", "headercmd", "sendmailcmd", "smtpserver", "tocmd"]),
    ("sequence", &["editor"]),
    ("svn", &["authorsprog"]),
    ("submodule", &["update"]),
    ("tar", &["command"]),
    ("trailer", &["cmd", "command"]),
    ("uploadpack", &["packobjectshook"]),
    ("web", &["browser"]),
];

/// In a repository: the file that names a folder with all of its settings and hooks, in the place of its own.
pub(super) const ELSEWHERE: &str = "commondir";

/// What of the settings in this file runs something: `section.key=value`, in order; all of one that names where they lie.
pub(super) fn running(path: &Path) -> Vec<String> {
    let text = disk::read_small(path, disk::SMALL).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    if path.ends_with(ELSEWHERE) || path.ends_with(".git") {
        return text.lines().map(ToOwned::to_owned).collect();
    }
    let mut running = running_in(&text);
    running.sort();
    running
}

fn running_in(text: &str) -> Vec<String> {
    let mut section = String::new();
    let mut running = Vec::new();
    let joined = text.replace("\\\r\n", "").replace("\\\n", "");
    for line in joined.lines() {
        let mut rest =
            line.trim_start_matches(|char: char| char.is_whitespace() || char == '\u{feff}');
        if let Some(header) = rest.strip_prefix('[') {
            let end = header_end(header);
            header[..end].clone_into(&mut section);
            // A setting may stand behind it on the same line.
            rest = header[end..].strip_prefix(']').unwrap_or_default().trim_start();
        }
        let name_end = rest
            .find(|char: char| !char.is_ascii_alphanumeric() && char != '-')
            .unwrap_or(rest.len());
        let (name, value) = rest.split_at(name_end);
        if !name.is_empty() && runs(&section, name, value) {
            running.push(format!("{section}.{name}{}", value.trim()));
        }
    }
    running
}

/// Where the header of a section ends: not at a `]` in the quotes of its second name.
fn header_end(header: &str) -> usize {
    let (mut is_quoted, mut is_escaped) = (false, false);
    for (at, char) in header.char_indices() {
        match char {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '"' => is_quoted = !is_quoted,
            ']' if !is_quoted => return at,
            _ => {}
        }
    }
    header.len()
}

fn runs(section: &str, name: &str, value: &str) -> bool {
    // `[filter "x"]`, and `[filter.x]` as it was written once.
    let first =
        section.split(['.', '"', ' ', '\t']).next().unwrap_or_default().to_ascii_lowercase();
    let name = name.to_ascii_lowercase();
    let is_named = RUNNING
        .iter()
        .filter(|(section, _)| *section == first)
        .any(|(_, keys)| keys.iter().any(|key| *key == "*" || *key == name));
    // An address like `ext::sh -c …` runs a helper; an address is a value, or what a section stands for.
    let is_address = match name.as_str() {
        "url" | "pushurl" | "remote" | "pushremote" | "pushdefault" => value.contains("::"),
        "insteadof" | "pushinsteadof" => section.contains("::") || value.contains("::"),
        _ => false,
    };
    is_named || is_address
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &[&str]) {
        assert_eq!(running_in(text), expected, "{text}");
    }

    #[test]
    fn settings_that_run_something_are_found_with_their_values() {
        check("[core]\n\tbare = false\n\tfsMonitor = a[1]]x\n", &["core.fsMonitor= a[1]]x"]);
        check("[core] pager = x] y\n", &["core.pager= x] y"]);
        check("[filter \"a]b\"] clean = x\n", &["filter \"a]b\".clean= x"]);
        check("[filter.b]\nsmudge=x\n", &["filter.b.smudge=x"]);
        check("[alias]\n x = !rm\n", &["alias.x= !rm"]);
        check("[alias]\n x = !a \\\n  b\n", &["alias.x= !a   b"]);
        check(
            "[interactive]\ndiffFilter=x\n[pager]\nlog=x",
            &["interactive.diffFilter=x", "pager.log=x"],
        );
        check("[remote \"o\"]\nurl = ext::sh -c x\n", &["remote \"o\".url= ext::sh -c x"]);
        check(
            "[url \"ext::sh -c x\"]\ninsteadOf = https://\n",
            &["url \"ext::sh -c x\".insteadOf= https://"],
        );
        check(
            "[branch \"main\"]\nremote = ext::sh -c x\n",
            &["branch \"main\".remote= ext::sh -c x"],
        );
        check("[gc]\nrecentObjectsHook = x\n", &["gc.recentObjectsHook= x"]);
        check("[submodule \"s\"]\npath = s\nupdate = !x\n", &["submodule \"s\".update= !x"]);
    }

    #[test]
    fn other_settings_are_none_of_them() {
        check(
            "[branch \"main\"]\nremote = origin\n[url \"git@host:\"]\ninsteadOf = https://host/\n",
            &[],
        );
        check("# [core]\n; pager = x\n[user]\nname = pager = x\n", &[]);
        check("[remote \"o\"]\nurl = https://example.com/x\nfetch = +refs/*:refs/*\n", &[]);
        check("[branch \"main\"]\nmerge = refs/heads/main\n[submodule \"s\"]\npath = s\n", &[]);
        check("", &[]);
        check("[core", &[]);
    }
}
