//! Which items are told to which tasks.

use super::super::item::{Condition, FailurePattern, Fix, Item, Origin, Scope};

use super::Subjects;
use crate::protocol::Object;
use crate::protocol::recall::{ItemKind, STEERED};
use crate::protocol::reflection::Tags;

fn item(text: &str, topic: &str, failure: Option<FailurePattern>) -> Item {
    Item {
        id: "i".into(),
        scope: Scope::User,
        kind: if failure.is_some() { ItemKind::FailurePattern } else { ItemKind::Rule },
        text: text.into(),
        tags: Tags { topic: topic.into(), pattern: None },
        failure,
        because: None,
        evidence: Vec::new(),
        origin: Origin::Trace,
        frequency: 1,
        wins: 1,
        losses: 0,
        created_at_ms: 0,
        last_occurred_ms: 0,
    }
}

fn pattern(when: Condition, fix: Option<Fix>) -> Item {
    let failure = FailurePattern {
        skill: String::new(),
        condition: String::new(),
        error_type: String::new(),
        suggested_fix: None,
        when,
        fix,
        led_by: Vec::new(),
    };
    item("do it so", "", Some(failure))
}

fn command(head: &str) -> Item {
    let when =
        Condition { tool: "Bash".into(), command_head: Some(head.into()), ..Condition::default() };
    pattern(when, None)
}

#[track_caller]
fn check(item: &Item, fitting: &[&str], others: &[&str]) {
    let subjects = Subjects::of(std::slice::from_ref(item));
    let is_told = |task: &str| subjects.iter().any(|one| subjects.read(task).fits(one).is_some());
    let wrong =
        fitting.iter().filter(|task| !is_told(task)).map(|task| format!("not told: {task}"));
    let others = others.iter().filter(|task| is_told(task)).map(|task| format!("told: {task}"));
    let wrong: Vec<String> = wrong.chain(others).collect();
    assert_eq!(wrong, [""; 0], "{:?}", item.failure.as_ref().map(|failure| &failure.when));
}

#[test]
fn what_is_about_tests_is_told_where_tests_are_to_be_run_or_mended() {
    let fitting = [
        "Run the tests.",
        "The tests do not pass; fix them.",
        "tests/test_b.py fails. Find out why.",
        "make the suite green again",
        "fix the failing test in parser",
        "Add a regression test for parse().",
        "rename foo\npytest -q",
        "运行测试",
        "修复失败的测试",
    ];
    let others = [
        "Rename the variable test_path in config.txt.",
        "Write in the README where the tests live.",
        "Explain how the tests are run.",
        "List the test files.",
        "Fix the typo in the greeting. Don't run the tests, they take an hour.",
        "测试文件在哪里？说明一下",
    ];
    check(&command("pytest"), &fitting, &others);
    check(&item("Run the tests with -q.", "test", None), &fitting, &others);
}

#[test]
fn what_is_said_not_to_be_run_is_heard_in_many_words() {
    let rest = [
        "Don't run the tests.",
        "Don’t run the tests.",
        "Don't ever run the tests.",
        "No need to run the tests.",
        "You don’t have to run a test.",
        "Don't bother running the tests.",
        "Do it without even building a test.",
    ];
    let tests = Subjects::of(&[command("pytest")]);
    for rest in rest {
        let task = format!("Rename parse() to read(). {rest}");
        check(&command("pytest"), &[], &[&task]);
        assert!(!tests.read(&task).will_run_something(true), "{task}");
    }
    let others = ["It does not pass: run the tests.", "There is no need: run the tests."];
    check(&command("pytest"), &others, &[]);
    for task in others {
        assert!(tests.read(task).will_run_something(true), "{task}");
    }
}

