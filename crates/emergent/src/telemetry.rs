//! OpenTelemetry: exports spans and metrics of agents by OTLP over HTTP to the endpoint in
//! `OTEL_EXPORTER_OTLP_*`. Without those variables nothing is set up. Failures are logged and never affect
//! runs.

use std::{
    sync::{
        OnceLock,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    time::Duration,
};

use async_trait::async_trait;
use emergent_executor::{Executor, spans, telemetry::ModelCall};
use emergent_net::trace_context;
use opentelemetry::{
    Array, Context, KeyValue, Value,
    metrics::{Histogram, MeterProvider},
    trace::{SpanContext, SpanId, TraceContextExt, TraceFlags, TraceId, TraceState, TracerProvider},
};
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::{MetricExporter, SpanExporter, WithHttpConfig};
use opentelemetry_sdk::{
    Resource,
    error::OTelSdkResult,
    metrics::SdkMeterProvider,
    trace::{SdkTracerProvider, SpanData},
};
use tokio::runtime::Handle;
use tracing::{info, warn};
use tracing_opentelemetry::OpenTelemetrySpanExt;
use tracing_subscriber::{Layer, Registry, filter::Targets};

use crate::{
    client::{Certificates, http_client},
    config,
};

/// The `tracing` target of the spans of agents; no other span has it.
pub const TARGET: &str = "gen_ai";
/// How long the end of the process waits until the last spans and metrics are sent.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(3);
const SEND_TIMEOUT: Duration = Duration::from_secs(10);

/// The metrics instruments, set when metrics are exported.
static METERS: OnceLock<Meters> = OnceLock::new();

/// The exporters that the environment asks for.
#[derive(Default)]
pub struct Telemetry {
    traces: Option<SdkTracerProvider>,
    metrics: Option<SdkMeterProvider>,
    /// Setup failures, which `log_problems` logs once logging is set up.
    problems: Vec<String>,
}

impl Telemetry {
    /// Sets up the exporters that the environment asks for.
    pub fn from_env(runtime: &Handle) -> Self {
        let mut this = Self::default();
        if config::env_value("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true")) {
            return this;
        }
        if let Some(endpoint) = this.supported_endpoint("TRACES") {
            match traces(&endpoint, runtime) {
                Ok(traces) => {
                    propagate_contexts();
                    this.traces = Some(traces);
                }
                Err(error) => this.problems.push(format!("spans cannot be sent to `{endpoint}`: {error}")),
            }
        }
        if let Some(endpoint) = this.supported_endpoint("METRICS") {
            match metrics(&endpoint, runtime) {
                Ok(metrics) => {
                    let _ = METERS.set(Meters::new(&metrics));
                    this.metrics = Some(metrics);
                }
                Err(error) => this.problems.push(format!("metrics cannot be sent to `{endpoint}`: {error}")),
            }
        }
        this
    }

    /// The layer that exports spans of agents and ignores other spans and events; `None` without traces.
    pub fn layer(&self) -> Option<Box<dyn Layer<Registry> + Send + Sync>> {
        let tracer = self.traces.as_ref()?.tracer("emergent");
        let layer = tracing_opentelemetry::layer()
            .with_tracer(tracer)
            .with_location(false)
            .with_threads(false)
            .with_tracked_inactivity(false)
            .with_target(false);
        Some(layer.with_filter(Targets::new().with_target(TARGET, tracing::Level::TRACE)).boxed())
    }

    /// The endpoint of a signal. With a protocol that is not supported, such as `grpc`, nothing is sent: the
    /// endpoint would not understand it.
    fn supported_endpoint(&mut self, signal: &str) -> Option<String> {
        let endpoint = endpoint(signal)?;
        let variables =
            [format!("OTEL_EXPORTER_OTLP_{signal}_PROTOCOL"), "OTEL_EXPORTER_OTLP_PROTOCOL".to_owned()];
        let named = variables.into_iter().find_map(|name| Some((config::env_value(&name)?, name)));
        match named {
            Some((protocol, name)) if protocol != "http/protobuf" => {
                self.problems.push(format!(
                    "`{name}={protocol}` is not supported, so no {} are sent: set it to `http/protobuf`, and the \
                     endpoint to the HTTP port of the collector (usually 4318)",
                    signal.to_lowercase()
                ));
                None
            }
            _ => Some(endpoint),
        }
    }

    /// Logs the failures of the setup.
    pub fn log_problems(&self) {
        for problem in &self.problems {
            warn!("{problem}");
        }
    }

    /// Sends the remaining spans and metrics, for `SHUTDOWN_TIMEOUT` at most.
    pub fn shutdown(self) {
        if self.traces.is_none() && self.metrics.is_none() {
            return;
        }
        // The SDK blocks, and may retry for longer than its timeout: it gets a thread that can be abandoned.
        let (done, finished) = mpsc::channel();
        let sender = std::thread::Builder::new().name("telemetry-shutdown".to_owned()).spawn(move || {
            // `RuntimeHttpClient` logs failed requests.
            let _ = self.traces.map(|traces| traces.shutdown_with_timeout(SHUTDOWN_TIMEOUT));
            let _ = self.metrics.map(|metrics| metrics.shutdown_with_timeout(SHUTDOWN_TIMEOUT));
            let _ = done.send(());
        });
        if sender.is_err() || finished.recv_timeout(SHUTDOWN_TIMEOUT).is_err() {
            warn!("the last spans and metrics could not be sent in time");
        }
    }
}

