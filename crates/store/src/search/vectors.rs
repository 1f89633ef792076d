//! The vectors of SQLite, quantised in memory: one index for each project, kind of row and model. It is
//! loaded at the first search and updated with each commit.
//!
//! An index may lack a vector that another process wrote, or still hold one that was just deleted. The
//! caller therefore checks every result against the table.

use std::{collections::HashMap, sync::Arc};

use emergent_domain::ids::ProjectId;
use parking_lot::{Mutex, RwLock};

use super::{quantised::Quantised, write::SearchIndex};
use crate::{error::Result, row_numbers};

#[derive(Default)]
pub struct VectorIndexes {
    entries: Mutex<HashMap<ProjectId, Vec<Arc<IndexEntry>>>>,
}

/// A vector that was written or deleted. It is applied after the commit.
#[derive(Clone)]
pub struct VectorChange {
    pub(crate) index: SearchIndex,
    pub(crate) project: ProjectId,
    pub(crate) no: i64,
    /// `None` when the vector was deleted.
    pub(crate) new_vector: Option<NewVector>,
}

#[derive(Clone)]
pub(crate) struct NewVector {
    pub(crate) model: Arc<str>,
    pub(crate) vector: Vec<f32>,
}

/// Only vectors of one model and one length are comparable.
#[derive(Clone, Copy)]
pub(super) struct Key<'a> {
    pub(crate) index: SearchIndex,
    pub(crate) project: ProjectId,
    pub(crate) model: &'a str,
    pub(crate) dims: usize,
}

struct IndexEntry {
    index: SearchIndex,
    model: String,
    dims: usize,
    /// Locked during the load; other searches wait for it.
    loader: Mutex<()>,
    state: RwLock<LoadState>,
}

enum LoadState {
    Unloaded,
    /// Holds the changes since the load started, because the writer must not wait for a load.
    Loading(Vec<Update>),
    Loaded(Quantised),
}

struct Update {
    row: u32,
    vector: Option<Vec<f32>>,
}

impl VectorIndexes {
    /// Updates the loaded indexes. Called in the order of the commits.
    pub(crate) fn apply(&self, changes: Vec<VectorChange>) {
        for change in changes {
            let Some(row) = row_in_project(change.no) else { continue };
            let slots = self.entries.lock().get(&change.project).cloned().unwrap_or_default();
            for slot in slots.iter().filter(|slot| slot.index == change.index) {
                // A vector of another model has replaced the one in this index.
                let ours = change.new_vector.as_ref().filter(|new| *new.model == *slot.model);
                slot.apply(Update { row, vector: ours.map(|new| new.vector.clone()) });
            }
        }
    }

    /// Searches an index and loads it first if necessary. `load` must read the state that is committed when
    /// it is called, not an older snapshot: earlier changes are not applied again.
    pub(super) fn with_index<T>(
        &self,
        key: Key<'_>,
        load: impl FnOnce(&mut Quantised) -> Result<()>,
        question: impl Fn(&Quantised) -> T,
    ) -> Result<T> {
        let slot = self.entry(key);
        if let LoadState::Loaded(index) = &*slot.state.read() {
            return Ok(question(index));
        }
        let _loader = slot.loader.lock();
        if let LoadState::Loaded(index) = &*slot.state.read() {
            return Ok(question(index));
        }
        // Changes are recorded from here on and the table is read afterwards, so that none is lost.
        *slot.state.write() = LoadState::Loading(Vec::new());
        let mut index = Quantised::new(key.dims);
        if let Err(error) = load(&mut index) {
            *slot.state.write() = LoadState::Unloaded;
            return Err(error);
        }
        index.recentre();
        let mut state = slot.state.write();
        if let LoadState::Loading(updates) = &mut *state {
            updates.drain(..).for_each(|update| update.apply(&mut index));
        }
        let answer = question(&index);
        *state = LoadState::Loaded(index);
        Ok(answer)
    }