#[test]
fn who_is_not_let_run_something_does_not_run_it() {
    let tests = Subjects::of(&[command("pytest")]);
    for (said, runs) in [
        ("不要让测试运行", false),
        ("别让它跑测试", false),
        ("别让 CI 启动", false),
        ("别让测试失败", true),
        ("不要让它报错", true),
        ("别让测试跑挂了", true),
        ("不要让它运行得更慢", true),
        ("别让流水线变红", true),
    ] {
        let task = format!("把 parse() 改名为 read()，{said}。");
        assert_eq!(tests.read(&task).will_run_something(true), runs, "{task}");
    }
}

#[test]
fn what_is_said_on_the_way_begins_anew() {
    let task = |first: &str, then: &str| format!("{first}{STEERED}{then}");
    let explained = task("Rename a to b.", "Explain how the tests are run.");
    check(
        &command("pytest"),
        &[
            &task("Explain how the tests are run.", "Run the tests."),
            &task("Rename a to b", "pytest -q"),
        ],
        &[&explained],
    );
    let usual = Item {
        evidence: vec!["a".to_owned(), "b".to_owned(), "c".to_owned()],
        ..command("bin/app")
    };
    check(&usual, &[], &[&task("Explain the parser.", "Describe the reader too.")]);
}

/// A long task and a long memory.
#[test]
fn the_one_place_that_a_long_task_names_is_found_among_all() {
    let items: Vec<Item> = (0..5_000)
        .map(|at| if at % 2 == 0 { command(&format!("p{at}q")) } else { moved(&format!("d{at}")) })
        .collect();
    let subjects = Subjects::of(&items);
    let words: Vec<String> = (0..16_000).map(|at| format!("w{at}/x{at}")).collect();
    let task = subjects.read(&format!("Fix {} d7/a.", words.join(" ")));
    let told = subjects.iter().filter(|subject| task.fits(subject).is_some()).count();
    assert_eq!(told, 1);
}

fn moved(from: &str) -> Item {
    let fix = Fix::ReplacePath { from: from.into(), to: "lib".into() };
    pattern(Condition { tool: "Read".into(), ..Condition::default() }, Some(fix))
}

#[test]
fn a_command_of_the_project_is_told_where_its_name_is_to_be_done() {
    let others = ["What does the seed file hold?", "rename seed to kernel in a.txt"];
    check(&command("make seed"), &["Seed the database.", "please run seed"], &others);
    check(
        &command("./tools/gen.sh"),
        &["Regenerate the client and commit it.", "run tools/gen.sh"],
        &["Describe the tools in the README."],
    );
    check(&command("python"), &["run hello.py", "Use python to fix it"], &["rename a in b.txt"]);
}

#[test]
fn a_path_is_told_where_it_is_named() {
    check(
        &moved("src"),
        &["fix src/a.py", "Is the greeting still in English?"],
        &["fix lib/a.py", "see srcs/a.py", "Who is named in notes.txt?"],
    );
    check(&moved("src/util.py"), &["fix util.py", "fix src/util.py."], &["fix util.rs"]);
}

#[test]
fn what_a_tool_takes_is_told_where_the_tool_will_be_used() {
    let edit = Condition {
        tool: "Edit".into(),
        argument: Some("file_path".into()),
        ..Condition::default()
    };
    let fix = Fix::RenameArgument { from: "file_path".into(), to: "path".into() };
    check(&pattern(edit, Some(fix)), &["rename a to b in c.txt"], &["What is in c.txt?"]);
    let json =
        Condition { tool: "Edit".into(), file_kind: Some("json".into()), ..Condition::default() };
    let fix = Fix::SetArguments { input: Object::new() };
    check(&pattern(json, Some(fix)), &["Change a.json"], &["Change a.rs", "Change json in a.rs"]);
    let make = Condition {
        tool: "Edit".into(),
        file_kind: Some("Makefile".into()),
        ..Condition::default()
    };
    let fix = Fix::SetArguments { input: Object::new() };
    check(&pattern(make, Some(fix)), &["Change lib/Makefile"], &["Change a.json"]);
}

#[test]
fn a_rule_without_a_known_topic_needs_most_of_its_words() {
    let rule = item("Regenerate the fixtures after changing a mapper.", "mapper", None);
    check(
        &rule,
        &["I'm changing the user mapper: regenerate what has to be, fixtures too."],
        &["Change the mapper's name in the docs.", "list the fixtures"],
    );
}

