//! The rules that a pin amounts to, where it is certain which: a wrong rule is worse than none.
//!
//! A rule is made only of a sentence that says in full what is forbidden: a path, a tool or a command,
//! without a condition and without an exception. Everything else holds by its words.

use std::sync::LazyLock;

use regex::{Captures, Regex};

use super::any;
use super::object::{Named, Path};
use crate::protocol::speech::{Sentence, expression};

/// Commands that install what is named or listed.
const INSTALL: &[&str] = &[
    "npm install",
    "npm i",
    "pnpm install",
    "pnpm add",
    "yarn install",
    "yarn add",
    "bun install",
    "bun add",
    "pip install",
    "pip3 install",
    "python -m pip install",
    "python3 -m pip install",
    "uv add",
    "uv pip install",
    "poetry add",
    "poetry install",
    "cargo add",
    "cargo install",
    "go get",
    "go install",
    "gem install",
    "bundle add",
    "bundle install",
    "composer require",
    "composer install",
    "apt install",
    "apt-get install",
    "apk add",
    "dnf install",
    "brew install",
];
/// Commands that add a dependency to a project.
const ADD: &[&str] = &[
    "npm add",
    "pnpm add",
    "yarn add",
    "bun add",
    "uv add",
    "poetry add",
    "cargo add",
    "go get",
    "bundle add",
    "composer require",
];
/// Commands that run the migrations of a database.
const MIGRATE: &[&str] = &[
    "python manage.py migrate",
    "python3 manage.py migrate",
    "./manage.py migrate",
    "alembic upgrade",
    "flask db upgrade",
    "rails db:migrate",
    "bin/rails db:migrate",
    "rake db:migrate",
    "bundle exec rails db:migrate",
    "bundle exec rake db:migrate",
    "npx prisma migrate",
    "prisma migrate",
    "npx knex migrate:latest",
    "npx sequelize db:migrate",
    "npx typeorm migration:run",
    "php artisan migrate",
    "diesel migration run",
    "sqlx migrate run",
    "flyway migrate",
    "goose up",
    "dbmate up",
    "mix ecto.migrate",
];
const PUBLISH: &[&str] = &[
    "cargo publish",
    "npm publish",
    "pnpm publish",
    "yarn publish",
    "yarn npm publish",
    "poetry publish",
    "uv publish",
    "twine upload",
    "gem push",
];
const FORCE_PUSH: &[&str] = &["git push * --force*", "git push * -f", "git push * +*"];

/// Programs that a sentence may name without marking them as code.
const PROGRAMS: &str = "git|npm|npx|pnpm|yarn|bun|pip3?|uv|poetry|cargo|go|make|docker|docker-compose|podman|kubectl|helm|terraform|gh|aws|gcloud|sudo|curl|wget|ssh|scp|rsync|apt|apt-get|brew|systemctl|rm|sed|awk|chmod|chown|psql|mysql|redis-cli|bundle|rake|rails|php|composer|mvn|gradle|dotnet|just";

/// The rules of a sentence, as a person would write them with their verb in front: `deny Edit(tests/**)`.
/// `message` is all that was said with it: an exception may stand in another sentence.
pub(super) fn of(sentence: &Sentence, message: &[Sentence]) -> Vec<String> {
    let mut named = Named::of(unwrapped(&sentence.text));
    let asks;
    (named.form, asks) = asking(&named.form);
    if EXCEPT.is_match(&named.form) {
        return Vec::new();
    }
    let verb = if asks { "ask" } else { "deny" };
    let patterns =
        commands(&named).or_else(|| files(&named, sentence, message)).unwrap_or_default();
    patterns.into_iter().map(|pattern| format!("{verb} {pattern}")).collect()
}

/// Without the marks of Markdown around all of it.
fn unwrapped(text: &str) -> &str {
    let inner = |mark| text.strip_prefix(mark)?.strip_suffix(mark);
    ["**", "__", "*", "_"].into_iter().find_map(inner).unwrap_or(text)
}

