//! The tool calls that are in progress on one connection, and the requests for input that belong to them. A request
//! does not name its call. It belongs to the call on whose stream it arrives (streamable HTTP), or else to the only
//! call in progress that nobody is asked for yet.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use serde_json::{Value, value::RawValue};
use tokio::{
    sync::{Notify, watch},
    time::timeout,
};

use super::{
    MAX_INPUT_ROUNDS,
    input::{self, CallInput, Form},
};
use crate::message::{RpcError, code};

/// How long a request waits until other calls have ended, if it may belong to several.
const MAX_WAIT_FOR_OTHERS: Duration = Duration::from_secs(10);
/// The most requests of a connection that wait for an answer.
const MAX_OPEN_REQUESTS: usize = 32;

/// The calls of a connection, and the requests of its server that are not answered yet.
#[derive(Default)]
pub struct OpenCalls {
    calls: Mutex<HashMap<u64, OpenCall>>,
    /// Incremented when a call ends, and when one of its requests is answered.
    changed: watch::Sender<u64>,
    /// By the id that the server gave the request. Notified when the server no longer wants the answer.
    requests: Mutex<HashMap<String, Arc<Notify>>>,
}

#[derive(Clone)]
struct OpenCall {
    /// `None` if there is nobody to ask.
    input: Option<CallInput>,
    /// How often its server has asked.
    asked: Arc<AtomicUsize>,
    /// How many of these requests are not answered.
    unanswered: Arc<AtomicUsize>,
    /// Closed when the call ends.
    ended: watch::Receiver<()>,
}

/// Removes a call when it is dropped.
pub struct OpenCallGuard {
    calls: Arc<OpenCalls>,
    id: u64,
    _ended: watch::Sender<()>,
}

impl Drop for OpenCallGuard {
    fn drop(&mut self) {
        self.calls.calls.lock().remove(&self.id);
        self.calls.changed.send_modify(|count| *count += 1);
    }
}

/// Removes a request when it is answered or given up.
struct OpenRequestGuard<'a> {
    calls: &'a OpenCalls,
    id: String,
}

impl Drop for OpenRequestGuard<'_> {
    fn drop(&mut self) {
        self.calls.requests.lock().remove(&self.id);
    }
}

impl OpenCalls {
    pub fn register(self: &Arc<Self>, id: u64, input: Option<CallInput>) -> OpenCallGuard {
        let (ending, ended) = watch::channel(());
        let call = OpenCall { input, asked: Arc::default(), unanswered: Arc::default(), ended };
        self.calls.lock().insert(id, call);
        OpenCallGuard { calls: Arc::clone(self), id, _ended: ending }
    }

    /// The server no longer wants the answer to one of its requests.
    pub fn cancel_request(&self, id: &RawValue) {
        if let Some(cancelled) = self.requests.lock().get(id.get()) {
            cancelled.notify_one();
        }
    }

    /// Returns the result of a request for input; `None` if the server no longer waits for one. `stream_of` is the
    /// call on whose stream the request arrived.
    pub async fn answer(
        &self,
        id: &RawValue,
        params: Value,
        stream_of: Option<u64>,
    ) -> Option<Result<Value, RpcError>> {
        let form = match Form::parse(params) {
            Ok(form) => form,
            Err(refusal) => return Some(Err(refusal)),
        };
        let cancelled = Arc::new(Notify::new());
        let id = id.get().to_owned();
        {
            let mut requests = self.requests.lock();
            if requests.len() >= MAX_OPEN_REQUESTS || requests.contains_key(&id) {
                let refusal = "there are too many unanswered requests, or one with the same id";
                return Some(Err(RpcError::new(code::INVALID_REQUEST, refusal)));
            }
            requests.insert(id.clone(), Arc::clone(&cancelled));
        }
        let _request = OpenRequestGuard { calls: self, id };
        tokio::select! {
            biased;
            () = cancelled.notified() => None,
            answer = self.ask(form, stream_of) => answer,
        }
    }

    async fn ask(&self, form: Form, stream_of: Option<u64>) -> Option<Result<Value, RpcError>> {
        let call = match self.find_call(stream_of).await {
            Ok(call) => call,
            Err(refusal) => return Some(Err(refusal)),
        };
        let Some(AskedCall { call: OpenCall { input: Some(input), asked, ended, .. }, .. }) = &call else {
            return Some(Ok(input::declined()));
        };
        if asked.fetch_add(1, Ordering::Relaxed) >= MAX_INPUT_ROUNDS {
            let refusal = format!("a call may ask for input {MAX_INPUT_ROUNDS} times");
            return Some(Err(RpcError::new(code::INVALID_REQUEST, refusal)));
        }
        let mut ended = ended.clone();
        tokio::select! {
            biased;
            // The sender is only dropped, which is the end of the call.
            _ = ended.changed() => None,
            answer = input.ask(form) => Some(answer),
        }
    }

