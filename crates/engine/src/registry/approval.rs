//! Decides whether a call may be made: by the rules and, if they ask, by the user's answer.

use std::path::Path;
use std::pin::pin;
use std::sync::Arc;

use futures_util::future::{Either, select};

use super::Registry;
use super::call::{CallInProgress, MissingPermission};
use super::hooks::{plain_reason, with_reason};
use super::prepare::PreparedCall;
use crate::tools::WorkspaceFacts;
use agent_host::workspace::{DiffSize, ImageData, io_failure};
use agent_permission::propose_grants;
use agent_protocol::control::{
    ApprovalDecision, Grant, Interrupt, PermissionMode, Reason, Ruling, UserReply,
};
use agent_protocol::envelope::{ErrorCode, Failure};
use agent_protocol::event::{EventBody, SessionRule};
use agent_protocol::hook::{HookPayload, HookRuling};
use agent_protocol::message::{Image, ToolCall};
use agent_protocol::tool::Effect;

impl Registry {
    /// Rules on a call; asks the user if the ruling is to ask and the session is attended.
    pub(super) async fn permit<'a>(
        &'a self,
        call: &ToolCall,
        prepared: &mut PreparedCall<'a>,
        record: &mut CallInProgress,
    ) -> Result<(), Failure> {
        let effect = &prepared.target.effect;
        self.update_checkpoint_coverage(effect).await;
        let Some(reason) = self.reason_to_ask(call, effect, record)? else { return Ok(()) };
        if self.control.can_ask_approval() {
            return self.ask_user(call, prepared, record).await;
        }
        // No user can be asked: the model receives the question.
        let text = match &reason.hint {
            Some(how) => format!("{}; {how}", reason.text),
            None => reason.text.clone(),
        };
        let failure = Failure::new(ErrorCode::ApprovalRequired, text).with_hint(
            "continue without it, or say in the final answer what the user has to allow",
        );
        record.violates_instruction = reason.by_instruction;
        record.missing = MissingPermission::of(Some(effect));
        self.record_ruling(call, "ask", reason, record);
        Err(failure)
    }

    /// Why the user must be asked; `None`: the call is allowed.
    fn reason_to_ask(
        &self,
        call: &ToolCall,
        effect: &Effect,
        record: &mut CallInProgress,
    ) -> Result<Option<Reason>, Failure> {
        let reads = matches!(effect, Effect::Read { .. });
        // A mode that the user selected meanwhile applies from this call on.
        self.update_mode();
        match (self.ruling(&call.name, effect), &record.hook_ruling) {
            // What the user's rules ask about, a hook does not answer.
            (Ruling::Ask(Reason { requires_user: false, .. }), Some((HookRuling::Allow, why))) => {
                let text = with_reason("a hook allows this", why);
                self.record_ruling(call, "allow", plain_reason("hook", text), record);
                record.is_approved = true;
                Ok(None)
            }
            (Ruling::Allow(_), Some((HookRuling::Ask, why))) => {
                Ok(Some(plain_reason("hook", with_reason("a hook asks before this", why))))
            }
            (Ruling::Ask(reason), _) => Ok(Some(reason)),
            (Ruling::Allow(reason), _) => {
                if !reads && !effect.is_internal() {
                    self.record_ruling(call, "allow", reason, record);
                }
                Ok(None)
            }
            (Ruling::Refuse(code, reason), _) => {
                Err(self.refuse_call(call, effect, code, reason, record))
            }
        }
    }

    pub(super) fn refuse_call(
        &self,
        call: &ToolCall,
        effect: &Effect,
        code: ErrorCode,
        reason: Reason,
        record: &mut CallInProgress,
    ) -> Failure {
        let mut failure = Failure::new(code, reason.text.clone());
        failure.hint.clone_from(&reason.hint);
        // A restriction by the user is not a missing permission.
        record.violates_instruction = reason.by_instruction;
        // If another form of the command is allowed, no permission is missing.
        let has_other_form = reason.rule == "never" && reason.hint.is_some();
        // In mode plan a refused change is expected: no permission is missing.
        let plans = self.update_mode() == PermissionMode::Plan;
        if !(reason.by_instruction || has_other_form || plans) {
            record.missing = MissingPermission::of(Some(effect));
        }
        self.record_ruling(call, "refuse", reason, record);
        failure
    }

    /// The image in a file that the user mentions; `None`: it is text. The error is why Read would not show it:
    /// the user's rules, a name that indicates secrets, or its content.
    pub fn load_mentioned_image(&self, path: &str) -> Result<Option<Image>, String> {
        let workspace = &self.cx.workspace;
        let effect = Effect::Read { path: path.to_owned() };
        if let Ruling::Refuse(_, reason) = self.ruling("Read", &effect) {
            return Err(reason.text);
        }
        // An image that the user names by its absolute path may be anywhere; the model cannot name one.
        let (picture, what_it_is) =
            if Path::new(path).is_absolute() && workspace.resolve(path).is_err() {
                (workspace.read_user_image(Path::new(path)), format!("{path} is an image"))
            } else {
                let path = workspace.resolve(path).map_err(|failure| failure.message)?;
                let Err(not_text) = workspace.expect_text(&path) else { return Ok(None) };
                if not_text.code != ErrorCode::BinaryFile {
                    return Err(not_text.message);
                }
                (workspace.read_image(&path), not_text.message)
            };
        match picture {
            Ok(Some(_)) if !self.state().takes_images => Err(format!(
                "{what_it_is}, and this model takes no images: describe it, or choose another model"
            )),
            Ok(Some(picture)) => match self.cx.images.store(picture) {
                Ok(image) => Ok(Some(image)),
                Err(error) => Err(io_failure(&error, "store", path).message),
            },
            Ok(None) => Err(format!(
                "{what_it_is}; a model receives only text and PNG, JPEG or WebP images: describe the content, or \
                 convert it with a command"
            )),
            Err(Failure { message, hint, .. }) => Err(match hint {
                Some(hint) => format!("{message}; {hint}"),
                None => message,
            }),
        }
    }

    /// An image whose content came with the user's message. The error is why the model cannot see it.
    pub fn store_sent_image(&self, content: &[u8]) -> Result<Image, String> {
        let picture = ImageData::from_bytes(content.to_vec())?;
        if !self.state().takes_images {
            return Err("this model takes no images".to_owned());
        }
        self.cx.images.store(picture).map_err(|error| format!("it cannot be stored: {error}"))
    }

    async fn ask_user<'a>(
        &'a self,
        call: &ToolCall,
        prepared: &mut PreparedCall<'a>,
        record: &mut CallInProgress,
    ) -> Result<(), Failure> {
        let _one_at_a_time = self.shared.question_lock.lock().await;
        // A change that would fail needs no permission. The draft is what will be made.
        let cx = self.call_cx("", prepared, self.control.cancellation_token());
        prepared.draft = prepared.entry.tool.draft(&prepared.input, &cx).await?.map(Arc::new);
        let diff = prepared.draft.as_ref().map(|draft| draft.diff(DiffSize::Whole).text);
        let effect = &prepared.target.effect;
        // The answer to an earlier question, or another mode, may have settled this one.
        let Some(reason) = self.reason_to_ask(call, effect, record)? else { return Ok(()) };
        let path = prepared.target.resolved_path.as_ref().filter(|path| path.is_link());
        let link_target = path.map(|path| path.relative().to_owned());
        let policy = self.permissions().policy.clone();
        let mut question = self.control.open_question(&call.id);
        self.events.emit(EventBody::PermissionRequested {
            call: call.id.clone(),
            tool: call.name.clone(),
            input: prepared.input.clone(),
            effect: effect.clone(),
            rule: reason.rule,
            reason: reason.text,
            changed_by: record.changed_by,
            link_target,
            grants: self.offered_grants(call, effect),
            dangers: policy.describe_dangers(effect, &WorkspaceFacts(&self.cx.workspace)),
            diff,
        });
        let answering = async {
            loop {
                match question.next_reply().await {
                    Some(UserReply::Decision(decision)) => break Ok(Some(decision)),
                    // An answer to another call's questions.
                    Some(UserReply::Answers(_)) => {}
                    Some(UserReply::ModeRequested) => {
                        if self.reason_to_ask(call, effect, record)?.is_none() {
                            break Ok(None);
                        }
                    }
                    None => {
                        let why =
                            "not run: the turn was interrupted before the question was answered";
                        break Err(Failure::new(ErrorCode::Cancelled, why));
                    }
                }
            }
        };
        let message = format!("agent needs your permission to use {}", call.name);
        let notifying = self.ask_hooks(HookPayload::Notification { message: &message });
        // Hooks that are not done when the user answers are ended.
        let answer = match select(pin!(answering), pin!(notifying)).await {
            Either::Left((answer, _)) => answer,
            Either::Right((_, answering)) => answering.await,
        };
        match answer? {
            Some(decision) => self.apply_decision(call, prepared, record, decision).await,
            None => Ok(()),
        }
    }

    async fn apply_decision<'a>(
        &'a self,
        call: &ToolCall,
        prepared: &mut PreparedCall<'a>,
        record: &mut CallInProgress,
        decision: ApprovalDecision,
    ) -> Result<(), Failure> {
        let by_user = |text: String| plain_reason("the user", text);
        let text = match decision {
            ApprovalDecision::AllowOnce => "yes, this once".to_owned(),
            ApprovalDecision::AllowAlways(grant) => {
                let text = format!("yes, and for this session: {}", grant.in_words());
                match grant {
                    Grant::Rules(rules) => {
                        for rule in &rules {
                            let effect = &prepared.target.effect;
                            let directories =
                                self.permissions().policy.matching_directories(effect, rule);
                            let rule = format!("allow {rule}");
                            let granted =
                                SessionRule { rule, directories, ..SessionRule::default() };
                            self.add_session_rule(granted);
                        }
                    }
                    // It was requested together with the answer.
                    Grant::Mode(_) => _ = self.update_mode(),
                }
                text
            }
            ApprovalDecision::AllowChanged(input) => {
                self.apply_changed_input(call, prepared, input, record).await?;
                "yes, with other arguments".to_owned()
            }
            ApprovalDecision::Reject(instead) => {
                let words = instead.as_deref().unwrap_or_default().trim().to_owned();
                let failure = if words.is_empty() {
                    Failure::new(ErrorCode::ApprovalRejected, "the user said no to this call")
                        .with_hint(
                            "do it another way, or ask in your answer what the user wants instead",
                        )
                } else {
                    Failure::new(
                        ErrorCode::ApprovalRejected,
                        format!("the user said no to this call: {words}"),
                    )
                    .with_hint("do what the user says")
                };
                let reason = if words.is_empty() { "no".to_owned() } else { words };
                record.missing = MissingPermission::Effect;
                self.record_ruling(call, "reject", by_user(reason), record);
                return Err(failure);
            }
            ApprovalDecision::RejectAndStop(why) => {
                let text = format!("the user said no to this call and ended the turn: {why}");
                record.missing = MissingPermission::Effect;
                self.record_ruling(call, "reject", by_user(why), record);
                self.control.interrupt(Interrupt::User);
                return Err(Failure::new(ErrorCode::ApprovalRejected, text));
            }
        };
        self.record_ruling(call, "allow", by_user(text), record);
        record.is_approved = true;
        Ok(())
    }

    /// What the answer "always" can grant: rules, and mode auto-edit if it allows the call.
    fn offered_grants(&self, call: &ToolCall, effect: &Effect) -> Vec<Grant> {
        let facts = WorkspaceFacts(&self.cx.workspace);
        let mut grants = propose_grants(effect, &facts);
        let mut policy = self.permissions().policy.clone();
        let further = PermissionMode::AutoEdit;
        let may_change = self.shared.control.mode_refusal(further).is_none();
        if policy.mode() == PermissionMode::Ask && may_change {
            policy.set_mode(further);
            if let Ruling::Allow(_) = policy.rule_on(&call.name, effect, &facts) {
                grants.push(Grant::Mode(PermissionMode::AutoEdit));
            }
        }
        grants
    }

    pub(super) fn record_ruling(
        &self,
        call: &ToolCall,
        ruling: &str,
        reason: Reason,
        record: &CallInProgress,
    ) {
        self.events.emit(EventBody::PermissionDecided {
            call: call.id.clone(),
            tool: call.name.clone(),
            ruling: ruling.to_owned(),
            rule: reason.rule,
            reason: reason.text,
            denied_effect: record.missing == MissingPermission::Effect,
        });
    }
}