    /// Drops the indexes of a deleted project.
    pub fn remove_project(&self, project: ProjectId) {
        self.entries.lock().remove(&project);
    }

    fn entry(&self, key: Key<'_>) -> Arc<IndexEntry> {
        let mut slots = self.entries.lock();
        let slots = slots.entry(key.project).or_default();
        let same = |slot: &&Arc<IndexEntry>| {
            slot.index == key.index && slot.model == key.model && slot.dims == key.dims
        };
        if let Some(slot) = slots.iter().find(same) {
            return Arc::clone(slot);
        }
        let slot = Arc::new(IndexEntry {
            index: key.index,
            model: key.model.to_owned(),
            dims: key.dims,
            loader: Mutex::default(),
            state: RwLock::new(LoadState::Unloaded),
        });
        slots.push(Arc::clone(&slot));
        slot
    }
}

impl IndexEntry {
    fn apply(&self, update: Update) {
        match &mut *self.state.write() {
            // The load reads the table, which holds the change already.
            LoadState::Unloaded => {}
            LoadState::Loading(updates) => updates.push(update),
            LoadState::Loaded(index) => update.apply(index),
        }
    }
}

impl Update {
    fn apply(self, index: &mut Quantised) {
        match self.vector {
            Some(vector) => index.put(self.row, &vector),
            None => index.remove(self.row),
        }
    }
}

/// The row number within its project, which identifies a row in an index.
pub(crate) fn row_in_project(no: i64) -> Option<u32> {
    let rows = row_numbers::range(1).start;
    u32::try_from(no % rows).ok().filter(|row| *row != u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(no: i64, model: &str, vector: Option<[f32; 2]>, project: ProjectId) -> VectorChange {
        let now = vector.map(|vector| NewVector { model: model.into(), vector: vector.to_vec() });
        VectorChange { index: SearchIndex::Objects, project, no, new_vector: now }
    }

    fn found(indexes: &VectorIndexes, key: Key<'_>) -> Vec<u32> {
        let found =
            indexes.with_index(key, |_| panic!("loaded twice"), |index| index.search(&[1.0, 0.0], 10, None));
        found.unwrap().into_iter().map(|(row, _)| row).collect()
    }

    #[test]
    fn what_is_committed_while_an_index_loads_is_not_missed() {
        let indexes = VectorIndexes::default();
        let project = ProjectId::new();
        let key = Key { index: SearchIndex::Objects, project, model: "m", dims: 2 };
        // Nothing is loaded yet, and the load will read the table.
        indexes.apply(vec![change(9, "m", Some([1.0, 0.0]), project)]);
        let load = |index: &mut Quantised| {
            index.load(1, &[1.0, 0.0]);
            index.load(2, &[0.9, 0.1]);
            indexes.apply(vec![change(2, "m", None, project), change(3, "m", Some([0.5, 0.5]), project)]);
            Ok(())
        };
        indexes.with_index(key, load, |_| ()).unwrap();
        assert_eq!(found(&indexes, key), [1, 3]);
        indexes.apply(vec![
            change(4, "m", Some([0.8, 0.1]), project),
            change(1, "other", Some([1.0, 0.0]), project),
        ]);
        assert_eq!(found(&indexes, key), [4, 3], "a vector of another model replaces the one before");
    }

    #[test]
    fn a_load_that_fails_is_tried_again() {
        let indexes = VectorIndexes::default();
        let key = Key { index: SearchIndex::Chunks, project: ProjectId::new(), model: "m", dims: 2 };
        assert!(indexes.with_index(key, |_| Err(crate::Error::Closed), |_| ()).is_err());
        let load = |index: &mut Quantised| {
            index.load(7, &[1.0, 0.0]);
            Ok(())
        };
        assert_eq!(indexes.with_index(key, load, Quantised::len).unwrap(), 1);
    }
}