/// The form without the words that make of a prohibition a demand to be asked, and whether it had any.
/// They are blanked out, so that places in the form stay what they were.
fn asking(form: &str) -> (String, bool) {
    static ASKING: LazyLock<Regex> = LazyLock::new(|| {
        any(&[
            r"\b(?:without|before) (?:first )?(?:asking|checking with|consulting|telling)(?: with)? ?(?:me|us)?(?: first)?",
            r"\bwithout (?:my|our|explicit|prior|an?) (?:\w+ )?(?:approval|permission|ok|okay|consent|confirmation|go-?ahead)",
            r"\bunless i (?:say|tell|ask|approve|allow|confirm|agree)[^,.;]*",
            r"\b(?:please )?(?:always )?(?:ask|check with|consult|confirm with|consult with) (?:me|us)(?: first)? before (?:you )?",
            r"^(?:please )?before",
            r", ?(?:please )?(?:always )?(?:ask|check with|consult|tell) (?:me|us)(?: first)?",
            r"未经我?的?(?:同意|允许|许可|批准|确认)[，,]?",
            r"没(?:有)?(?:经过)?我的?(?:同意|允许|批准|许可|确认)[，,]?",
            r"(?:之前|以前|前)[，,]?(?:请|先|要|必须|都|得|一定|务必)*(?:问|征求|告诉|通知|请示|跟|和|经过)(?:一下|过)?我.*$",
        ])
    });
    // Both halves of "before …, ask me" have to be there.
    let has_before = |text: &str| text.starts_with("before") || text.starts_with("please before");
    let found: Vec<_> = ASKING.find_iter(form).collect();
    let is_half =
        found.len() == 1 && (has_before(found[0].as_str()) || found[0].as_str().starts_with(','));
    if found.is_empty() || is_half {
        return (form.to_owned(), false);
    }
    let mut form = form.to_owned();
    for range in found.iter().map(regex::Match::range) {
        // The sign of blanks that ask: a gerund may follow it.
        let blank = format!("⟨{}", " ".repeat(range.len().saturating_sub('⟨'.len_utf8())));
        form.replace_range(range, &blank);
    }
    (form, true)
}

/// There is a condition or an exception.
static EXCEPT: LazyLock<Regex> = LazyLock::new(|| {
    any(&[
        r"\b(?:except|excepting|other than|apart from|aside from|besides|unless|if|when|whenever|while|else|only|outside|beyond|after|friday|weekends?|production|prod|(?:but|though) (?:you|it is|it's) (?:can|may|fine|ok|okay)?)\b",
        r"除",
        r"如果",
        r"要是",
        r"只",
        r"以外",
        r"否则",
        r"之后",
        r"但可以",
        r"生产",
    ])
});

/// How a prohibition begins.
const NOT: &str = r"(?:(?:^|[,;:–—-] |⟨ *|\b(?:please|and|but|so|then|also|now|just|absolutely|strictly|that|important|note|always|ever|you|we) )(?:do not|don't|dont|never)|\b(?:you|we) (?:must not|mustn't|may not|can't|cannot|can not|should not|shouldn't|should never|must never|are not allowed to|aren't allowed to)|\byou're not allowed to)(?: (?:ever|even|just|please|actually|you|also|again))*";
/// How it begins in Chinese.
const NOT_ZH: &str = r"(?:不要|别|请勿|切勿|勿|不许|不准|禁止|严禁|不得|不能|不可以|不允许|千万别|先别|先不要|绝不能)(?:再|去|直接|擅自|随意|随便|私自|自行|手动|自动|先|在任何情况下|任何时候)*\s*";
/// How a demand to be asked begins, behind the sign of its blanks.
const ASK: &str = r"⟨ *";
/// What may follow without taking anything back.
const END: &str = r"(?: (?:please|at all|ever|again|yet|for now|for the moment|right now|now|here|directly|by hand|manually|yourself|in this (?:task|session|pr|change|project|repo)|under any circumstances|no matter what|or (?:its|their) contents?|thanks))*(?:\s*⟨ *)?\s*(?:[.!…]*$|[,;:(–—]| - | because\b| since\b| as (?:it|they|this|that|we)\b| until i\b| and\b| but\b| so\b| they\b| it\b)";
const END_ZH: &str = r"\s*(?:了|哦|啊|吧|呢|先|⟨ *)*\s*(?:[。！!.…]*$|[，,；;（(：:])";

