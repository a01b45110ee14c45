//! The ground as one ruling sees it: what was looked at is remembered, and how much is looked at has a limit.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::{Mutex, PoisonError};

use super::{Ground, Place, Reach, extended};

/// So many names and values are compared for one ruling; what lies behind is not followed.
const MOST: usize = 500_000;
/// What a pattern costs besides what it stands for.
const A_PATTERN: usize = 500;

type Files = HashMap<(String, Reach), Rc<[String]>>;

/// See above.
pub(in super::super) struct Survey<'a> {
    ground: &'a dyn Ground,
    left: Cell<usize>,
    files: RefCell<Files>,
    patterns: RefCell<HashMap<String, Rc<[String]>>>,
    links: RefCell<HashMap<String, String>>,
}

impl<'a> Survey<'a> {
    pub(in super::super) fn new(ground: &'a dyn Ground) -> Self {
        Self {
            ground,
            left: Cell::new(MOST),
            files: RefCell::default(),
            patterns: RefCell::default(),
            links: RefCell::default(),
        }
    }

    /// So many more are compared, if that many are left.
    pub(super) fn spend(&self, n: usize) -> bool {
        let left = self.left.get();
        self.left.set(left.saturating_sub(n));
        n <= left
    }

    /// The files below a folder: those that were met before nothing was left.
    fn files(&self, folder: &str, reach: Reach) -> Rc<[String]> {
        let key = (folder.to_owned(), reach);
        if let Some(files) = self.files.borrow().get(&key) {
            return Rc::clone(files);
        }
        let (left, met) = (self.left.get(), Mutex::new(Vec::new()));
        self.ground.find(folder, reach, &|path| {
            let mut met = met.lock().unwrap_or_else(PoisonError::into_inner);
            met.push(path.to_owned());
            met.len() >= left
        });
        let files: Rc<[String]> = met.into_inner().unwrap_or_else(PoisonError::into_inner).into();
        self.files.borrow_mut().insert(key, Rc::clone(&files));
        files
    }
}

impl Ground for Survey<'_> {
    fn look(&self, path: &str) -> Place {
        self.ground.look(path)
    }

    fn real(&self, path: &str) -> String {
        if let Some(real) = self.links.borrow().get(path) {
            return real.clone();
        }
        let real = self.ground.real(path);
        self.links.borrow_mut().insert(path.to_owned(), real.clone());
        real
    }

    fn closed(&self) -> Vec<String> {
        self.ground.closed()
    }

    fn is_changeable(&self, path: &str) -> bool {
        self.ground.is_changeable(path)
    }

    fn expand(&self, pattern: &str) -> Vec<String> {
        if self.left.get() == 0 {
            return Vec::new();
        }
        let known = self.patterns.borrow().get(pattern).map(Rc::clone);
        let found = known.unwrap_or_else(|| {
            self.spend(A_PATTERN);
            let found: Rc<[String]> = match extended::wider(pattern) {
                Some((wider, fits)) => {
                    let all = wider.iter().flat_map(|wider| self.ground.expand(wider));
                    all.filter(|path| fits.is_match(path)).collect()
                }
                None => self.ground.expand(pattern).into(),
            };
            self.patterns.borrow_mut().insert(pattern.to_owned(), Rc::clone(&found));
            found
        });
        self.spend(found.len());
        found.to_vec()
    }

    fn find(
        &self,
        folder: &str,
        reach: Reach,
        is_it: &(dyn Fn(&str) -> bool + Sync),
    ) -> Option<String> {
        // (What asks costs something also where nothing is found.)
        if !self.spend(1) {
            return None;
        }
        let files = self.files(folder, reach);
        self.spend(files.len());
        files.iter().find(|path| is_it(path)).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::super::Line;
    use super::super::handed::Flow;
    use super::super::values::Values;
    use super::*;

    /// Folders full of files.
    struct Many(Cell<usize>);

    impl Ground for Many {
        fn look(&self, _: &str) -> Place {
            Place::Folder
        }

        fn find(&self, _: &str, _: Reach, is_it: &(dyn Fn(&str) -> bool + Sync)) -> Option<String> {
            self.0.set(self.0.get() + 1);
            (0..20_000).map(|n| format!("{n}.txt")).find(|path| is_it(path))
        }
    }

    /// How many walks, and how much of the budget, a question about each command of a line takes.
    fn spent(line: &str) -> (usize, usize) {
        let (line, many) = (Line::read(line), Many(Cell::new(0)));
        let survey = Survey::new(&many);
        let is_it = |path: &str| path == ".env";
        let reach = Reach::Own;
        let values = Values::of(&line, &survey);
        let (ground, values) = (&survey, &values);
        let is_it = &is_it;
        let flow =
            Flow { line: &line, directory: "", ground, values, reach, is_it, goes_down: false };
        for n in 0..line.runs().len() {
            assert_eq!(flow.handed(n), None);
        }
        assert_eq!(flow.anything(), None);
        let spent = MOST - survey.left.get();
        (many.0.get(), spent)
    }

    #[test]
    fn values_that_are_made_of_themselves_are_followed_once() {
        let appends: String = (0..200).map(|n| format!("out=\"$out {n}\" ")).collect();
        let (walks, steps) = spent(&format!("{appends}; cat $out"));
        assert_eq!(walks, 0);
        assert!((200..100_000).contains(&steps), "{steps}");
        let words = "$f ".repeat(200);
        let (_, steps) = spent(&format!("for f in {words}; do cat $f; done"));
        assert!((1..1_000).contains(&steps), "{steps}");
    }

    #[test]
    fn a_folder_is_walked_once_and_compared_within_the_budget() {
        let words: String = (0..60).map(|n| format!("$(find . -name '{n}*') ")).collect();
        assert_eq!(spent(&format!("cat {words}")), (1, MOST));
        let folders: String = (0..200).map(|n| format!("$(find {n}) ")).collect();
        let (walks, steps) = spent(&format!("cat {folders}"));
        assert!(walks <= 26, "{walks}");
        assert_eq!(steps, MOST);
    }
}
