//! Git's configuration files (`git-config(1)`, "CONFIGURATION FILE"), and the settings that a command may change.

use std::collections::{BTreeMap, HashSet};
use std::fmt::Write as _;
use std::iter::Peekable;
use std::path::{Path, PathBuf};
use std::str::Chars;

/// A section, whether it has a subsection, and its keys: what git itself writes for branches, remotes, submodules and sparse
/// checkouts. None names a program, a file to include or a directory of hooks.
#[rustfmt::skip]
const ALLOWED: &[(&str, bool, &[&str])] = &[
    ("branch", true, &[
        "remote", "merge", "rebase", "pushremote", "description", "gh-merge-base", "vscode-merge-base",
    ]),
    ("remote", true, &[
        "url", "pushurl", "fetch", "tagopt", "prune", "prunetags", "mirror", "promisor",
        "partialclonefilter", "followremotehead", "gh-resolved",
    ]),
    ("submodule", true, &[
        "url", "active", "branch", "path", "ignore", "shallow", "fetchrecursesubmodules", "update",
    ]),
    ("submodule", false, &["active"]),
    ("core", false, &["sparsecheckout", "sparsecheckoutcone", "repositoryformatversion"]),
    ("index", false, &["sparse"]),
    ("extensions", false, &[
        "worktreeconfig", "partialclone", "objectformat", "compatobjectformat", "refstorage",
        "relativeworktrees",
    ]),
    ("lfs", false, &["repositoryformatversion"]),
    ("lfs", true, &["access", "locksverify"]),
];

/// Git handles these itself, or with its own helper (`git-fetch(1)`, "GIT URLS").
const SCHEMES: &[&str] =
    &["https", "http", "ssh", "git", "file", "git+ssh", "ssh+git", "ftp", "ftps"];

/// What a new repository may have besides: the settings of `git init`, and the author.
#[rustfmt::skip]
const ALLOWED_IN_NEW: &[(&str, bool, &[&str])] = &[
    ("core", false, &[
        "filemode", "bare", "logallrefupdates", "symlinks", "ignorecase", "precomposeunicode",
        "sharedrepository", "autocrlf",
    ]),
    ("receive", false, &["denynonfastforwards"]),
    ("user", false, &["name", "email"]),
    ("commit", false, &["gpgsign"]),
];

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Setting {
    /// In lower case, like the key.
    section: String,
    subsection: Option<String>,
    key: String,
    /// `None`: a key without `=`, which means true.
    pub(super) value: Option<String>,
}

impl Setting {
    pub(super) fn name(&self) -> String {
        match &self.subsection {
            Some(subsection) => format!("{}.{subsection}.{}", self.section, self.key),
            None => format!("{}.{}", self.section, self.key),
        }
    }

    pub(super) fn is_object_format(&self) -> bool {
        self.name() == "extensions.objectformat"
    }

    pub(super) fn is_work_tree(&self) -> bool {
        self.name() == "core.worktree"
    }

    fn is_address(&self) -> bool {
        self.section == "remote" && matches!(self.key.as_str(), "url" | "pushurl")
    }

    fn is_remote_of_branch(&self) -> bool {
        self.section == "branch" && matches!(self.key.as_str(), "remote" | "pushremote")
    }

    /// Git passes names and values on as arguments: `--upload-pack=…` names a program.
    fn is_option(&self) -> bool {
        // (These it reads itself.)
        let is_read = matches!(self.key.as_str(), "description" | "tagopt");
        let value = self.value.as_deref().filter(|_| !is_read);
        [self.subsection.as_deref(), value].into_iter().flatten().any(|text| text.starts_with('-'))
    }

    /// The remote from which git fetches missing objects by itself, also for `git status`.
    fn promisor(&self) -> Option<&str> {
        match (self.section.as_str(), self.key.as_str()) {
            ("remote", "promisor" | "partialclonefilter") => self.subsection.as_deref(),
            ("extensions", "partialclone") => self.value.as_deref(),
            _ => None,
        }
    }