fn commands(named: &Named) -> Option<Vec<String>> {
    let form = named.form.as_str();
    if let Some((_, words)) = CLASSES.iter().find(|(says, _)| says.is_match(form)) {
        return Some(words.iter().map(|words| format!("Bash({words})")).collect());
    }
    if ANY_COMMAND.is_match(form) {
        return Some(vec!["Bash".to_owned()]);
    }
    if let Some(found) = TOOL.captures(form) {
        let tools =
            ["Bash", "Edit", "Glob", "Grep", "LS", "MultiEdit", "Read", "TodoWrite", "Write"];
        let name = &first(&found)?;
        return tools
            .iter()
            .find(|tool| tool.eq_ignore_ascii_case(name))
            .map(|tool| vec![(*tool).to_owned()]);
    }
    if let Some(found) = BRANCH.captures(form) {
        let branch = first(&found)?;
        return Some(vec![
            format!("Bash(git push * {branch})"),
            format!("Bash(git push * *:{branch})"),
        ]);
    }
    if let Some(found) = GIT.captures(form) {
        let rule = match first(&found)?.as_str() {
            "amend" => "Bash(git commit * --amend)".to_owned(),
            verb => format!("Bash(git {verb})"),
        };
        return Some(vec![rule]);
    }
    if let Some(found) = MARKED.find(form) {
        return command(named.command_at(found.start())?);
    }
    command(&first(&NAMED.captures(form)?)?)
}

/// The rule that forbids a command, where its words are all that it is.
fn command(words: &str) -> Option<Vec<String>> {
    const NO_ARGUMENTS: &[&str] = &[
        "on", "in", "to", "for", "with", "without", "by", "at", "from", "of", "until", "again",
        "or", "and", "the", "a", "any", "commands", "command", "scripts", "as", "anything", "that",
        "this", "is",
    ];
    // The dot behind a word ends the sentence; one that stands alone is an argument.
    let ends = words.ends_with('.') && !words.ends_with(" .") && !words.ends_with("..");
    let words = if ends { &words[..words.len() - 1] } else { words };
    let words: Vec<&str> = words.split_whitespace().collect();
    let is_plain = |word: &&str| {
        word.chars().all(|c| c.is_ascii_alphanumeric() || "_./:=@+-".contains(c))
            && !NO_ARGUMENTS.contains(word)
    };
    // A name with a bracket or a capital is a function or a type, no program.
    let is_program = words.first().is_some_and(|name| {
        name.starts_with(|c: char| c.is_ascii_lowercase() || c == '.') && words.len() < 7
    });
    let is_command = is_program && words.iter().all(is_plain);
    let is_certain = words.len() > 1
        || words.first().is_some_and(|name| PROGRAMS.split('|').any(|p| p == *name));
    let removes_all = matches!(words.as_slice(), ["rm", "-rf" | "-fr" | "-r"]);
    let words = if removes_all { "rm * -r*" } else { &words.join(" ") };
    let fr = removes_all.then(|| "Bash(rm * -fr*)".to_owned());
    let rules = std::iter::once(format!("Bash({words})")).chain(fr);
    (is_command && is_certain).then(|| rules.collect())
}

fn files(named: &Named, sentence: &Sentence, message: &[Sentence]) -> Option<Vec<String>> {
    // One tool speaks for all that do the same to a file.
    let (tool, list) = if let Some(found) = READS.captures(&named.form) {
        ("Read", found.name("list")?)
    } else {
        let found = CHANGES.iter().find_map(|form| form.captures(&named.form))?;
        ("Edit", found.name("list")?)
    };
    let paths = named.paths_in(list.range());
    let globs: Vec<Vec<String>> = paths.iter().map(Path::globs).collect();
    if paths.is_empty() || globs.iter().any(Vec::is_empty) {
        return None;
    }
    // Said with it: change something in there after all.
    let n_before = named.form[..list.start()].matches(super::object::PATH).count();
    let others = named.paths().iter().enumerate();
    let others = others.filter(|(n, _)| !(n_before..n_before + paths.len()).contains(n));
    let mut others: Vec<Path> = others.map(|(_, path)| path.clone()).collect();
    if !ALTERS.is_match(&named.form[..list.start()].replace("⟨", "")) {
        others.clear();
    }
    for other in message.iter().filter(|other| *other != sentence && !super::binds(other)) {
        let other = Named::of(&other.text);
        if ALTERS.is_match(&other.form) {
            others.extend_from_slice(other.paths());
        }
    }
    if others.iter().any(|other| paths.iter().any(|path| other.is_in(path))) {
        return None;
    }
    Some(globs.into_iter().flatten().map(|glob| format!("{tool}({glob})")).collect())
}

