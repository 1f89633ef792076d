//! Completions: a run of an agent, whole or streamed.

use std::{collections::VecDeque, time::Duration};

use axum::{
    Extension,
    extract::State,
    response::{IntoResponse, Response, sse::Event},
};
use emergent_domain::{
    chat::Usage as TokenCounts,
    ids::{ProjectId, RunId},
    run::Run,
    run_event::RunEvent,
};
use emergent_executor::{self as executor, StartOptions, history::TokenTotals};
use emergent_graph::Actor;
use emergent_surfaces::{
    invoke::MAX_WAIT_SECONDS,
    openai::{
        AnswerForm,
        chunks::{Chunk, ChunkState, Frame},
        completion::{Completion, completion},
        error::error_body,
        request::ChatRequest,
        response_format::rename_schema_fields,
        tools::rename_tool_fields,
    },
};
use futures_util::{Stream, StreamExt, stream};

use super::{
    client_calls::{FollowedRun, answer_calls, follow_accepted, whole_segment},
    errors::without_retry,
    models::find_model,
};
use crate::{
    ApiError, App,
    auth::{AsActor, Caller},
    error::Failure,
    extract::Json,
    idempotency::HasKey,
    request_context::RequestContext,
    routes::external::invoke::{Accepted, accepted_run},
    sse,
    waited_run::WaitedRun,
    waiting::{self, wait_for_run},
};

/// Starts an external agent, whose name is the `model`, and returns its answer, or streams it. Earlier messages are the
/// conversation so far. If the agent calls `tools` of the request, the answer is these calls; the request with their
/// results goes on with the same run. A run without an `Idempotency-Key` is cancelled when its caller disconnects; with one it goes
/// on, and the same request gets its answer.
#[utoipa::path(
    post, path = "/v1/chat/completions", tag = "openai", operation_id = "createChatCompletion",
    request_body = ChatRequest,
    responses(
        (
            status = 200, description = "The answer; with `stream`, its chunks and `[DONE]`",
            content((Completion = "application/json"), (Chunk = "text/event-stream")),
        ),
        (status = 403, description = "`missing_scope`, or `forbidden`: the agent is not external", body = Failure),
        (status = 422, description = "`run_waiting`: the run waits for a person", body = Failure),
        (status = 429, description = "`rate_limited`: this token started this agent too often; or `overloaded`", body = Failure),
        (status = 500, description = "The run failed; `code` is the reason of the run", body = Failure),
        (status = 504, description = "`run_not_ended`: the run has not ended in time", body = Failure),
    ),
)]
pub(super) async fn create(
    State(app): State<App>,
    caller: Caller,
    AsActor(actor): AsActor,
    accepted: Accepted,
    key: Option<Extension<HasKey>>,
    context: Option<Extension<RequestContext>>,
    Json(body): Json<ChatRequest>,
) -> Result<Response, ApiError> {
    let (is_streamed, includes_usage) = (body.is_streamed(), body.includes_usage());
    let results = body.results()?;
    // Nothing is started for a caller that could not be answered.
    let permit = waiting::permit(&app, &caller, context.as_ref().map(|Extension(context)| context))?;
    let followed = match accepted_run(&app, actor, accepted).await? {
        Some(run) => follow_accepted(&app, actor.project, run, &results).await?,
        None => match answer_calls(&app, actor, &body.model, &results).await? {
            Some(followed) => followed,
            None => FollowedRun::from_start(start(&app, &caller, actor, body).await?),
        },
    };
    let FollowedRun { run, after_seq, has_results } = followed;
    let mut waited = WaitedRun::new(app.executor.clone(), actor, run.id);
    // Whoever sends the same results again gets the same answer, so the run goes on without its caller.
    if key.is_some() || has_results {
        waited.keep();
    }
    let form = match app.executor.has_output_schema(&run).await? {
        true => AnswerForm::Value,
        false => AnswerForm::Text,
    };
    if is_streamed {
        let state = ChunkState::new(run, after_seq, form, includes_usage);
        let frames = frames(&app, actor.project, waited, after_seq, state).map(frame);
        return Ok(sse::stream_with(&app, &caller, permit, frames));
    }
    if !run.terms.client_tools.is_empty() {
        let answer = whole_segment(&app, &caller, run, after_seq, form).await;
        waited.keep();
        return answer;
    }
    let limit = Duration::from_secs(MAX_WAIT_SECONDS);
    let run = wait_for_run(&app, &caller, actor.project, run.id, limit).await;
    // A run that waits for a person, or that has not ended in time, can be read later.
    waited.keep();
    let run = run?;
    let tokens = app.executor.token_totals(actor.project, run.id).await?;
    Ok(match completion(&run, token_counts(&tokens).into()) {
        Ok(completion) => axum::Json(completion).into_response(),
        Err(failure) => without_retry(failure),
    })
}

