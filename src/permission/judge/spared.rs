//! What a line of the table does not mean: commands of its programs that do nothing of the kind, and those that
//! stay within what the sandbox has of its own.

use super::args::Args;
use super::table::{Class, SPARED};
use super::{Place, table};
use crate::permission::line::Line;
use crate::permission::shell::{By, Kind, Redirect, Run, Word, is_assignment};

/// What a command finds in the sandbox, and nobody else does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct Own {
    /// A loopback interface.
    pub(in super::super) loopback: bool,
    /// `/tmp`, and the folder that `$TMPDIR` names.
    pub(in super::super) temporary: bool,
}

impl Own {
    /// The same for a line, which may give `TMPDIR` another value, or put something else at a place in `/tmp`.
    pub(super) fn of(self, line: &Line) -> Self {
        let mut before = line.text().split("TMPDIR");
        let n_named = before.clone().count() - 1;
        let is_kept = before.by_ref().take(n_named).all(|text| text.ends_with(['$', '{']))
            && line.bindings().iter().all(|binding| binding.name != "TMPDIR");
        let is_kept = is_kept && line.is_known() && !line.runs().iter().any(changes_places);
        Self { temporary: self.temporary && is_kept, ..self }
    }

    /// The command needs no more than this, whatever its program is known for.
    pub(super) fn suffices(self, class: Class, args: &Args<'_>) -> bool {
        match class {
            Class::Network => self.loopback && args.talks_to_itself(),
            Class::Destructive => self.temporary && args.removes_temporary_files(),
            Class::Reads | Class::Git | Class::Interactive | Class::Endless | Class::Never => false,
        }
    }

    /// The redirection talks to other machines.
    pub(super) fn is_left_by(self, to: &Redirect) -> bool {
        let mut begins = ["/dev/tcp/", "/dev/udp/"].iter();
        let address = begins.find_map(|begin| to.target.text.strip_prefix(begin));
        address.is_some_and(|address| !(self.loopback && is_local(address)))
    }
}

/// It may give `TMPDIR` another value, or put something else at a place.
fn changes_places(run: &Run) -> bool {
    let mut words = run.words.iter().skip(1);
    let is_option = |word: &Word| word.is_literal() && word.text.starts_with('-');
    match run.name() {
        "ln" | "mount" => true,
        "printf" => words.any(|word| word.text.starts_with("-v")),
        "getopts" | "mapfile" | "read" | "readarray" | "unset" => {
            words.any(|word| !word.is_literal() || word.text.contains("TMPDIR"))
        }
        "declare" | "export" | "local" | "readonly" | "typeset" => words.any(|word| {
            let is_plain = word.is_literal() || run.by == By::Line && is_assignment(&word.text);
            // (Another name for it, and a sum that gives a variable a value.)
            is_option(word) && word.text.contains(['n', 'i'])
                || word.text.contains("TMPDIR")
                || word.text.contains('[')
                || !is_plain
        }),
        _ => false,
    }
}

/// A command of this class, by the table, is spared.
pub(super) fn is_spared(class: Class, args: &Args<'_>) -> bool {
    let name = args.run.name();
    let mut spared =
        SPARED.iter().filter(|(own, programs, _)| *own == class && programs.contains(&name));
    // (That it is certain is for each line to see to.)
    spared.any(|(_, _, when): &(_, _, table::When)| args.fit(when, false))
}

