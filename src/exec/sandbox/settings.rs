//! The settings of git: which of them it writes itself, and which make it run a program; what of them is compared.

use std::collections::BTreeMap;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::watch;
use crate::disk;

/// Sections, and their keys, that git's own commands write by the way; `*`: each of them. All others are told, whatever
/// they do: git and its helpers have too many that run a program, read more settings, write files elsewhere or lead the
/// network elsewhere to name them. (From git's sources, where they set one.)
const WRITTEN: &[(&str, &[&str])] = &[
    (
        "branch",
        &[
            "description",
            "merge",
            "pushremote",
            "rebase",
            "remote",
            // By programs that people use beside it.
            "gh-merge-base",
            "gk-associated-issues",
            "gk-last-accessed",
            "gk-last-modified",
            "gk-merge-base",
            "gk-merge-target",
            "gk-merge-target-user",
            "github-pr-base-branch",
            "github-pr-owner-number",
            "vscode-merge-base",
        ],
    ),
    (
        "core",
        &[
            "bare",
            "filemode",
            "ignorecase",
            "logallrefupdates",
            "precomposeunicode",
            "repositoryformatversion",
            "sharedrepository",
            "sparsecheckout",
            "sparsecheckoutcone",
            "symlinks",
        ],
    ),
    (
        "extensions",
        &[
            "compatobjectformat",
            "objectformat",
            "partialclone",
            "relativeworktrees",
            "submodulepathconfig",
            // (What is in that file is compared, too.)
            "worktreeconfig",
        ],
    ),
    ("fetch", &["bundlecreationtoken"]),
    ("git-town-branch", &["*"]),
    ("index", &["sparse"]),
    ("lfs", &["access", "locksverify", "repositoryformatversion"]),
    (
        "remote",
        &[
            "fetch",
            "followremotehead",
            "gh-resolved",
            "github-pr-remote",
            "glab-resolved",
            "mirror",
            "partialclonefilter",
            "promisor",
            "pushdefault",
            "skipdefaultupdate",
            "skipfetchall",
            "tagopt",
            "url",
        ],
    ),
    (
        "submodule",
        &[
            "active",
            "alternateerrorstrategy",
            "alternatelocation",
            "branch",
            "fetchrecursesubmodules",
            "ignore",
            "path",
            "shallow",
            "update",
            "url",
        ],
    ),
];

/// Those that name something to run, or where more settings are, and that many people set. (Git's manual: `git help
/// config`, and those of the commands that have settings of their own.)
const RUN: &[(&str, &[&str])] = &[
    ("alias", &["*"]),
    ("branch", &["mergeoptions"]),
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
        ],
    ),
    ("credential", &["helper"]),
    ("diff", &["command", "external", "guitool", "textconv", "tool"]),
    ("difftool", &["cmd", "path"]),
    ("filter", &["clean", "process", "smudge"]),
    ("gc", &["recentobjectshook"]),
    ("gitcvs", &["dbdriver"]),
    ("gpg", &["defaultkeycommand", "program"]),
    ("guitool", &["*"]),
    ("help", &["browser"]),
    ("hook", &["*"]),
    ("imap", &["*"]),
    ("include", &["*"]),
    ("includeif", &["*"]),
    ("init", &["templatedir"]),
    ("instaweb", &["browser", "httpd", "modulepath"]),
    ("interactive", &["difffilter"]),
    ("lfs", &["*"]),
    ("man", &["cmd", "path", "viewer"]),
    ("merge", &["driver", "guitool", "tool"]),
    ("mergetool", &["cmd", "layout", "path"]),
    ("pager", &["*"]),
    ("protocol", &["allow"]),
    ("pull", &["octopus", "twohead"]),
    ("rebase", &["instructionformat"]),
    ("remote", &["proxy", "receivepack", "uploadpack", "vcs"]),
    ("sendemail", &["*"]),
    ("sequence", &["editor"]),
    ("submodule", &["update"]),
    ("svn", &["authorsprog"]),
    ("tar", &["command"]),
    ("trailer", &["cmd", "command"]),
    ("uploadpack", &["packobjectshook"]),
    ("url", &["*"]),
    ("web", &["browser"]),
];

