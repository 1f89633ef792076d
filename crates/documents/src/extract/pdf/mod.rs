//! Reads the text of a PDF, page by page.
//!
//! A PDF is a program from a stranger, so each is read on a thread of its own: deep structures get
//! a large stack, a crash of the reader becomes an error, and one that never ends is given up on.

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

use super::Extracted;
use super::writer::{Gap, Writer};
use crate::error::PdfFault;

const MAX_BYTES: usize = 64 << 20;
/// The most one compressed stream may unpack to.
const MAX_STREAM: usize = 32 << 20;
const MAX_TEXT: usize = 32 << 20;
const MAX_TIME: Duration = Duration::from_secs(60);
const STACK: usize = 32 << 20;

pub(super) fn extract(bytes: &[u8]) -> Result<Extracted, PdfFault> {
    if bytes.len() > MAX_BYTES {
        return Err(PdfFault::TooLarge { bytes: bytes.len(), max: MAX_BYTES });
    }
    // Copied, as the thread may outlive this call.
    let bytes = bytes.to_vec();
    on_own_thread(MAX_TIME, move |deadline| read(&bytes, deadline))
}

const THREAD_NAME: &str = "pdf-reader";

/// A reader that hangs inside the PDF library cannot be stopped, only left behind. A few of those
/// cost a core each; more are refused.
static LEFT_BEHIND: AtomicUsize = AtomicUsize::new(0);
const MOST_LEFT_BEHIND: usize = 2;

/// Runs `work` with a deadline it should keep to, and returns soon after even if it does not.
fn on_own_thread<T: Send + 'static>(
    limit: Duration,
    work: impl FnOnce(Instant) -> Result<T, PdfFault> + Send + 'static,
) -> Result<T, PdfFault> {
    if LEFT_BEHIND.load(Ordering::Relaxed) >= MOST_LEFT_BEHIND {
        return Err(PdfFault::Busy);
    }
    silence_reader_panics();
    // Without room in the channel, a result is either received here or seen to be unwanted there.
    let (done, result) = mpsc::sync_channel(0);
    let reader = move || {
        let outcome = catch_unwind(AssertUnwindSafe(|| work(Instant::now() + limit)));
        let outcome = outcome.unwrap_or_else(|panic| Err(PdfFault::Crashed { what: message(&*panic) }));
        if done.send(outcome).is_err() {
            LEFT_BEHIND.fetch_sub(1, Ordering::Relaxed);
        }
    };
    let thread = thread::Builder::new().name(THREAD_NAME.into()).stack_size(STACK);
    if let Err(error) = thread.spawn(reader) {
        return Err(PdfFault::Crashed { what: error.to_string() });
    }
    let grace = limit / 4;
    result.recv_timeout(limit + grace).unwrap_or_else(|_| {
        LEFT_BEHIND.fetch_add(1, Ordering::Relaxed);
        Err(PdfFault::TooSlow(limit))
    })
}

/// A crash of the reader is the document's fault and is reported as an error; without this each
/// would also be printed like a bug of the server's.
fn silence_reader_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let others = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if thread::current().name() != Some(THREAD_NAME) {
                others(panic);
            }
        }));
    });
}

fn message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("without a message").to_owned()
}

fn read(bytes: &[u8], deadline: Instant) -> Result<Extracted, PdfFault> {
    let document = load(bytes)?;
    let mut pages = page::Reader::new(&document, deadline);
    let mut writer = Writer::default();
    let mut length = 0;
    for page in document.page_iter() {
        for paragraph in pages.read(page)? {
            length += paragraph.len();
            if length > MAX_TEXT {
                return Err(PdfFault::TooMuchText { max: MAX_TEXT });
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
            true => PdfFault::UnreadableFonts,
            false => PdfFault::NoText,
        });
    }
    Ok(Extracted { text, headings, title: title(&document) })
}

fn load(bytes: &[u8]) -> Result<Document, PdfFault> {
    // A PDF restricted by its owner but without a password to open it is decrypted on loading.
    let options = LoadOptions::with_max_decompressed_size(MAX_STREAM);
    match Document::load_mem_with_options(bytes, options) {
        Ok(document) if document.is_encrypted() => Err(PdfFault::Encrypted),
        Ok(document) => Ok(document),
        Err(lopdf::Error::InvalidPassword | lopdf::Error::Decryption(_)) => Err(PdfFault::Encrypted),
        Err(error) => Err(damaged(&error)),
    }
}

fn damaged(error: &(dyn std::error::Error + 'static)) -> PdfFault {
    let causes = std::iter::successors(Some(error), |error| error.source());
    let causes: Vec<_> = causes.map(ToString::to_string).collect();
    PdfFault::Damaged { what: causes.join(": ") }
}

fn title(document: &Document) -> Option<String> {
    let (_, info) = document.dereference(document.trailer.get(b"Info").ok()?).ok()?;
    let (_, title) = document.dereference(info.as_dict().ok()?.get(b"Title").ok()?).ok()?;
    let title: String = lopdf::decode_text_string(title).ok()?.chars().filter(|c| *c != '\0').collect();
    let title = title.trim();
    (!title.is_empty()).then(|| title.to_owned())
}

/// The dictionary an object is or refers to.
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
    fn a_reader_that_crashes_is_an_error() {
        let outcome = on_own_thread(Duration::from_secs(5), |_| -> Result<(), _> { panic!("bad xref") });
        assert!(matches!(outcome, Err(PdfFault::Crashed { what }) if what == "bad xref"));
    }

    #[test]
    fn a_reader_that_hangs_is_left_behind() {
        let limit = Duration::from_millis(20);
        let outcome = on_own_thread(limit, move |_| {
            thread::sleep(limit * 20);
            Ok(())
        });
        assert!(matches!(outcome, Err(PdfFault::TooSlow(_))));
        assert_eq!(LEFT_BEHIND.load(Ordering::Relaxed), 1);
        thread::sleep(limit * 40);
        assert_eq!(LEFT_BEHIND.load(Ordering::Relaxed), 0);
    }
}
