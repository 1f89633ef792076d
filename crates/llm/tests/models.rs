//! Retries, the choice of a model, and prices. The clock is paused, so waiting takes no time.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use emergent_domain::{
    agent::ModelConfig,
    chat::{Part, StopReason, Turn, Usage},
};
use emergent_llm::{Answer, ChatRequest, Delta, Error, ModelSettings, Models, Provider, RequestMeta};
use tokio::time::{Instant, sleep};

type Reply = Result<&'static str, Error>;

/// A provider whose answers the test decides one by one; it produces output before it fails.
struct Fake<F> {
    answer: F,
    takes: Duration,
    asked: Arc<AtomicU32>,
}

fn fake<F: Fn(u32) -> Reply + Send + Sync>(answer: F) -> (Arc<Fake<F>>, Arc<AtomicU32>) {
    let asked = Arc::new(AtomicU32::new(0));
    (Arc::new(Fake { answer, takes: Duration::ZERO, asked: asked.clone() }), asked)
}

#[async_trait]
impl<F: Fn(u32) -> Reply + Send + Sync> Provider for Fake<F> {
    fn name(&self) -> &str {
        "fake"
    }

    async fn chat(
        &self,
        request: ChatRequest<'_>,
        on_delta: &mut (dyn FnMut(Delta) + Send),
    ) -> Result<Answer, Error> {
        assert_eq!(request.model, "m/1");
        let ask = self.asked.fetch_add(1, Ordering::Relaxed) + 1;
        sleep(self.takes).await;
        let answer = (self.answer)(ask);
        let said = answer.as_ref().copied().unwrap_or("half a");
        if !said.is_empty() {
            on_delta(Delta::Text(said.to_owned()));
        }
        let parts = vec![Part::text(answer?)];
        Ok(Answer { parts, usage: Usage::default(), stop: StopReason::End, response: Default::default() })
    }
}

fn model(text: &str) -> ModelConfig {
    text.parse().unwrap()
}

fn request(turns: &[Turn]) -> ChatRequest<'_> {
    ChatRequest {
        model: "whatever the caller thinks",
        system: "",
        turns,
        tools: &[],
        temperature: None,
        max_tokens: None,
        output_schema: None,
        cache: None,
        meta: RequestMeta::default(),
    }
}

/// Calls the model with this deadline. Returns the outcome, the deltas, and the duration.
async fn ask(models: &Models, seconds: u64) -> (Result<String, Error>, Vec<Delta>, Duration) {
    let (start, turns, mut heard) = (Instant::now(), [Turn::user("hi")], Vec::new());
    let deadline = start + Duration::from_secs(seconds);
    let result =
        models.chat(&model("fake/m/1"), request(&turns), deadline, &mut |delta| heard.push(delta)).await;
    (result.map(|answer| answer.text()), heard, start.elapsed())
}

fn busy(retry_after: Option<Duration>) -> Error {
    Error::RateLimited { model: "fake".into(), message: "slow down".into(), retry_after }
}

fn down() -> Error {
    Error::Overloaded { model: "fake".into(), message: "down".into(), source: None }
}