impl Args<'_> {
    /// `npx tsc` of a program that the project has.
    pub(super) fn runs_installed(&self) -> bool {
        let fetches = ["-p", "--package", "-c", "--call", "-y", "--yes"];
        let program = self.words().next().and_then(Word::known);
        program.filter(|name| !name.starts_with('-') && !name.contains('/')).is_some_and(|name| {
            let own = Word::literal(format!("node_modules/.bin/{name}"));
            // (It is a link, mostly.)
            let is_there = |path: &String| {
                (!path.starts_with(['/', '~', '.']) || path.starts_with("./"))
                    && self.ground.look(&self.ground.real(path)) == Place::File
            };
            !fetches.contains(&name)
                && self.paths(&own).is_some_and(|paths| paths.iter().all(is_there))
        })
    }

    /// Git, of a repository that is named by its path.
    pub(super) fn is_about_a_path(&self) -> bool {
        let subs = ["clone", "ls-remote", "fetch", "pull"];
        let recurses = ["--recurse-submodules", "--recursive"];
        let mut operands = self.operands();
        operands.next().is_some_and(|sub| subs.contains(&sub.text.as_str()))
            && !recurses.iter().any(|option| self.may_have(option))
            && self.has_known_words()
            && operands.next().is_some_and(|repository| {
                let text = repository.text.as_str();
                let is_path = matches!(text, "." | "..")
                    || text.starts_with(['/', '~'])
                    || text.starts_with("./")
                    || text.starts_with("../");
                let is_there = || {
                    !text.contains(':')
                        && matches!(self.place(repository), Some((_, Place::Folder | Place::File)))
                };
                is_path || self.sub_is("clone") && is_there()
            })
    }

    /// `helm template ./chart`
    pub(super) fn renders_a_folder(&self) -> bool {
        let is_folder =
            |word: &Word| matches!(self.place(word), Some((_, Place::Folder | Place::Project)));
        self.sub_is("template")
            && self.operands().skip(1).any(is_folder)
            && !self.may_have("--repo")
    }

    /// It says what it would publish, for certain: the option is not the value of another one, and takes no value
    /// that would turn it.
    pub(super) fn publishes_nothing(&self) -> bool {
        const WITHOUT_VALUE: &[&str] = &[
            "-q",
            "-v",
            "--all-features",
            "--allow-dirty",
            "--force",
            "--json",
            "--keep-going",
            "--locked",
            "--offline",
            "--provenance",
            "--quiet",
            "--recursive",
            "--verbose",
            "--workspaces",
        ];
        const WITH_VALUE: &[&str] = &[
            "-F",
            "-j",
            "-p",
            "-w",
            "--access",
            "--check-url",
            "--color",
            "--exclude",
            "--features",
            "--filter",
            "--index",
            "--jobs",
            "--manifest-path",
            "--otp",
            "--package",
            "--publish-branch",
            "--publish-url",
            "--registry",
            "--tag",
            "--target",
            "--target-dir",
            "--token",
            "--workspace",
        ];
        let is_dry = |word: &Word| word.is_literal() && word.text == "--dry-run";
        let mut words = self.words().take_while(|word| word.text != "--");
        // An option that is not known may take it for its value, and one of another program takes none.
        let is_reached = || {
            let mut words = words.clone();
            while let Some(word) = words.next() {
                let text = word.text.as_str();
                if is_dry(word) {
                    return true;
                }
                let is_whole = !text.starts_with('-')
                    || text.starts_with("--") && text.contains('=')
                    || text.starts_with("--no-")
                    || WITHOUT_VALUE.contains(&text)
                    || WITH_VALUE.contains(&text)
                        && words.next().is_some_and(|value| !value.text.starts_with('-'));
                if !is_whole {
                    break;
                }
            }
            false
        };
        let is_certain = self.behind("publish").next().is_some_and(is_dry) || is_reached();
        // (`--dr=false` is short for it.)
        let turns = |word: &Word| {
            word.text == "false"
                || word.text.starts_with("--no-d") && word.text != "--no-default-features"
                || word.text.starts_with("--d") && !is_dry(word)
        };
        self.sub_is("publish") && is_certain && words.all(|word| word.is_literal() && !turns(word))
    }

    /// `git branch -d`, which takes away no more than what is merged, but by force.
    pub(super) fn deletes_branch_by_force(&self) -> bool {
        let may_have = |options: &[&str]| options.iter().any(|option| self.may_have(option));
        self.sub_is("branch") && may_have(&["-d", "--delete"]) && may_have(&["-f", "--force"])
    }

    /// `mv a b`, by which a folder has another name or lies in another folder, and nothing is lost.
    pub(super) fn moves_folder_to_free_name(&self) -> bool {
        let is_git = self.run.name() == "git";
        let mut words = self.words().skip(usize::from(is_git));
        let operands: Vec<&Word> = self.operands().skip(usize::from(is_git)).collect();
        let [from, to] = operands.as_slice() else { return false };
        let place = |word: &Word| self.place(word).filter(|_| word.is_literal());
        let (Some((source, Place::Folder)), Some((target, at_target))) = (place(from), place(to))
        else {
            return false;
        };
        let name = source.rsplit('/').next().unwrap_or(&source);
        let within = crate::permission::shell::join(&target, name);
        words.all(|word| {
            !word.text.starts_with('-') || matches!(word.text.as_str(), "-v" | "-n" | "-i")
        }) && self.is_changeable(&source)
            && self.is_changeable(&within)
            && match at_target {
                Place::Nothing => true,
                Place::Folder | Place::Project => self.ground.look(&within) == Place::Nothing,
                Place::File | Place::Above | Place::Elsewhere => false,
            }
    }

    /// `rm` of what lies in the sandbox's own temporary folders, and nowhere else. What lies behind a link there is
    /// anybody's, and the link is not seen from outside: so it is their own entries, which `rm` does not follow.
    fn removes_temporary_files(&self) -> bool {
        const OWN: &[&str] = &["$TMPDIR/", "${TMPDIR}/", "${TMPDIR:-/tmp}/"];
        let is_entry = |name: &str| {
            !matches!(name, "" | "." | "..")
                && !name.contains(['/', '$', '`', '{', '*', '?', '[', '('])
        };
        let is_temporary = |word: &Word| match word.kind {
            Kind::Quoted | Kind::Variable => {
                OWN.iter().find_map(|own| word.text.strip_prefix(own)).is_some_and(is_entry)
            }
            Kind::Literal => {
                word.text.strip_prefix("/tmp/").is_some_and(is_entry)
                    && self.ground.look(&word.text) == Place::Elsewhere
            }
            Kind::Pattern | Kind::Home | Kind::Output => false,
        };
        let mut operands = self.operands().peekable();
        self.run.name() == "rm" && operands.peek().is_some() && operands.all(is_temporary)
    }

    /// It names this machine, and no other. (What it reaches besides is not there: it has no more than the loopback
    /// of the sandbox.)
    fn talks_to_itself(&self) -> bool {
        const TALKERS: &[&str] =
            &["curl", "wget", "wget2", "http", "xh", "nc", "ncat", "netcat", "telnet"];
        let is_address = |word: &&Word| word.text.contains("://") || is_local(&word.text);
        let mut addresses = self.words().filter(is_address).peekable();
        // What follows an option may be its value.
        let words: Vec<&Word> = self.words().collect();
        let is_host = |(at, word): (usize, &&Word)| {
            let is_value = at > 0 && words[at - 1].text.starts_with('-');
            !is_value
                && !word.text.starts_with('-')
                && !word.text.bytes().all(|byte| byte.is_ascii_digit())
        };
        TALKERS.contains(&self.run.name())
            && addresses.peek().is_some()
            && addresses.all(|word| is_local(&word.text))
            && words
                .iter()
                .enumerate()
                .filter(|(at, word)| is_host((*at, word)))
                .all(|(_, word)| is_local(&word.text))
    }
}

/// An address of this machine, with or without what stands around it in a URL.
fn is_local(address: &str) -> bool {
    let address = address.split_once("://").map_or(address, |(_, rest)| rest);
    let end = address.find(['/', '?', '#']).unwrap_or(address.len());
    let host = address[..end].rsplit('@').next().unwrap_or_default();
    let host = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((inside, _)) => inside,
        None => host.split(':').next().unwrap_or_default(),
    };
    host == "localhost"
        || host.ends_with(".localhost")
        || host.parse().is_ok_and(|ip: std::net::IpAddr| ip.is_loopback() || ip.is_unspecified())
}
