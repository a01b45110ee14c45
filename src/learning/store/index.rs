//! Items in the database: written with their words, found again by them, learnt.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension as _, Row, Rows, params};
use serde_json::Value;

use super::near::{says_the_same, strengthen, tells_why};
use super::search::{Collection, Idea, Standing, Terms, words_of};
use super::{Found, Learned, Query};
use crate::learning::item::{self, Fix, Item, Origin, Scope};
use crate::protocol::recall::ItemKind;

/// So many items are scored at most: those with a query's rarest words, then those with most of its others.
const MAX_CANDIDATES: usize = 400;
/// So many of the query's common words are asked for together.
const MAX_COMMON: usize = 4;
/// So many neighbours of a new item are looked at for one that says the same.
const NEIGHBOURS: usize = 24;
/// The entry that counts the words of all items.
const ALL_WORDS: &str = "@words";

/// An item's text, as its row holds it.
pub(super) fn parse(id: &str, body: &str) -> rusqlite::Result<Item> {
    serde_json::from_str(body).map_err(|error| {
        let reason = format!("item {id}: {error}; `agent memory forget {id}` takes it out");
        rusqlite::Error::FromSqlConversionFailure(1, Type::Text, reason.into())
    })
}

/// For rows of `id, body`.
pub(super) fn from_row(row: &Row<'_>) -> rusqlite::Result<Item> {
    let (id, body): (String, String) = (row.get(0)?, row.get(1)?);
    parse(&id, &body)
}

/// How a scope stands in its column; no identity is empty.
pub(super) fn column(scope: &Scope) -> &str {
    match scope {
        Scope::Project(identity) => identity,
        Scope::User => "",
    }
}

/// A mark among the words: no word begins like this.
fn scope_mark(identity: &str) -> String {
    match identity {
        "" => "@user".to_owned(),
        identity => format!("@{}", &blake3::hash(identity.as_bytes()).to_hex()[..16]),
    }
}

fn kind_mark(kind: ItemKind) -> &'static str {
    match kind {
        ItemKind::Rule => "@rule",
        ItemKind::Pattern => "@pattern",
        ItemKind::FailurePattern => "@failure_pattern",
    }
}

/// Learns an item: the one that says the same already becomes stronger, else it is new.
///
/// One that another project knows is of use in both, and becomes the user's, unless it is about one path or script, or
/// a person has said where it holds. What a folder that is not trusted teaches meets only what is known in its scope.
pub(super) fn learn(db: &Connection, item: &Item, is_untrusted: bool) -> rusqlite::Result<Learned> {
    let Some(mut known) = find_known(db, item, is_untrusted)? else {
        write(db, item)?;
        return Ok(Learned::New);
    };
    let holds_here = known.scope == item.scope || known.scope == Scope::User;
    // Of just this id, and moved to where it is by a person.
    if holds_here || known.origin == Origin::User {
        strengthen(&mut known, item);
    } else {
        // The other project may be one that nobody trusts: its words and its successes are not taken on trust.
        let mut users = Item { id: known.id.clone(), scope: Scope::User, ..item.clone() };
        known = Item { wins: known.wins.min(1), failure: None, because: None, ..known };
        strengthen(&mut users, &known);
        known = users;
    }
    write(db, &known)?;
    Ok(Learned::Known(known.id))
}

fn find_known(db: &Connection, item: &Item, is_untrusted: bool) -> rusqlite::Result<Option<Item>> {
    if let Some(known) = by_id(db, &item.id)? {
        return Ok(Some(known));
    }
    let mut near = neighbours(db, item)?;
    near.retain(|known| says_the_same(known, item));
    let rank = |known: &Item| match (&known.scope, &item.scope) {
        (one, other) if one == other => Some(0),
        _ if is_untrusted => None,
        (Scope::User, Scope::Project(_)) => Some(1),
        (Scope::Project(_), _) if !is_local(known) && !is_local(item) => Some(2),
        (Scope::Project(_) | Scope::User, _) => None,
    };
    Ok(near
        .into_iter()
        .filter_map(|known| Some((rank(&known)?, known)))
        .min_by_key(|(rank, _)| *rank)
        .map(|(_, known)| known))
}

