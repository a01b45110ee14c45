//! Which files git means by what it is given: names, and patterns of its own, which go through folders.

use std::collections::BTreeSet;

use super::args::Args;
use super::{Ground, Place, Reach};
use crate::permission::pattern::Pattern;
use crate::permission::shell::{Kind, Word, join};

/// What stands for files below the folder that git looks from, or below the top of its repository.
struct Spec {
    folder: String,
    /// Where it is the name of a file or folder.
    name: Option<String>,
    /// (`*` stands for `/` too.)
    pattern: Pattern,
    /// A name in any case, which may be a folder's.
    is_name: bool,
}

impl Spec {
    fn new(folder: &str, text: &str, any_case: bool, has_signs: bool) -> Self {
        let mut folder = folder.to_owned();
        let mut rest = text.trim_start_matches("./");
        while let Some(above) = rest.strip_prefix("../") {
            folder = join(&folder, "..");
            rest = above.trim_start_matches("./");
        }
        if has_signs && Pattern::is_in(rest) {
            // Git goes only where the beginning leads.
            let n_known = rest.find(['*', '?', '[', '\\']).unwrap_or(0);
            let begin = rest[..n_known].rfind('/').filter(|_| !any_case).unwrap_or(0);
            folder = join(&folder, &rest[..begin]);
            let rest = rest[begin..].trim_start_matches('/');
            let pattern = Pattern::new(rest, any_case);
            return Self { folder, name: None, pattern, is_name: false };
        }
        let pattern = Pattern::new(&rest.replace(['*', '?', '[', '\\'], "?"), any_case);
        let name = Some(join(&folder, text)).filter(|_| !any_case);
        Self { folder, name, pattern, is_name: true }
    }

    fn fits(&self, path: &str) -> bool {
        if let Some(name) = &self.name {
            return name.is_empty() || below(path, name).is_some();
        }
        below(path, &self.folder).is_some_and(|rest| {
            let mut folders = rest.match_indices('/').map(|(at, _)| &rest[..at]);
            self.pattern.is_match(rest)
                || self.is_name && folders.any(|folder| self.pattern.is_match(folder))
        })
    }
}

/// The rest of a path below a folder.
fn below<'p>(path: &'p str, folder: &str) -> Option<&'p str> {
    if folder.is_empty() {
        return Some(path);
    }
    let rest = path.strip_prefix(folder)?;
    if rest.is_empty() { Some(rest) } else { rest.strip_prefix('/') }
}

/// What a command of git's was given to choose files by.
pub(super) struct Pathspecs {
    wanted: Vec<Spec>,
    unwanted: Vec<Spec>,
}

impl Pathspecs {
    pub(super) fn of<'w>(args: &Args<'_>, words: impl IntoIterator<Item = &'w Word>) -> Self {
        let mut specs = Self { wanted: Vec::new(), unwanted: Vec::new() };
        // How patterns are read is said by options: then none takes out what it might not fit.
        let is_told = args.words().any(|word| word.text.ends_with("-pathspecs"));
        let any_case = args.words().any(|word| word.text == "--icase-pathspecs");
        let stands: Vec<String> = {
            let stands = args.stands();
            stands.iter().map(|folder| plain(&args.ground.real(folder))).collect()
        };
        for word in words {
            let values = args.values_behind(word);
            for value in values.iter() {
                match value.kind {
                    Kind::Literal | Kind::Pattern => {
                        // What the shell makes of it, or, where that is nothing, what git does.
                        let named = args.expanded(value).into_iter();
                        let named = named.map(|path| plain(&args.ground.real(&path)));
                        specs.wanted.extend(named.map(|path| Spec::new("", &path, false, false)));
                        for folder in &stands {
                            specs.add(args, folder, &value.text, any_case, is_told);
                        }
                    }
                    Kind::Home | Kind::Quoted | Kind::Variable => {
                        for path in args.places(value) {
                            let path = plain(&args.ground.real(&path));
                            specs.wanted.push(Spec::new("", &path, any_case, false));
                        }
                    }
                    Kind::Output => {}
                }
            }
        }
        // What is only told what it should leave out takes all else.
        if specs.wanted.is_empty() {
            let tops = stands.iter().map(|folder| Spec::new(&top(args, folder), "", false, false));
            specs.wanted.extend(tops);
        }
        specs
    }

    fn add(&mut self, args: &Args<'_>, folder: &str, text: &str, any_case: bool, is_told: bool) {
        let (magic, rest) = match text.strip_prefix(':') {
            None => ("", text),
            Some(long) if long.starts_with('(') => long[1..].split_once(')').unwrap_or(("", text)),
            Some(short) => {
                let rest = short.trim_start_matches(['/', '!', '^']);
                let signs = &short[..short.len() - rest.len()];
                (signs, rest.strip_prefix(':').unwrap_or(rest))
            }
        };
        let is_short = !text.starts_with(":(");
        let has = |name: &str, signs: &[char]| {
            if is_short { magic.contains(signs) } else { magic.split(',').any(|own| own == name) }
        };
        let any_case = any_case || has("icase", &[]);
        let is_literal = has("literal", &[]);
        let top = if has("top", &['/']) { top(args, folder) } else { folder.to_owned() };
        let is_exclude = has("exclude", &['!', '^']);
        let is_wider = is_told || !is_short && magic.contains(['g', 'a']);
        // A name may have been a pattern to git, and a pattern a name.
        let as_name = Spec::new(&top, rest, any_case, false);
        let as_pattern = Spec::new(&top, rest, any_case, !is_literal);
        if is_exclude {
            let is_exact = as_pattern.name.is_some() || as_pattern.pattern.is_exact && !is_wider;
            self.unwanted.extend(Some(as_pattern).filter(|_| is_exact));
        } else if magic.contains("attr") {
            self.wanted.push(Spec::new(&top, "", any_case, false));
        } else {
            self.wanted.extend([as_name, as_pattern]);
        }
    }

    fn fits(&self, path: &str) -> bool {
        let fits = |spec: &Spec| spec.fits(path);
        self.wanted.iter().any(fits) && !self.unwanted.iter().any(fits)
    }

    /// A file of this kind among those that are meant.
    pub(super) fn find(
        &self,
        ground: &dyn Ground,
        reach: Reach,
        is_it: &(dyn Fn(&str) -> bool + Sync),
    ) -> Option<String> {
        let begins = self.wanted.iter().map(|spec| spec.name.as_ref().unwrap_or(&spec.folder));
        let begins: BTreeSet<&String> = begins.collect();
        let fits = |path: &str| self.fits(path) && is_it(path);
        begins.into_iter().find_map(|begin| match ground.look(begin) {
            Place::File => Some(begin.clone()).filter(|path| fits(path)),
            Place::Folder | Place::Project | Place::Above => ground.find(begin, reach, &fits),
            Place::Nothing | Place::Elsewhere => None,
        })
    }
}

/// The top of the repository that a folder of the project belongs to.
pub(super) fn top(args: &Args<'_>, folder: &str) -> String {
    let mut folder = folder.to_owned();
    while !folder.is_empty() && !folder.starts_with(['/', '~', '.']) {
        if args.ground.look(&join(&folder, ".git")) != Place::Nothing {
            break;
        }
        folder.truncate(folder.rfind('/').unwrap_or(0));
    }
    folder
}

fn plain(path: &str) -> String {
    if path == "." { String::new() } else { path.to_owned() }
}

/// Git reads it as a pattern of its own, which goes through folders.
pub(super) fn is_git_pattern(word: &Word) -> bool {
    word.text.starts_with(':') || word.is_literal() && word.text.contains(['*', '?', '['])
}
