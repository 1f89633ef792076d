//! The metrics for Prometheus. Requests are counted here; the executor and the dispatcher add their own
//! metrics. [`gauges`] has the values that are read at the moment of a scrape.

use std::time::Duration;

use axum::http::{Method, StatusCode};
use emergent_coordination::Dispatcher;
use emergent_executor::Executor;
use prometheus_client::{
    encoding::{EncodeLabelSet, text},
    metrics::{counter::Counter, family::Family, histogram::Histogram},
    registry::Registry,
};

mod gauges;
mod project_gauges;

pub(crate) use gauges::Gauges;
pub(crate) use project_gauges::ProjectGauges;

/// The format of [`Metrics::render`].
pub(crate) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// Upper bounds of the latency buckets, in seconds.
const BUCKETS: [f64; 12] = [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0];

/// The counters of HTTP requests.
pub(crate) struct Metrics {
    requests: Family<RequestLabels, Counter>,
    request_seconds: Family<RouteLabels, Histogram>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RouteLabels {
    route: String,
    method: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    #[prometheus(flatten)]
    route: RouteLabels,
    status: u16,
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            requests: Family::default(),
            request_seconds: Family::new_with_constructor(|| Histogram::new(BUCKETS)),
        }
    }
}

impl Metrics {
    /// Counts a response, with the time until it started.
    pub(crate) fn record(&self, method: &Method, route: &str, status: StatusCode, took: Duration) {
        let route = RouteLabels { route: route.to_owned(), method: method_label(method) };
        self.request_seconds.get_or_create(&route).observe(took.as_secs_f64());
        self.requests.get_or_create(&RequestLabels { route, status: status.as_u16() }).inc();
    }

    /// Returns all metrics in the format of OpenMetrics.
    ///
    /// The registry is created for each scrape: it only refers to the counters, and the gauges are values of
    /// this moment.
    pub(crate) fn render(&self, executor: &Executor, dispatcher: &Dispatcher, gauges: Gauges) -> String {
        let mut registry = Registry::with_prefix("emergent");
        self.register(&mut registry);
        executor.telemetry().register(&mut registry);
        dispatcher.register_metrics(&mut registry);
        registry.register_collector(Box::new(gauges));
        encode(&registry)
    }

    /// Returns what a token of one project may see: the values of that project. The counters of this process
    /// do not tell projects apart, so they are left out.
    pub(crate) fn render_project(counts: ProjectGauges) -> String {
        let mut registry = Registry::with_prefix("emergent");
        registry.register_collector(Box::new(counts));
        encode(&registry)
    }

    fn register(&self, registry: &mut Registry) {
        registry.register("http_requests", "HTTP requests", self.requests.clone());
        let help = "Time until the response starts";
        registry.register("http_request_seconds", help, self.request_seconds.clone());
    }
}

#[expect(clippy::expect_used, reason = "writing into a string cannot fail")]
fn encode(registry: &Registry) -> String {
    let mut rendered = String::new();
    text::encode(&mut rendered, registry).expect("writing into a string cannot fail");
    rendered
}

/// Methods that HTTP does not define share one label, so that a client cannot fill the memory by
/// inventing them.
fn method_label(method: &Method) -> &'static str {
    match method.as_str() {
        "GET" => "GET",
        "POST" => "POST",
        "PUT" => "PUT",
        "PATCH" => "PATCH",
        "DELETE" => "DELETE",
        "HEAD" => "HEAD",
        "OPTIONS" => "OPTIONS",
        _ => "other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn responses_are_counted_by_route_and_status_and_buckets_are_cumulative() {
        let metrics = Metrics::default();
        for (status, millis) in [(200, 0), (200, 3), (404, 20_000)] {
            let status = StatusCode::from_u16(status).unwrap();
            metrics.record(&Method::GET, "/api/x/{id}", status, Duration::from_millis(millis));
        }
        let mut registry = Registry::with_prefix("emergent");
        metrics.register(&mut registry);
        registry.register_collector(Box::new(Gauges {
            event_streams: 3,
            embedding_queue: 7,
            ..Gauges::default()
        }));
        let rendered = encode(&registry);
        for line in [
            r#"emergent_http_requests_total{route="/api/x/{id}",method="GET",status="200"} 2"#,
            r#"emergent_http_request_seconds_bucket{le="0.005",route="/api/x/{id}",method="GET"} 2"#,
            r#"emergent_http_request_seconds_bucket{le="1.0",route="/api/x/{id}",method="GET"} 2"#,
            r#"emergent_http_request_seconds_bucket{le="+Inf",route="/api/x/{id}",method="GET"} 3"#,
            "emergent_event_streams 3",
            "emergent_embedding_queue 7",
        ] {
            assert!(rendered.contains(&format!("{line}\n")), "{line} in\n{rendered}");
        }
        assert!(rendered.ends_with("# EOF\n"), "{rendered}");
    }
}