/// It means something only where it was learnt: it is about a path, or a script of the project, or a person has said
/// where it holds.
fn is_local(item: &Item) -> bool {
    let Some(failure) = &item.failure else { return item.origin == Origin::User };
    let names_a_script = |line: &str| line.split_whitespace().any(is_script);
    let fix_does = match &failure.fix {
        Some(Fix::ReplaceWords { from, to }) => names_a_script(from) || names_a_script(to),
        Some(Fix::Prefix { with: line } | Fix::RunFirst { command: line }) => names_a_script(line),
        Some(Fix::SetArguments { input } | Fix::OtherTool { input, .. }) => {
            input.values().filter_map(Value::as_str).any(names_a_script)
        }
        Some(Fix::ReplacePath { .. }) => true,
        Some(Fix::RenameArgument { .. }) | None => false,
    };
    let head = failure.when.command_head.as_deref();
    let is_of_place = failure.when.path.is_some() || fix_does || head.is_some_and(names_a_script);
    // What a check wants is this project's way.
    let is_way = failure.when.leads_to.is_some();
    is_of_place || is_way || item.origin == Origin::User
}

/// `./gen.sh`, `tools/lint`, `run.py`.
fn is_script(word: &str) -> bool {
    const ENDINGS: [&str; 11] =
        ["sh", "bash", "zsh", "py", "js", "mjs", "ts", "rb", "pl", "php", "ps1"];
    let ending = word.rsplit_once('.').map(|(_, ending)| ending);
    word.contains('/') || ending.is_some_and(|ending| ENDINGS.contains(&ending))
}

/// Items that may say the same: those of the same condition, and those with the most words in common.
fn neighbours(db: &Connection, item: &Item) -> rusqlite::Result<Vec<Item>> {
    let mut found = Vec::new();
    if let Some(condition) = condition(item) {
        let mut select = db.prepare_cached(
            "SELECT id, body FROM items JOIN bodies USING (n) WHERE condition = ?1 LIMIT 24",
        )?;
        for known in select.query_map([condition], from_row)? {
            found.push(known?);
        }
    }
    let query = Query {
        text: item.text.clone(),
        kinds: vec![item.kind],
        limit: NEIGHBOURS,
        now_ms: item.last_occurred_ms,
        ..Query::default()
    };
    let by_words = best_of(db, &query, Among::All)?;
    found.extend(by_words.into_iter().map(|found| found.item));
    Ok(found)
}

fn condition(item: &Item) -> Option<String> {
    let when = &item.failure.as_ref()?.when;
    if tells_why(when) { serde_json::to_string(when).ok() } else { None }
}

/// The item of just this id.
pub(super) fn by_id(db: &Connection, id: &str) -> rusqlite::Result<Option<Item>> {
    db.prepare_cached("SELECT id, body FROM items JOIN bodies USING (n) WHERE id = ?1")?
        .query_row([id], from_row)
        .optional()
}

/// Writes an item and its words, over what stood there.
pub(super) fn write(db: &Connection, item: &Item) -> rusqlite::Result<()> {
    let mut found_by = words_of(item);
    let n_words = found_by.len();
    found_by.extend([kind_mark(item.kind).to_owned(), scope_mark(column(&item.scope))]);
    let words = found_by.join(" ");
    let old: Option<(i64, String)> = db
        .prepare_cached("SELECT n, words FROM items WHERE id = ?1")?
        .query_row([&item.id], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let body = serde_json::to_string(item)
        .map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))?;
    let kind = &kind_mark(item.kind)[1..];
    db.prepare_cached(
        "INSERT INTO items (id, scope, kind, wins, losses, last_occurred_ms, is_in_use, words, condition)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
         ON CONFLICT (id) DO UPDATE SET scope = ?2, kind = ?3, wins = ?4, losses = ?5, last_occurred_ms = ?6, is_in_use = ?7,
             words = ?8, condition = ?9",
    )?
    .execute(params![item.id, column(&item.scope), kind, item.wins, item.losses, item.last_occurred_ms, item.is_in_use(), words, condition(item)])?;
    let n: i64 = db
        .prepare_cached("SELECT n FROM items WHERE id = ?1")?
        .query_row([&item.id], |row| row.get(0))?;
    db.prepare_cached("INSERT OR REPLACE INTO bodies (n, body) VALUES (?1, ?2)")?
        .execute(params![n, body])?;
    if let Some((_, old)) = old {
        if old == words {
            return Ok(());
        }
        unindex(db, n, &old)?;
    }
    db.prepare_cached("INSERT INTO item_words (rowid, words) VALUES (?1, ?2)")?
        .execute(params![n, words])?;
    let mut count = db.prepare_cached(
        "INSERT INTO words (word, n) VALUES (?1, ?2) ON CONFLICT (word) DO UPDATE SET n = n + ?2",
    )?;
    for word in found_by.iter().collect::<BTreeSet<_>>() {
        count.execute(params![word, 1])?;
    }
    count.execute(params![ALL_WORDS, i64::try_from(n_words).unwrap_or(i64::MAX)])?;
    Ok(())
}