/// Connects the spans of this process with those of others: runs belong to the trace of the request that
/// started them, and models and MCP servers receive the context of the span that calls them.
fn propagate_contexts() {
    spans::on_remote_parent(|span, traceparent| {
        let mut fields = traceparent.split('-').skip(1);
        let (Some(trace), Some(parent), Some(flags)) = (fields.next(), fields.next(), fields.next()) else {
            return;
        };
        let (Ok(trace), Ok(parent), Ok(flags)) =
            (TraceId::from_hex(trace), SpanId::from_hex(parent), u8::from_str_radix(flags, 16))
        else {
            return;
        };
        let remote = SpanContext::new(trace, parent, TraceFlags::new(flags), true, TraceState::default());
        let _ = span.set_parent(Context::new().with_remote_span_context(remote));
    });
    trace_context::set_current_span(|| {
        let context = tracing::Span::current().context();
        let span = context.span().span_context().clone();
        let flags = span.trace_flags().to_u8();
        span.is_valid().then(|| format!("00-{}-{}-{flags:02x}", span.trace_id(), span.span_id()))
    });
}

/// Whether spans carry content: prompts, answers, and the inputs and outputs of tools.
pub fn captures_content() -> bool {
    config::env_value("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT")
        .is_some_and(|value| ["true", "1", "span_only", "span_and_event"].contains(&&*value.to_lowercase()))
}

/// Records each model call in the metrics, when metrics are exported.
pub fn record_model_calls(executor: &Executor) {
    if let Some(meters) = METERS.get() {
        executor.telemetry().on_model_call(|call| meters.record(call));
    }
}

/// The endpoint of a signal (`TRACES`, `METRICS`); `None` when it is not exported. The exporter reads the
/// same variables; this decides whether to create one, and its HTTP client.
fn endpoint(signal: &str) -> Option<String> {
    if config::env_value(&format!("OTEL_{signal}_EXPORTER")).as_deref() == Some("none") {
        return None;
    }
    config::env_value(&format!("OTEL_EXPORTER_OTLP_{signal}_ENDPOINT"))
        .or_else(|| config::env_value("OTEL_EXPORTER_OTLP_ENDPOINT"))
}

type SetupError = Box<dyn std::error::Error + Send + Sync>;

fn traces(endpoint: &str, runtime: &Handle) -> Result<SdkTracerProvider, SetupError> {
    let exporter = SpanExporter::builder()
        .with_http()
        .with_http_client(RuntimeHttpClient::new(Signal::Spans, endpoint, runtime)?)
        .build()?;
    Ok(SdkTracerProvider::builder()
        .with_batch_exporter(ListAttributes(exporter))
        .with_resource(resource())
        .build())
}

fn metrics(endpoint: &str, runtime: &Handle) -> Result<SdkMeterProvider, SetupError> {
    let exporter = MetricExporter::builder()
        .with_http()
        .with_http_client(RuntimeHttpClient::new(Signal::Metrics, endpoint, runtime)?)
        .build()?;
    Ok(SdkMeterProvider::builder().with_periodic_exporter(exporter).with_resource(resource()).build())
}

/// The service name and version that spans and metrics carry: the name in the environment, or `emergent`.
fn resource() -> Resource {
    let version = KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
    let from_env = Resource::builder().build();
    let name = config::env_value("OTEL_SERVICE_NAME")
        .or_else(|| from_env.get(&"service.name".into()).map(|name| name.to_string()))
        .filter(|name| !name.starts_with("unknown_service"))
        .unwrap_or_else(|| "emergent".to_owned());
    Resource::builder().with_attribute(version).with_service_name(name).build()
}

/// Sends requests on the runtime of this process, because the SDK's own threads have no runtime.
#[derive(Debug)]
struct RuntimeHttpClient {
    http: reqwest::Client,
    runtime: Handle,
    signal: Signal,
    endpoint: String,
    /// Whether the last request failed.
    failing: AtomicBool,
}

/// What a client sends. Each kind has its own endpoint, and so its own warning.
#[derive(Debug, Clone, Copy)]
enum Signal {
    Spans,
    Metrics,
}

