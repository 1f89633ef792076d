//! Streams to people: how soon the first word of an answer is at the client, and how soon a thousand followers of
//! a project know of a change.

mod first_token;
pub mod followers;
mod project_stream;

use crate::{Options, report::Report};

/// Whether any row about streams is selected: `--only "first token"`, `--only "project stream"`.
pub fn is_selected(report: &Report) -> bool {
    first_token::is_selected(report) || project_stream::is_selected(report)
}

pub fn measure(report: &mut Report, options: &Options) {
    if first_token::is_selected(report) {
        first_token::measure(report, options);
    }
    if project_stream::is_selected(report) {
        project_stream::measure(report, options);
    }
}
