//! The hooks that the executor calls for runs of workflows: they add the tool for the deliverable, write the
//! messages of the session, and notify the driver when a run ends.

use emergent_domain::run::Run;
use emergent_executor::{NewEntry, RunHooks, TxWrite};
use emergent_graph::Graph;

use crate::{ended_runs::EndedRunSenders, sessions::SessionMessages, submission_tools};

/// Returns the functions that the executor calls for the runs of workflows.
pub(crate) fn run_hooks(graph: Graph, ended_runs: EndedRunSenders) -> RunHooks {
    RunHooks {
        add_tools: Box::new(|run, tools| {
            submission_tools::add_submission_tool(tools, run.workflow_link.deliverable);
        }),
        write_with_entries: Box::new(move |run, entries, now| {
            let mut messages = SessionMessages::new(run.workflow_link.session?, run.id);
            for entry in entries {
                match entry {
                    NewEntry::Message(message) => messages.push_message(message),
                    NewEntry::Result(call) => messages.push_result(call, now),
                }
            }
            let (graph, project) = (graph.clone(), run.project);
            let write: TxWrite = Box::new(move |tx| messages.write(tx, &graph, project));
            Some(write)
        }),
        after_end: Box::new(move |run: Run| ended_runs.send(run)),
    }
}