#[tokio::test(start_paused = true)]
async fn an_outage_is_waited_out_and_what_was_half_said_is_taken_back() {
    let (provider, asked) = fake(|ask| if ask < 3 { Err(down()) } else { Ok("whole") });
    let (answer, heard, took) = ask(&Models::default().with_provider(provider), 60).await;
    assert_eq!((answer.unwrap().as_str(), asked.load(Ordering::Relaxed)), ("whole", 3));
    let half = Delta::Text("half a".into());
    let restart = Delta::Restart { why: "`fake` is not available: down".into() };
    let whole = Delta::Text("whole".into());
    let (retries, heard): (Vec<Delta>, Vec<Delta>) =
        heard.into_iter().partition(|delta| matches!(delta, Delta::Retry(_)));
    assert_eq!(heard, [half.clone(), restart.clone(), half, restart, whole]);
    // Each failure says which attempt it was and how long the next one waits.
    let attempts: Vec<(u32, bool)> = retries
        .iter()
        .filter_map(|delta| if let Delta::Retry(retry) = delta { Some(retry) } else { None })
        .map(|retry| (retry.attempt, (250..=1_000).contains(&retry.wait_ms)))
        .collect();
    assert_eq!(attempts, [(1, true), (2, true)]);
    // The delays are half a second and a second, each with jitter over its upper half.
    assert!((750..=1500).contains(&took.as_millis()), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_key_that_a_provider_quotes_is_in_no_error() {
    let refused = || Error::Auth { model: "fake".into(), message: "bad key `Bearer sk-1234567890`".into() };
    let (provider, _) = fake(move |_| Err(refused()));
    let models = Models::default().with_provider(provider).with_secrets(vec!["sk-1234567890".into()]);
    let (answer, _, _) = ask(&models, 60).await;
    assert_eq!(answer.unwrap_err().to_string(), "`fake` refused the credentials: bad key `Bearer [key]`");
}

#[tokio::test(start_paused = true)]
async fn the_providers_own_wait_is_kept() {
    let (provider, _) =
        fake(|ask| if ask == 1 { Err(busy(Some(Duration::from_secs(20)))) } else { Ok("there") });
    let (answer, _, took) = ask(&Models::default().with_provider(provider), 60).await;
    assert!(answer.is_ok() && took >= Duration::from_secs(20) && took < Duration::from_secs(21), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_ends_after_the_deadline_is_not_begun() {
    let (provider, asked) = fake(|_| Err(busy(Some(Duration::from_secs(61)))));
    let (answer, heard, took) = ask(&Models::default().with_provider(provider), 60).await;
    assert!(matches!(answer, Err(Error::RateLimited { .. })));
    assert_eq!((took, asked.load(Ordering::Relaxed)), (Duration::ZERO, 1));
    assert!(!heard.iter().any(|delta| matches!(delta, Delta::Restart { .. })));
}

#[tokio::test(start_paused = true)]
async fn an_error_that_will_not_pass_comes_back_at_once() {
    let auth = || Error::Auth { model: "fake".into(), message: "who?".into() };
    let (provider, asked) = fake(move |_| Err(auth()));
    let (answer, _, took) = ask(&Models::default().with_provider(provider), 60).await;
    assert!(matches!(answer, Err(Error::Auth { .. })));
    assert_eq!((took, asked.load(Ordering::Relaxed)), (Duration::ZERO, 1));
}

#[tokio::test(start_paused = true)]
async fn attempts_end_even_when_there_is_time() {
    let (provider, asked) = fake(|_| Err(down()));
    let (answer, _, _) = ask(&Models::default().with_provider(provider), 3600).await;
    assert!(answer.unwrap_err().is_retryable());
    assert_eq!(asked.load(Ordering::Relaxed), 8);
}

#[tokio::test(start_paused = true)]
async fn a_call_does_not_outlive_its_deadline() {
    let (mut provider, _) = fake(|_| Ok("late"));
    Arc::get_mut(&mut provider).unwrap().takes = Duration::from_secs(100);
    let (answer, _, took) = ask(&Models::default().with_provider(provider), 30).await;
    assert!(answer.unwrap_err().to_string().contains("no answer before the deadline"));
    assert_eq!(took.as_secs(), 30);
}

#[tokio::test(start_paused = true)]
async fn calls_beyond_the_limit_wait_for_a_place_but_not_past_the_deadline() {
    let (mut provider, asked) = fake(|_| Ok("done"));
    Arc::get_mut(&mut provider).unwrap().takes = Duration::from_secs(10);
    let models = Models::default().with_provider(provider).with_limit(2);
    let (a, b, c, d) = tokio::join!(ask(&models, 60), ask(&models, 60), ask(&models, 60), ask(&models, 5));
    let (first, second, third) = (a.2.as_secs(), b.2.as_secs(), c.2.as_secs());
    assert_eq!((first, second, third), (10, 10, 20));
    assert!(d.0.unwrap_err().to_string().contains("EMERGENT_MODEL_CALLS"));
    assert_eq!((d.2.as_secs(), asked.load(Ordering::Relaxed)), (5, 3));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_waits_to_ask_again_lets_others_go_first() {
    let (provider, _) =
        fake(|ask| if ask == 1 { Err(busy(Some(Duration::from_secs(30)))) } else { Ok("done") });
    let models = Models::default().with_provider(provider).with_limit(1);
    let (slow, quick) = tokio::join!(ask(&models, 60), ask(&models, 60));
    assert!(slow.2.as_secs() >= 30 && quick.2.is_zero(), "{:?} {:?}", slow.2, quick.2);
}

fn settings() -> ModelSettings {
    ModelSettings::default()
}

fn why(models: &Models, wanted: Option<&str>) -> String {
    models.choose(wanted.map(model).as_ref()).unwrap_err().to_string()
}

#[test]
fn a_provider_without_credentials_names_the_ways_out() {
    let models = Models::from_settings(&settings()).unwrap();
    let said = why(&models, Some("google/gemini-2.5-flash"));
    assert!(said.contains("`GEMINI_API_KEY`") && said.contains("`EMERGENT_MODEL=provider/name`"), "{said}");
    // Not every request and not every command can choose a model: those that can, say so themselves.
    assert!(!said.contains("--model") && said.contains("`emergent doctor`"), "{said}");
    assert!(why(&models, Some("anthropic/claude-sonnet-4-5")).contains("`ANTHROPIC_API_KEY`"));
    assert!(why(&models, None).contains("`EMERGENT_MODEL=provider/name`"));
}

#[test]
fn an_unknown_provider_names_the_known_ones() {
    let said = why(&Models::default(), Some("gogle/gemini"));
    assert!(said.contains("gogle") && said.contains("`google`, `vertex`, `openai`"), "{said}");
}

#[test]
fn emergent_model_goes_before_the_definition_and_keeps_its_temperature() {
    let settings = ModelSettings { model: Some("rehearsal/echo".into()), ..settings() };
    let models = Models::from_settings(&settings).unwrap();
    let wanted = ModelConfig { temperature: Some(0.2), ..model("google/gemini-2.5-flash") };
    let chosen = models.choose(Some(&wanted)).unwrap();
    assert_eq!((chosen.to_string().as_str(), chosen.temperature), ("rehearsal/echo", Some(0.2)));
    assert_eq!(models.choose(None).unwrap().to_string(), "rehearsal/echo");
}

#[test]
fn a_setting_that_cannot_be_used_is_named_at_start() {
    let wrong = |settings| Models::from_settings(&settings).err().unwrap().to_string();
    assert!(wrong(ModelSettings { model: Some("gemini".into()), ..settings() }).contains("EMERGENT_MODEL"));
    for unknown in ["gogle/gemini-2.5-flash", "record/gogle/gemini-2.5-flash"] {
        let said = wrong(ModelSettings { model: Some(unknown.into()), ..settings() });
        assert!(said.contains("EMERGENT_MODEL") && said.contains("unknown provider `gogle`"), "{said}");
    }
    for unset in ["anthropic/x", "replay/all", "record/google/x"] {
        let settings = ModelSettings { model: Some(unset.into()), ..settings() };
        assert!(Models::from_settings(&settings).is_ok(), "its key may be set later: {unset}");
    }
    let zero = ModelSettings { calls_at_once: Some("0".into()), ..settings() };
    assert!(wrong(zero).contains("EMERGENT_MODEL_CALLS"));
    let prices = ModelSettings { prices: Some("/no/such/file".into()), ..settings() };
    assert!(wrong(prices).contains("EMERGENT_MODEL_PRICES"));
    let url = ModelSettings { google_base_url: Some("ftp://x".into()), ..settings() };
    assert!(wrong(url).contains("EMERGENT_GOOGLE_BASE_URL"));
}

#[test]
fn the_status_says_what_is_configured_and_what_would() {
    let settings = ModelSettings { gemini_api_key: Some("k".into()), ..settings() };
    let status = Models::from_settings(&settings).unwrap().status();
    let of = |name| status.iter().find(|status| status.name == name).unwrap();
    assert!(of("google").configured && of("rehearsal").configured && !of("anthropic").configured);
    assert_eq!(of("anthropic").setting, Some("ANTHROPIC_API_KEY"));
}

#[test]
fn a_recorded_model_has_its_own_price_and_window() {
    let models = Models::default();
    let usage = Usage { input: 1_000_000, ..Usage::default() };
    let cost = |name| models.cost(&model(name), &usage);
    assert_eq!(cost("record/google/gemini-2.5-flash"), cost("google/gemini-2.5-flash"));
    assert_eq!(models.window(&model("record/google/gemini-2.5-flash")), 1_048_576);
    assert_eq!(cost("replay/all"), Some(0.0));
}