/// Takes an item out; false where there was none.
pub(super) fn erase(db: &Connection, id: &str) -> rusqlite::Result<bool> {
    let old: Option<(i64, String)> = db
        .prepare_cached("SELECT n, words FROM items WHERE id = ?1")?
        .query_row([id], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let Some((n, words)) = old else { return Ok(false) };
    unindex(db, n, &words)?;
    db.prepare_cached("DELETE FROM items WHERE n = ?1")?.execute([n])?;
    db.prepare_cached("DELETE FROM bodies WHERE n = ?1")?.execute([n])?;
    Ok(true)
}

/// Brings the index into one piece, which is quicker to read.
pub(super) fn tidy(db: &Connection) -> rusqlite::Result<()> {
    db.execute("INSERT INTO item_words (item_words) VALUES ('optimize')", []).map(drop)
}

fn unindex(db: &Connection, n: i64, words: &str) -> rusqlite::Result<()> {
    db.prepare_cached("DELETE FROM item_words WHERE rowid = ?1")?.execute([n])?;
    let n_words = words.split(' ').filter(|word| !word.starts_with('@')).count();
    let mut count = db.prepare_cached("UPDATE words SET n = n - ?2 WHERE word = ?1")?;
    let mut clear = db.prepare_cached("DELETE FROM words WHERE word = ?1 AND n <= 0")?;
    for word in words.split(' ').collect::<BTreeSet<_>>() {
        count.execute(params![word, 1])?;
        clear.execute([word])?;
    }
    count.execute(params![ALL_WORDS, i64::try_from(n_words).unwrap_or(i64::MAX)])?;
    Ok(())
}

/// The best matches that are in use.
pub(super) fn search(db: &Connection, query: &Query) -> rusqlite::Result<Vec<Found>> {
    best_of(db, query, Among::InUse)
}

/// Which items are looked at.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Among {
    All,
    InUse,
}

/// A row that was scored: its number, score and relevance.
type Scored = (i64, f64, f64);

fn best_of(db: &Connection, query: &Query, among: Among) -> rusqlite::Result<Vec<Found>> {
    let mut frequency = HashMap::new();
    let mut select = db.prepare_cached("SELECT n FROM words WHERE word = ?1")?;
    let mut count = |word: &str| -> rusqlite::Result<u64> {
        let n: Option<i64> = select.query_row([word], |row| row.get(0)).optional()?;
        Ok(n.and_then(|n| u64::try_from(n).ok()).unwrap_or(0))
    };
    for word in Terms::asked(&query.text) {
        let n = count(&word)?;
        frequency.insert(word, n);
    }
    let mut n_items = 0;
    for kind in [ItemKind::Rule, ItemKind::Pattern, ItemKind::FailurePattern] {
        n_items += count(kind_mark(kind))?;
    }
    let collection = Collection { n_items, n_words: count(ALL_WORDS)? };
    let terms = Terms::new(&query.text, collection, &frequency);
    let mut candidates =
        Candidates { db, terms, query, bounds: bounds(query), among, scored: BTreeMap::new() };
    candidates.gather()?;
    let mut best: Vec<Scored> = candidates
        .scored
        .into_iter()
        .map(|(n, (score, relevance))| (n, score, relevance))
        .collect();
    // Of equal ones the newer first.
    best.sort_unstable_by(|one, other| other.1.total_cmp(&one.1).then(other.0.cmp(&one.0)));
    best.truncate(query.limit);
    let mut select =
        db.prepare_cached("SELECT id, body FROM items JOIN bodies USING (n) WHERE n = ?1")?;
    let mut found = Vec::with_capacity(best.len());
    for (n, score, relevance) in best {
        found.push(Found { item: select.query_row([n], from_row)?, score, relevance });
    }
    Ok(found)
}