/// In a repository: the file that names a folder with all of its settings and hooks, in the place of its own.
pub(super) const ELSEWHERE: &str = "commondir";

/// What of a file with settings, or of one that names where they lie, does not change while git does its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Settings {
    /// Where a link leads, which it is or which is on the way to it: there, who may not write here may.
    pub(super) link: Option<PathBuf>,
    /// It has another name, by which the same holds.
    is_shared: bool,
    says: Says,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Says {
    /// These are told. (The last one of a name counts: so does their order.)
    Told(Vec<Setting>),
    /// All of a file that names where settings lie, or that git goes on strike about: other programs may read it.
    Text(Vec<u8>),
    /// It is none that can be read, or too large.
    Unreadable(Option<watch::Seen>),
}

impl Settings {
    pub(super) fn of(path: &Path) -> Self {
        let metadata = fs::metadata(path).ok();
        Self {
            link: link(path),
            is_shared: metadata.as_ref().is_some_and(|data| data.is_file() && data.nlink() > 1),
            says: says(path, metadata.as_ref()),
        }
    }

    /// It may name something that git runs, or can not be read.
    pub(super) fn may_run_something(&self) -> bool {
        match &self.says {
            Says::Told(settings) => {
                settings.iter().any(|setting| is_one_of(setting, RUN) || is_helpers(setting))
            }
            Says::Text(text) => !text.is_empty(),
            Says::Unreadable(_) => true,
        }
    }

    /// What is told of it, or who can say it, is another one than before. (git itself takes a second name away.)
    pub(super) fn differ(&self, before: &Self) -> bool {
        let says_else = match (&self.says, &before.says) {
            (Says::Told(settings), Says::Told(before)) => differ(settings, before),
            (says, before) => says != before,
        };
        self.link != before.link || says_else || (self.is_shared && !before.is_shared)
    }
}

fn says(path: &Path, metadata: Option<&Metadata>) -> Says {
    let names_a_place = path.ends_with(ELSEWHERE) || path.ends_with(".git");
    let text = match disk::read_small(path, disk::SMALL) {
        Err(error) if is_gone(&error) => Vec::new(),
        Err(_) => return Says::Unreadable(metadata.map(watch::seen)),
        Ok(text) => text,
    };
    if names_a_place {
        return Says::Text(text);
    }
    match read(&text) {
        (settings, Ok(())) => Says::Told(settings.into_iter().filter(is_told).collect()),
        (_, Err(NoSetting)) => Says::Text(text),
    }
}

/// Remotes and branches git itself takes away and gives other names (`git remote rename`, `git branch -d`): then what was
/// told of one is gone, or another one's.
fn differ(now: &[Setting], before: &[Setting]) -> bool {
    let (now, before) = (Parts::of(now), Parts::of(before));
    let is_known = |(name, settings): (&&[u8], &Vec<_>)| match before.named.get(name) {
        Some(before) => settings == before,
        None => {
            let mut gone = before.named.iter().filter(|(name, _)| !now.named.contains_key(*name));
            gone.any(|(_, before)| settings == before)
        }
    };
    now.rest != before.rest || !now.named.iter().all(is_known)
}

/// A key and its value.
type Pair<'a> = (&'a [u8], Option<&'a [u8]>);

/// Settings, those of remotes and branches by the name of these.
#[derive(Default)]
struct Parts<'a> {
    named: BTreeMap<&'a [u8], Vec<Pair<'a>>>,
    rest: Vec<&'a Setting>,
}

impl<'a> Parts<'a> {
    fn of(settings: &'a [Setting]) -> Self {
        let mut parts = Self::default();
        for setting in settings {
            let name = &setting.name;
            let is_named = name.starts_with(b"remote.") || name.starts_with(b"branch.");
            let end = name.iter().rposition(|byte| *byte == b'.').unwrap_or(0);
            let (section, key) = name.split_at(end);
            if is_named && section.contains(&b'.') {
                let all = parts.named.entry(section).or_default();
                all.push((key, setting.value.as_deref()));
            } else {
                parts.rest.push(setting);
            }
        }
        parts
    }
}