#[test]
fn what_three_sessions_came_to_is_told_wherever_work_is_asked_for() {
    let mut item = command("bin/app");
    let tasks = ["Give each order a due date.", "分别给订单和发票加一个日期。"];
    let others =
        ["What stands in notes.txt?", "Explain the order of columns.", "不要运行任何东西。"];
    check(&item, &[], &tasks);
    item.evidence = vec!["a".to_owned(), "b".to_owned(), "c".to_owned()];
    check(&item, &tasks, &others);
}

#[test]
fn an_everyday_word_is_no_program() {
    check(
        &command("date"),
        &[],
        &["Rename the field `date`.", "Sort by date.", "Which date do I print?"],
    );
    check(&command("md5sum"), &["Run md5sum over the archive."], &["Is the sum right?"]);
}

#[test]
fn a_build_tool_is_told_of_where_anything_is_built() {
    let fitting = ["Build the release binary.", "Run the tests.", "Is the linter content?"];
    check(&command("bin/cargo *"), &fitting, &["Publish the crate.", "Write a poem."]);
}

/// Lessons about programs, what their tasks sound like, and what only shares words with those.
const PROGRAMS: &[(&str, &[&str], &[&str])] = &[
    (
        "docker-compose",
        &[
            "Show me the last lines the queue worker printed.",
            "Could you spin up mysql for a minute?",
            "把后台服务停掉。",
        ],
        &["Log the user out after ten minutes.", "Write what the worker does into a comment."],
    ),
    (
        "docker compose exec",
        &["Which locale is set inside the container?", "容器里装的是哪个版本？"],
        &["Bring up redis.", "Move the tool bar into a container element."],
    ),
    (
        "kubectl",
        &[
            "Has the new version of billing been rolled out?",
            "Why does the pod restart all the time?",
            "看看订单服务最近一小时的日志。",
            "把网关回滚到上一版。",
        ],
        &[
            "The log in page needs a hint.",
            "What does the rollout flag mean?",
            "把日志格式改成 JSON。",
        ],
    ),
    (
        "kubectl logs",
        &["Read the last 100 lines of the log of the api service."],
        &["Scale the deployment to four replicas."],
    ),
    ("helm", &["Render the chart with the values of staging."], &["Draw a chart of the sales."]),
    (
        "terraform",
        &["Is there any drift?", "What would change in our infrastructure if I merged this?"],
        &["The window drifts to the left."],
    ),
    (
        "ansible-playbook",
        &["Provision the new staging host."],
        &["Set up a field for the host name."],
    ),
    (
        "git log",
        &["Who worked on the parser since March?", "最近几次提交改了什么？"],
        &["Save the order history of a customer.", "Log every request."],
    ),
    (
        "git diff",
        &["What did I change against main?", "这个分支改了哪些文件？"],
        &["What changes when a user logs in?"],
    ),
    ("git bisect", &["Which commit broke the export?"], &["The glass broke."]),
    (
        "gh",
        &["Is the pipeline red again?", "Open a merge request and list its reviewers."],
        &["A ticket costs five euros."],
    ),
    (
        "npm audit",
        &["Are there vulnerable packages among our dependencies?"],
        &["Add an audit trail to orders."],
    ),
    (
        "npm install",
        &["The form needs zod 3.23.8.", "给项目加上图表库。"],
        &["The timeout needs to be 1.5 seconds."],
    ),
    (
        ".venv/bin/pip",
        &["The importer needs polars, can you get it?", "把缺的包装上。"],
        &["Get the name of the customer."],
    ),
    (
        "pytest",
        &[
            "Did I break anything?",
            "Does it still work after the merge?",
            "跑一下相关的部分，看有没有坏。",
        ],
        &["A broken image is shown where a picture is missing."],
    ),
    (
        "node_modules/.bin/jest",
        &["Run what covers the basket."],
        &["Cover the case of an empty basket in the text."],
    ),
    (
        "node_modules/.bin/playwright",
        &["Click through the checkout in a browser and see that nothing is broken."],
        &["Add a page on refunds."],
    ),
    ("cargo clippy", &["Is clippy content?"], &["Needless clones cost memory."]),
    ("cargo", &["Which crates do we no longer need?"], &["Cargo ships arrive on Mondays."]),
    (
        "go",
        &["Let vet have a look at the server.", "Go 代码里有没有数据竞争？跑一下测试。"],
        &["Go on with the list.", "Veterinarians are listed twice."],
    ),
    ("./mvnw", &["Who brings in log4j? Show the dependency tree of pom.xml."], &["Draw the tree."]),
    (
        "dotnet ef",
        &["Bring the entity framework migrations up to date."],
        &["Frame the entity in red."],
    ),
    (
        "bundle",
        &["Which gems are outdated?"],
        &["A gem is worth ten points in the game.", "Bundle the two prices."],
    ),
    (
        "rails routes",
        &["Which routes does the application have?"],
        &["Compute the route from A to B."],
    ),
    (
        "psql",
        &["How many users are in the database?", "数据库里有几条退款？"],
        &["Store the base price of a user."],
    ),
    ("redis-cli", &["Flush the cache keys of the session."], &["Press any key."]),
    ("alembic", &["Take the schema back by one revision."], &["Take the car back."]),
    (
        "du",
        &[
            "What takes the most room in dist?",
            "The image has grown. Which directory is to blame?",
            "看看哪个目录占用空间最多。",
        ],
        &["Make the headline larger.", "How large is bin/du of the firmware, and its folder?"],
    ),
    ("df", &["Is the disk full?"], &["The form is full."]),
    ("date", &["Which weekday was 40 days ago?"], &["Sort by date.", "Rename the field `date`."]),
    (
        "stat",
        &["How many bytes has the archive?"],
        &["Print statistics of the games.", "State your name."],
    ),
    (
        "md5sum",
        &["Does the checksum of the download match?", "文件的校验和对不对？"],
        &["Sum up the prices."],
    ),
    ("base64", &["notes.txt is base64, decode it."], &["Shorten notes.txt to ten lines."]),
    ("iconv", &["data/报价.csv 是 gbk 编码，转成 utf8。"], &["给 data/报价.csv 加一列。"]),
    (
        "tar",
        &["Unpack the release tarball.", "把日志打成压缩包：归档整个目录。"],
        &["Archive is the name of a page."],
    ),
    (
        "rsync",
        &["Copy the site to the staging server.", "把构建结果同步到线上服务器。"],
        &["Copy the text of the button."],
    ),
    ("ssh", &["Log into the bastion host and look around."], &["Log the host name."]),
    (
        "curl",
        &["Does the health endpoint answer?", "调用一下这个接口，看看返回什么。"],
        &["Add an endpoint for refunds."],
    ),
    (
        "openssl",
        &["When does our certificate expire?", "证书什么时候到期？"],
        &["The winner gets a medal."],
    ),
    (
        "lsof",
        &["Who listens on port 5432?", "8080 端口被占用了，谁在用？"],
        &["Change the default port to 9000."],
    ),
    ("systemctl", &["Restart the nginx service."], &["The reset button restarts the game."]),
    ("ffmpeg", &["Cut the first ten seconds of the video."], &["Add a video element to the page."]),
    (
        "pandoc",
        &[
            "Make a PDF of it: convert the markdown manual, as a pdf please.",
            "Turn guide.md into a pdf.",
        ],
        &["Correct a typo in guide.md."],
    ),
    (
        "latexmk",
        &["Compile the thesis and count its pages.", "论文编译一下。"],
        &["The paper size is A4."],
    ),
    ("magick", &["Make thumbnails of the photos."], &["Show the photos in two columns."]),
    (
        "crontab",
        &["Which job do we run every night? Look into cron."],
        &["Every knight has a name."],
    ),
    (
        "journalctl",
        &["What did the backend service log in the last hour? Show its log."],
        &["The service is good."],
    ),
    ("chmod", &["Make the script executable."], &["Make the script shorter."]),
    ("protoc", &["The protobuf stubs are stale."], &["The protocol is old."]),
    ("trivy", &["Scan the image for vulnerabilities."], &["Scan the list for duplicates."]),
    ("uv run pytest", &["Did the upgrade break anything?"], &["Explain how the upgrade works."]),
    ("npx jest", &["Run the component tests."], &["List the components."]),
];
#[test]
fn a_program_is_told_of_where_a_task_asks_for_what_it_is_used_for() {
    for (head, fitting, others) in PROGRAMS {
        check(&command(head), fitting, others);
    }
}

