//! `emergent extract-document`: the process that the server starts to extract the text of one document. It
//! limits its own memory and time before it reads the document, so that no document can take those of the
//! server.

use std::{
    io::{self, BufWriter},
    process::ExitCode,
};

use emergent_graph::documents::extraction;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

pub fn run(media_type: &str) -> ExitCode {
    limit_resources();
    let mut output = BufWriter::new(io::stdout().lock());
    match extraction::run_extraction(media_type, &mut io::stdin().lock(), &mut output) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// A process that exceeds a limit is aborted, and the server reports that.
fn limit_resources() {
    let limits = [
        (Resource::As, extraction::MEMORY_LIMIT),
        (Resource::Cpu, extraction::CPU_LIMIT.as_secs()),
        (Resource::Core, 0),
        (Resource::Fsize, 0),
    ];
    for (resource, limit) in limits {
        let maximum = getrlimit(resource).maximum.map_or(limit, |maximum| maximum.min(limit));
        let _ = setrlimit(resource, Rlimit { current: Some(maximum), maximum: Some(maximum) });
    }
    // Requests come before documents.
    let _ = rustix::process::nice(10);
}