fn is_gone(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Where this path leads, if not to itself; by a link to nothing, what that names.
fn link(path: &Path) -> Option<PathBuf> {
    match path.canonicalize() {
        Ok(real) => Some(real).filter(|real| real != path),
        Err(_) => path.ancestors().find_map(|on_the_way| fs::read_link(on_the_way).ok()),
    }
}

/// The files that a file with settings has git read as well, by whatever condition, and those that these have it read.
pub(super) fn included(file: &Path) -> Vec<PathBuf> {
    // (Git's own limit is ten.)
    const DEPTH: usize = 10;
    let mut all = Vec::new();
    let mut next = vec![file.to_owned()];
    for _ in 0..DEPTH {
        let named = next.iter().flat_map(|file| {
            named_in(file, &[("include", &["path"]), ("includeif", &["path"])])
                .into_iter()
                .map(|name| file.with_file_name(std::ffi::OsString::from_vec(name)))
        });
        next = named.filter(|path| !all.contains(path)).collect();
        next.sort();
        next.dedup();
        all.extend_from_slice(&next);
    }
    all
}

/// The value that counts of this setting in a file, as a path.
pub(super) fn path(file: &Path, name: &str) -> Option<PathBuf> {
    let value = values(&disk::read_small(file, disk::SMALL).ok()?, name).pop()?;
    Some(std::ffi::OsString::from_vec(value).into())
}

/// The values of this setting in a text; of most the last one counts.
pub(super) fn values(text: &[u8], name: &str) -> Vec<Vec<u8>> {
    let (settings, _) = read(text);
    let named = settings.into_iter().filter(|setting| setting.name == name.as_bytes());
    named.filter_map(|setting| setting.value).collect()
}

/// A setting as git understands it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Setting {
    /// `section.key`, or with a second name `section.Second.Name.key`.
    name: Vec<u8>,
    /// There is none in a line with a key alone.
    value: Option<Vec<u8>>,
}

/// Here git says "bad config line", and reads nothing more.
#[derive(Debug, PartialEq, Eq)]
struct NoSetting;

/// Git's grammar, function by function (`git_parse_source` in its `config.c`): what is read otherwise is not told.
fn read(text: &[u8]) -> (Vec<Setting>, Result<(), NoSetting>) {
    let mut settings = Vec::new();
    let mut reader = Reader { rest: text, is_over: false };
    let end = reader.settings(&mut settings);
    (settings, end)
}

struct Reader<'a> {
    rest: &'a [u8],
    /// The end was met; it reads as an end of a line.
    is_over: bool,
}

const BOM: &[u8] = "\u{feff}".as_bytes();