    /// Section and subsection.
    fn part(&self) -> Option<(&str, &str)> {
        Some((&self.section, self.subsection.as_deref()?))
    }

    fn is_in(&self, table: &[(&str, bool, &[&str])]) -> bool {
        table.iter().any(|(section, has_subsection, keys)| {
            self.section == *section
                && self.subsection.is_some() == *has_subsection
                && keys.contains(&self.key.as_str())
        })
    }

    fn is_allowed(&self) -> bool {
        let value = self.value.as_deref().unwrap_or_default();
        let is_harmless = match (self.section.as_str(), self.key.as_str()) {
            // `!COMMAND` is executed.
            ("submodule", "update") => {
                matches!(value, "checkout" | "rebase" | "merge" | "none")
            }
            // `HELPER::ADDRESS` and `HELPER://…` run a program of that name, or (`ext::`) any command.
            (_, "url" | "pushurl" | "remote" | "pushremote") => {
                let is_helper = value.split(['/', '[']).next().is_some_and(|it| it.contains("::"));
                let scheme = value.split_once("://").map(|(scheme, _)| scheme);
                !is_helper && scheme.is_none_or(|scheme| SCHEMES.contains(&scheme))
            }
            _ => true,
        };
        is_harmless && !self.is_option() && self.is_in(ALLOWED)
    }

    /// `core.worktree` is for the caller to decide.
    pub(super) fn is_allowed_in_new(&self) -> bool {
        self.is_allowed() || self.is_in(ALLOWED_IN_NEW)
    }
}

/// Sections that commands of git rename and remove as a whole.
const MOVABLE: [&str; 3] = ["remote", "branch", "submodule"];

type Parts<'a> = HashSet<(&'a str, &'a str)>;

/// The names of the settings that a command may not change so. Values of one name are compared in their order: the last one counts.
/// `initial`: those at the first command of the session, for the addresses of remotes.
pub(super) fn refused_changes(
    initial: &[Setting],
    before: &[Setting],
    after: &[Setting],
) -> Vec<String> {
    let mut names: BTreeMap<String, [Vec<&Setting>; 3]> = BTreeMap::new();
    for (n, settings) in [before, after, initial].into_iter().enumerate() {
        for setting in settings {
            names.entry(setting.name()).or_default()[n].push(setting);
        }
    }
    let [all_before, all_after, all_initial] =
        [before, after, initial].map(|all| all.iter().filter_map(Setting::part).collect::<Parts>());
    // `git remote rename` and `git branch -m` move all settings of a section.
    let moved = before.iter().filter(|it| it.part().is_some_and(|part| !all_after.contains(&part)));
    let moved: HashSet<_> = moved.map(|it| (&it.section, &it.key, &it.value)).collect();
    let is_moved = |it: &Setting| {
        MOVABLE.contains(&it.section.as_str())
            && !it.is_option()
            && moved.contains(&(&it.section, &it.key, &it.value))
    };
    let tracked = initial.iter().filter(|it| it.is_remote_of_branch()).filter_map(Setting::part);
    let tracked: Parts = tracked.collect();
    let is_known_remote = |name: &str| {
        let part = Some(("remote", name));
        let addresses = after.iter().filter(|it| it.is_address() && it.part() == part);
        let mut addresses = addresses.peekable();
        name == "."
            || all_initial.contains(&("remote", name))
            || addresses.peek().is_some() && addresses.all(is_moved)
    };
    let is_refused = |[old, new, first]: &[Vec<&Setting>; 3]| {
        let values =
            |all: &[&Setting]| -> Vec<_> { all.iter().map(|it| it.value.clone()).collect() };
        if values(old) == values(new) {
            return false;
        }
        let Some(setting) = old.iter().chain(new).next() else { return false };
        let is_first = values(new) == values(first);
        if let Some(part) = setting.part() {
            // `git remote remove` and `git branch -d` remove a section as a whole.
            if MOVABLE.contains(&part.0) && !all_after.contains(&part) {
                return false;
            }
            // Another address redirects the next push, also after the remote was removed.
            let is_kept = all_before.contains(&part) || all_initial.contains(&part) && !is_first;
            let mut remotes = new.iter().filter_map(|it| it.value.as_deref());
            // So does another remote of a branch that had one.
            if setting.is_address() && is_kept
                || setting.is_remote_of_branch()
                    && tracked.contains(&part)
                    && !(is_first || remotes.all(is_known_remote))
            {
                return true;
            }
        }
        !old.iter().chain(new).all(|setting| setting.is_allowed() || is_moved(setting))
    };
    names.into_iter().filter(|(_, settings)| is_refused(settings)).map(|(name, _)| name).collect()
}

