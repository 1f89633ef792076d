//! Measures the numbers of `docs/performance.md`, each beside a baseline that does the same work on raw
//! SQLite from Rust in the same run: machines differ, ratios differ less.
//!
//! `make bench` builds everything, creates the dataset and runs this program. JSON lines are written to
//! standard output as they are measured; the table follows on standard error.

mod baseline;
mod data;
mod http;
mod insert;
mod large_search;
mod load;
mod mcp;
mod model;
mod queries;
mod report;
mod runs;
mod server;
mod servers;
mod streams;
mod surfaces;
mod waiting;
mod workflows;

use std::path::PathBuf;

use report::Report;

struct Options {
    dataset: PathBuf,
    binary: PathBuf,
    /// A PostgreSQL database to measure as well.
    postgres: Option<String>,
    /// Only rows whose name contains this text.
    only: Option<String>,
    /// The maximum number of tasks in a workflow, for a quick check instead of a measurement.
    tasks: Option<usize>,
    /// How many runs wait, how many clients follow and how many answers are streamed, for a quick check instead of a
    /// measurement.
    count: Option<usize>,
    /// How many runs several servers share, and the slots of each, for a quick check instead of a measurement.
    runs: Option<usize>,
    slots: Option<usize>,
}

fn main() {
    let options = Options::from_args();
    let mut report = Report::new(options.only.clone());
    if servers::is_only(&options) {
        servers::measure(&mut report, &options);
        return report.table();
    }
    runs::measure(&mut report, &options);
    workflows::measure(&mut report, &options);
    mcp::measure(&mut report, &options);
    surfaces::measure(&mut report, &options);
    waiting::measure(&mut report, &options);
    streams::measure(&mut report, &options);
    servers::measure(&mut report, &options);
    large_search::measure(&mut report, &options);
    let alone = runs::is_selected(&report)
        || workflows::is_selected(&report, &options)
        || mcp::is_selected(&report)
        || surfaces::is_selected(&report)
        || waiting::is_selected(&report)
        || streams::is_selected(&report)
        || servers::is_selected(&report)
        || large_search::is_selected(&report);
    if options.only.is_some() && alone {
        return report.table();
    }
    let data = data::read(&options.dataset);
    eprintln!("dataset: {} objects, {} edges", data.objects.len(), data.edges.len());

    insert::measure(&mut report, &data);
    if options.only.as_deref() == Some("durable insert") {
        return report.table();
    }
    let raw = baseline::Baseline::import(&data);
    server::measure_start(&mut report, &options.binary, None);
    let loaded = server::import(&mut report, &options, &raw, None);
    queries::measure(&mut report, &loaded, &data, &raw);
    server::measure_loaded_start(&mut report, loaded);

    if let Some(url) = &options.postgres {
        let loaded = server::import(&mut report, &options, &raw, Some(url));
        queries::measure(&mut report, &loaded, &data, &raw);
    }
    report.table();
}

impl Options {
    fn from_args() -> Self {
        let mut args = std::env::args().skip(1);
        let mut options = Self {
            dataset: PathBuf::from(".cache/bench/debian.ndjson"),
            binary: PathBuf::from("target/release/emergent"),
            postgres: std::env::var("TEST_DATABASE_URL").ok(),
            only: None,
            tasks: None,
            count: None,
            runs: None,
            slots: None,
        };
        while let Some(arg) = args.next() {
            let mut value = || args.next().unwrap_or_else(|| panic!("{arg} needs a value"));
            match arg.as_str() {
                "--dataset" => options.dataset = value().into(),
                "--binary" => options.binary = value().into(),
                "--postgres" => options.postgres = Some(value()),
                "--only" => options.only = Some(value()),
                "--tasks" => options.tasks = Some(value().parse().expect("--tasks takes a number")),
                "--count" => options.count = Some(value().parse().expect("--count takes a number")),
                "--runs" => options.runs = Some(value().parse().expect("--runs takes a number")),
                "--slots" => options.slots = Some(value().parse().expect("--slots takes a number")),
                _ => panic!(
                    "unknown option {arg}; there are --dataset, --binary, --postgres, --only, --tasks, --count, \
                     --runs, --slots"
                ),
            }
        }
        options
    }
}
