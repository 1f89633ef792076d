//! The parameters of the operations, and what is refused in them.
//!
//! Clients have to write the names of fields in camelCase. The names of the proto file are read too, as parsers of
//! ProtoJSON do: a filter or a `task_id` that is ignored would do something else than what was asked for.

use emergent_domain::{cursor::Cursor, invalid::Invalid, patch::canonical_json, time::Timestamp};
use serde::Deserialize;
use serde_json::{Value, json};
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use super::{
    error::A2aError,
    message::input_text,
    push::{CheckedPushConfig, PushConfig},
    types::{Message, Role, TaskState},
};

/// The maximum number of messages of a history. A client can ask for fewer.
pub const MAX_HISTORY: usize = 100;
const DEFAULT_PAGE_SIZE: usize = 50;
const MAX_PAGE_SIZE: usize = 100;
const MAX_MESSAGE_ID_CHARS: usize = 200;
const MAX_CONTEXT_CHARS: usize = 200;
/// The version of the UUIDs that servers make.
const SERVER_ID_VERSION: usize = 7;

#[derive(Debug, Clone, Deserialize, ToSchema)]
#[schema(as = A2aSendMessage)]
#[serde(rename_all = "camelCase")]
pub struct SendMessage {
    pub message: Message,
    #[serde(default)]
    pub configuration: Option<SendConfiguration>,
}

#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[schema(as = A2aSendConfiguration)]
#[serde(rename_all = "camelCase")]
pub struct SendConfiguration {
    /// Returns the task as soon as it exists, instead of when it has ended or needs an input.
    #[serde(default, alias = "return_immediately")]
    pub return_immediately: Option<bool>,
    #[serde(default, alias = "history_length")]
    pub history_length: Option<i64>,
    /// Where the updates of the task are sent.
    #[serde(default, alias = "task_push_notification_config")]
    pub task_push_notification_config: Option<PushConfig>,
}

/// How a client names a context.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ContextRef {
    /// With an id of the form that servers make, which is that of an earlier task.
    Server(Uuid),
    /// With a name of its own.
    Client(String),
}

impl ContextRef {
    /// Reads a `contextId`. Only an id that looks like those of servers can be that of a context which the caller did
    /// not name, so that a name never leads to a context of somebody else.
    fn parse(text: &str) -> Self {
        match text.parse::<Uuid>() {
            Ok(id) if id.get_version_num() == SERVER_ID_VERSION => Self::Server(id),
            _ => Self::Client(text.to_owned()),
        }
    }

    /// Whether a task with this `contextId` is in the context.
    pub fn is(&self, shown: &str) -> bool {
        match self {
            Self::Server(id) => shown == id.to_string(),
            Self::Client(name) => shown == name,
        }
    }
}

/// Which task, or which context, a message is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    /// A new task in a new context.
    New,
    /// A new task in a context of an earlier task, or in one that the client names.
    Context(ContextRef),
    /// A task that exists, in this context if the message names one.
    Task { id: Uuid, context: Option<ContextRef> },
}

/// A message of a client, after its checks.
#[derive(Debug, Clone, PartialEq)]
pub struct ClientMessage {
    /// Chosen by the client. The same message again has the same id.
    pub id: String,
    pub subject: Subject,
    /// What the agent is asked.
    pub text: String,
    /// The only value of a message that has no other part, for a question whose answer is not a text.
    pub data: Option<Value>,
    /// The whole message in one form, to recognise another message with the same id.
    pub canonical: String,
    pub history_length: usize,
    pub returns_immediately: bool,
    /// Where the updates of the task are sent.
    pub push: Option<CheckedPushConfig>,
}

