//! What the user forbids or requires is kept word for word.

use std::path::Path;

use code_agent::context::binds;
use code_agent::protocol::speech::sentences;

/// How well a labelled file is heard.
struct Measured {
    heard_right: u32,
    heard_wrong: Vec<String>,
    missed: Vec<String>,
}

fn measure(file: &str) -> Measured {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/pins").join(file);
    let mut measured = Measured { heard_right: 0, heard_wrong: Vec::new(), missed: Vec::new() };
    for line in std::fs::read_to_string(path).unwrap().lines() {
        let (label, message) = line.split_once(' ').unwrap();
        let is_heard = sentences(message).iter().any(binds);
        match (label, is_heard) {
            ("+", true) => measured.heard_right += 1,
            ("+", false) => measured.missed.push(message.to_owned()),
            ("-", true) => measured.heard_wrong.push(message.to_owned()),
            ("-", false) => {}
            _ => panic!("{line:?} has no label"),
        }
    }
    measured
}

#[test]
fn pins_are_heard_with_high_precision_and_recall() {
    for file in [
        "first_en.txt",
        "first_zh.txt",
        "second_en.txt",
        "second_zh.txt",
        "third_en.txt",
        "third_zh.txt",
        "fourth_en.txt",
        "fourth_zh.txt",
    ] {
        let Measured { heard_right, heard_wrong, missed } = measure(file);
        let share = |right: u32, wrong: &[String]| {
            let wrong = u32::try_from(wrong.len()).unwrap();
            f64::from(right) / f64::from(right + wrong)
        };
        let precision = share(heard_right, &heard_wrong);
        let recall = share(heard_right, &missed);
        crate::support::say(&format!(
            "pins: {file}: precision {precision:.3}, recall {recall:.3}, {} missed",
            missed.len()
        ));
        let shown = format!("{file}: heard wrongly {heard_wrong:#?}, missed {missed:#?}");
        assert!(precision >= 0.95 && recall >= 0.9, "{shown}");
    }
}