/// Tasks that are about the code: whatever is known of programs that look at machines, data and services stays untold.
#[test]
fn what_is_asked_of_the_code_calls_no_program_of_the_system() {
    let programs = [
        "docker",
        "docker-compose",
        "kubectl",
        "helm",
        "terraform",
        "ansible",
        "aws",
        "gcloud",
        "git",
        "gh",
        "npm audit",
        "psql",
        "redis-cli",
        "mongosh",
        "kcat",
        "duckdb",
        "jq",
        "xmllint",
        "du",
        "df",
        "date",
        "stat",
        "md5sum",
        "base64",
        "iconv",
        "sed",
        "sort",
        "find",
        "diff",
        "tar",
        "rsync",
        "ssh",
        "curl",
        "openssl",
        "dig",
        "ping",
        "lsof",
        "ps",
        "free",
        "systemctl",
        "crontab",
        "apt",
        "chmod",
        "ln",
        "tmux",
        "ffmpeg",
        "magick",
        "pandoc",
        "latexmk",
        "pdftotext",
        "dot",
        "msgfmt",
        "cloc",
        "hyperfine",
        "trivy",
        "gdb",
        "adb",
        "jupyter",
        "playwright",
        "storybook",
        "pre-commit",
        "nvm",
    ];
    let tasks = [
        "Fix the off-by-one error in the paginator.",
        "Rename getUser to fetchUser everywhere in src/.",
        "Add a method that returns the total price with tax.",
        "The parser accepts empty input; it should reject it.",
        "Why does parse() return None for an empty string?",
        "Refactor the settings loader into its own module.",
        "Make the retry count configurable, three by default.",
        "Replace the callback by a promise in client.ts.",
        "What does the function normalize do?",
        "Implement the search box on the orders page.",
        "Use a hash map instead of the linear search in lookup.rs.",
        "The button on the login page is not centred.",
        "Split the file handlers.go into two.",
        "Make the error message say which field is missing.",
        "Add a null check before the user is read.",
        "Write a class for money with two decimals.",
        "Log a warning when the retry limit is reached.",
        "Remove the deprecated flag from the options struct.",
        "The totals on the invoice are rounded wrongly.",
        "Show the name of the customer in the header.",
        "Add an index field to the struct Row.",
        "Extract the validation of addresses into a helper.",
        "Let the scheduler skip jobs that are disabled.",
        "Sort the list of users by name in ui.py.",
        "Add a comment that says why the lock is taken twice.",
        "Support dark mode in theme.css.",
        "Cache the result of the query in memory for ten seconds.",
        "The process of signing up takes too many steps; merge the first two forms.",
        "Print the version when --version is given.",
        "给订单加一个备注字段。",
        "把函数 getName 改名为 fetchName。",
        "修复分页少一条的问题。",
        "登录按钮的颜色改成蓝色。",
        "解析空字符串时应该返回错误。",
        "把配置读取的代码抽成一个模块。",
        "给用户列表加上按姓名排序。",
        "删除没有用到的参数。",
        "这个函数是做什么的？",
        "错误提示里要带上字段名。",
    ];
    let mut told = Vec::new();
    for program in programs {
        let subjects = Subjects::of(&[command(program)]);
        let is_told =
            |task: &&&str| subjects.iter().any(|one| subjects.read(task).fits(one).is_some());
        told.extend(tasks.iter().filter(is_told).map(|task| format!("{program}: {task}")));
    }
    assert_eq!(told, [""; 0]);
}

