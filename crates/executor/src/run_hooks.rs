//! The interface to the layer that starts the attempts and turns of workflows as runs. The executor does not
//! know what such a run is for. It stores the link of the run, and calls these functions for runs that have
//! one.
//!
//! They are function values instead of a trait, because there is one such layer.

use std::sync::Arc;

use emergent_domain::{
    run::Run,
    run_event::{RecordedMessage, RecordedToolCall},
    time::Timestamp,
    workflow::WorkflowLink,
};
use emergent_store::Tx;
use emergent_tools::ToolSet;

use crate::Executor;

/// The functions that are called for runs with a link.
pub struct RunHooks {
    /// Adds tools that only this run has, whatever the definition of its agent lists.
    pub add_tools: AddTools,
    /// Returns what has to be written in the transaction that records these entries, or `None`. The
    /// entries and the write are committed together.
    pub write_with_entries: WriteWithEntries,
    /// Receives the run after its end is committed. It must not block.
    pub after_end: Box<dyn Fn(Run) + Send + Sync>,
}

/// See [`RunHooks::add_tools`].
pub type AddTools = Box<dyn Fn(&Run, &mut ToolSet) + Send + Sync>;
/// See [`RunHooks::write_with_entries`].
pub type WriteWithEntries = Box<dyn Fn(&Run, &[NewEntry<'_>], Timestamp) -> Option<TxWrite> + Send + Sync>;

/// A write in the transaction of its caller. As the transaction may be retried, it may be called more than
/// once.
pub type TxWrite = Box<dyn Fn(&mut Tx<'_>) -> emergent_graph::Result<()> + Send>;

/// A new entry of the record that belongs to the conversation.
#[derive(Debug, Clone, Copy)]
pub enum NewEntry<'a> {
    Message(&'a RecordedMessage),
    /// A tool call that has its result.
    Result(&'a RecordedToolCall),
}

impl Executor {
    /// Sets the functions for runs with a link. They replace earlier ones, and apply to runs whose drivers
    /// start from now on.
    pub fn set_run_hooks(&self, hooks: RunHooks) {
        *self.run_hooks().write() = Some(Arc::new(hooks));
    }

    /// Returns the hooks of a run; `None` if the run has no link, or no hooks are set.
    pub(crate) fn hooks_for(&self, run: &Run) -> Option<Arc<RunHooks>> {
        if run.workflow_link == WorkflowLink::default() { None } else { self.run_hooks().read().clone() }
    }
}