/// The marks that an item must have, as the index is asked for them.
fn bounds(query: &Query) -> String {
    let mut bounds = String::new();
    if let Some(project) = &query.project {
        bounds.push_str(&format!(" AND (\"@user\" OR \"{}\")", scope_mark(project)));
    }
    if !query.kinds.is_empty() {
        let kinds: Vec<String> =
            query.kinds.iter().map(|kind| format!("\"{}\"", kind_mark(*kind))).collect();
        bounds.push_str(&format!(" AND ({})", kinds.join(" OR ")));
    }
    bounds
}

/// All that hold one of these words, and the newest that hold all of them.
const RARE: &str =
    "SELECT items.n, items.words, wins, losses, last_occurred_ms, is_in_use, scope, kind
     FROM item_words JOIN items ON items.n = item_words.rowid WHERE item_words MATCH ?1";
const COMMON: &str =
    "SELECT items.n, items.words, wins, losses, last_occurred_ms, is_in_use, scope, kind
     FROM item_words JOIN items ON items.n = item_words.rowid WHERE item_words MATCH ?1
     ORDER BY item_words.rowid DESC LIMIT ?2";

/// The items that are scored.
struct Candidates<'a> {
    db: &'a Connection,
    terms: Terms,
    query: &'a Query,
    bounds: String,
    among: Among,
    scored: BTreeMap<i64, (f64, f64)>,
}

impl Candidates<'_> {
    /// Gathers them by the query's words, the rarest first: what holds only words that are everywhere can not be
    /// among the best while others hold a rare one; so common words count in the score, and choose only together.
    fn gather(&mut self) -> rusqlite::Result<()> {
        let known: Vec<Idea> = self.terms.known().into_iter().cloned().collect();
        let mut n_seen = 0;
        let n_rare = known
            .iter()
            .take_while(|idea| {
                n_seen += idea.n_items;
                n_seen <= MAX_CANDIDATES as u64
            })
            .count();
        let (rare, common) = known.split_at(n_rare);
        let db = self.db;
        if !rare.is_empty() {
            // These are so few that it is quicker to look whose they are than to ask the index for that, too.
            let mut select = db.prepare_cached(RARE)?;
            self.add(select.query([joined(rare, " OR ")])?)?;
        }
        let mut n_together = [MAX_COMMON, 2, 1].map(|n| n.min(common.len())).to_vec();
        n_together.dedup();
        for n in n_together {
            let left = MAX_CANDIDATES.saturating_sub(self.scored.len());
            if n == 0 || left == 0 {
                break;
            }
            let expression = format!("{}{}", joined(&common[..n], " AND "), self.bounds);
            let mut select = db.prepare_cached(COMMON)?;
            self.add(select.query(params![expression, i64::try_from(left).unwrap_or(i64::MAX)])?)?;
        }
        Ok(())
    }

    /// Scores what the index found.
    fn add(&mut self, mut rows: Rows<'_>) -> rusqlite::Result<()> {
        while let Some(row) = rows.next()? {
            let n: i64 = row.get(0)?;
            let is_wanted = self.among == Among::All || row.get(5)?;
            if !is_wanted || self.scored.contains_key(&n) || !self.is_within(row)? {
                continue;
            }
            let confidence = item::confidence(row.get(2)?, row.get(3)?);
            let standing = Standing { confidence, last_occurred_ms: row.get(4)? };
            let words = row.get_ref(1)?.as_str()?;
            let words = words.split(' ').filter(|word| !word.starts_with('@'));
            let (score, relevance) = self.terms.score(words, standing, self.query.now_ms);
            if score > 0.0 {
                self.scored.insert(n, (score, relevance));
            }
        }
        Ok(())
    }

    /// The row's item is of a scope and a kind that are asked for.
    fn is_within(&self, row: &Row<'_>) -> rusqlite::Result<bool> {
        let (scope, kind) = (row.get_ref(6)?.as_str()?, row.get_ref(7)?.as_str()?);
        let project = self.query.project.as_deref();
        let kinds = &self.query.kinds;
        Ok(project.is_none_or(|project| scope.is_empty() || scope == project)
            && (kinds.is_empty() || kinds.iter().any(|wanted| kind_mark(*wanted)[1..] == *kind)))
    }
}

/// Ideas as an expression of the index.
fn joined(ideas: &[Idea], operator: &str) -> String {
    let any = |idea: &Idea| {
        let words: Vec<String> = idea.words.iter().map(|word| format!("\"{word}\"")).collect();
        format!("({})", words.join(" OR "))
    };
    ideas.iter().map(any).collect::<Vec<_>>().join(operator)
}