fn with(head: &str, from: &str, to: &str) -> Item {
    let when =
        Condition { tool: "Bash".into(), command_head: Some(head.into()), ..Condition::default() };
    pattern(when, Some(Fix::ReplaceWords { from: from.into(), to: to.into() }))
}

#[test]
fn what_sets_a_place_is_told_where_the_program_is_meant_and_not_everything() {
    check(
        &with("kubectl", "kubectl", "kubectl -n shop"),
        &["Roll back the deployment.", "看看网关最近的日志。"],
        &[
            "Are the nodes of the cluster ready? Use kubectl.",
            "集群里的节点都正常吗？",
            "Build the image.",
        ],
    );
    check(
        &with("go", "go", "go -C web"),
        &["Let vet look over it."],
        &["Run the Go tests of the whole repository.", "Run the tests.", "Build it."],
    );
}

#[test]
fn what_gets_round_versions_at_odds_waits_for_the_failure() {
    let advice = |option: &str| {
        let mut item = with("npm install", "npm install", &format!("npm install {option}"));
        item.text = format!("Run `npm install` with `{option}`.");
        item
    };
    let tasks = ["Install the packages afresh.", "Add zod 3.23.8."];
    check(&advice("--legacy-peer-deps"), &[], &tasks);
    check(&advice("--workspace web"), &tasks, &[]);
}

