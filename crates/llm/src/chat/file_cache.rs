//! Files that belong to a model name: they are searched in a list of directories, read once, and read
//! again after they change.

use std::{
    collections::{BTreeSet, HashMap},
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::SystemTime,
};

use parking_lot::Mutex;

use crate::Error;

pub struct FileCache<T> {
    /// The directories in the order in which they are searched.
    folders: Vec<PathBuf>,
    extensions: &'static [&'static str],
    parse: fn(&str) -> Result<T, String>,
    read: Mutex<HashMap<PathBuf, CachedFile<T>>>,
}

struct CachedFile<T> {
    stamp: (Option<SystemTime>, u64),
    content: Arc<T>,
}

impl<T> FileCache<T> {
    pub fn new(
        folders: Vec<PathBuf>,
        extensions: &'static [&'static str],
        parse: fn(&str) -> Result<T, String>,
    ) -> Self {
        Self { folders, extensions, parse, read: Mutex::default() }
    }

    /// Returns the file of this name; `None` if there is none.
    pub fn find(&self, name: &str) -> Result<Option<Arc<T>>, Error> {
        if !is_safe_name(name) {
            return Err(Error::Config(format!(
                "`{name}` cannot be the name of a file: letters, digits, `-`, `_` and `.` are allowed"
            )));
        }
        for folder in &self.folders {
            for ending in self.extensions {
                let path = folder.join(format!("{name}.{ending}"));
                // A `metadata` call takes about a microsecond, so it needs no separate thread.
                if let Ok(metadata) = fs::metadata(&path) {
                    return self.load(path, (metadata.modified().ok(), metadata.len())).map(Some);
                }
            }
        }
        Ok(None)
    }

    fn load(&self, path: PathBuf, of: (Option<SystemTime>, u64)) -> Result<Arc<T>, Error> {
        if let Some(copy) = self.read.lock().get(&path)
            && copy.stamp == of
        {
            return Ok(copy.content.clone());
        }
        let wrong = |reason: String| Error::Config(format!("`{}` cannot be used: {reason}", path.display()));
        let text = fs::read_to_string(&path).map_err(|error| wrong(error.to_string()))?;
        let content = Arc::new((self.parse)(&text).map_err(wrong)?);
        self.read.lock().insert(path, CachedFile { stamp: of, content: content.clone() });
        Ok(content)
    }

    /// Returns the available names in order.
    pub fn names(&self) -> BTreeSet<String> {
        let mut names = BTreeSet::new();
        for folder in &self.folders {
            self.collect(folder, "", &mut names);
        }
        names
    }

    fn collect(&self, folder: &Path, prefix: &str, names: &mut BTreeSet<String>) {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let file = entry.file_name().to_string_lossy().into_owned();
            if !is_safe_name(&file) {
                continue;
            }
            // Links are not followed, because a link to a parent directory would never end.
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                self.collect(&entry.path(), &format!("{prefix}{file}/"), names);
            } else if let Some((stem, ending)) = file.rsplit_once('.')
                && self.extensions.contains(&ending)
            {
                names.insert(format!("{prefix}{stem}"));
            }
        }
    }
}

/// A name comes from an agent's definition, so it must not lead out of the directory.
pub fn is_safe_name(name: &str) -> bool {
    let fine = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    name.split('/').all(|part| !part.is_empty() && !part.starts_with('.') && part.chars().all(fine))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_does_not_lead_out_of_its_folder() {
        let plain = ["demo", "research/demo", "a.b-c_1"];
        assert!(plain.into_iter().all(is_safe_name));
        let crooked = ["", "../demo", "a/../b", "/etc/passwd", "a//b", ".hidden", "a\\b", "C:x", "a b"];
        assert!(!crooked.into_iter().any(is_safe_name));
    }

    #[test]
    fn a_file_is_read_again_when_it_changes() {
        let folder = tempfile::tempdir().unwrap();
        let cache = FileCache::new(vec![folder.path().into()], &["txt"], |text| Ok(text.to_owned()));
        assert_eq!(cache.find("a").unwrap(), None);
        fs::create_dir(folder.path().join("sub")).unwrap();
        for (file, text) in [("a.txt", "one"), ("a.txt", "other"), ("sub/b.txt", ""), ("c.md", "")] {
            fs::write(folder.path().join(file), text).unwrap();
        }
        assert_eq!(*cache.find("a").unwrap().unwrap(), "other");
        fs::write(folder.path().join("a.txt"), "another").unwrap();
        assert_eq!(*cache.find("a").unwrap().unwrap(), "another");
        assert_eq!(cache.names().into_iter().collect::<Vec<_>>(), ["a", "sub/b"]);
    }
}