/// The names of the settings by which git would fetch from another machine than before (in the `earlier` settings) without being
/// asked to: a fetch runs `ssh` and helpers.
pub(super) fn refused_promisors(earlier: &[&[Setting]], now: &[Setting]) -> Vec<String> {
    fn addresses<'a>(settings: &'a [Setting], remote: &str) -> Vec<Option<&'a str>> {
        let part = Some(("remote", remote));
        let all = settings.iter().filter(|it| it.part() == part && it.key == "url");
        all.map(|it| it.value.as_deref()).collect()
    }
    // (`.host:path` is the address of another machine.)
    let is_path = |url: &str| {
        url.starts_with(['/', '.']) && !url.split('/').take(1).any(|it| it.contains(':'))
    };
    let is_local =
        |url: Option<&str>| url.is_some_and(|url| is_path(url) || url.starts_with("file://"));
    let is_refused = |setting: &&Setting| {
        let Some(remote) = setting.promisor() else { return false };
        let own = addresses(now, remote);
        let is_known = |settings: &&[Setting]| {
            let mut known = settings.iter().filter_map(Setting::promisor);
            // Without an address the name is one.
            known.any(|it| addresses(settings, it) == own && (it == remote || !own.is_empty()))
        };
        (own.is_empty() || !own.iter().copied().all(is_local)) && !earlier.iter().any(is_known)
    };
    now.iter().filter(is_refused).map(Setting::name).collect()
}

/// The files that the configuration in `file` includes.
pub(super) fn included_files(file: &Path, content: &[u8]) -> Vec<PathBuf> {
    let folder = file.parent().unwrap_or(file);
    let settings = parse(content).unwrap_or_default().into_iter();
    let paths = settings.filter(|it| it.section.starts_with("include") && it.key == "path");
    paths.filter_map(|it| Some(folder.join(it.value?))).collect()
}

/// Writes settings as git does.
pub(super) fn format_settings<'a>(settings: impl Iterator<Item = &'a Setting>) -> String {
    let escape = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    let mut text = String::new();
    for Setting { section, subsection, key, value } in settings {
        let header = match subsection {
            Some(subsection) => format!("[{section} \"{}\"]", escape(subsection)),
            None => format!("[{section}]"),
        };
        let value =
            value.as_ref().map_or(String::new(), |value| format!(" = \"{}\"", escape(value)));
        _ = writeln!(text, "{header}\n\t{key}{value}");
    }
    text
}

/// As in git: a form feed is an ordinary character.
fn is_blank(char: char) -> bool {
    matches!(char, ' ' | '\t' | '\n' | '\r')
}

