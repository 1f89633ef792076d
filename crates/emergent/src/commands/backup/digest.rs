//! The digest of a backup, in a line after its last page. SQLite reads as many pages as the header of the file names,
//! so it ignores the line. It finds every byte that changed since the backup was made, also in texts and vectors, which
//! have no structure that could be checked. It is no signature: whoever can write the file can write another digest.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read, Seek, SeekFrom, Write},
    path::Path,
};

use sha2::{Digest, Sha256};

const PREFIX: &str = "\nemergent backup, sha256 of all bytes before this line: ";
const HEX_BYTES: usize = 64;
const LINE_BYTES: usize = PREFIX.len() + HEX_BYTES + 1;
/// Pages of SQLite have at least so many bytes, and always a power of two. The line is shorter.
const MIN_PAGE_BYTES: u64 = 512;
const BUFFER_BYTES: usize = 1 << 20;

const _: () =
    assert!((LINE_BYTES as u64) < MIN_PAGE_BYTES, "the line is told from pages by the length of the file");

/// What the digest of a backup says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DigestCheck {
    /// Every byte is as it was when the backup was made.
    Matches,
    /// A version that wrote no digest made the file, or exactly its last line was cut off. The mark in the file tells
    /// which (`emergent_store::backup::has_digest_mark`).
    Missing,
    /// The file is damaged, or was changed.
    Differs,
}

/// Writes the digest of a complete copy to its end.
pub fn append(file: &Path) -> io::Result<()> {
    let mut file = OpenOptions::new().read(true).append(true).open(file)?;
    let length = file.metadata()?.len();
    let digest = sha256(&mut file, length, |_| ())?;
    file.write_all(format!("{PREFIX}{digest}\n").as_bytes())?;
    file.sync_all()
}

/// Compares a file with the digest at its end. `on_progress` gets the number of bytes that were read.
pub fn check(file: &Path, on_progress: impl FnMut(u64)) -> io::Result<DigestCheck> {
    let mut file = File::open(file)?;
    let length = file.metadata()?.len();
    let Some(content) = length.checked_sub(LINE_BYTES as u64) else { return Ok(missing_or_cut(length)) };
    let mut line = [0; LINE_BYTES];
    file.seek(SeekFrom::Start(content))?;
    file.read_exact(&mut line)?;
    if !line.starts_with(PREFIX.as_bytes()) {
        return Ok(missing_or_cut(length));
    }
    file.seek(SeekFrom::Start(0))?;
    let digest = sha256(&mut file, content, on_progress)?;
    let is_same = line[PREFIX.len()..] == *format!("{digest}\n").as_bytes();
    Ok(if is_same { DigestCheck::Matches } else { DigestCheck::Differs })
}

/// A file without the line consists of whole pages, unless a part of the line is left.
fn missing_or_cut(length: u64) -> DigestCheck {
    if length.is_multiple_of(MIN_PAGE_BYTES) { DigestCheck::Missing } else { DigestCheck::Differs }
}

/// The digest of so many bytes, in hexadecimal digits.
fn sha256(file: &mut File, length: u64, mut on_progress: impl FnMut(u64)) -> io::Result<String> {
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut read = 0;
    let mut content = file.take(length);
    loop {
        match content.read(&mut buffer) {
            Ok(0) => break,
            Ok(bytes) => {
                hasher.update(&buffer[..bytes]);
                read += bytes as u64;
                on_progress(read);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// A database with a text that is longer than a page, and its digest.
    fn backup(folder: &Path) -> std::path::PathBuf {
        let file = folder.join("backup.db");
        let conn = rusqlite::Connection::open(&file).unwrap();
        conn.execute_batch("CREATE TABLE t (a TEXT)").unwrap();
        conn.execute("INSERT INTO t VALUES (?1)", ["a word ".repeat(20_000)]).unwrap();
        drop(conn);
        append(&file).unwrap();
        file
    }

    fn integrity(file: &Path) -> String {
        let conn = rusqlite::Connection::open(file).unwrap();
        conn.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap()
    }

    #[test]
    fn a_changed_byte_in_a_text_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let file = backup(folder.path());
        let bytes = fs::read(&file).unwrap();
        let mut seen = 0;
        assert_eq!(check(&file, |read| seen = read).unwrap(), DigestCheck::Matches);
        assert_eq!(seen, (bytes.len() - LINE_BYTES) as u64);
        assert_eq!(integrity(&file), "ok", "SQLite ignores the line");
        assert_eq!(fs::read(&file).unwrap(), bytes, "and leaves it");

        let mut changed = bytes.clone();
        changed[bytes.len() / 2] ^= 1;
        fs::write(&file, &changed).unwrap();
        assert_eq!(integrity(&file), "ok", "SQLite does not find it");
        assert_eq!(check(&file, |_| ()).unwrap(), DigestCheck::Differs);
    }

    #[test]
    fn a_digest_is_missing_only_if_all_of_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let file = backup(folder.path());
        let bytes = fs::read(&file).unwrap();
        let content = bytes.len() - LINE_BYTES;
        for (left, expected) in [
            (bytes.len() - 1, DigestCheck::Differs),
            (content + 1, DigestCheck::Differs),
            (content, DigestCheck::Missing),
            (content - 1, DigestCheck::Differs),
            (100, DigestCheck::Differs),
            (0, DigestCheck::Missing),
        ] {
            fs::write(&file, &bytes[..left]).unwrap();
            assert_eq!(check(&file, |_| ()).unwrap(), expected, "{left} bytes of {}", bytes.len());
        }
        let mut damaged = bytes;
        damaged[content + 3] ^= 1;
        fs::write(&file, &damaged).unwrap();
        assert_eq!(check(&file, |_| ()).unwrap(), DigestCheck::Differs, "the line itself is damaged");
    }
}
