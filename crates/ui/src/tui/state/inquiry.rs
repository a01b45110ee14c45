//! The model's questions to the user, one after the other, and their answers.

use std::collections::BTreeSet;

use super::question::{Asked, Choice, Subject};
use super::{Action, Focus, Request, State};
use crate::tui::composer::Composer;
use agent_protocol::question::{Question, UserAnswer};

/// The questions of a call, and the answers so far.
#[derive(Debug)]
pub(in crate::tui) struct Inquiry {
    questions: Vec<Question>,
    answers: Vec<UserAnswer>,
    /// The options of the current question that are chosen, if it takes several.
    chosen: BTreeSet<usize>,
}

impl Inquiry {
    /// The current question.
    pub(in crate::tui) fn current(&self) -> Option<&Question> {
        self.questions.get(self.answers.len())
    }

    /// The current question with its topic, and its number if there are several.
    pub(in crate::tui) fn in_words(&self) -> String {
        let Some(Question { question, header, .. }) = self.current() else { return String::new() };
        let number = match self.questions.len() {
            1 => String::new(),
            n => format!(" ({}/{n})", self.answers.len() + 1),
        };
        let header = header.as_ref().map(|header| format!("{}: ", header.trim()));
        format!("{}{}{number}", header.unwrap_or_default(), question.trim())
    }

    /// Several options can be chosen.
    pub(in crate::tui) fn takes_several(&self) -> bool {
        self.current().is_some_and(|question| question.multi_select && !question.options.is_empty())
    }

    /// There is an earlier question to return to.
    pub(in crate::tui) fn has_earlier(&self) -> bool {
        !self.answers.is_empty()
    }

    pub(super) fn choices(&self) -> Vec<Choice> {
        let options = self.current().map_or(&[] as &[_], |question| &question.options);
        let several = self.takes_several();
        let options = options.iter().enumerate().map(|(n, option)| Choice::Option {
            n,
            label: option.label.clone(),
            description: option.description.clone().unwrap_or_default(),
            is_chosen: several.then(|| self.chosen.contains(&n)),
        });
        options.chain([Choice::OwnWords]).collect()
    }

    /// The answer of the chosen options, and of `n`.
    fn answer_of(&self, n: Option<usize>, text: Option<String>) -> UserAnswer {
        let Some(question) = self.current() else { return UserAnswer::default() };
        let mut chosen = self.chosen.clone();
        chosen.extend(n);
        let labels = chosen.iter().filter_map(|n| question.options.get(*n));
        let selected = labels.map(|option| option.label.clone()).collect();
        UserAnswer { question: question.question.clone(), selected, text }
    }
}

impl State {
    /// Asks the questions of this call, beginning with the first.
    pub(super) fn ask_user(&mut self, call: &str, questions: &[Question]) {
        let chosen = BTreeSet::new();
        let inquiry = Inquiry { questions: questions.to_vec(), answers: Vec::new(), chosen };
        self.ask(Subject::Inquiry(call.to_owned(), 0));
        if let Some(asked) = &mut self.asked {
            asked.inquiry = Some(inquiry);
        }
    }

    /// The questions that wait for the user.
    pub(in crate::tui) fn inquiry(&self) -> Option<&Inquiry> {
        self.asked.as_ref()?.inquiry.as_ref()
    }

    /// Selects an option of the current question: it is the answer, or is added to it or removed.
    pub(in crate::tui) fn choose_option(&mut self, n: usize) -> Vec<Action> {
        let Some(asked) = &mut self.asked else { return Vec::new() };
        let Some(inquiry) = &mut asked.inquiry else { return Vec::new() };
        if !inquiry.takes_several() {
            let answer = inquiry.answer_of(Some(n), None);
            return self.give(answer);
        }
        asked.selected = n;
        if !inquiry.chosen.remove(&n) {
            inquiry.chosen.insert(n);
        }
        Vec::new()
    }

    /// Answers with these options: what a line of the plain chat names.
    pub(in crate::tui) fn choose_options(&mut self, options: &[usize]) -> Vec<Action> {
        let inquiry = self.asked.as_mut().and_then(|asked| asked.inquiry.as_mut());
        let Some(inquiry) = inquiry else { return Vec::new() };
        inquiry.chosen = options.iter().copied().collect();
        let answer = inquiry.answer_of(None, None);
        self.give(answer)
    }

    /// Answers with the chosen options; if there are none, with the one under the mark.
    pub(super) fn confirm(&mut self, n: usize) -> Vec<Action> {
        let Some(inquiry) = self.inquiry() else { return Vec::new() };
        let is_option = inquiry.current().is_some_and(|question| n < question.options.len());
        if !is_option {
            self.focus = Focus::AnswerText;
            return Vec::new();
        }
        let answer = inquiry.answer_of(inquiry.chosen.is_empty().then_some(n), None);
        self.give(answer)
    }

    /// Answers in the user's words, beside the chosen options.
    pub(in crate::tui) fn say_answer(&mut self, words: &str) -> Vec<Action> {
        let words = words.trim();
        if words.is_empty() {
            return Vec::new();
        }
        let Some(inquiry) = self.inquiry() else {
            self.focus = Focus::Composer;
            return Vec::new();
        };
        let answer = inquiry.answer_of(None, Some(words.to_owned()));
        self.give(answer)
    }

    /// Takes the answer to the current question. After the last one all are sent.
    fn give(&mut self, answer: UserAnswer) -> Vec<Action> {
        let Some(Asked { about: Subject::Inquiry(call, _), inquiry: Some(mut inquiry), .. }) =
            self.asked.take()
        else {
            return Vec::new();
        };
        self.toast = None;
        inquiry.answers.push(answer);
        inquiry.chosen.clear();
        if inquiry.current().is_none() {
            self.drop_question();
            return vec![Action::Ask(Request::Tell(call, inquiry.answers))];
        }
        self.go_on(call, inquiry);
        Vec::new()
    }

    /// Returns to the previous question.
    pub(super) fn ask_again(&mut self) {
        let Some(asked) =
            self.asked.take_if(|asked| asked.inquiry.as_ref().is_some_and(Inquiry::has_earlier))
        else {
            return;
        };
        if let Asked { about: Subject::Inquiry(call, _), inquiry: Some(mut inquiry), .. } = asked {
            inquiry.answers.pop();
            inquiry.chosen.clear();
            self.go_on(call, inquiry);
        }
    }

    fn go_on(&mut self, call: String, inquiry: Inquiry) {
        let about = Subject::Inquiry(call, inquiry.answers.len());
        let mut asked = Asked::new(about);
        asked.inquiry = Some(inquiry);
        self.asked = Some(asked);
        self.answer_text = Composer::default();
        self.focus = Focus::Question;
    }
}
