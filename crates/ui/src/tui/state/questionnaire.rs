//! The model's questions to the user, one after the other, and their answers.

use std::collections::BTreeSet;

use super::question::{Choice, PendingQuestion, QuestionSubject};
use super::{Action, ChatRequest, Focus, State};
use crate::tui::composer::Composer;
use agent_protocol::question::{Question, UserAnswer};

#[derive(Debug, Default)]
pub(in crate::tui) struct Questionnaire {
    questions: Vec<Question>,
    answers: Vec<UserAnswer>,
    /// Chosen options of the current question, if several can be chosen.
    chosen: BTreeSet<usize>,
}

impl Questionnaire {
    pub(in crate::tui) fn current_question(&self) -> Option<&Question> {
        self.questions.get(self.answers.len())
    }

    /// Contains the topic, and the number if there are several questions.
    pub(in crate::tui) fn in_words(&self) -> String {
        let Some(Question { question, header, .. }) = self.current_question() else {
            return String::new();
        };
        let number = match self.questions.len() {
            1 => String::new(),
            n => format!(" ({}/{n})", self.answers.len() + 1),
        };
        let header = header.as_ref().map(|header| format!("{}: ", header.trim()));
        format!("{}{}{number}", header.unwrap_or_default(), question.trim())
    }

    pub(in crate::tui) fn allows_several(&self) -> bool {
        let question = self.current_question();
        question.is_some_and(|question| question.multi_select && !question.options.is_empty())
    }

    pub(in crate::tui) fn has_previous_question(&self) -> bool {
        !self.answers.is_empty()
    }

    pub(super) fn choices(&self) -> Vec<Choice> {
        let options = self.current_question().map_or(&[] as &[_], |question| &question.options);
        let several = self.allows_several();
        let options = options.iter().enumerate().map(|(n, option)| Choice::Option {
            n,
            label: option.label.clone(),
            description: option.description.clone().unwrap_or_default(),
            is_chosen: several.then(|| self.chosen.contains(&n)),
        });
        options.chain([Choice::FreeText]).collect()
    }

    /// `n`: an option besides the chosen ones.
    fn build_answer(&self, n: Option<usize>, text: Option<String>) -> UserAnswer {
        let Some(question) = self.current_question() else { return UserAnswer::default() };
        let mut chosen = self.chosen.clone();
        chosen.extend(n);
        let labels = chosen.iter().filter_map(|n| question.options.get(*n));
        let selected = labels.map(|option| option.label.clone()).collect();
        UserAnswer { question: question.question.clone(), selected, text }
    }
}

impl State {
    pub(super) fn open_questionnaire(&mut self, call: &str, questions: &[Question]) {
        self.open_question(QuestionSubject::Questionnaire(call.to_owned(), 0));
        if let Some(question) = &mut self.pending_question {
            let questions = questions.to_vec();
            question.questionnaire = Some(Questionnaire { questions, ..Questionnaire::default() });
        }
    }

    pub(in crate::tui) fn questionnaire(&self) -> Option<&Questionnaire> {
        self.pending_question.as_ref()?.questionnaire.as_ref()
    }

    /// A question with one answer is answered; otherwise the option is added or removed.
    pub(in crate::tui) fn choose_option(&mut self, n: usize) -> Vec<Action> {
        let Some(question) = &mut self.pending_question else { return Vec::new() };
        let Some(inquiry) = &mut question.questionnaire else { return Vec::new() };
        if !inquiry.allows_several() {
            let answer = inquiry.build_answer(Some(n), None);
            return self.record_answer(answer);
        }
        question.selected = n;
        if !inquiry.chosen.remove(&n) {
            inquiry.chosen.insert(n);
        }
        Vec::new()
    }

    /// A line of the plain chat contains the options.
    pub(in crate::tui) fn choose_options(
        &mut self,
        options: impl Iterator<Item = usize>,
    ) -> Vec<Action> {
        let Some(question) = &mut self.pending_question else { return Vec::new() };
        let Some(inquiry) = &mut question.questionnaire else { return Vec::new() };
        inquiry.chosen = options.collect();
        let answer = inquiry.build_answer(None, None);
        self.record_answer(answer)
    }

    /// Without chosen options, the one under the mark is the answer.
    pub(super) fn confirm_choice(&mut self, n: usize) -> Vec<Action> {
        let Some(inquiry) = self.questionnaire() else { return Vec::new() };
        if inquiry.current_question().is_none_or(|question| n >= question.options.len()) {
            self.focus = Focus::AnswerText;
            return Vec::new();
        }
        let answer = inquiry.build_answer(inquiry.chosen.is_empty().then_some(n), None);
        self.record_answer(answer)
    }

    /// The chosen options are part of the answer.
    pub(in crate::tui) fn answer_with_text(&mut self, words: &str) -> Vec<Action> {
        let words = words.trim();
        if words.is_empty() {
            return Vec::new();
        }
        let Some(inquiry) = self.questionnaire() else {
            self.focus = Focus::Composer;
            return Vec::new();
        };
        let answer = inquiry.build_answer(None, Some(words.to_owned()));
        self.record_answer(answer)
    }

    /// After the last question all answers are sent.
    fn record_answer(&mut self, answer: UserAnswer) -> Vec<Action> {
        let Some(PendingQuestion {
            subject: QuestionSubject::Questionnaire(call, _),
            questionnaire: Some(mut inquiry),
            ..
        }) = self.pending_question.take()
        else {
            return Vec::new();
        };
        self.toast = None;
        inquiry.answers.push(answer);
        inquiry.chosen.clear();
        if inquiry.current_question().is_none() {
            self.close_question();
            return vec![Action::SendRequest(ChatRequest::AnswerQuestions(call, inquiry.answers))];
        }
        self.show_current_question(call, inquiry);
        Vec::new()
    }

    pub(super) fn return_to_previous_question(&mut self) {
        let has_previous = |question: &mut PendingQuestion| {
            question.questionnaire.as_ref().is_some_and(Questionnaire::has_previous_question)
        };
        if let Some(PendingQuestion {
            subject: QuestionSubject::Questionnaire(call, _),
            questionnaire: Some(mut inquiry),
            ..
        }) = self.pending_question.take_if(has_previous)
        {
            inquiry.answers.pop();
            inquiry.chosen.clear();
            self.show_current_question(call, inquiry);
        }
    }

    fn show_current_question(&mut self, call: String, inquiry: Questionnaire) {
        let subject = QuestionSubject::Questionnaire(call, inquiry.answers.len());
        let mut question = PendingQuestion::new(subject);
        question.questionnaire = Some(inquiry);
        self.pending_question = Some(question);
        self.answer_text = Composer::default();
        self.focus = Focus::Question;
    }
}
