//! Converts a conversation to Gemini's format: `contents` of two roles, each a list of parts.

use std::{borrow::Cow, collections::HashMap};

use emergent_domain::{
    chat::{Part, Speaker, ToolCall, ToolResult, Turn},
    ids::ToolCallId,
    json::Schema,
};
use serde::Serialize;
use serde_json::Value;

use super::{
    super::{output_schema, wire::input_object},
    provider_data,
};
use crate::{ChatRequest, ToolSpec};

/// Gemini only answers to user content; it refuses a history that ends with an answer of the model.
const CONTINUE_PROMPT: &str = "Continue.";

/// Returns the body of `:streamGenerateContent`.
pub fn body<'a>(request: &ChatRequest<'a>) -> Body<'a> {
    let user_content = |text| Content { role: "user", parts: vec![WirePart::plain(Data::Text(text))] };
    let mut contents = contents(request.turns);
    if contents.last().is_none_or(|last| last.role == "model") {
        contents.push(user_content(CONTINUE_PROMPT));
    }
    let output_schema = output_schema::for_gemini(request);
    Body {
        contents,
        system_instruction: (!request.system.is_empty()).then(|| user_content(request.system)),
        tools: (!request.tools.is_empty())
            .then(|| [Tools { function_declarations: function_declarations(request.tools) }]),
        generation_config: GenerationConfig {
            temperature: request.temperature,
            max_output_tokens: request.max_tokens,
            response_mime_type: output_schema.map(|_| "application/json"),
            response_json_schema: output_schema,
        },
    }
}

fn contents(turns: &[Turn]) -> Vec<Content<'_>> {
    let ids = provider_ids(turns);
    let mut contents = vec![];
    for turn in turns {
        let role = match turn.speaker {
            Speaker::Assistant => "model",
            Speaker::User | Speaker::Tools => "user",
        };
        let parts: Vec<_> = turn.parts.iter().filter_map(|part| wire_part(part, &ids)).collect();
        // An answer may consist of thoughts only, and Gemini refuses content without parts.
        if !parts.is_empty() {
            contents.push(Content { role, parts });
        }
    }
    contents
}

/// Returns the ids that Gemini gave to its calls, which it also expects on the results.
fn provider_ids(turns: &[Turn]) -> HashMap<ToolCallId, &str> {
    let parts = turns.iter().flat_map(|turn| &turn.parts);
    let calls = parts.filter_map(|part| if let Part::Call(call) = part { Some(call) } else { None });
    calls.filter_map(|call| Some((call.id, provider_data::id(&call.provider)?))).collect()
}

/// Returns `None` for an empty part; an empty text with a signature is not empty.
fn wire_part<'a>(part: &'a Part, ids: &HashMap<ToolCallId, &'a str>) -> Option<WirePart<'a>> {
    match part {
        Part::Text { text, provider } => text_part(text, provider, false),
        Part::Thought { text, provider } => text_part(text, provider, true),
        Part::Call(call) => Some(WirePart {
            data: Data::FunctionCall(function_call(call)),
            thought: false,
            thought_signature: provider_data::signature(&call.provider),
        }),
        Part::Result(result) => {
            let id = ids.get(&result.id).copied();
            Some(WirePart::plain(Data::FunctionResponse(function_response(result, id))))
        }
    }
}

fn text_part<'a>(text: &'a str, provider: &'a Option<Value>, thought: bool) -> Option<WirePart<'a>> {
    let thought_signature = provider_data::signature(provider);
    if text.is_empty() && thought_signature.is_none() {
        return None;
    }
    Some(WirePart { data: Data::Text(text), thought, thought_signature })
}

fn function_call(call: &ToolCall) -> FunctionCall<'_> {
    FunctionCall { id: provider_data::id(&call.provider), name: &call.name, args: input_object(call) }
}

fn function_response<'a>(result: &'a ToolResult, id: Option<&'a str>) -> FunctionResponse<'a> {
    // Gemini accepts only objects, and interprets these two keys by their names.
    let response = match result.is_error {
        false => Outcome::Output(&result.output),
        true => Outcome::Error(&result.output),
    };
    FunctionResponse { id, name: &result.name, response }
}

fn function_declarations<'a>(tools: &'a [ToolSpec]) -> Vec<FunctionDeclaration<'a>> {
    let declare = |tool: &'a ToolSpec| FunctionDeclaration {
        name: &tool.name,
        description: &tool.description,
        parameters_json_schema: &tool.input_schema,
    };
    tools.iter().map(declare).collect()
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Body<'a> {
    contents: Vec<Content<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    system_instruction: Option<Content<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<[Tools<'a>; 1]>,
    #[serde(skip_serializing_if = "GenerationConfig::is_empty")]
    generation_config: GenerationConfig<'a>,
}

#[derive(Serialize)]
struct Content<'a> {
    role: &'static str,
    parts: Vec<WirePart<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WirePart<'a> {
    #[serde(flatten)]
    data: Data<'a>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    thought: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    thought_signature: Option<&'a str>,
}

impl<'a> WirePart<'a> {
    fn plain(data: Data<'a>) -> Self {
        Self { data, thought: false, thought_signature: None }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
enum Data<'a> {
    Text(&'a str),
    FunctionCall(FunctionCall<'a>),
    FunctionResponse(FunctionResponse<'a>),
}

#[derive(Serialize)]
struct FunctionCall<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    name: &'a str,
    args: Cow<'a, Value>,
}

#[derive(Serialize)]
struct FunctionResponse<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    name: &'a str,
    response: Outcome<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum Outcome<'a> {
    Output(&'a Value),
    Error(&'a Value),
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Tools<'a> {
    function_declarations: Vec<FunctionDeclaration<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct FunctionDeclaration<'a> {
    name: &'a str,
    description: &'a str,
    /// `parameters` would support only a subset of JSON Schema.
    parameters_json_schema: &'a Schema,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct GenerationConfig<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_output_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_mime_type: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_json_schema: Option<&'a Value>,
}

impl GenerationConfig<'_> {
    fn is_empty(&self) -> bool {
        self.temperature.is_none() && self.max_output_tokens.is_none() && self.response_mime_type.is_none()
    }
}
