//! `docs/TUI.md` says what the program does: its tables are made from the program's own.

use code_agent::ui::tui::{COMMANDS, Keymap};

fn table(head: &str, rows: impl IntoIterator<Item = String>) -> String {
    let n_columns = head.matches('|').count() - 1;
    let rule = format!("|{}", "---|".repeat(n_columns));
    let rows = rows.into_iter().map(|row| format!("{row}\n"));
    format!("{head}\n{rule}\n{}", rows.collect::<String>())
}

#[test]
fn the_tables_of_keys_and_commands_are_those_of_the_program() {
    let keys = Keymap::default()
        .rows()
        .into_iter()
        .map(|(keys, name, what)| format!("| {} | {what} | `{name}` |", keys.replace('|', "\\|")));
    let commands = COMMANDS.iter().map(|command| {
        let args = command.args.replace('|', "\\|");
        let name = format!("/{} {args}", command.name);
        format!("| `{}` | {} |", name.trim(), command.what)
    });
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/TUI.md");
    let text = std::fs::read_to_string(path).unwrap();
    let mut made = text.clone();
    for (begin, table) in [
        ("## Commands\n\n", table("| command | what it does |", commands)),
        ("## Keys\n\n", table("| keys | what they do | name |", keys)),
    ] {
        let from = made.find(begin).unwrap() + begin.len();
        let end = from + made[from..].find("\n\n").unwrap() + 1;
        made.replace_range(from..end, &table);
    }
    if std::env::var_os("UPDATE_SCHEMA").is_some() {
        std::fs::write(path, &made).unwrap();
    }
    assert_eq!(std::fs::read_to_string(path).unwrap(), made, "UPDATE_SCHEMA=1 writes it anew");
}
