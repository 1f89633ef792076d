//! Extracts the text of a PDF, page by page.
//!
//! A PDF is untrusted input, so each one is processed on its own thread. Deep structures get a
//! large stack, a panic becomes an error, and a reader that does not finish is abandoned.

mod cmap;
mod font;
mod layout;
mod matrix;
mod page;
mod text;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Once, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use lopdf::{Document, LoadOptions, Object};

use super::ExtractedText;
use super::writer::{Gap, Writer};
use crate::error::PdfError;

const MAX_BYTES: usize = 64 << 20;
/// The maximum decompressed size of one stream.
const MAX_STREAM_BYTES: usize = 32 << 20;
const MAX_TEXT_BYTES: usize = 32 << 20;
const MAX_TIME: Duration = Duration::from_secs(60);
const STACK_BYTES: usize = 32 << 20;

/// Extracts the text of a PDF on a thread of its own.
pub(super) fn extract(bytes: &[u8]) -> Result<ExtractedText, PdfError> {
    if bytes.len() > MAX_BYTES {
        return Err(PdfError::TooLarge { bytes: bytes.len(), max: MAX_BYTES });
    }
    // The bytes are copied, because the thread may outlive this call.
    let bytes = bytes.to_vec();
    on_own_thread(MAX_TIME, move |deadline| read(&bytes, deadline))
}

const THREAD_NAME: &str = "pdf-reader";

/// A reader that hangs inside the PDF library cannot be stopped, only abandoned. A few of them
/// occupy a core each; beyond that, further PDFs are rejected.
static STUCK_READERS: AtomicUsize = AtomicUsize::new(0);
const MAX_STUCK_READERS: usize = 2;

/// Runs `work` with a deadline that it should observe, and returns soon after the deadline even if
/// it does not.
fn on_own_thread<T: Send + 'static>(
    limit: Duration,
    work: impl FnOnce(Instant) -> Result<T, PdfError> + Send + 'static,
) -> Result<T, PdfError> {
    if STUCK_READERS.load(Ordering::Relaxed) >= MAX_STUCK_READERS {
        return Err(PdfError::Busy);
    }
    silence_reader_panics();
    // The channel has no buffer, so a result is either received here or the thread notices that
    // nobody waits for it.
    let (sender, receiver) = mpsc::sync_channel(0);
    #[expect(
        clippy::disallowed_methods,
        reason = "this crate has no runtime: the limit is for the real time of a thread"
    )]
    let reader = move || {
        let outcome = catch_unwind(AssertUnwindSafe(|| work(Instant::now() + limit)));
        let outcome = outcome.unwrap_or_else(|panic| Err(PdfError::Crashed { what: panic_message(&*panic) }));
        if sender.send(outcome).is_err() {
            STUCK_READERS.fetch_sub(1, Ordering::Relaxed);
        }
    };
    let thread = thread::Builder::new().name(THREAD_NAME.into()).stack_size(STACK_BYTES);
    if let Err(error) = thread.spawn(reader) {
        return Err(PdfError::Crashed { what: error.to_string() });
    }
    // The reader checks its deadline itself, and needs some time to notice it.
    let grace = limit / 4;
    receiver.recv_timeout(limit + grace).unwrap_or_else(|_| {
        STUCK_READERS.fetch_add(1, Ordering::Relaxed);
        Err(PdfError::TooSlow(limit))
    })
}

/// Suppresses the output of panics in reader threads. They are caused by the document and reported
/// as errors, and would otherwise look like a bug of the server.
fn silence_reader_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let previous_hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if thread::current().name() != Some(THREAD_NAME) {
                previous_hook(panic);
            }
        }));
    });
}

fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("without a message").to_owned()
}

/// Reads all pages before the deadline.
fn read(bytes: &[u8], deadline: Instant) -> Result<ExtractedText, PdfError> {
    let document = load(bytes)?;
    let mut pages = page::Reader::new(&document, deadline);
    let mut writer = Writer::default();
    let mut length = 0;
    for page in document.page_iter() {
        for paragraph in pages.read(page)? {
            length += paragraph.len();
            if length > MAX_TEXT_BYTES {
                return Err(PdfError::TooMuchText { max: MAX_TEXT_BYTES });
            }
            writer.gap(Gap::Paragraph);
            for line in paragraph.lines() {
                writer.gap(Gap::Line);
                writer.words(line);
            }
        }
    }
    let (text, headings) = writer.finish();
    if !text.contains(char::is_alphanumeric) {
        return Err(match pages.saw_unreadable_font() {
            true => PdfError::UnreadableFonts,
            false => PdfError::NoText,
        });
    }
    Ok(ExtractedText { text, headings, title: title(&document) })
}

fn load(bytes: &[u8]) -> Result<Document, PdfError> {
    // A PDF with owner restrictions but without a user password is decrypted when it is loaded.
    let options = LoadOptions::with_max_decompressed_size(MAX_STREAM_BYTES);
    match Document::load_mem_with_options(bytes, options) {
        Ok(document) if document.is_encrypted() => Err(PdfError::Encrypted),
        Ok(document) => Ok(document),
        Err(lopdf::Error::InvalidPassword | lopdf::Error::Decryption(_)) => Err(PdfError::Encrypted),
        Err(error) => Err(damaged(&error)),
    }
}

/// Returns the error with all of its causes.
fn damaged(error: &(dyn std::error::Error + 'static)) -> PdfError {
    let causes = std::iter::successors(Some(error), |error| error.source());
    let causes: Vec<_> = causes.map(ToString::to_string).collect();
    PdfError::Damaged { what: causes.join(": ") }
}

/// Returns the title in the metadata of the document.
fn title(document: &Document) -> Option<String> {
    let (_, info) = document.dereference(document.trailer.get(b"Info").ok()?).ok()?;
    let (_, title) = document.dereference(info.as_dict().ok()?.get(b"Title").ok()?).ok()?;
    let title: String = lopdf::decode_text_string(title).ok()?.chars().filter(|c| *c != '\0').collect();
    let title = title.trim();
    (!title.is_empty()).then(|| title.to_owned())
}

/// Returns the dictionary that an object is or refers to.
fn dictionary<'a>(document: &'a Document, object: &'a Object) -> Option<&'a lopdf::Dictionary> {
    document.dereference(object).ok()?.1.as_dict().ok()
}

fn number(object: &Object) -> Option<f64> {
    object.as_float().ok().map(f64::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_of_the_reader_becomes_an_error() {
        let outcome = on_own_thread(Duration::from_secs(5), |_| -> Result<(), _> { panic!("bad xref") });
        assert!(matches!(outcome, Err(PdfError::Crashed { what }) if what == "bad xref"));
    }

    #[test]
    fn a_reader_that_does_not_finish_is_abandoned() {
        let limit = Duration::from_millis(20);
        let outcome = on_own_thread(limit, move |_| {
            thread::sleep(limit * 20);
            Ok(())
        });
        assert!(matches!(outcome, Err(PdfError::TooSlow(_))));
        assert_eq!(STUCK_READERS.load(Ordering::Relaxed), 1);
        thread::sleep(limit * 40);
        assert_eq!(STUCK_READERS.load(Ordering::Relaxed), 0);
    }
}
