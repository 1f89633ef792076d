//! Says who changed what the reverted runs wrote. Somebody who reverts a run has to know whether that was a run below it,
//! which can be reverted with it.

use std::collections::HashMap;

use emergent_domain::{author::Author, ids::RunId};
use emergent_store::{Tx, runs::history};

use super::{CHANGED_SINCE, RunSet};
use crate::error::Result;

const SOMEONE_ELSE: &str = "someone else";
/// How many runs a conflict names.
const MAX_NAMED: usize = 3;
/// No run has so many above it.
const MAX_DEPTH: usize = 16;

/// The authors of later versions, and which of them are below a reverted run.
pub(super) struct LaterAuthors<'a> {
    reverted: &'a RunSet,
    /// The name of the agent of each run that was looked up and is below a reverted one.
    below: HashMap<RunId, Option<String>>,
}

impl<'a> LaterAuthors<'a> {
    pub fn new(reverted: &'a RunSet) -> Self {
        Self { reverted, below: HashMap::new() }
    }

    /// The reason of a conflict about an entity that these authors changed; `None` is anybody but a run.
    pub fn describe_change(&mut self, tx: &mut Tx<'_>, authors: Vec<Option<RunId>>) -> Result<String> {
        let (mut runs, mut has_others) = (Vec::new(), false);
        for author in authors {
            match author {
                Some(run) if self.reverted.contains(&run) => {}
                Some(run) => match self.describe_run_below(tx, run)? {
                    Some(name) => runs.push((run, name)),
                    None => has_others = true,
                },
                None => has_others = true,
            }
        }
        // Ids are ordered by time.
        runs.sort_unstable();
        let mut names: Vec<String> = runs.into_iter().map(|(_, name)| name).collect();
        if names.is_empty() {
            return Ok(CHANGED_SINCE.to_owned());
        }
        let noun = if names.len() == 1 { "run" } else { "runs" };
        if names.len() > MAX_NAMED {
            let more = names.len() - MAX_NAMED;
            names.truncate(MAX_NAMED);
            names.push(format!("{more} more"));
        }
        let named = match names.split_last() {
            Some((last, rest)) if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
            _ => names.join(""),
        };
        Ok(match has_others {
            true => {
                format!("has been changed since by the {noun} {named} below this one, and by someone else")
            }
            false => format!(
                "has been changed since by the {noun} {named} below this one; with `tree`, they are reverted together"
            ),
        })
    }

    /// The subject of a sentence about the author of something.
    pub fn describe_author(&mut self, tx: &mut Tx<'_>, author: Option<Author>) -> Result<String> {
        let Some(Author::Run { run_id, tool_call_id: Some(_) }) = author else {
            return Ok(SOMEONE_ELSE.to_owned());
        };
        let name = self.describe_run_below(tx, run_id)?;
        Ok(name.map_or_else(|| SOMEONE_ELSE.to_owned(), |name| format!("the run {name} below this one")))
    }

    /// The id of a run with the name of its agent, if it is below a reverted run.
    fn describe_run_below(&mut self, tx: &mut Tx<'_>, run: RunId) -> Result<Option<String>> {
        if !self.below.contains_key(&run) {
            let agent = self.find_agent_below(tx, run)?;
            self.below.insert(run, agent);
        }
        Ok(self.below.get(&run).and_then(Option::as_ref).map(|agent| format!("`{run}` (`{agent}`)")))
    }

    fn find_agent_below(&self, tx: &mut Tx<'_>, run: RunId) -> Result<Option<String>> {
        let (mut next, mut agent) = (Some(run), None);
        for _ in 0..MAX_DEPTH {
            let Some(found) = next.map(|id| history::find_child(tx, id)).transpose()?.flatten() else {
                break;
            };
            let agent = agent.get_or_insert(found.agent_name);
            if found.parent.is_some_and(|parent| self.reverted.contains(&parent)) {
                return Ok(Some(agent.clone()));
            }
            next = found.parent;
        }
        Ok(None)
    }
}