fn first(found: &Captures<'_>) -> Option<String> {
    found.iter().skip(1).flatten().next().map(|group| group.as_str().to_owned())
}

/// Something is to be changed.
static ALTERS: LazyLock<Regex> = LazyLock::new(|| {
    any(&[
        r"\b(?:fix|change|edit|update|modify|add|write|create|rename|refactor|implement|remove|delete|move|repair|rewrite|extend|touch)\b",
        r"修",
        r"改",
        r"写",
        r"加",
        r"更新",
        r"重构",
        r"删",
    ])
});

/// Paths as an object: "anything in § or the § folder".
fn list() -> String {
    let words = "any(?:thing)?|the|all|our|my|your|existing|generated|files?|code|sources?|stuff|of|in|under|inside|within|below|from|everything|whole|entire|contents?";
    let one = format!(r"(?:(?:{words}) )*§(?: (?:files?|folders?|director(?:y|ies)|dir|itself))?");
    format!(r"(?P<list>{one}(?:(?:, and|, or|,| and| or) {one})*)")
}

fn list_zh() -> String {
    let one = r"(?:任何|所有|这个)?\s*§\s*(?:这个)?(?:目录|文件夹|文件)?";
    format!(
        r"(?P<list>{one}(?:\s*(?:、|和|或者?|与|以及|跟)\s*{one})*)(?:\s*(?:下面?|里面?|中|内|之下|底下))?(?:的)?(?:任何|所有)?(?:东西|文件|代码|内容)?"
    )
}

static READS: LazyLock<Regex> = LazyLock::new(|| {
    let list = list();
    expression(&format!("{NOT} (?:ever )?(?:read|open) {list}{END}"))
});

static CHANGES: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    let list = list();
    let list_zh = list_zh();
    let verb = "(?:touch|change|modify|edit|alter|write (?:to|in|into)|overwrite|update)";
    let verbs = format!("{verb}(?:(?:,| or| and|/) ?(?:{verb}|delete|remove|rename|move))*");
    let gerund = "(?:touching|changing|modifying|editing|altering|writing (?:to|in|into)|overwriting|updating)";
    let done = "(?:touched|changed|modified|edited|altered|overwritten|updated|written to)";
    let verb_zh = "(?:修改|改动|更改|变更|编辑|改写|改|动|碰|触碰|覆盖|写入)";
    [
        format!("{NOT} {verbs} {list}{END}"),
        format!("{ASK}(?:{gerund}|{verbs}) {list}{END}"),
        format!(r"(?:^|[,;] |\b(?:and|but|please) )(?:try to )?(?:avoid|refrain from|stop) (?:any )?(?:{gerund}|(?:making )?changes (?:to|in)) {list}{END}"),
        format!(r"(?:^|[,;] |\b(?:and|but|please|make) )no (?:changes|edits|modifications) (?:to|in) {list}{END}"),
        format!(r"^.*\bwithout (?:ever )?{gerund} {list}{END}"),
        format!(r"(?:^|[,;] |\b(?:and|but|please) )(?:leave|keep) {list} (?:alone|untouched|unchanged|as (?:it is|is|they are)|exactly as (?:it is|they are)){END}"),
        format!(r"(?:^|[,;] |\b(?:and|but|please) )(?:keep your |keep )?(?:hands off|stay out of|stay away from|keep out of|stay clear of) {list}{END}"),
        format!(r"(?:^|[,;] |\b(?:and|but) ){list} (?:is|are) (?:strictly |absolutely )?(?:off[- ]limits|not to be {done}|untouchable){END}"),
        format!(r"(?:^|[,;] |\b(?:and|but) ){list} (?:must|may|should|shall|can) (?:not|never) be {done}{END}"),
        format!(r"^nothing (?:in|under|inside|below|within) {list} (?:may|must|should|shall|can|is to|gets?) (?:ever )?(?:be )?{done}{END}"),
        format!("{NOT_ZH}{verb_zh}\\s*{list_zh}{END_ZH}"),
        format!("(?:^|[，,；;])\\s*{list_zh}\\s*(?:都|也|一律|绝对|千万)*{NOT_ZH}{verb_zh}{END_ZH}"),
        format!("(?:^|[，,；;])\\s*(?:请)?(?:保持)\\s*{list_zh}\\s*(?:不变|原样|不动){END_ZH}"),
        format!("(?:^|[，,；;])\\s*(?:在)?{verb_zh}\\s*{list_zh}\\s*⟨"),
    ]
    .iter()
    .map(|text| expression(text))
    .collect()
});