impl SendMessage {
    /// Checks a message.
    pub fn check(self) -> Result<ClientMessage, A2aError> {
        let Self { message, configuration } = self;
        let configuration = configuration.unwrap_or_default();
        check_message_id(&message.message_id)?;
        if message.role != Role::User {
            return Err(
                Invalid::new("message.role", "must be ROLE_USER: clients send messages of users").into()
            );
        }
        let push = configuration.task_push_notification_config;
        let push = push.map(|push| push.check("configuration.taskPushNotificationConfig")).transpose()?;
        let (text, data) = input_text(&message.parts)?;
        let subject = subject(&message)?;
        Ok(ClientMessage {
            id: message.message_id.clone(),
            subject,
            text,
            data,
            canonical: canonical_json(&json!(message)),
            history_length: check_history_length(
                "configuration.historyLength",
                configuration.history_length,
            )?,
            returns_immediately: configuration.return_immediately == Some(true),
            push,
        })
    }
}

fn check_message_id(id: &str) -> Result<(), Invalid> {
    let reason = match id {
        id if id.trim().is_empty() => "is required".to_owned(),
        id if id.chars().count() > MAX_MESSAGE_ID_CHARS => {
            format!("is longer than {MAX_MESSAGE_ID_CHARS} characters")
        }
        id if id.chars().any(char::is_control) => "has a control character".to_owned(),
        _ => return Ok(()),
    };
    Err(Invalid::new("message.messageId", reason))
}

/// A field that is an empty string counts as not set.
fn subject(message: &Message) -> Result<Subject, A2aError> {
    let set = |field: &Option<String>| field.clone().filter(|text| !text.is_empty());
    let context =
        set(&message.context_id).map(|text| check_context("message.contextId", &text)).transpose()?;
    Ok(match (set(&message.task_id), context) {
        (Some(task), context) => Subject::Task { id: parse_task(&task)?, context },
        (None, Some(context)) => Subject::Context(context),
        (None, None) => Subject::New,
    })
}

/// Parses the id of a task. Servers make these ids, so that no task has one of another form.
pub fn parse_task(text: &str) -> Result<Uuid, A2aError> {
    text.parse().map_err(|_| A2aError::task_not_found(text))
}

fn check_context(field: &str, text: &str) -> Result<ContextRef, Invalid> {
    let reason = match text {
        text if text.trim().is_empty() => "has only spaces".to_owned(),
        text if text.chars().count() > MAX_CONTEXT_CHARS => {
            format!("is longer than {MAX_CONTEXT_CHARS} characters")
        }
        text if text.chars().any(char::is_control) => "has a control character".to_owned(),
        text => return Ok(ContextRef::parse(text)),
    };
    Err(Invalid::new(field, reason))
}

/// The error about a context that does not exist, or that the caller may not see.
pub fn unknown_context() -> A2aError {
    let reason = "is not a context of this agent: send the one of an earlier task, a name of your own that is not a \
                  UUID of version 7, or none to begin a new one";
    Invalid::new("message.contextId", reason).into()
}

/// The error about a context that the caller named, and that somebody deleted.
pub fn deleted_context() -> A2aError {
    Invalid::new("message.contextId", "is a context that was deleted: choose another one").into()
}

fn check_history_length(field: &str, length: Option<i64>) -> Result<usize, Invalid> {
    match length {
        None => Ok(MAX_HISTORY),
        Some(length) => match usize::try_from(length) {
            Ok(length) => Ok(length.min(MAX_HISTORY)),
            Err(_) => Err(Invalid::new(field, "must be 0 or more")),
        },
    }
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GetTask {
    pub id: String,
    #[serde(default, alias = "history_length")]
    pub history_length: Option<i64>,
}

impl GetTask {
    /// The task and the number of messages of its history.
    pub fn check(&self) -> Result<(Uuid, usize), A2aError> {
        Ok((parse_task(&self.id)?, check_history_length("historyLength", self.history_length)?))
    }
}

/// The parameters of operations about one task.
#[derive(Debug, Clone, Deserialize)]
pub struct TaskParams {
    pub id: String,
}

#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(rename_all = "camelCase")]
pub struct ListTasks {
    /// Only tasks of this context.
    #[serde(default, alias = "context_id")]
    pub context_id: Option<String>,
    /// Only tasks with this state.
    #[serde(default)]
    #[param(value_type = Option<String>)]
    pub status: Option<TaskState>,
    #[serde(default, alias = "page_size")]
    #[param(minimum = 1, maximum = 100)]
    pub page_size: Option<i64>,
    #[serde(default, alias = "page_token")]
    pub page_token: Option<String>,
    #[serde(default, alias = "history_length")]
    pub history_length: Option<i64>,
    /// Only tasks whose status is of this time or later.
    #[serde(default, alias = "status_timestamp_after")]
    #[param(value_type = Option<String>)]
    pub status_timestamp_after: Option<String>,
    #[serde(default, alias = "include_artifacts")]
    pub include_artifacts: Option<bool>,
}

/// Which tasks a list has.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskQuery {
    pub context: Option<ContextRef>,
    pub state: Option<TaskState>,
    pub since: Option<Timestamp>,
    pub after: Option<Cursor>,
    pub page_size: usize,
    pub history_length: usize,
    pub includes_artifacts: bool,
}