    /// The call that a request belongs to; `None` if no call is in progress.
    async fn find_call(&self, stream_of: Option<u64>) -> Result<Option<AskedCall<'_>>, RpcError> {
        let mut changed = self.changed.subscribe();
        let found = async {
            loop {
                if let Some(found) = self.try_find_call(stream_of) {
                    return found;
                }
                let _ = changed.changed().await;
            }
        };
        timeout(MAX_WAIT_FOR_OTHERS, found).await.map_err(|_| {
            let reason =
                "several calls are in progress, and the request does not say to which of them it belongs";
            RpcError::new(code::INVALID_REQUEST, reason)
        })
    }

    /// The outer `None` means that several calls are possible.
    fn try_find_call(&self, stream_of: Option<u64>) -> Option<Option<AskedCall<'_>>> {
        let calls = self.calls.lock();
        let asked = |call: &OpenCall| {
            call.unanswered.fetch_add(1, Ordering::Relaxed);
            Some(Some(AskedCall { call: call.clone(), calls: self }))
        };
        if let Some(call) = stream_of.and_then(|id| calls.get(&id)) {
            return asked(call);
        }
        let mut idle = calls.values().filter(|call| call.unanswered.load(Ordering::Relaxed) == 0);
        match (idle.next(), idle.next(), calls.len()) {
            (_, _, 0) => Some(None),
            (Some(only), None, _) => asked(only),
            (None, _, 1) => calls.values().next().and_then(asked),
            _ => None,
        }
    }
}

/// A call whose server asks for input.
struct AskedCall<'a> {
    call: OpenCall,
    calls: &'a OpenCalls,
}

impl Drop for AskedCall<'_> {
    fn drop(&mut self) {
        self.call.unanswered.fetch_sub(1, Ordering::Relaxed);
        self.calls.changed.send_modify(|count| *count += 1);
    }
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;
    use serde_json::json;

    use super::*;
    use crate::client::input::{FormAnswer, InputHandler};

    /// Answers with its name.
    struct Named(&'static str);

    #[async_trait]
    impl InputHandler for Named {
        async fn ask(&self, _: Form) -> Result<FormAnswer, String> {
            match self.0 {
                "nobody" => std::future::pending().await,
                name => Ok(FormAnswer::Accept(json!(name))),
            }
        }
    }

    fn input(name: &'static str) -> Option<CallInput> {
        Some(CallInput::new(Arc::new(Named(name))))
    }

    fn id(text: &str) -> Box<RawValue> {
        RawValue::from_string(text.to_owned()).unwrap()
    }

    async fn ask(calls: &OpenCalls, request: &str, stream_of: Option<u64>) -> Option<Result<Value, i64>> {
        let params = json!({ "message": "?", "requestedSchema": {} });
        let answer = calls.answer(&id(request), params, stream_of).await;
        answer.map(|answer| answer.map_err(|error| error.code))
    }

    fn accepted(name: &str) -> Option<Result<Value, i64>> {
        Some(Ok(json!({ "action": "accept", "content": name })))
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_belongs_to_the_call_of_its_stream_or_to_the_only_call() {
        let calls = Arc::new(OpenCalls::default());
        assert_eq!(ask(&calls, "1", None).await, Some(Ok(input::declined())), "there is no call");
        let one = calls.register(1, input("one"));
        assert_eq!(ask(&calls, "2", None).await, accepted("one"));
        let two = calls.register(2, input("two"));
        assert_eq!(ask(&calls, "3", Some(2)).await, accepted("two"));
        assert_eq!(ask(&calls, "4", None).await, Some(Err(code::INVALID_REQUEST)), "both are possible");
        let (answer, ()) = tokio::join!(ask(&calls, "5", None), async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            drop(one);
        });
        assert_eq!(answer, accepted("two"), "the other call ended");
        drop(two);
        let _unattended = calls.register(3, None);
        assert_eq!(ask(&calls, "6", None).await, Some(Ok(input::declined())), "there is nobody to ask");
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_is_given_up_with_its_call_or_by_the_server_and_blocks_no_other_call() {
        let calls = Arc::new(OpenCalls::default());
        let asked = calls.register(1, input("nobody"));
        let first = ask(&calls, "1", None);
        let rest = async {
            tokio::task::yield_now().await;
            let other = calls.register(2, input("two"));
            assert_eq!(ask(&calls, "2", None).await, accepted("two"), "the first call is being asked");
            drop(other);
            assert_eq!(ask(&calls, "1", None).await, Some(Err(code::INVALID_REQUEST)), "the same id");
            drop(asked);
        };
        assert_eq!(tokio::join!(first, rest).0, None, "the call has ended");
        let _asked = calls.register(3, input("nobody"));
        let cancel = async {
            tokio::task::yield_now().await;
            calls.cancel_request(&id("\"x\""));
        };
        assert_eq!(tokio::join!(ask(&calls, "\"x\"", None), cancel).0, None);
        assert!(calls.requests.lock().is_empty());
    }

    #[tokio::test]
    async fn a_call_may_ask_only_a_few_times() {
        let calls = Arc::new(OpenCalls::default());
        let _call = calls.register(1, input("one"));
        for request in 0..MAX_INPUT_ROUNDS {
            assert_eq!(ask(&calls, &request.to_string(), None).await, accepted("one"));
        }
        assert_eq!(ask(&calls, "99", None).await, Some(Err(code::INVALID_REQUEST)));
    }
}