/// What commands are called where none is named.
static CLASSES: LazyLock<Vec<(Regex, &[&str])>> = LazyLock::new(|| {
    let class = |says: String, words| (expression(&says), words);
    vec![
        class(
            format!(
                "(?:{NOT} install|{ASK}(?:installing|install)) (?:any |new |more |other |extra |additional |further |third[- ]party |external )*(?:packages?|dependenc(?:y|ies)|librar(?:y|ies)|deps|modules|software|anything){END}|{NOT_ZH}(?:安装|装)(?:任何|新的?|其他的?|其它的?|额外的?|第三方|别的|的)*(?:依赖|包|库|软件包?|模块|东西|依赖包|第三方库){END_ZH}|(?:安装|装)(?:任何|新的?|第三方|的)*(?:依赖|包|库|软件包?)⟨"
            ),
            INSTALL,
        ),
        class(
            format!(
                "{NOT} add (?:any |new |more |other |extra |additional |further |third[- ]party |external )*(?:packages|dependenc(?:y|ies)|librar(?:y|ies)|deps){END}"
            ),
            ADD,
        ),
        class(
            format!(
                "(?:{NOT} (?:run|execute|apply|start)|{ASK}(?:you )?(?:running|run|executing|applying|starting)) (?:any |the |a |database |db |new |more |schema )*migrations?{END}|{NOT_ZH}(?:运行|执行|跑|做)(?:任何)?(?:数据库)?的?迁移(?:脚本)?{END_ZH}|(?:运行|执行|跑|做)(?:任何)?(?:数据库)?的?迁移(?:脚本)?⟨"
            ),
            MIGRATE,
        ),
        class(
            format!(
                "(?:{NOT} publish|{ASK}(?:publishing|publish))(?: (?:anything|it|this|the (?:package|crate)|any (?:packages?|crates?)))?{END}|{NOT_ZH}发布(?:任何)?(?:包|东西)?{END_ZH}"
            ),
            PUBLISH,
        ),
        class(
            format!(
                "(?:{NOT} force[- ]push|{ASK}force[- ]pushing)(?: (?:anything|it))?{END}|(?:^|[,;] )(?:please |absolutely )?no force[- ]push(?:es|ing)?{END}|{NOT_ZH}(?:强推|强制推送|force push){END_ZH}"
            ),
            FORCE_PUSH,
        ),
        class(
            format!(
                "(?:{NOT} (?:git )?push|{ASK}(?:pushing|push))(?: (?:anything|it|this|that|them|commits?|code|changes|any (?:commits|changes|code)|your (?:changes|work|commits)|the (?:changes|branch|commits|code)))?(?: (?:to|up to) (?:the )?(?:remote|origin|upstream|github|gitlab|server))?{END}|{NOT_ZH}(?:git )?(?:推送|push)(?:代码|任何东西|到远程|到远端|上去|到远程仓库)?{END_ZH}|(?:推送|push)(?:代码)?⟨"
            ),
            &["git push"],
        ),
        class(
            format!(
                "(?:{NOT} (?:git )?commit|{ASK}(?:committing|commit))(?: (?:anything|it|this|that|them|any changes|changes|any code|your (?:changes|work)|the (?:changes|code)))?{END}|{NOT_ZH}(?:git )?(?:提交|commit)(?:代码|任何东西|任何改动|任何修改|改动)?{END_ZH}|(?:提交|commit)(?:代码|改动)?⟨"
            ),
            &["git commit"],
        ),
    ]
});
static ANY_COMMAND: LazyLock<Regex> = LazyLock::new(|| {
    expression(&format!(
        "{NOT} (?:run|execute|use) (?:any )?(?:shell |bash |terminal )?commands?{END}|{NOT_ZH}(?:运行|执行|跑)(?:任何)?(?:shell |终端)?命令{END_ZH}"
    ))
});
static TOOL: LazyLock<Regex> = LazyLock::new(|| {
    expression(&format!(
        "{NOT} (?:use|call) (?:the )?(bash|edit|glob|grep|ls|multiedit|read|todowrite|write) tool{END}|{NOT_ZH}(?:使用|用|调用)\\s*(bash|edit|glob|grep|ls|multiedit|read|todowrite|write)\\s*工具{END_ZH}"
    ))
});
static BRANCH: LazyLock<Regex> = LazyLock::new(|| {
    expression(&format!(
        "{NOT} push (?:\\w+ )?(?:directly |straight )?to (?:the )?(main|master|develop|trunk|production|release)(?: branch)?{END}|{NOT_ZH}(?:推送|push)(?:代码)?到\\s*(main|master|develop|trunk|release)\\s*(?:分支|上)?{END_ZH}"
    ))
});
static GIT: LazyLock<Regex> = LazyLock::new(|| {
    expression(&format!(
        "(?:{NOT} (?:git )?|{ASK})(rebase|stash|amend|cherry-pick)(?: (?:anything|commits?|any commits|the (?:branch|commits?)))?{END}"
    ))
});
static MARKED: LazyLock<Regex> = LazyLock::new(|| {
    expression(&format!(
        "(?:{NOT} (?:run|execute|use|call|invoke|do)|{ASK}(?:you )?(?:running|run|executing|using|use|calling))(?: the command)? ¤{END}|{NOT_ZH}(?:运行|执行|跑|使用|用|调用)\\s*¤\\s*(?:这个)?(?:命令)?{END_ZH}|(?:运行|执行|跑|使用|用)\\s*¤\\s*(?:命令)?⟨"
    ))
});
static NAMED: LazyLock<Regex> = LazyLock::new(|| {
    expression(&format!(
        "(?:{NOT} (?:run|execute|use|call|invoke)|{ASK}(?:you )?(?:running|run|executing|using|use)) ((?:{PROGRAMS})(?: [\\w:./=@-]+){{0,4}}?){END}|{NOT_ZH}(?:运行|执行|跑|使用|用)\\s*((?:{PROGRAMS})(?: [\\w:./=@-]+){{0,4}}?){END_ZH}"
    ))
});

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::speech::sentences;

    fn rules(message: &str) -> Vec<String> {
        let sentences = sentences(message);
        let binding = sentences.iter().filter(|sentence| crate::context::binds(sentence));
        binding.flat_map(|sentence| of(sentence, &sentences)).collect()
    }

    fn files(verb: &str, globs: &[&str]) -> Vec<String> {
        globs.iter().map(|glob| format!("{verb} Edit({glob})")).collect()
    }

    #[test]
    fn a_pin_that_names_a_path_is_a_rule() {
        for (message, verb, globs) in [
            ("Don't touch tests/", "deny", &["tests/**"][..]),
            ("please don't modify anything under vendor/", "deny", &["vendor/**"]),
            ("Fix it, but don't edit `src/a.rs` or src/b.rs.", "deny", &["src/a.rs", "src/b.rs"]),
            ("Fix the bug without touching migrations/.", "deny", &["migrations/**"]),
            ("Never change the migrations folder, it is generated", "deny", &["**/migrations/**"]),
            ("You must not change Cargo.lock", "deny", &["Cargo.lock"]),
            ("Don't edit @src/a.rs", "deny", &["src/a.rs", "@src/a.rs"]),
            ("Please avoid editing src/a.rs", "deny", &["src/a.rs"]),
            ("Fix it, but refrain from changing src/a.rs.", "deny", &["src/a.rs"]),
            ("Stop editing src/a.rs!", "deny", &["src/a.rs"]),
            ("No changes to Cargo.lock please", "deny", &["Cargo.lock"]),
            ("**Don't edit src/a.rs.**", "deny", &["src/a.rs"]),
            ("Leave Cargo.lock untouched.", "deny", &["Cargo.lock"]),
            ("Hands off infra/, a/ and b/c.", "deny", &["infra/**", "a/**", "b/c", "b/c/**"]),
            ("docs/ is off limits", "deny", &["docs/**"]),
            ("`schema.sql` must not be changed!", "deny", &["schema.sql"]),
            ("Nothing in infra/ may be changed without my approval.", "ask", &["infra/**"]),
            ("Ask me before changing src/api/", "ask", &["src/api/**"]),
            ("Don't edit ci.yml unless I tell you to", "ask", &["ci.yml"]),
            ("Before touching deploy/, ask me.", "ask", &["deploy/**"]),
            ("Don’t touch tests/ until I say so", "deny", &["tests/**"]),
            ("不要修改 migrations/ 目录", "deny", &["migrations/**"]),
            ("别动migrations目录", "deny", &["**/migrations/**"]),
            ("不要改 src/api 里的代码。", "deny", &["src/api", "src/api/**"]),
            ("修复登录，但不要碰 a.rs 和 b.rs。", "deny", &["a.rs", "b.rs"]),
            ("package.json 不要动", "deny", &["package.json"]),
            ("未经我同意不要修改 infra/", "ask", &["infra/**"]),
            ("修改 infra/ 之前先问我", "ask", &["infra/**"]),
        ] {
            assert_eq!(rules(message), files(verb, globs), "{message}");
        }
        assert_eq!(rules("Never read secrets/"), ["deny Read(secrets/**)"]);
    }

    #[test]
    fn a_pin_that_names_a_command_or_a_tool_is_a_rule() {
        for (message, expected) in [
            ("never run git push", &["deny Bash(git push)"][..]),
            ("Don't push yet.", &["deny Bash(git push)"]),
            ("Don't push anything, please", &["deny Bash(git push)"]),
            ("Fix it but don't commit.", &["deny Bash(git commit)"]),
            ("Never run `terraform apply`!", &["deny Bash(terraform apply)"]),
            ("do not run npm install", &["deny Bash(npm install)"]),
            ("Do not run make paint.", &["deny Bash(make paint)"]),
            ("Never run `git add .`", &["deny Bash(git add .)"]),
            ("Don't use sudo.", &["deny Bash(sudo)"]),
            ("never use rm -rf", &["deny Bash(rm * -r*)", "deny Bash(rm * -fr*)"]),
            (
                "Never push to main.",
                &["deny Bash(git push * main)", "deny Bash(git push * *:main)"],
            ),
            ("Don't use the Bash tool.", &["deny Bash"]),
            ("Don't run any commands.", &["deny Bash"]),
            ("Don't commit without asking me", &["ask Bash(git commit)"]),
            ("不要运行 npm install", &["deny Bash(npm install)"]),
            ("不许用 sudo", &["deny Bash(sudo)"]),
            ("未经我同意不要提交代码", &["ask Bash(git commit)"]),
            ("先别推送", &["deny Bash(git push)"]),
            (
                "千万不要直接推送到 main 分支",
                &["deny Bash(git push * main)", "deny Bash(git push * *:main)"],
            ),
        ] {
            assert_eq!(rules(message), expected, "{message}");
        }
        for (message, verb, one) in [
            ("do not install packages", "deny", "Bash(npm install)"),
            ("do not install any new packages", "deny", "Bash(cargo add)"),
            ("Ask me before running migrations.", "ask", "Bash(rails db:migrate)"),
            ("ask me before you run any database migrations", "ask", "Bash(alembic upgrade)"),
            ("运行数据库迁移前先问我。", "ask", "Bash(alembic upgrade)"),
            ("禁止安装新的依赖。", "deny", "Bash(npm install)"),
            ("Don't ever force push.", "deny", "Bash(git push * -f)"),
        ] {
            let rules = rules(message);
            assert!(rules.contains(&format!("{verb} {one}")), "{message}: {rules:?}");
        }
    }

    #[test]
    fn what_is_not_certain_is_no_rule() {
        for message in [
            "Don't touch the tests.",
            "Don't change anything outside src/",
            "Only touch src/parser.rs.",
            "Don't edit src/ except src/a.rs",
            "Don't touch src/ if the tests pass",
            "Fix src/a.rs but don't touch src/",
            "Fix tests/a.rs. Don't touch tests/.",
            "Never commit secrets or tokens",
            "Users must not edit config.toml",
            "Don't use Bash, write it in Python",
            "Never run the tests on production",
            "Don't push on Fridays",
            "don't use `unwrap()` in src/",
            "Don't use `Vec` here",
            "Never log to src/log.txt",
            "Don't change the format of Cargo.toml",
            "Don't delete src/a.rs",
            "Don't add comments to src/a.rs",
            "Don't touch app/[id]/page.tsx",
            "Don't touch /etc/hosts",
            "除了 docs/ 以外的文件都不要改",
            "只能改 src/parser.rs。",
            "不要改变 src/a.rs 的行为",
            "No new dependencies please",
            "Avoid editing src/a.rs if you can",
            "Avoid changing the format of Cargo.toml",
        ] {
            assert_eq!(rules(message), [""; 0], "{message}");
        }
    }
}
