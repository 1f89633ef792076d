//! The vector indexes in memory that SQLite needs: one for each project, kind of row, model and number of
//! dimensions. An index is loaded at the first search and updated after each commit.
//!
//! An index may lack a vector that another process wrote, or still hold one that was just deleted. The
//! caller therefore checks every result against the table.

use std::{collections::HashMap, sync::Arc};

use emergent_domain::ids::ProjectId;
use parking_lot::{Mutex, RwLock};

use super::{embeddings::VectorTable, quantised::Quantised};
use crate::{error::Result, row_numbers};

/// The indexes of all projects.
#[derive(Default)]
pub struct VectorIndexes {
    entries: Mutex<HashMap<ProjectId, Vec<Arc<IndexEntry>>>>,
}

/// A vector that was written or deleted. It is applied after the commit.
#[derive(Clone)]
pub struct VectorChange {
    pub(crate) index: VectorTable,
    pub(crate) project: ProjectId,
    pub(crate) no: i64,
    /// `None` when the vector was deleted.
    pub(crate) new_vector: Option<NewVector>,
}

/// A vector and its embedding model.
#[derive(Clone)]
pub(crate) struct NewVector {
    pub(crate) model: Arc<str>,
    pub(crate) vector: Vec<f32>,
}

/// Identifies an index. Only vectors of the same model and the same number of dimensions are comparable.
#[derive(Clone, Copy)]
pub(super) struct Key<'a> {
    pub(crate) index: VectorTable,
    pub(crate) project: ProjectId,
    pub(crate) model: &'a str,
    pub(crate) dims: usize,
}

/// One index and the state of its load.
struct IndexEntry {
    index: VectorTable,
    model: String,
    dims: usize,
    /// Locked during the load; other searches wait for it.
    loader: Mutex<()>,
    state: RwLock<LoadState>,
}

enum LoadState {
    Unloaded,
    /// Holds the changes since the load started. They are applied after it, because the writer must not wait.
    Loading(Vec<Update>),
    Loaded(Quantised),
}

/// A new vector of a row, or its deletion.
struct Update {
    row: u32,
    vector: Option<Vec<f32>>,
}

impl VectorIndexes {
    /// Updates the loaded indexes. Called in the order of the commits.
    pub(crate) fn apply(&self, changes: Vec<VectorChange>) {
        for change in changes {
            let Some(row) = row_in_project(change.no) else { continue };
            let entries = self.entries.lock().get(&change.project).cloned().unwrap_or_default();
            for entry in entries.iter().filter(|entry| entry.index == change.index) {
                // A vector of another model replaces the one in this index, which is then deleted here.
                let same_model = change.new_vector.as_ref().filter(|new| *new.model == *entry.model);
                entry.apply(Update { row, vector: same_model.map(|new| new.vector.clone()) });
            }
        }
    }

    /// Searches an index and loads it first if necessary. `load` must read the state that is committed when
    /// it is called, not an older snapshot: earlier changes are not applied again.
    pub(super) fn with_index<T>(
        &self,
        key: Key<'_>,
        load: impl FnOnce(&mut Quantised) -> Result<()>,
        search: impl Fn(&Quantised) -> T,
    ) -> Result<T> {
        let entry = self.entry(key);
        if let LoadState::Loaded(index) = &*entry.state.read() {
            return Ok(search(index));
        }
        let _loader = entry.loader.lock();
        if let LoadState::Loaded(index) = &*entry.state.read() {
            return Ok(search(index));
        }
        // Changes are recorded from here on and the table is read afterwards, so that none is lost.
        *entry.state.write() = LoadState::Loading(Vec::new());
        let mut index = Quantised::new(key.dims);
        if let Err(error) = load(&mut index) {
            *entry.state.write() = LoadState::Unloaded;
            return Err(error);
        }
        index.recentre();
        let mut state = entry.state.write();
        if let LoadState::Loading(updates) = &mut *state {
            updates.drain(..).for_each(|update| update.apply(&mut index));
        }
        let result = search(&index);
        *state = LoadState::Loaded(index);
        Ok(result)
    }

    /// Drops the indexes of a deleted project.
    pub fn remove_project(&self, project: ProjectId) {
        self.entries.lock().remove(&project);
    }

    /// The entry of an index, which is created if necessary.
    fn entry(&self, key: Key<'_>) -> Arc<IndexEntry> {
        let mut entries = self.entries.lock();
        let project_entries = entries.entry(key.project).or_default();
        let has_key = |entry: &&Arc<IndexEntry>| {
            entry.index == key.index && entry.model == key.model && entry.dims == key.dims
        };
        if let Some(entry) = project_entries.iter().find(has_key) {
            return Arc::clone(entry);
        }
        let entry = Arc::new(IndexEntry {
            index: key.index,
            model: key.model.to_owned(),
            dims: key.dims,
            loader: Mutex::default(),
            state: RwLock::new(LoadState::Unloaded),
        });
        project_entries.push(Arc::clone(&entry));
        entry
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

/// The row number within its project, which identifies a row in an index. `None` when it does not fit.
pub(crate) fn row_in_project(no: i64) -> Option<u32> {
    let rows_per_project = row_numbers::range(1).start;
    u32::try_from(no % rows_per_project).ok().filter(|row| *row != u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(no: i64, model: &str, vector: Option<[f32; 2]>, project: ProjectId) -> VectorChange {
        let new_vector = vector.map(|vector| NewVector { model: model.into(), vector: vector.to_vec() });
        VectorChange { index: VectorTable::Objects, project, no, new_vector }
    }

    fn search_loaded(indexes: &VectorIndexes, key: Key<'_>) -> Vec<u32> {
        let hits = indexes.with_index(
            key,
            |_| panic!("the index was loaded twice"),
            |index| index.search(&[1.0, 0.0], 10, None),
        );
        hits.unwrap().into_iter().map(|(row, _)| row).collect()
    }

    #[test]
    fn changes_that_are_committed_during_a_load_are_applied() {
        let indexes = VectorIndexes::default();
        let project = ProjectId::new();
        let key = Key { index: VectorTable::Objects, project, model: "m", dims: 2 };
        // Nothing is loaded yet, and the load will read the table.
        indexes.apply(vec![change(9, "m", Some([1.0, 0.0]), project)]);
        let load = |index: &mut Quantised| {
            index.load(1, &[1.0, 0.0]);
            index.load(2, &[0.9, 0.1]);
            indexes.apply(vec![change(2, "m", None, project), change(3, "m", Some([0.5, 0.5]), project)]);
            Ok(())
        };
        indexes.with_index(key, load, |_| ()).unwrap();
        assert_eq!(search_loaded(&indexes, key), [1, 3]);
        indexes.apply(vec![
            change(4, "m", Some([0.8, 0.1]), project),
            change(1, "other", Some([1.0, 0.0]), project),
        ]);
        assert_eq!(search_loaded(&indexes, key), [4, 3], "a vector of another model replaces the one before");
    }

    #[test]
    fn a_search_after_a_failed_load_loads_the_index_again() {
        let indexes = VectorIndexes::default();
        let key = Key { index: VectorTable::Chunks, project: ProjectId::new(), model: "m", dims: 2 };
        assert!(indexes.with_index(key, |_| Err(crate::Error::Closed), |_| ()).is_err());
        let load = |index: &mut Quantised| {
            index.load(7, &[1.0, 0.0]);
            Ok(())
        };
        assert_eq!(indexes.with_index(key, load, Quantised::len).unwrap(), 1);
    }
}
