//! Figures for Prometheus: what was answered and how fast, and what waits in the queues.

use std::{collections::BTreeMap, fmt::Write, time::Duration};

use axum::http::{Method, StatusCode};
use emergent_store::jobs::QueueCount;
use parking_lot::Mutex;

mod runs;
mod triggers;
mod workflows;

pub(crate) use runs::RunMetrics;
pub(crate) use triggers::WaitingFirings;
pub(crate) use workflows::WorkflowMetrics;

/// Upper bounds of the latency buckets, in seconds.
const BUCKETS: [f64; 12] = [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0];

#[derive(Default)]
pub(crate) struct Metrics {
    /// By route, then by method: few of each, so finding one copies nothing.
    routes: Mutex<BTreeMap<String, BTreeMap<&'static str, RouteMetrics>>>,
}

#[derive(Default)]
struct RouteMetrics {
    by_status: BTreeMap<u16, u64>,
    by_bucket: [u64; BUCKETS.len()],
    count: u64,
    seconds: f64,
}

impl Metrics {
    pub(crate) fn record(&self, method: &Method, route: &str, status: StatusCode, took: Duration) {
        let mut routes = self.routes.lock();
        if !routes.contains_key(route) {
            routes.insert(route.to_owned(), BTreeMap::new());
        }
        let Some(methods) = routes.get_mut(route) else { return };
        let figures = methods.entry(method_label(method)).or_default();
        *figures.by_status.entry(status.as_u16()).or_default() += 1;
        let seconds = took.as_secs_f64();
        if let Some(bucket) = BUCKETS.iter().position(|bound| seconds <= *bound) {
            figures.by_bucket[bucket] += 1;
        }
        figures.count += 1;
        figures.seconds += seconds;
    }

    /// The text that Prometheus reads.
    pub(crate) fn render(
        &self,
        streams: usize,
        jobs: &[QueueCount],
        waiting_for_vectors: i64,
        runs: &RunMetrics,
    ) -> String {
        let mut text = String::new();
        // Writing into a string cannot fail.
        let _ = self.write_requests(&mut text);
        let _ = write_streams(&mut text, streams);
        let _ = write_queues(&mut text, jobs, waiting_for_vectors);
        let _ = runs.write(&mut text);
        text
    }

    fn write_requests(&self, text: &mut String) -> std::fmt::Result {
        let routes = self.routes.lock();
        let all = || {
            routes
                .iter()
                .flat_map(|(route, methods)| methods.iter().map(move |(method, one)| (route, method, one)))
        };
        writeln!(text, "# HELP emergent_http_requests_total Requests answered.")?;
        writeln!(text, "# TYPE emergent_http_requests_total counter")?;
        for (route, method, figures) in all() {
            for (status, count) in &figures.by_status {
                writeln!(
                    text,
                    r#"emergent_http_requests_total{{route="{route}",method="{method}",status="{status}"}} {count}"#
                )?;
            }
        }
        writeln!(text, "# HELP emergent_http_request_seconds Time until an answer begins.")?;
        writeln!(text, "# TYPE emergent_http_request_seconds histogram")?;
        for (route, method, figures) in all() {
            let labels = format!(r#"route="{route}",method="{method}""#);
            let mut below = 0;
            for (bound, count) in BUCKETS.iter().zip(figures.by_bucket) {
                below += count;
                writeln!(text, r#"emergent_http_request_seconds_bucket{{{labels},le="{bound}"}} {below}"#)?;
            }
            writeln!(
                text,
                r#"emergent_http_request_seconds_bucket{{{labels},le="+Inf"}} {}"#,
                figures.count
            )?;
            writeln!(text, "emergent_http_request_seconds_sum{{{labels}}} {}", figures.seconds)?;
            writeln!(text, "emergent_http_request_seconds_count{{{labels}}} {}", figures.count)?;
        }
        Ok(())
    }
}

fn write_streams(text: &mut String, open: usize) -> std::fmt::Result {
    writeln!(text, "# HELP emergent_event_streams Event streams that are open.")?;
    writeln!(text, "# TYPE emergent_event_streams gauge")?;
    writeln!(text, "emergent_event_streams {open}")
}

fn write_queues(text: &mut String, jobs: &[QueueCount], waiting_for_vectors: i64) -> std::fmt::Result {
    writeln!(text, "# HELP emergent_jobs Jobs by queue and status.")?;
    writeln!(text, "# TYPE emergent_jobs gauge")?;
    for count in jobs {
        let (queue, status) = (&count.queue, count.status.as_str());
        writeln!(text, r#"emergent_jobs{{queue="{queue}",status="{status}"}} {}"#, count.jobs)?;
    }
    writeln!(text, "# HELP emergent_embedding_queue Objects and chunks that wait for their vector.")?;
    writeln!(text, "# TYPE emergent_embedding_queue gauge")?;
    writeln!(text, "emergent_embedding_queue {waiting_for_vectors}")
}

fn write_header(text: &mut String, name: &str, kind: &str, help: &str) -> std::fmt::Result {
    writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}")
}

/// Made-up methods share one name, so that nobody can fill the memory with them.
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
    fn answers_are_counted_by_route_and_status_and_buckets_add_up() {
        let metrics = Metrics::default();
        for (status, millis) in [(200, 0), (200, 3), (404, 20_000)] {
            let status = StatusCode::from_u16(status).unwrap();
            metrics.record(&Method::GET, "/api/x/{id}", status, Duration::from_millis(millis));
        }
        let text = metrics.render(3, &[], 7, &RunMetrics::default());
        for line in [
            r#"emergent_http_requests_total{route="/api/x/{id}",method="GET",status="200"} 2"#,
            r#"emergent_http_request_seconds_bucket{route="/api/x/{id}",method="GET",le="0.005"} 2"#,
            r#"emergent_http_request_seconds_bucket{route="/api/x/{id}",method="GET",le="+Inf"} 3"#,
            "emergent_event_streams 3",
            "emergent_embedding_queue 7",
        ] {
            assert!(text.contains(line), "{line} in\n{text}");
        }
    }
}