#[test]
fn a_program_at_another_place_is_another_one() {
    let (mine, other) =
        ("How large are the folders in dist?", "How large are they, by bin/du, the folders?");
    check(&command("du"), &[mine], &[other]);
    check(&command("bin/du"), &[mine, other], &[]);
}

#[test]
fn what_is_there_now_says_that_a_place_needs_not_be_set() {
    let is_over = |item: &Item, there: &'static [&'static str]| {
        let subjects = Subjects::of(std::slice::from_ref(item));
        subjects.iter().any(|subject| subject.is_over(&|path| there.contains(&path)))
    };
    let place = with("go", "go", "go -C web");
    assert!(is_over(&place, &["go.work", "web"]));
    assert!(!is_over(&place, &["web"]));
    assert!(!is_over(&command("go test"), &["go.mod"]));
    let when = Condition {
        tool: "Bash".into(),
        command_head: Some("npm test".into()),
        ..Condition::default()
    };
    let folder = pattern(when, Some(Fix::Prefix { with: "cd web && ".into() }));
    assert!(is_over(&folder, &[]));
    assert!(!is_over(&folder, &["web"]));
}

#[test]
fn whether_it_still_holds_is_tested_built_or_started() {
    let still = [
        "Is the discount still computed correctly after yesterday's merge?",
        "依赖升级以后还能打出安装包吗?",
        "Does the storefront still start?",
    ];
    check(&command("bin/rails test"), &still, &["Is the heading in README.md still right?"]);
    check(
        &command("npm *"),
        &still,
        &["On the page of prices the region is still called Frankfurt."],
    );
}

#[test]
fn files_of_a_kind_are_looked_for() {
    let glob = |code| {
        let argument = Some("limit".to_owned());
        let when = Condition { tool: "Glob".into(), argument, code, ..Condition::default() };
        pattern(when, None)
    };
    let fitting = ["Are there icons that are no SVG?", "List the folder.", "有没有 png 图标?"];
    let others = ["May a customer go over the limit?", "Let it log the limit."];
    check(&glob(None), &fitting, &others);
}

