//! What other systems are told of the inbox: that an item is new, that nobody has decided it in its time, or that it
//! needs nobody any more.

mod person_needed;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

pub use person_needed::PersonNeeded;

use crate::{
    agent::string_enum,
    approval::{Approval, ApprovalKind, ApprovalStatus, Decision},
    ids::{ProjectId, RunId},
    invalid::Invalid,
    text::truncate_graphemes,
    time::Timestamp,
};

/// The longest title in a list or a notice, with the sign that it was cut. A question can be longer; the item itself has
/// all of it.
const MAX_TITLE_CHARS: usize = 500;

/// The title of an item in lists and notices, of at most 500 characters.
pub fn short_title(title: &str) -> String {
    match title.chars().nth(MAX_TITLE_CHARS) {
        Some(_) => truncate_graphemes(title, MAX_TITLE_CHARS - 1),
        None => title.to_owned(),
    }
}

string_enum! {
    /// What an item of the inbox is.
    InboxItemKind {
        Approval = "approval",
        Question = "question",
        Discussion = "discussion",
        Escalation = "escalation",
    }
}

string_enum! {
    /// What happened to an item of the inbox.
    InboxChange {
        Created = "item_created",
        /// The item was decided, its time was up, or what asked for it has ended.
        Decided = "item_decided",
        /// Nobody has decided the item in its time, and it goes on waiting.
        Overdue = "item_overdue",
    }
}

/// A discussion or a workflow on which a person has to decide, or decided.
#[derive(Debug, Clone, PartialEq)]
pub struct InboxItem {
    /// The id of the discussion or the workflow.
    pub id: Uuid,
    pub project: ProjectId,
    pub kind: InboxItemKind,
    /// The topic of the discussion, or why the workflow does not go on.
    pub title: String,
    /// Never `expired`: such an item waits until somebody decides.
    pub status: ApprovalStatus,
    pub decision: Option<Decision>,
    /// When a person was needed. A workflow that is escalated again begins anew.
    pub created_at: Timestamp,
}

/// What other systems are told. It contains neither the input of a tool call nor an answer: who may read these
/// asks the API.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InboxNotice {
    #[serde(rename = "type")]
    pub change: InboxChange,
    pub project_id: ProjectId,
    pub item: InboxNoticeItem,
    pub at: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InboxNoticeItem {
    pub id: Uuid,
    pub kind: InboxItemKind,
    pub status: ApprovalStatus,
    /// The tool with the start of its input, the question, the topic of the discussion, or why the workflow does not go on.
    pub title: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_id: Option<RunId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
}

impl InboxNotice {
    /// The notice of a request to a person that has this status now; `None` if the caller of the run is asked, and no
    /// person.
    pub fn for_approval(approval: &Approval, status: ApprovalStatus, at: Timestamp) -> Option<Self> {
        let kind = match approval.kind {
            ApprovalKind::Question => InboxItemKind::Question,
            ApprovalKind::Approval => InboxItemKind::Approval,
            ApprovalKind::ClientTool => return None,
        };
        let item = InboxNoticeItem {
            run_id: Some(approval.run),
            agent_name: Some(approval.agent_name.clone()),
            tool_name: Some(approval.tool.clone()),
            expires_at: approval.expires_at,
            ..InboxNoticeItem::new(approval.id.0, kind, status, &approval.title())
        };
        Some(Self::new(approval.project, item, at))
    }

    /// The notice of a request that nobody has decided in its time, and that goes on waiting.
    pub fn for_overdue(approval: &Approval, at: Timestamp) -> Option<Self> {
        let notice = Self::for_approval(approval, ApprovalStatus::Pending, at)?;
        Some(Self { change: InboxChange::Overdue, ..notice })
    }

    /// The notice of a discussion or a workflow that has this status now.
    pub fn for_item(item: &InboxItem, at: Timestamp) -> Self {
        Self::new(item.project, InboxNoticeItem::new(item.id, item.kind, item.status, &item.title), at)
    }

    fn new(project_id: ProjectId, item: InboxNoticeItem, at: Timestamp) -> Self {
        let change = match item.status {
            ApprovalStatus::Pending => InboxChange::Created,
            ApprovalStatus::Decided | ApprovalStatus::Expired | ApprovalStatus::Withdrawn => {
                InboxChange::Decided
            }
        };
        Self { change, project_id, item, at }
    }
}

impl InboxNoticeItem {
    fn new(id: Uuid, kind: InboxItemKind, status: ApprovalStatus, title: &str) -> Self {
        Self {
            id,
            kind,
            status,
            title: short_title(title),
            run_id: None,
            agent_name: None,
            tool_name: None,
            expires_at: None,
        }
    }
}

/// Where a project sends notices of its inbox, and which of its secrets signs them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Webhook {
    pub url: String,
    /// The name of the secret. Its value is the key of the signature.
    pub secret: String,
}

impl Webhook {
    pub const MAX_URL_CHARS: usize = 2_000;

    /// Checks what can be checked without knowing the settings of the server and the secrets of the project.
    pub fn check(&self) -> Result<(), Invalid> {
        if self.url.is_empty() || self.url.chars().count() > Self::MAX_URL_CHARS {
            let range = format!("must have 1 to {} characters", Self::MAX_URL_CHARS);
            return Err(Invalid::new("webhook.url", range));
        }
        if self.url.contains('\0') {
            return Err(Invalid::new("webhook.url", "must not contain a NUL character"));
        }
        if self.secret.is_empty() || self.secret.len() > 128 || self.secret.contains('\0') {
            return Err(Invalid::new("webhook.secret", "must be the name of a secret of the project"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_is_cut_only_if_it_is_too_long_and_never_inside_of_a_character() {
        let fitting = "ü".repeat(MAX_TITLE_CHARS);
        assert_eq!(short_title(&fitting), fitting);
        assert_eq!(short_title(&format!("{fitting}x")), format!("{}…", "ü".repeat(MAX_TITLE_CHARS - 1)));
        // An accent that is a code point of its own stays with its letter.
        let accented = "e\u{301}".repeat(MAX_TITLE_CHARS);
        assert_eq!(short_title(&accented), format!("{}…", "e\u{301}".repeat(MAX_TITLE_CHARS / 2 - 1)));
    }

    #[test]
    fn a_notice_names_the_item_and_what_happened_to_it() {
        let at = Timestamp::from_micros(0);
        let mut item = InboxItem {
            id: Uuid::from_u128(1),
            project: ProjectId::new(),
            kind: InboxItemKind::Discussion,
            title: "x".repeat(1_000),
            status: ApprovalStatus::Pending,
            decision: None,
            created_at: at,
        };
        let json = serde_json::to_value(InboxNotice::for_item(&item, at)).unwrap();
        assert_eq!(json["type"], "item_created");
        assert_eq!(json["projectId"], item.project.to_string());
        assert_eq!(json["item"]["kind"], "discussion");
        assert_eq!(json["item"]["status"], "pending");
        assert!(json["item"]["title"].as_str().unwrap().chars().count() <= MAX_TITLE_CHARS);
        assert!(json["item"].get("runId").is_none());
        item.status = ApprovalStatus::Withdrawn;
        assert_eq!(InboxNotice::for_item(&item, at).change, InboxChange::Decided);
    }
}