async fn start(app: &App, caller: &Caller, actor: Actor, body: ChatRequest) -> Result<Run, ApiError> {
    let agent = find_model(app, actor.project, &body.model).await?;
    let start = body.into_start()?;
    app.invoke_rate.take(caller.token.id, agent.id)?;
    let options = StartOptions {
        input: start.input,
        context: start.context,
        history: start.history,
        client_tools: start.client_tools,
        output_schema: start.output_schema,
        ..StartOptions::default()
    };
    let started = app.executor.invoke(actor, agent.id, options).await;
    app.invoke_rate.unless_invalid(caller.token.id, agent.id, started).map_err(|error| match error {
        executor::Error::Invalid(invalid) => rename_schema_fields(rename_tool_fields(invalid)).into(),
        error => error.into(),
    })
}

fn token_counts(totals: &TokenTotals) -> TokenCounts {
    let count = |tokens: i64| u64::try_from(tokens).unwrap_or(0);
    TokenCounts {
        input: count(totals.input),
        output: count(totals.output),
        reasoning: count(totals.reasoning),
        cache_read: count(totals.cache_read),
        cache_write: count(totals.cache_write),
    }
}

/// What is sent next, and from where.
struct Frames {
    app: App,
    events: stream::BoxStream<'static, executor::Result<RunEvent>>,
    state: ChunkState,
    waited: WaitedRun,
    ready: VecDeque<Frame>,
    has_ended: bool,
}

/// Returns the frames of a run, as its events come.
fn frames(
    app: &App,
    project: ProjectId,
    waited: WaitedRun,
    after_seq: i64,
    state: ChunkState,
) -> impl Stream<Item = Frame> + Send + 'static {
    let run: RunId = waited.run;
    let events = app.executor.follow(project, run, after_seq).boxed();
    let frames = Frames { app: app.clone(), events, state, waited, ready: VecDeque::new(), has_ended: false };
    stream::unfold(frames, |mut frames| async move {
        let frame = frames.next().await?;
        Some((frame, frames))
    })
}

impl Frames {
    async fn next(&mut self) -> Option<Frame> {
        loop {
            self.ready.extend(self.state.take_frames());
            if let Some(frame) = self.ready.pop_front() {
                return Some(frame);
            }
            if self.has_ended {
                return None;
            }
            match self.events.next().await {
                Some(Ok(event)) => {
                    self.state.on_event(event.body);
                    // The run has ended, or waits for the results of its caller.
                    if self.state.has_ended() {
                        self.waited.keep();
                        self.has_ended = true;
                    }
                }
                Some(Err(failure)) => {
                    self.has_ended = true;
                    let failure = ApiError::from(failure);
                    let body = error_body(failure.status.as_u16(), failure.into_body());
                    self.ready.extend([Frame::Error(body), Frame::Done]);
                }
                None => self.has_ended = true,
            }
        }
    }
}

impl Drop for Frames {
    fn drop(&mut self) {
        // A server that stops closes its streams; its runs go on when it is started again.
        if self.app.is_closing() {
            self.waited.keep();
        }
    }
}

fn frame(frame: Frame) -> Event {
    match frame {
        Frame::Chunk(chunk) => sse::frame(None, &chunk),
        Frame::Error(body) => sse::frame(None, &body),
        Frame::Done => Event::default().data("[DONE]"),
    }
}