#[test]
fn tasks_are_told_of_what_they_come_to_in_the_words_of_people() {
    let rows: &[(&str, &[&str], &[&str])] = &[
        ("npm test", &["Has my change to the cart broken anything?"], &[]),
        ("bin/deploy", &["Put the latest build on staging."], &[]),
        (
            "mvn *",
            &["Does the service still compile after the upgrade to Java 21?"],
            &["Would a record be shorter here than the class Money?"],
        ),
        (
            "bin/docker build",
            &[
                "How many megabytes do we ship since numpy is gone? Make me a fresh container image slim:1.",
                "I want to hand the service to a colleague as an image; name it shop:review.",
            ],
            &[
                "Make a fresh start page with the image of the team.",
                "The image of the product should be larger.",
            ],
        ),
        (
            "bin/terraform plan",
            &["Would anything be replaced if I changed the bucket's name?"],
            &[
                "Would it be nicer to sort the regions by name in regions.ts?",
                "On the page of prices the region is still called Frankfurt.",
            ],
        ),
        (
            "git commit",
            &[
                "把暂存的内容存成一个版本,说明写清楚。",
                "Put what I have done so far into one commit.",
                "改好之后提交一下。",
                "改动没问题的话,就提交吧。",
            ],
            &[
                "客户提交表单之后,签名图片存到了哪里?",
                "Add a staged rollout flag to settings.ts.",
                "用户提交订单的时候,金额会不会四舍五入?",
            ],
        ),
        (
            "alembic upgrade",
            &["The orders need a column for the currency; my local database should have it, too."],
            &[],
        ),
        ("bin/psql", &[], &["Count the customers in the header of the page."]),
        (
            "pytest",
            &[
                "There is a bug in the rounding of VAT; mend it and make sure that it can not come back.",
            ],
            &["Would you rename test_user to sample_user in fixtures.json?"],
        ),
        ("npx playwright test", &["Does the checkout work in Safari?"], &["Draw a play button."]),
        (
            "helm upgrade",
            &["Bring the new chart version to the test cluster."],
            &["The chart of sales should have a legend."],
        ),
        (
            "kubectl logs",
            &["Why did the mailer pod crash last night?"],
            &["The log of the game lists every move."],
        ),
        (
            "cargo clippy",
            &["Is there anything a reviewer would complain about in this crate?"],
            &["Rename the crate in Cargo.toml."],
        ),
        ("bin/seed", &["I need some sample customers in my development database."], &[]),
        (
            "make docs",
            &["How does the new chapter look? Render the page."],
            &["Document the function pay()."],
        ),
        (
            "ffmpeg",
            &["The intro is too long. Cut promo.mov to its first 20 seconds, as mp4, with sound."],
            &["Cut the list to its first 20 entries."],
        ),
        (
            "go test",
            &[
                "Sometimes a session vanishes from the cache. I suspect two goroutines writing at once, can you find out?",
            ],
            &["go 的图标换成新的。"],
        ),
        ("npm run build", &["线上包有多大?"], &[]),
        ("bin/manage test", &["改完登录逻辑,确认没有改坏别的地方。"], &[]),
        ("docker compose", &["本地把整套服务拉起来看看。"], &["客服的电话改一下。"]),
        (
            "cmake",
            &[
                "I want a debug build of the mixer with the address sanitizer in out/asan; only set it up, I build it myself.",
            ],
            &["The mixer has a debug flag; drop it."],
        ),
        (
            "bin/ci",
            &["加好之后跑一下 bin/ci,别让流水线变红。", "Mend it; bin/ci has to be happy."],
            &["bin/ci 的说明写在哪里?", "Explain what bin/ci does."],
        ),
        (
            "poetry show",
            &[
                "法务要一份 crawler 上线以后真正用到的第三方包,带层级关系。",
                "Which third-party packages do we ship?",
            ],
            &["The package on the picture is brown."],
        ),
        (
            ".bin/tsc",
            &["我给订单加了一个可选的备注字段,看看有没有哪里编译不过。"],
            &["类型(type)那一列改成中文。"],
        ),
        (
            "xcodebuild",
            &["The login screen was rewritten in SwiftUI. Does the app still build?"],
            &["The destination of the trip is lost."],
        ),
    ];
    for (head, fitting, others) in rows {
        check(&command(head), fitting, others);
    }
}
