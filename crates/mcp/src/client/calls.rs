//! Tool calls, in which a server may ask for input.

use std::time::Duration;

use emergent_net::trace_context;
use serde_json::{Map, Value};

use super::{
    CallInput, Client, Era, Error, MAX_INPUT_ROUNDS, OnProgress, RemoteCallResult, Sending, headers,
    input::{self, Form},
    meta_mut,
    tools::{CallOutcome, parse_call_response},
};

/// The settings of one tool call.
#[derive(Clone)]
pub struct CallOptions {
    pub within: Duration,
    pub progress: Option<OnProgress>,
    /// Who is asked if the server requests input. `None` if there is nobody.
    pub input: Option<CallInput>,
}

impl Client {
    /// Calls a tool. `schema` is its input schema, which may request arguments in headers.
    pub async fn call_tool(
        &self,
        name: &str,
        schema: &Value,
        arguments: Map<String, Value>,
        options: CallOptions,
    ) -> Result<RemoteCallResult, Error> {
        let clock = options.input.as_ref().map(|input| input.clock.clone()).unwrap_or_default();
        let within = options.within;
        let work = self.call_with_input(name, schema, arguments, options);
        clock.timeout(within, work).await.ok_or(Error::Timeout(within))?
    }

    /// Calls a tool, and again with the answers as long as the server requests input.
    async fn call_with_input(
        &self,
        name: &str,
        schema: &Value,
        arguments: Map<String, Value>,
        options: CallOptions,
    ) -> Result<RemoteCallResult, Error> {
        let CallOptions { within, progress, input } = options;
        let mut call_headers = vec![("mcp-name".to_owned(), headers::encode_header(name))];
        if self.era() == Era::Modern {
            call_headers.extend(headers::argument_headers(
                &headers::mirrored_arguments(schema).unwrap_or_default(),
                &arguments,
            ));
        }
        let sending = Sending { within, headers: call_headers, progress, input };
        let first_params = Map::from_iter([
            ("name".to_owned(), Value::from(name)),
            ("arguments".to_owned(), Value::Object(arguments)),
        ]);
        let mut params = first_params.clone();
        // Servers on stdio have no headers, so the context is in the request as well.
        if let Some(context) = trace_context::outgoing() {
            meta_mut(&mut params).insert(trace_context::TRACEPARENT.to_owned(), Value::from(context));
        }
        for _ in 0..MAX_INPUT_ROUNDS {
            let (result, held) = self.send_held("tools/call", params, sending.clone()).await?;
            let bytes = result.get().len();
            let parse = move || parse_call_response(&result, held);
            let (questions, state) = match self.large_messages().process(bytes, parse).await?? {
                CallOutcome::Done(result) => return Ok(result),
                CallOutcome::NeedsInput { questions, state } => (questions, state),
            };
            let mut answers = Map::new();
            for (key, question) in questions {
                answers.insert(key, self.answer_question(question, sending.input.as_ref()).await?);
            }
            params = first_params.clone();
            params.insert("inputResponses".into(), Value::Object(answers));
            if let Some(state) = state {
                params.insert("requestState".into(), Value::from(state));
            }
        }
        Err(Error::NeedsUserInput(format!("the server requested input {MAX_INPUT_ROUNDS} times in one call")))
    }

    /// Answers one question of a modern server, which is part of the result of a call.
    async fn answer_question(&self, question: Value, input: Option<&CallInput>) -> Result<Value, Error> {
        let method = question.get("method").and_then(Value::as_str).unwrap_or_default();
        let params = question.get("params").cloned().unwrap_or_default();
        if let Some(answer) = self.inner().inbox.handler.answer(method, &params) {
            return Ok(answer);
        }
        let Some(input) = input.filter(|_| method == input::METHOD) else {
            return Err(Error::NeedsUserInput(method.to_owned()));
        };
        let refused = |error: crate::message::RpcError| Error::NeedsUserInput(error.message);
        input.ask(Form::parse(params).map_err(refused)?).await.map_err(refused)
    }
}
