//! Other names of what programs are told to do: `helm del` is `helm uninstall`, `npm publ` is `npm publish`.
//!
//! What a rule forbids, or asks about, it forbids by each of them. What it allows it allows as it is written.

/// Words behind a program that mean the same; the programs, and then each row. An empty program: the rows name theirs.
const SAME: &[(&[&str], &[&[&str]])] = &[
    (
        &[""],
        &[
            &["docker compose", "docker-compose"],
            &["podman compose", "podman-compose"],
            &["make", "gmake"],
            &["apt", "apt-get"],
            &["pip", "pip3", "python -m pip", "python3 -m pip"],
            &["gradle", "gradlew"],
            &["mvn", "mvnw"],
        ],
    ),
    (
        &["git"],
        &[
            &["push", "send-pack", "http-push"],
            &["fetch", "fetch-pack", "http-fetch"],
            &["commit", "commit-tree"],
        ],
    ),
    (
        &["npm"],
        &[
            &["install", "add", "i", "in", "ins", "inst", "insta", "instal", "isntall"],
            &["uninstall", "unlink", "remove", "rm", "r", "un"],
            &["run", "run-script", "rum", "urn"],
            &["exec", "x"],
            &["test", "t", "tst", "run test", "run-script test"],
            &["start", "run start", "run-script start"],
            &["stop", "run stop", "run-script stop"],
            &["restart", "run restart", "run-script restart"],
            &["update", "up", "upgrade", "udpate"],
            &["login", "adduser", "add-user"],
            &["ci", "clean-install", "ic", "install-clean", "isntall-clean"],
            &["config", "c"],
            &["config set", "c set", "set"],
            &["init", "create", "innit"],
            &["view", "v", "info", "show"],
            &["search", "s", "se", "find"],
            &["rebuild", "rb"],
            &["link", "ln"],
            &["owner", "author"],
            &["dist-tag", "dist-tags"],
            &["dedupe", "ddp"],
            &["version", "verison"],
            &["list", "ls", "la", "ll"],
        ],
    ),
    (
        &["pnpm"],
        &[
            &["install", "i"],
            &["remove", "rm", "uninstall", "un"],
            &["update", "up", "upgrade"],
            &["run", "run-script"],
            &["test", "t", "run test"],
        ],
    ),
    (&["yarn"], &[&["publish", "npm publish"], &["test", "run test"]]),
    (
        &["cargo"],
        &[
            &["build", "b"],
            &["check", "c"],
            &["doc", "d"],
            &["test", "t"],
            &["run", "r"],
            &["remove", "rm"],
        ],
    ),
    (
        &["docker", "podman", "nerdctl"],
        &[
            &["push", "image push", "build * --push", "buildx build * --push"],
            &["pull", "image pull"],
            &["build", "image build", "buildx build", "buildx b", "builder build"],
            &["rmi", "image rm", "image remove"],
            &["images", "image ls", "image list"],
            &["save", "image save"],
            &["load", "image load"],
            &["import", "image import"],
            &["tag", "image tag"],
            &["rm", "container rm", "container remove"],
            &["ps", "container ls", "container ps", "container list"],
            &["attach", "container attach"],
            &["commit", "container commit"],
            &["cp", "container cp"],
            &["create", "container create"],
            &["exec", "container exec"],
            &["export", "container export"],
            &["kill", "container kill"],
            &["logs", "container logs"],
            &["pause", "container pause"],
            &["rename", "container rename"],
            &["restart", "container restart"],
            &["run", "container run"],
            &["start", "container start"],
            &["stop", "container stop"],
            &["update", "container update"],
            &["volume rm", "volume remove"],
            &["network rm", "network remove"],
        ],
    ),
    (
        &["helm"],
        &[
            &["uninstall", "delete", "del", "un"],
            &["list", "ls"],
            &["dependency", "dependencies", "dep"],
            &["history", "hist"],
            &["show", "inspect"],
        ],
    ),
    (&["terraform", "tofu"], &[&["destroy", "apply -destroy", "apply --destroy"]]),
    (
        &["gh"],
        &[
            &["codespace", "cs"],
            &["extension", "extensions", "ext"],
            &["issue create", "issue new"],
            &["pr create", "pr new"],
            &["pr checkout", "co"],
            &["release create", "release new"],
            &["repo create", "repo new"],
            &["secret delete", "secret remove"],
            &["variable delete", "variable remove"],
        ],
    ),
    (
        &["composer"],
        &[
            &["install", "i"],
            &["update", "u", "upgrade"],
            &["require", "r"],
            &["remove", "rm", "uninstall"],
            &["run-script", "run"],
        ],
    ),
    (&["bundle", "bundler"], &[&["install", "i"], &["exec", "e"], &["check", "c"]]),
    (
        &["rails"],
        &[
            &["console", "c"],
            &["dbconsole", "db"],
            &["destroy", "d"],
            &["generate", "g"],
            &["runner", "r"],
            &["server", "s"],
            &["test", "t"],
        ],
    ),
    (&["brew"], &[&["uninstall", "remove", "rm"]]),
    (&["svn"], &[&["commit", "ci"], &["checkout", "co"], &["delete", "del", "remove", "rm"]]),
    (&["hg"], &[&["commit", "ci"], &["update", "up", "checkout", "co"]]),
];

