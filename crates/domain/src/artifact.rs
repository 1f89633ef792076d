//! What an agent adds to its result besides its answer: a file, a value, or the address of a file. The call of the tool
//! is the only record of it: whoever shows a result reads the calls of the run.

use serde::Deserialize;
use serde_json::Value;

use crate::{ids::ToolCallId, run::ToolCallStatus, run_event::RecordedToolCall};

/// The tool with which an agent adds an artifact.
pub const ARTIFACT_TOOL: &str = "artifacts_add";
/// The maximum number of artifacts of a run.
pub const MAX_ARTIFACTS: usize = 20;
/// The maximum size of the content of one artifact.
pub const MAX_ARTIFACT_BYTES: usize = 256 << 10;
/// The maximum size of the artifacts of a run.
pub const MAX_ARTIFACTS_BYTES: usize = 768 << 10;
const MAX_NAME_CHARS: usize = 200;
const MAX_URL_BYTES: usize = 2_000;

/// The input of a call of the tool.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ArtifactInput {
    pub name: String,
    #[serde(default)]
    pub media_type: Option<String>,
    #[serde(default)]
    pub text: Option<String>,
    #[serde(default)]
    pub data: Option<Value>,
    #[serde(default)]
    pub url: Option<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum ArtifactContent {
    /// The content of a text file.
    Text(String),
    /// A JSON value.
    Data(Value),
    /// The address of a file.
    Url(String),
}

#[derive(Debug, Clone, PartialEq)]
pub struct RunArtifact {
    /// The call that added it.
    pub id: ToolCallId,
    /// The name of the file.
    pub name: String,
    pub media_type: String,
    pub content: ArtifactContent,
}

impl ArtifactInput {
    /// Checks the input of a call. The error tells the model how to correct it.
    pub fn check(self, id: ToolCallId) -> Result<RunArtifact, String> {
        let Self { name, media_type, text, data, url } = self;
        if name.trim().is_empty()
            || name.chars().count() > MAX_NAME_CHARS
            || name.chars().any(char::is_control)
        {
            return Err(format!("`name` must be the name of a file, with 1 to {MAX_NAME_CHARS} characters"));
        }
        let (content, default_type) = match (text, data, url) {
            (Some(text), None, None) => (ArtifactContent::Text(text), "text/plain"),
            (None, Some(data), None) => (ArtifactContent::Data(data), "application/json"),
            (None, None, Some(url)) => (ArtifactContent::Url(url), "application/octet-stream"),
            _ => return Err("give exactly one of `text`, `data` and `url`".to_owned()),
        };
        if let ArtifactContent::Url(url) = &content {
            let is_web = url.starts_with("https://") || url.starts_with("http://");
            if !is_web
                || url.len() > MAX_URL_BYTES
                || url.chars().any(|c| c.is_control() || c.is_whitespace())
            {
                let reason = format!(
                    "`url` must begin with https:// or http://, and have up to {MAX_URL_BYTES} bytes"
                );
                return Err(reason);
            }
        }
        let media_type = media_type.filter(|media_type| !media_type.is_empty());
        if media_type.as_ref().is_some_and(|media_type| !is_media_type(media_type)) {
            return Err("`mediaType` must be a media type such as text/csv".to_owned());
        }
        let artifact = RunArtifact {
            id,
            name,
            media_type: media_type.unwrap_or_else(|| default_type.to_owned()),
            content,
        };
        match artifact.bytes() <= MAX_ARTIFACT_BYTES {
            true => Ok(artifact),
            false => Err(format!(
                "the content is longer than {MAX_ARTIFACT_BYTES} bytes: shorten it, or add it in several artifacts"
            )),
        }
    }
}

/// A type and a subtype, perhaps with parameters.
fn is_media_type(text: &str) -> bool {
    let is_token = |part: &str| {
        !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric() || "!#$&^_.+-".contains(c))
    };
    let essence = text.split(';').next().unwrap_or_default().trim();
    let is_printable = text.len() <= 200 && text.chars().all(|c| (' '..='~').contains(&c));
    is_printable && essence.split_once('/').is_some_and(|(kind, sub)| is_token(kind) && is_token(sub))
}

impl RunArtifact {
    /// The artifact that a recorded call added; `None` for a call of another tool, and for one that was refused.
    pub fn of_call(call: &RecordedToolCall) -> Option<Self> {
        if call.tool != ARTIFACT_TOOL || call.status != ToolCallStatus::Completed {
            return None;
        }
        let input = ArtifactInput::deserialize(&call.input).ok()?;
        input.check(call.id).ok()
    }

    /// The size of the content.
    pub fn bytes(&self) -> usize {
        match &self.content {
            ArtifactContent::Text(text) => text.len(),
            ArtifactContent::Data(data) => data.to_string().len(),
            ArtifactContent::Url(url) => url.len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(input: Value) -> Result<RunArtifact, String> {
        let input: ArtifactInput = serde_json::from_value(input).expect("an input");
        input.check(ToolCallId::new())
    }

    #[test]
    fn an_artifact_has_one_content_and_a_media_type() {
        let file = check(json!({ "name": "a.txt", "text": "Hello" })).unwrap();
        assert_eq!((file.media_type.as_str(), file.bytes()), ("text/plain", 5));
        let table =
            check(json!({ "name": "a.csv", "mediaType": "text/csv; charset=utf-8", "text": "a,b" })).unwrap();
        assert_eq!(table.media_type, "text/csv; charset=utf-8");
        let value = check(json!({ "name": "a.json", "data": { "n": 1 } })).unwrap();
        assert_eq!(
            (value.media_type.as_str(), value.content),
            ("application/json", ArtifactContent::Data(json!({ "n": 1 })))
        );
        let address = check(json!({ "name": "a.png", "url": "https://example.com/a.png" })).unwrap();
        assert_eq!(address.media_type, "application/octet-stream");
    }

    #[test]
    fn what_no_artifact_can_be_is_refused() {
        for (input, field) in [
            (json!({ "name": " ", "text": "x" }), "`name`"),
            (json!({ "name": "a\n", "text": "x" }), "`name`"),
            (json!({ "name": "a" }), "exactly one"),
            (json!({ "name": "a", "text": "x", "url": "https://example.com" }), "exactly one"),
            (json!({ "name": "a", "url": "file:///etc/passwd" }), "`url`"),
            (json!({ "name": "a", "url": "https://example.com/a b" }), "`url`"),
            (json!({ "name": "a", "text": "x", "mediaType": "text" }), "`mediaType`"),
            (json!({ "name": "a", "text": "x", "mediaType": "text/plain\r\nX: y" }), "`mediaType`"),
            (json!({ "name": "a", "text": "x".repeat(MAX_ARTIFACT_BYTES + 1) }), "longer"),
        ] {
            let refused = check(input).unwrap_err();
            assert!(refused.contains(field), "{refused}");
        }
    }
}