impl Signal {
    fn name(self) -> &'static str {
        match self {
            Self::Spans => "spans",
            Self::Metrics => "metrics",
        }
    }

    /// What becomes of the data that could not be sent. The SDK repeats a request a few times; then it drops spans, while
    /// metrics are sums since the start.
    fn fate(self) -> &'static str {
        match self {
            Self::Spans => "spans that cannot be sent within a few attempts are lost",
            Self::Metrics => "the next export has their sums again",
        }
    }
}

impl RuntimeHttpClient {
    fn new(signal: Signal, endpoint: &str, runtime: &Handle) -> Result<Self, SetupError> {
        let http = http_client(endpoint, Certificates::Verified)?;
        let (runtime, endpoint) = (runtime.clone(), endpoint.to_owned());
        Ok(Self { http, runtime, signal, endpoint, failing: AtomicBool::new(false) })
    }

    /// Logs when requests start to fail and when they succeed again, but not every failure between.
    fn log_state_change(&self, failure: Option<String>) {
        let failed_before = self.failing.swap(failure.is_some(), Ordering::Relaxed);
        match failure {
            Some(error) if !failed_before => {
                let (signal, fate) = (self.signal.name(), self.signal.fate());
                warn!(error, "could not send {signal} to `{}`; {fate}", self.endpoint);
            }
            None if failed_before => info!("{} reach `{}` again", self.signal.name(), self.endpoint),
            _ => {}
        }
    }
}

#[async_trait]
impl HttpClient for RuntimeHttpClient {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let http = self.http.clone();
        let task = self.runtime.spawn(async move {
            let mut request = reqwest::Request::try_from(request)?;
            *request.timeout_mut() = Some(SEND_TIMEOUT);
            let received = http.execute(request).await?;
            let (status, headers) = (received.status(), received.headers().clone());
            let mut response = Response::new(received.bytes().await?);
            (*response.status_mut(), *response.headers_mut()) = (status, headers);
            Ok::<_, reqwest::Error>(response)
        });
        let result = task.await.map_err(HttpError::from).and_then(|sent| sent.map_err(HttpError::from));
        self.log_state_change(match &result {
            Err(error) => Some(error.to_string()),
            Ok(response) if !response.status().is_success() => Some(format!("status {}", response.status())),
            Ok(_) => None,
        });
        result
    }
}

/// Turns `gen_ai.response.finish_reasons` into a list, as the semantic conventions require. Attributes of
/// `tracing` spans cannot be lists.
#[derive(Debug)]
struct ListAttributes<E>(E);

impl<E: opentelemetry_sdk::trace::SpanExporter> opentelemetry_sdk::trace::SpanExporter for ListAttributes<E> {
    async fn export(&self, mut batch: Vec<SpanData>) -> OTelSdkResult {
        for attribute in batch.iter_mut().flat_map(|span| &mut span.attributes) {
            if attribute.key.as_str() == "gen_ai.response.finish_reasons"
                && let Value::String(reason) = &attribute.value
            {
                attribute.value = Value::Array(Array::String(vec![reason.clone()]));
            }
        }
        self.0.export(batch).await
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.0.shutdown_with_timeout(timeout)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.0.force_flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.0.set_resource(resource);
    }
}

/// The instruments of the semantic conventions for model calls.
struct Meters {
    tokens: Histogram<u64>,
    duration: Histogram<f64>,
}

impl Meters {
    /// Names, units and bounds are the conventions'.
    fn new(provider: &SdkMeterProvider) -> Self {
        let meter = provider.meter("emergent");
        let tokens = meter
            .u64_histogram("gen_ai.client.token.usage")
            .with_unit("{token}")
            .with_description("Number of input and output tokens used.")
            .with_boundaries((0..14).map(|power| 4_f64.powi(power)).collect())
            .build();
        let duration = meter
            .f64_histogram("gen_ai.client.operation.duration")
            .with_unit("s")
            .with_description("GenAI operation duration.")
            .with_boundaries((0..14).map(|power| 0.01 * 2_f64.powi(power)).collect())
            .build();
        Self { tokens, duration }
    }

    fn record(&self, call: &ModelCall<'_>) {
        let common = [
            KeyValue::new("gen_ai.operation.name", "chat"),
            KeyValue::new("gen_ai.provider.name", spans::provider_name(call.model).to_owned()),
            KeyValue::new("gen_ai.request.model", call.model.name.clone()),
        ];
        let with_common = |extra: Option<KeyValue>| common.iter().cloned().chain(extra).collect::<Vec<_>>();
        let error = call.error.map(|error| KeyValue::new("error.type", error));
        self.duration.record(call.took.as_secs_f64(), &with_common(error));
        if let Some(usage) = &call.usage {
            for (kind, tokens) in [("input", usage.input), ("output", usage.output)] {
                self.tokens.record(tokens, &with_common(Some(KeyValue::new("gen_ai.token.type", kind))));
            }
        }
    }
}