/// `None` if git cannot parse the file.
pub(super) fn parse(bytes: &[u8]) -> Option<Vec<Setting>> {
    // Git ends a name at a NUL byte.
    if bytes.contains(&0) {
        return None;
    }
    let text = String::from_utf8_lossy(bytes).replace("\r\n", "\n");
    let mut input = text.strip_prefix('\u{feff}').unwrap_or(&text).chars().peekable();
    let mut settings = Vec::new();
    let mut header: Option<(String, Option<String>)> = None;
    while let Some(char) = input.next() {
        match char {
            '#' | ';' => _ = input.by_ref().find(|char| *char == '\n'),
            '[' => header = Some(parse_header(&mut input)?),
            _ if is_blank(char) => {}
            _ if char.is_ascii_alphabetic() => {
                let (section, subsection) = header.clone()?;
                let mut key = char.to_ascii_lowercase().to_string();
                while let Some(char) = input.next_if(|it| it.is_ascii_alphanumeric() || *it == '-')
                {
                    key.push(char.to_ascii_lowercase());
                }
                while input.next_if(|char| matches!(char, ' ' | '\t')).is_some() {}
                let value = match input.next() {
                    None | Some('\n') => None,
                    Some('=') => Some(parse_value(&mut input)?),
                    Some(_) => return None,
                };
                settings.push(Setting { section, subsection, key, value });
            }
            _ => return None,
        }
    }
    Some(settings)
}

/// The section, in `[section "subsection"]` or the older `[section.subsection]`.
fn parse_header(input: &mut Peekable<Chars<'_>>) -> Option<(String, Option<String>)> {
    let mut section = String::new();
    loop {
        match input.next()? {
            ']' => break,
            ' ' | '\t' => {
                while input.next_if(|char| matches!(char, ' ' | '\t')).is_some() {}
                let mut subsection = String::new();
                input.next_if_eq(&'"')?;
                loop {
                    match input.next()? {
                        '"' => break,
                        '\n' => return None,
                        '\\' => subsection.push(input.next().filter(|char| *char != '\n')?),
                        char => subsection.push(char),
                    }
                }
                return input.next_if_eq(&']').map(|_| (section, Some(subsection)));
            }
            char if char.is_ascii_alphanumeric() || matches!(char, '-' | '.') => {
                section.push(char.to_ascii_lowercase());
            }
            _ => return None,
        }
    }
    match section.split_once('.') {
        Some((section, subsection)) => Some((section.to_owned(), Some(subsection.to_owned()))),
        None => Some((section, None)),
    }
}