impl Reader<'_> {
    fn settings(&mut self, settings: &mut Vec<Setting>) -> Result<(), NoSetting> {
        if self.rest.first() == BOM.first() {
            self.rest = self.rest.strip_prefix(BOM).ok_or(NoSetting)?;
        }
        let mut section = Vec::new();
        loop {
            match self.next() {
                b'\n' if self.is_over => return Ok(()),
                b'#' | b';' => while self.next() != b'\n' {},
                byte if is_space(byte) => {}
                b'[' => section = self.section()?,
                byte if byte.is_ascii_alphabetic() => {
                    let (name, value) = self.setting(&section, byte)?;
                    settings.push(Setting { name: c_string(name), value: value.map(c_string) });
                }
                _ => return Err(NoSetting),
            }
        }
    }

    /// An end of a line may be one of DOS's.
    fn next(&mut self) -> u8 {
        match self.rest {
            [] => {
                self.is_over = true;
                b'\n'
            }
            [b'\r', b'\n', rest @ ..] => {
                self.rest = rest;
                b'\n'
            }
            [byte, rest @ ..] => {
                self.rest = rest;
                *byte
            }
        }
    }

    /// Behind its `[`: what the names of its settings begin with.
    fn section(&mut self) -> Result<Vec<u8>, NoSetting> {
        let mut name = Vec::new();
        loop {
            match self.next() {
                b']' if name.is_empty() => return Err(NoSetting),
                b']' => break,
                byte if is_space(byte) => {
                    self.second_name(byte, &mut name)?;
                    break;
                }
                byte if is_of_key(byte) || byte == b'.' => name.push(byte.to_ascii_lowercase()),
                _ => return Err(NoSetting),
            }
        }
        name.push(b'.');
        Ok(name)
    }

    /// `"second name"]`, which is any text.
    fn second_name(&mut self, mut byte: u8, name: &mut Vec<u8>) -> Result<(), NoSetting> {
        while is_space(byte) {
            byte = self.next_of_line()?;
        }
        if byte != b'"' {
            return Err(NoSetting);
        }
        name.push(b'.');
        loop {
            match self.next_of_line()? {
                b'"' => break,
                b'\\' => name.push(self.next_of_line()?),
                byte => name.push(byte),
            }
        }
        if self.next() == b']' { Ok(()) } else { Err(NoSetting) }
    }

    fn next_of_line(&mut self) -> Result<u8, NoSetting> {
        Some(self.next()).filter(|byte| *byte != b'\n').ok_or(NoSetting)
    }

    /// Behind the first byte of its key.
    fn setting(
        &mut self,
        section: &[u8],
        first: u8,
    ) -> Result<(Vec<u8>, Option<Vec<u8>>), NoSetting> {
        let mut name = section.to_owned();
        let mut byte = first;
        while is_of_key(byte) {
            name.push(byte.to_ascii_lowercase());
            byte = self.next();
        }
        while byte == b' ' || byte == b'\t' {
            byte = self.next();
        }
        match byte {
            b'\n' => Ok((name, None)),
            b'=' => Ok((name, Some(self.value()?))),
            _ => Err(NoSetting),
        }
    }

    fn value(&mut self) -> Result<Vec<u8>, NoSetting> {
        let mut value = Vec::new();
        let mut is_quoted = false;
        // As long as it was before the spaces at its end.
        let mut trimmed = None;
        loop {
            let byte = self.next();
            match byte {
                b'\n' if is_quoted => return Err(NoSetting),
                b'\n' => break,
                _ if is_space(byte) && !is_quoted => {
                    if !value.is_empty() {
                        trimmed.get_or_insert(value.len());
                        value.push(byte);
                    }
                    continue;
                }
                b'#' | b';' if !is_quoted => {
                    while self.next() != b'\n' {}
                    break;
                }
                _ => trimmed = None,
            }
            match byte {
                b'"' => is_quoted = !is_quoted,
                b'\\' => match self.next() {
                    b'\n' => {}
                    b't' => value.push(b'\t'),
                    b'b' => value.push(8),
                    b'n' => value.push(b'\n'),
                    byte @ (b'\\' | b'"') => value.push(byte),
                    _ => return Err(NoSetting),
                },
                _ => value.push(byte),
            }
        }
        value.truncate(trimmed.unwrap_or(value.len()));
        Ok(value)
    }
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

fn is_of_key(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'-'
}

/// Git hands on what ends with a NUL: `[core "editor\0"] x` is `core.editor`.
fn c_string(mut bytes: Vec<u8>) -> Vec<u8> {
    let end = bytes.iter().position(|byte| *byte == 0);
    bytes.truncate(end.unwrap_or(bytes.len()));
    bytes
}

/// In one of these sections, with one of its keys.
fn is_one_of(setting: &Setting, table: &[(&str, &[&str])]) -> bool {
    let name = String::from_utf8_lossy(&setting.name).to_ascii_lowercase();
    let (Some((section, _)), Some((_, key))) = (name.split_once('.'), name.rsplit_once('.')) else {
        return false;
    };
    let mut own = table.iter().filter(|(named, _)| *named == section);
    own.any(|(_, keys)| keys.iter().any(|named| *named == "*" || *named == key))
}