impl ListTasks {
    pub fn check(&self) -> Result<TaskQuery, Invalid> {
        let set = |field: &Option<String>| field.clone().filter(|text| !text.is_empty());
        let page_size = match self.page_size {
            None => DEFAULT_PAGE_SIZE,
            Some(size) => usize::try_from(size)
                .ok()
                .filter(|size| (1..=MAX_PAGE_SIZE).contains(size))
                .ok_or_else(|| Invalid::new("pageSize", format!("must be 1 to {MAX_PAGE_SIZE}")))?,
        };
        let after = set(&self.page_token).map(|token| token.parse()).transpose();
        let after =
            after.map_err(|_| Invalid::new("pageToken", "is not the token of a page of this list"))?;
        let since = set(&self.status_timestamp_after).map(|text| text.parse()).transpose();
        let since = since.map_err(|_| {
            Invalid::new("statusTimestampAfter", "must be a time such as 2026-01-31T08:00:00Z")
        })?;
        Ok(TaskQuery {
            // No context has a name that a message could not have, and PostgreSQL does not even look for some.
            context: set(&self.context_id).map(|text| check_context("contextId", &text)).transpose()?,
            state: self.status.filter(|state| *state != TaskState::Unspecified),
            since,
            after,
            page_size,
            history_length: check_history_length("historyLength", self.history_length)?,
            includes_artifacts: self.include_artifacts == Some(true),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn send(change: impl FnOnce(&mut Value)) -> Result<ClientMessage, Value> {
        let mut request = json!({ "message": {
            "messageId": "m1", "role": "ROLE_USER", "parts": [{ "text": "Go." }],
        } });
        change(&mut request);
        let request: SendMessage = serde_json::from_value(request).expect("a request");
        request.check().map_err(|error| json!(error.jsonrpc_error()))
    }

    #[test]
    fn a_message_is_about_a_new_task_a_context_or_a_task() {
        let (task, context) = (Uuid::now_v7(), Uuid::now_v7());
        let subject = |task: Value, context: Value| {
            let message = send(|request| {
                request["message"]["taskId"] = task;
                request["message"]["contextId"] = context;
            });
            message.map(|message| message.subject)
        };
        assert_eq!(subject(Value::Null, Value::Null), Ok(Subject::New));
        assert_eq!(subject(json!(""), json!("")), Ok(Subject::New));
        let server = ContextRef::Server(context);
        assert_eq!(subject(Value::Null, json!(context)), Ok(Subject::Context(server.clone())));
        assert_eq!(subject(json!(task), Value::Null), Ok(Subject::Task { id: task, context: None }));
        assert_eq!(
            subject(json!(task), json!(context)),
            Ok(Subject::Task { id: task, context: Some(server) })
        );
        assert_eq!(subject(json!("mine"), Value::Null).unwrap_err()["code"], -32001);
        // A client names contexts with anything but an id of the form that servers make.
        for name in ["mine", "5f0c6bd6-0f5a-4f43-9c1c-8c3bb5f0a001"] {
            let client = ContextRef::Client(name.to_owned());
            assert_eq!(subject(Value::Null, json!(name)), Ok(Subject::Context(client)));
        }
        for wrong in [" ".to_owned(), "a\u{1f}b".to_owned(), "x".repeat(201)] {
            assert_eq!(subject(Value::Null, json!(wrong)).unwrap_err()["code"], -32602);
        }
    }

    #[test]
    fn a_message_of_an_agent_or_without_an_id_or_with_a_negative_history_is_refused() {
        let field = |change: fn(&mut Value)| {
            let error = send(change).unwrap_err();
            error["data"][0]["fieldViolations"][0]["field"].as_str().expect("a field").to_owned()
        };
        assert_eq!(field(|request| request["message"]["role"] = json!("ROLE_AGENT")), "message.role");
        assert_eq!(field(|request| request["message"]["messageId"] = json!(" ")), "message.messageId");
        assert_eq!(field(|request| request["message"]["messageId"] = json!("a\u{1f}b")), "message.messageId");
        assert_eq!(field(|request| request["message"]["parts"] = json!([])), "message.parts");
        assert_eq!(
            field(|request| request["configuration"] = json!({ "historyLength": -1 })),
            "configuration.historyLength"
        );
    }

    #[test]
    fn the_same_message_has_the_same_form_whatever_the_configuration() {
        let plain = send(|_| {}).unwrap();
        let configured =
            send(|request| request["configuration"] = json!({ "returnImmediately": true })).unwrap();
        let other = send(|request| request["message"]["parts"][0]["text"] = json!("Stop.")).unwrap();
        assert_eq!(plain.canonical, configured.canonical);
        assert!(configured.returns_immediately && !plain.returns_immediately);
        assert_ne!(plain.canonical, other.canonical);
    }

    #[test]
    fn fields_may_have_their_names_of_the_proto_file() {
        let task: GetTask = serde_json::from_value(json!({ "id": "t", "history_length": 0 })).unwrap();
        assert_eq!(task.history_length, Some(0));
        let list: ListTasks =
            serde_json::from_value(json!({ "context_id": "c", "page_size": 2, "include_artifacts": true }))
                .unwrap();
        assert_eq!((list.context_id.as_deref(), list.page_size), (Some("c"), Some(2)));
        assert_eq!(list.include_artifacts, Some(true));
        let message: Message = serde_json::from_value(json!({
            "message_id": "m", "task_id": "t", "context_id": "c", "role": "ROLE_USER", "parts": [],
        }))
        .unwrap();
        assert_eq!((message.task_id.as_deref(), message.context_id.as_deref()), (Some("t"), Some("c")));
    }

    #[test]
    fn a_list_has_limits_and_names_a_wrong_parameter() {
        let check = |value: Value| {
            let query: ListTasks = serde_json::from_value(value).expect("parameters");
            query.check().map_err(|invalid| invalid.problems[0].field.clone())
        };
        let plain = check(json!({ "status": "TASK_STATE_UNSPECIFIED", "pageToken": "" })).unwrap();
        assert_eq!((plain.page_size, plain.state, plain.after), (50, None, None));
        assert!(!plain.includes_artifacts);
        assert_eq!(check(json!({ "pageSize": 100 })).unwrap().page_size, 100);
        let name = "of another server";
        let context = Some(ContextRef::Client(name.to_owned()));
        assert_eq!(check(json!({ "contextId": name })).unwrap().context, context);
        assert_eq!(check(json!({ "historyLength": 1_000_000 })).unwrap().history_length, MAX_HISTORY);
        for (value, field) in [
            (json!({ "pageSize": 0 }), "pageSize"),
            (json!({ "pageSize": 101 }), "pageSize"),
            (json!({ "pageToken": "x" }), "pageToken"),
            (json!({ "historyLength": -1 }), "historyLength"),
            (json!({ "statusTimestampAfter": "yesterday" }), "statusTimestampAfter"),
        ] {
            assert_eq!(check(value), Err(field.to_owned()));
        }
    }
}