fn parse_value(input: &mut Peekable<Chars<'_>>) -> Option<String> {
    let (mut value, mut is_quoted) = (String::new(), false);
    // The length without white space at the end.
    let mut length = 0;
    loop {
        match input.next() {
            None | Some('\n') if is_quoted => return None,
            None | Some('\n') => break,
            Some('#' | ';') if !is_quoted => {
                _ = input.find(|char| *char == '\n');
                break;
            }
            Some('"') => {
                is_quoted = !is_quoted;
                length = value.len();
            }
            Some('\\') => {
                match input.next()? {
                    '\n' => continue,
                    't' => value.push('\t'),
                    'b' => value.push('\u{8}'),
                    'n' => value.push('\n'),
                    char @ ('\\' | '"') => value.push(char),
                    _ => return None,
                }
                length = value.len();
            }
            Some(char) if is_blank(char) && !is_quoted => {
                if !value.is_empty() {
                    value.push(char);
                }
            }
            Some(char) => {
                value.push(char);
                length = value.len();
            }
        }
    }
    value.truncate(length);
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(text: &str) -> Option<Vec<(String, Option<String>)>> {
        let all = parse(text.as_bytes())?;
        Some(all.into_iter().map(|it| (it.name(), it.value)).collect())
    }

    fn refused(before: &str, after: &str) -> Vec<String> {
        refused_changes(
            &[],
            &parse(before.as_bytes()).expect("valid"),
            &parse(after.as_bytes()).expect("valid"),
        )
    }

    #[test]
    fn files_are_read_as_git_reads_them() {
        let text = "\u{feff}# c\r\n[Core]\r\n\tBare = false ; no\n\tx\n[a \"B\\\"c\"] k = \" v \" w\\\n  z  # c\n[o.Ld]\nq=\"\\t#\"";
        let found = listed(text).expect("valid");
        let found: Vec<_> =
            found.iter().map(|(name, value)| (name.as_str(), value.as_deref())).collect();
        let expected = [
            ("core.bare", Some("false")),
            ("core.x", None),
            ("a.B\"c.k", Some(" v  w  z")),
            ("o.ld.q", Some("\t#")),
        ];
        assert_eq!(found, expected);
        for wrong in [
            "k = 1",
            "[a",
            "[a]\nk 1",
            "[a]\nk = \"",
            "[a b]",
            "[a]\nk = \\q",
            "[a]\n!",
            "[a \"b\0\"]\nk=1",
        ] {
            assert_eq!(listed(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn format_is_read_back() {
        let all = parse(b"[a \"x\\\\\\\"y\"]\nk = \"p\\\\q\\\"\\n #\"\nt\n[core]\nbare=1")
            .expect("valid");
        assert_eq!(parse(format_settings(all.iter()).as_bytes()), Some(all));
    }

    #[test]
    fn only_listed_keys_change() {
        let base = "[core]\nfsmonitor=a\nfsmonitor=false\n[remote \"o\"]\nurl=x\nproxy=p\n";
        let with = |more: &str| refused(base, &format!("{base}{more}"));
        for allowed in [
            "[branch \"x\"]\nremote=o\nmerge=refs/heads/x\n",
            "[remote \"n\"]\nurl=https://[::1]/x\nfetch=+a:b\n",
            "[submodule \"s\"]\nactive=true\nurl=u\nupdate=rebase\n",
            "[core]\nsparseCheckout=true\n[extensions]\nworktreeConfig=true\n",
            "[remote \"n\"]\nurl=../x\ntagOpt=--no-tags\n",
        ] {
            assert_eq!(with(allowed), [""; 0], "{allowed}");
        }
        for (change, name) in [
            ("[core]\nhooksPath=h\n", "core.hookspath"),
            ("[include]\npath=h\n", "include.path"),
            ("[core]\nfsmonitor=b\n", "core.fsmonitor"),
            ("[branch \"x\"]\nmergeOptions=-s evil\n", "branch.x.mergeoptions"),
            ("[submodule \"s\"]\nupdate=!touch x\n", "submodule.s.update"),
            ("[remote \"n\"]\nurl=ext::sh\n", "remote.n.url"),
            ("[remote \"n\"]\nurl=foo://x\n", "remote.n.url"),
            ("[remote \"o\"]\npushurl=y\n", "remote.o.pushurl"),
            ("[remote \"o\"]\nurl=y\n", "remote.o.url"),
            ("[core]\nworktree=/\n", "core.worktree"),
            ("[core.sparseCheckout]\nx=1\n", "core.sparsecheckout.x"),
            ("[remote \"--upload-pack=x\"]\nurl=y\n", "remote.--upload-pack=x.url"),
            ("[branch \"x\"]\nremote=--upload-pack=x\n", "branch.x.remote"),
            ("[extensions]\npartialClone=--upload-pack=x\n", "extensions.partialclone"),
        ] {
            assert_eq!(with(change), [name], "{change}");
        }
        // Another order makes another value count.
        assert_eq!(refused("[a]\nb=1\nb=2", "[a]\nb=2\nb=1"), ["a.b"]);
        // Only remotes, branches and submodules move.
        assert_eq!(refused("[url \"a\"]\nx=y", "[url \"b\"]\nx=y"), ["url.a.x", "url.b.x"]);
        // A remote is removed as a whole.
        assert_eq!(refused(base, "[core]\nfsmonitor=a\nfsmonitor=false\n"), [""; 0]);
        assert_eq!(refused(base, "[remote \"o\"]\nurl=x\nproxy=p\n"), ["core.fsmonitor"]);
    }
}