/// Where the remotes in a file with settings are, and those that branches name.
pub(super) fn remotes(file: &Path) -> Vec<Vec<u8>> {
    let named: &[(&str, &[&str])] =
        &[("remote", &["url", "pushurl", "pushdefault"]), ("branch", &["remote", "pushremote"])];
    named_in(file, named)
}

/// The names of the remotes in a file with settings.
pub(super) fn named_remotes(file: &Path) -> Vec<Vec<u8>> {
    let Ok(text) = disk::read_small(file, disk::SMALL) else { return Vec::new() };
    let (settings, _) = read(&text);
    let names = settings.iter().filter_map(|setting| {
        let named = setting.name.strip_prefix(b"remote.")?;
        let end = named.iter().rposition(|byte| *byte == b'.')?;
        Some(named[..end].to_vec())
    });
    names.collect()
}

/// The values of these settings in a file.
fn named_in(file: &Path, table: &[(&str, &[&str])]) -> Vec<Vec<u8>> {
    let Ok(text) = disk::read_small(file, disk::SMALL) else { return Vec::new() };
    let (settings, _) = read(&text);
    let own = settings.into_iter().filter(|setting| is_one_of(setting, table));
    own.filter_map(|setting| setting.value).collect()
}

/// It is none that git writes by the way, or says what git does not write there.
fn is_told(setting: &Setting) -> bool {
    let value = setting.value.as_deref().unwrap_or_default();
    let leads_elsewhere = match key(setting).as_str() {
        "remote" | "pushremote" | "pushdefault" => is_address(value),
        "update" => value.starts_with(b"!"),
        _ => is_helpers(setting),
    };
    leads_elsewhere || is_option(setting) || !is_one_of(setting, WRITTEN)
}

/// Git hands its value, or the name of the remote or branch that it is of, to programs of its own, which would take it for
/// an option (`[remote "--upload-pack=x"]`).
fn is_option(setting: &Setting) -> bool {
    let value = setting.value.as_deref().unwrap_or_default();
    let mut names = setting.name.splitn(2, |byte| *byte == b'.').skip(1);
    value.starts_with(b"-") || names.any(|name| name.starts_with(b"-"))
}

/// An address like `ext::sh -c …`, for which git runs a helper. (What else a remote's is, `git remote add` says.)
fn is_helpers(setting: &Setting) -> bool {
    let value = setting.value.as_deref().unwrap_or_default();
    let key = key(setting);
    let is_address = matches!(key.as_str(), "url" | "remote" | "pushremote" | "pushdefault");
    is_address && value.windows(2).any(|two| two == b"::")
}

fn key(setting: &Setting) -> String {
    let key = setting.name.rsplit(|byte| *byte == b'.').next().unwrap_or_default();
    String::from_utf8_lossy(key).to_ascii_lowercase()
}

