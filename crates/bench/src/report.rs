//! Reports the measurements as they are made, and all together at the end.

use serde_json::json;

pub struct Report {
    only: Option<String>,
    rows: Vec<Row>,
}

struct Row {
    work: String,
    engine: &'static str,
    value: f64,
    unit: &'static str,
    baseline: Option<f64>,
    goal: String,
    met: Option<bool>,
}

/// The goal of a measurement.
pub enum Goal {
    Below(f64),
    AtMostTimes(f64),
    AtLeastTimes(f64),
    AtLeast(f64),
    /// The measurement is reported without a goal.
    None,
}

impl Report {
    pub fn new(only: Option<String>) -> Self {
        Self { only, rows: Vec::new() }
    }

    pub fn wants(&self, work: &str) -> bool {
        self.only.as_ref().is_none_or(|only| work.contains(only))
    }

    pub fn add(
        &mut self,
        work: &str,
        engine: &'static str,
        value: f64,
        unit: &'static str,
        baseline: Option<f64>,
        goal: &Goal,
    ) {
        let ratio = baseline.map(|baseline| value / baseline);
        let (goal, met) = match goal {
            Goal::Below(limit) => (format!("< {limit} {unit}"), Some(value < *limit)),
            Goal::AtMostTimes(times) => (format!("≤ {times}× raw"), ratio.map(|ratio| ratio <= *times)),
            Goal::AtLeastTimes(times) => (format!("≥ {times}× raw"), ratio.map(|ratio| ratio >= *times)),
            Goal::AtLeast(limit) => (format!("≥ {limit} {unit}"), Some(value >= *limit)),
            Goal::None => (String::new(), None),
        };
        println!(
            "{}",
            json!({ "work": work, "engine": engine, "value": round(value), "unit": unit,
                "baseline": baseline.map(round), "ratio": ratio.map(round), "goal": goal, "met": met })
        );
        self.rows.push(Row { work: work.to_owned(), engine, value, unit, baseline, goal, met });
    }

    pub fn table(&self) {
        eprintln!("\n| work | engine | figure | raw SQLite | ratio | goal | met |");
        eprintln!("|---|---|---|---|---|---|---|");
        for row in &self.rows {
            let raw = row.baseline.map_or(String::new(), |raw| format!("{} {}", round(raw), row.unit));
            let ratio = row.baseline.map_or(String::new(), |raw| format!("{}×", round(row.value / raw)));
            let met = row.met.map_or("", |met| if met { "yes" } else { "no" });
            eprintln!(
                "| {} | {} | {} {} | {raw} | {ratio} | {} | {met} |",
                row.work,
                row.engine,
                round(row.value),
                row.unit,
                row.goal
            );
        }
    }
}

/// Rounds to three significant digits.
fn round(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    let scale = 10_f64.powi(2 - value.abs().log10().floor() as i32);
    (value * scale).round() / scale
}

pub fn p50(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// Returns the value below which ninety-five of a hundred are.
pub fn p95(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() * 95 / 100]
}

/// Returns the value below which ninety-nine of a hundred are.
pub fn p99(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() * 99 / 100]
}

/// Measures `work` for each input, in the unit of `scale` per second, after a warm-up with a tenth of
/// the inputs.
pub fn time_each<T>(inputs: &[T], scale: f64, mut work: impl FnMut(&T)) -> Vec<f64> {
    inputs.iter().take(inputs.len() / 10).for_each(&mut work);
    inputs
        .iter()
        .map(|input| {
            let start = std::time::Instant::now();
            work(input);
            start.elapsed().as_secs_f64() * scale
        })
        .collect()
}