/// Programs that take any beginning of a name that can be no other, and what is a name of its own for them although
/// a longer one begins with it.
const TAKE_BEGINNINGS: &[(&[&str], &[&str])] = &[
    (
        &["npm"],
        &[
            "ci", "dist-tag", "find", "get", "help", "in", "ins", "install", "it", "la", "ll",
            "ln", "ls", "rb", "rm", "run", "se", "set", "star", "un", "up",
        ],
    ),
    (&["composer"], &["run", "show"]),
    (&["gem", "bundle", "bundler"], &[]),
    (&["hg"], &["ci", "co", "cat"]),
];

/// The words of a pattern with other names in the place of what it says, without what it says itself.
pub(super) fn others(pattern: &[String]) -> Vec<Vec<String>> {
    let mut others: Vec<Vec<String>> = Vec::new();
    let Some(program) = pattern.first() else { return others };
    // (`npm publish:*` is `npm publish`, and more.)
    let plain = |word: &str| word.strip_suffix(":*").unwrap_or(word).to_owned();
    let words: Vec<String> = pattern.iter().map(|word| plain(word)).collect();
    for (programs, rows) in SAME {
        let n_program = usize::from(*programs != [""]);
        if n_program == 1 && !programs.contains(&program.as_str()) {
            continue;
        }
        let begins = |phrase: &&&str| {
            let mut own = words.iter().skip(n_program);
            phrase.split(' ').all(|part| own.next().is_some_and(|word| word == part))
        };
        for row in *rows {
            // The longest is the one that is meant: `run test`, and not `run`.
            let Some(own) = row.iter().filter(begins).max_by_key(|phrase| phrase.len()) else {
                continue;
            };
            let behind = n_program + own.split(' ').count();
            let end =
                pattern[behind - 1].strip_prefix(words[behind - 1].as_str()).unwrap_or_default();
            for other in row.iter().filter(|other| *other != own) {
                let mut made: Vec<String> = pattern[..n_program].to_vec();
                made.extend(other.split(' ').map(str::to_owned));
                if let Some(last) = made.last_mut() {
                    last.push_str(end);
                }
                made.extend_from_slice(&pattern[behind..]);
                others.push(made);
            }
        }
    }
    others
}

/// The program takes this word for that name.
pub(super) fn begins(program: &str, word: &str, name: &str) -> bool {
    word.len() > 1
        && word.len() < name.len()
        && name.starts_with(word)
        && TAKE_BEGINNINGS
            .iter()
            .any(|(programs, own)| programs.contains(&program) && !own.contains(&word))
}