/// One in a network (`https://host/path`, `host:path`), or of a program that git runs (`ext::…`): no name of a remote, nor a
/// folder.
fn is_address(value: &[u8]) -> bool {
    let first = value.iter().find(|byte| matches!(byte, b':' | b'/'));
    first == Some(&b':') && !value.starts_with(b"file://")
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test may panic")]
    #![expect(clippy::disallowed_methods, reason = "git itself is asked")]

    use std::io::Write as _;
    use std::process::Command;
    use std::sync::LazyLock;

    use proptest::prelude::*;

    use super::*;

    /// `name=value`, or the name alone.
    fn as_text(settings: &[Setting]) -> Vec<String> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let one = |setting: &Setting| match &setting.value {
            Some(value) => format!("{}={}", text(&setting.name), text(value)),
            None => text(&setting.name),
        };
        settings.iter().map(one).collect()
    }

    fn check(text: &str, expected: &[&str]) {
        let (settings, end) = read(text.as_bytes());
        assert_eq!(end, Ok(()), "{text}");
        let running: Vec<Setting> = settings.into_iter().filter(is_told).collect();
        assert_eq!(as_text(&running), expected, "{text}");
    }

    #[test]
    fn settings_that_run_something_are_found_with_their_values() {
        check("[core]\n\tfilemode = false\n\tfsMonitor = a[1]]x\n", &["core.fsmonitor=a[1]]x"]);
        check("[core] pager = x] y\n", &["core.pager=x] y"]);
        check("[filter \"a]b\"] clean = x\n", &["filter.a]b.clean=x"]);
        check("[filter.b]\nsmudge=x\n", &["filter.b.smudge=x"]);
        check("[alias]\n x = !rm\n", &["alias.x=!rm"]);
        check("[alias]\n x = !a \\\n  b\n", &["alias.x=!a   b"]);
        check("[core]\n\tfsmonitor\n", &["core.fsmonitor"]);
        check(
            "[interactive]\ndiffFilter=x\n[pager]\nlog=x",
            &["interactive.difffilter=x", "pager.log=x"],
        );
        check("[remote \"o\"]\nurl = ext::sh -c x\n", &["remote.o.url=ext::sh -c x"]);
        check(
            "[url \"ext::sh -c x\"]\ninsteadOf = https://\n",
            &["url.ext::sh -c x.insteadof=https://"],
        );
        check("[branch \"main\"]\nremote = ext::sh -c x\n", &["branch.main.remote=ext::sh -c x"]);
        check("[gc]\nrecentObjectsHook = x\n", &["gc.recentobjectshook=x"]);
        check("[submodule \"s\"]\npath = s\nupdate = !x\n", &["submodule.s.update=!x"]);
    }

    #[test]
    fn settings_that_write_files_or_lead_the_network_elsewhere_are_found() {
        for (text, name) in [
            ("[http]\n\tcookieFile=/x", "http.cookiefile=/x"),
            ("[http \"https://x.org\"]\nproxy=y", "http.https://x.org.proxy=y"),
            ("[format]\noutputDirectory=..", "format.outputdirectory=.."),
            ("[gc]\nauto=1", "gc.auto=1"),
            ("[clean]\nrequireForce=false", "clean.requireforce=false"),
            ("[remote \"o\"]\nurl=https://a\npushurl=https://b", "remote.o.pushurl=https://b"),
            ("[remote]\npushDefault=git@x:y", "remote.pushdefault=git@x:y"),
            ("[branch \"m\"]\nremote=x:../y", "branch.m.remote=x:../y"),
            ("[branch \"m\"]\nmergeOptions=-s x", "branch.m.mergeoptions=-s x"),
            ("[pull]\ntwohead=x", "pull.twohead=x"),
            ("[maintenance]\nauto=false", "maintenance.auto=false"),
            ("[maintenance \"gc\"]\nenabled=true", "maintenance.gc.enabled=true"),
            ("[gc]\nrepackFilterTo=../x", "gc.repackfilterto=../x"),
            ("[branch \"m\"]\npushRemote=https://x", "branch.m.pushremote=https://x"),
            ("[url \"https://a\"]\ninsteadOf=https://b", "url.https://a.insteadof=https://b"),
            ("[fetch]\nbundleURI=https://x", "fetch.bundleuri=https://x"),
            ("[sendemail]\nbcc=x", "sendemail.bcc=x"),
            ("[rebase]\ninstructionFormat=%s%nexec x", "rebase.instructionformat=%s%nexec x"),
            ("[mergetool \"vimdiff\"]\nlayout=`x`", "mergetool.vimdiff.layout=`x`"),
            ("[format]\nsuffix=/../x", "format.suffix=/../x"),
            ("[remote \"o\"]\npush=+refs/*:refs/*", "remote.o.push=+refs/*:refs/*"),
            ("[user]\nemail=x", "user.email=x"),
            ("[new \"x\"]\nthing", "new.x.thing"),
            ("[remote \"--upload-pack=x\"]\nurl=.", "remote.--upload-pack=x.url=."),
            ("[branch \"m\"]\nremote=--upload-pack=x", "branch.m.remote=--upload-pack=x"),
            (
                "[extensions]\npartialClone=--upload-pack=x",
                "extensions.partialclone=--upload-pack=x",
            ),
        ] {
            check(text, &[name]);
        }
    }

    #[test]
    fn a_remote_or_a_branch_may_go_or_have_another_name() {
        let differ = |before: &str, now: &str| {
            let told = |text: &str| {
                let (settings, _) = read(text.as_bytes());
                settings.into_iter().filter(is_told).collect::<Vec<_>>()
            };
            differ(&told(now), &told(before))
        };
        let a = "[remote \"a\"]\npushurl=https://x\nproxy=y\n[branch \"b\"]\nremote=https://z\n";
        assert!(!differ(a, ""));
        assert!(!differ(a, &a.replace("\"a\"", "\"n\"").replace("\"b\"", "\"c\"")));
        for now in [
            a.replace("https://x", "https://new"),
            a.replace("proxy=y", ""),
            a.replace("\"b\"", "\"c\"").replace("https://z", "https://new"),
            format!("{a}[remote \"o\"]\npushurl=https://x\nproxy=y\n"),
            format!("{a}[remote \"a\"]\npushurl=https://new\n"),
        ] {
            assert!(differ(a, &now), "{now}");
        }
        assert!(differ("[core]\nfsmonitor=false", ""));
        assert!(differ("", a));
    }

    #[test]
    fn what_hides_a_setting_from_the_eye_hides_it_from_nobody() {
        let found = &["core.editor=x"];
        check("[core]\n# a comment \\\n\teditor = x\n", found);
        check("[index]\n\tsparse = a\\\\\n[core]\n\teditor = x\n", found);
        check("[core]\n\tfilemode = false # c \\\n\teditor = x\n", found);
        check("[index][core] editor = x\n", found);
        check("[y \"\\\\\"][core]editor=x", found);
        check("[core]\r\n\teditor = x\r\n", found);
        check("\u{feff}[core]\teditor = x ; [alias]\n", found);
        check("[core]\n\teditor = \\\n\\\n x\n", found);
        check("[core \"editor\0\"]\n\ta = x\n", found);
        check("[core]\n\teditor = x\0y\n", found);
        check("[index] sparse = \"\\\"\" ; \"\n[core] editor = x", found);
        check("[index]\n\tsparse = \"# ;\" \\\n[core]\n\tsparse = x\n", &[]);
    }

    #[test]
    fn other_settings_are_none_of_them() {
        check(
            "[branch \"main\"]\nremote = origin\n[branch \"b\"]\nremote = .\n[remote]\npushDefault = fork\n",
            &[],
        );
        check("# [core]\n; pager = x\n[index]\nsparse = pager = x\n", &[]);
        check("[remote \"o\"]\nurl = https://example.com/x\nfetch = +refs/*:refs/*\n", &[]);
        check("[branch \"main\"]\nmerge = refs/heads/main\n[submodule \"s\"]\npath = s\n", &[]);
        for place in ["../r.git", "/r.git", "~/r.git", "./a:b", "file:///r.git", "x/y:z"] {
            check(&format!("[branch \"m\"]\nremote={place}\npushRemote={place}\n"), &[]);
        }
        check("", &[]);
    }

    /// What git lists of this file, and whether it read all of it.
    fn listed(file: &Path) -> (Vec<String>, bool) {
        let mut git = Command::new("git");
        git.args(["config", "-z", "--list", "--file"])
            .arg(file)
            .current_dir(file.parent().unwrap());
        let done = git.env("GIT_CONFIG_NOSYSTEM", "1").output().unwrap();
        let entries = done.stdout.split(|byte| *byte == 0).filter(|entry| !entry.is_empty());
        let entries = entries.map(|entry| String::from_utf8_lossy(entry).replacen('\n', "=", 1));
        (entries.collect(), done.status.success())
    }

    /// A few of these, one after the other.
    fn some(parts: &'static [&'static str], most: usize) -> impl Strategy<Value = String> {
        prop::collection::vec(prop::sample::select(parts), 0..most).prop_map(|all| all.concat())
    }

    /// Settings, headers and comments with all that is special in them, and sometimes what is none of these.
    fn piece() -> impl Strategy<Value = String> {
        const VALUE: &[&str] = &[
            "a",
            "B=",
            " ",
            "\t",
            "\r",
            "é",
            "\u{b}",
            "\0",
            "[",
            "]",
            "#",
            ";",
            "\\\\",
            "\\\"",
            "\\n",
            "\\t",
            "\\b",
            "\\\n",
            "\\\r\n",
            "\"\"",
            "\"# ;\"",
            "\"a  \"",
            "\" \\\n\"",
        ];
        const SECOND: &[&str] =
            &["a", "B.", " ", "]", "[", "#", "\\\\", "\\\"", "\\n", "=", "\t", "\r", "\0", "é"];
        const END: &[&str] = &["\n", "\n", "\n", "\r\n", "\n\n", " \n", ";\n", "# \\\n", ""];
        const ANY: &[&str] =
            &["[", "]", "\"", "\\", "\r", "=", ".", "-", "a", "7", "_", "\0", "\u{feff}"];
        let of = |parts: &'static [&'static str]| prop::sample::select(parts);
        let setting = (
            of(&["a", "editor", "Ab-7", "x\t", "y ", "z \t "]),
            prop_oneof![1 => Just(String::new()), 6 => some(VALUE, 7).prop_map(|value| format!("={value}"))],
            of(END),
        );
        let header = (
            of(&["[core", "[A-b", "[c.D", "[ ", "["]),
            prop_oneof![
                Just("]".to_owned()),
                some(SECOND, 5).prop_map(|name| format!(" \"{name}\"]")),
                some(SECOND, 5).prop_map(|name| format!("\t \r\"{name}\"]")),
            ],
            of(&["", "", " ", "\n", "\r\n", "\r"]),
        );
        let comment = (of(&["#", ";", " #"]), some(VALUE, 5))
            .prop_map(|(mark, text)| format!("{mark}{text}\n"));
        prop_oneof![
            12 => setting.prop_map(|(key, value, end)| format!("{key}{value}{end}")),
            8 => header.prop_map(|(name, rest, end)| format!("{name}{rest}{end}")),
            3 => comment,
            1 => some(ANY, 3),
        ]
    }

    static HAS_GIT: LazyLock<bool> = LazyLock::new(|| {
        let has = Command::new("git").arg("--version").output().is_ok();
        if !has {
            // Not `eprintln`, which the test runner swallows.
            _ = io::stderr().write_all(b"SKIPPED: git's settings: there is no git here\n");
        }
        has
    });

    proptest! {
        #[test]
        fn settings_are_read_as_git_reads_them(
            beginning in prop::sample::select(&["", "[a]", "[core]\n", "\u{feff}", "\u{feff}[a]\r\n"][..]),
            pieces in prop::collection::vec(piece(), 0..8),
        ) {
            if !*HAS_GIT {
                return Ok(());
            }
            let text = format!("{beginning}{}", pieces.concat());
            let file = tempfile::NamedTempFile::new().unwrap();
            fs::write(file.path(), &text).unwrap();
            let (settings, end) = read(text.as_bytes());
            // (Before 2.45 each white space inside of a value was a blank.)
            let plain = |all: Vec<String>| all.into_iter().map(|one| one.replace(['\t', '\r'], " "));
            let (listed, is_whole) = listed(file.path());
            prop_assert_eq!(end.is_ok(), is_whole, "{:?}: {:?}", text, listed);
            let own: Vec<String> = plain(as_text(&settings)).collect();
            prop_assert_eq!(own, plain(listed).collect::<Vec<_>>(), "{:?}", text);
        }
    }
}
