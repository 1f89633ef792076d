//! Feeds a parser with inputs that libFuzzer makes. An input that reaches code which no input reached before is kept,
//! and changed further. `scripts/coverage-fuzz` builds and runs this.
//!
//!     FUZZ_PARSER   the parser, by its name in `crates/fuzz/tests/parsers.rs`
//!     FUZZ_SEEDS    a folder: writes what libFuzzer starts with, and ends
//!     FUZZ_CURRENT  a file that always has the input of the moment
//!
//! The arguments are those of libFuzzer. A parser that panics, fails a check of `emergent_fuzz::runner`, hangs, or takes
//! too much memory ends the process, and libFuzzer leaves the input in a file.

use std::{
    env,
    ffi::{CString, c_char, c_int},
    fs::{self, File},
    io,
    os::unix::fs::FileExt,
    panic,
    path::Path,
    process, slice,
    sync::LazyLock,
    thread,
    time::Duration,
};

use emergent_fuzz::{
    input::MAX_BYTES,
    runner::check_input,
    targets::{ALL, Target},
};
// Links libFuzzer.
use libfuzzer_sys as _;
use rustix::time::{ClockId, clock_gettime};

/// The processor time for one input. libFuzzer's own limit is for real time, and ends what hangs.
const MAX_TIME: Duration = Duration::from_secs(2);

static TARGET: LazyLock<&Target> = LazyLock::new(|| {
    let name = env::var("FUZZ_PARSER").expect("FUZZ_PARSER names a parser");
    let target = ALL.iter().find(|target| target.name.replace('-', "_") == name.replace('-', "_"));
    target.unwrap_or_else(|| panic!("there is no parser `{name}`"))
});

/// libFuzzer cannot save an input with which the process is killed, or which overflows the stack.
static CURRENT: LazyLock<Option<File>> = LazyLock::new(|| {
    let path = env::var_os("FUZZ_CURRENT")?;
    Some(File::create(path).expect("the file for the current input can be created"))
});

unsafe extern "C" {
    /// Fuzzes until the arguments say that it is enough.
    fn LLVMFuzzerRunDriver(
        argc: *mut c_int,
        argv: *mut *mut *mut c_char,
        run: extern "C" fn(*const u8, usize) -> c_int,
    ) -> c_int;
}

// With the `main` of libFuzzer, the runtime of Rust would not say that the stack overflowed.
fn main() -> io::Result<()> {
    if let Some(folder) = env::var_os("FUZZ_SEEDS") {
        return write_seeds(&TARGET, Path::new(&folder));
    }
    // The reader of PDFs installs a hook of its own when it is first used, so it comes before this one.
    let _ = (TARGET.parse)(&[]);
    panic::set_hook(Box::new(|panic| {
        eprintln!("{panic}");
        // A panic on another thread is for the parser to report.
        if thread::current().name() == Some("main") {
            process::abort();
        }
    }));
    let arguments: Vec<_> = env::args()
        .map(|argument| CString::new(argument).expect("arguments have no NUL characters"))
        .collect();
    let mut pointers: Vec<_> = arguments.iter().map(|argument| argument.as_ptr().cast_mut()).collect();
    let mut count = c_int::try_from(pointers.len()).expect("few arguments");
    pointers.push(std::ptr::null_mut());
    let mut pointers = pointers.as_mut_ptr();
    // SAFETY: the arguments are as in C, and live until the end of the process.
    process::exit(unsafe { LLVMFuzzerRunDriver(&raw mut count, &raw mut pointers, run) })
}

extern "C" fn run(data: *const u8, size: usize) -> c_int {
    let bytes = match size {
        0 => &[],
        // SAFETY: libFuzzer passes a pointer to this many bytes, and keeps them until this returns.
        _ => unsafe { slice::from_raw_parts(data, size) },
    };
    if let Some(file) = &*CURRENT {
        let written = file.write_all_at(bytes, 0).and_then(|()| file.set_len(size as u64));
        written.expect("the current input can be written");
    }
    if let Err(problem) = check_input(&TARGET, bytes, MAX_TIME, processor_time) {
        panic!("{}: {problem}", TARGET.name);
    }
    0
}

/// Other programs do not make it longer.
fn processor_time() -> Duration {
    clock_gettime(ClockId::ProcessCPUTime).try_into().expect("a time since the process began")
}

/// Writes the samples, the words as a dictionary, and the largest size of an input.
fn write_seeds(target: &Target, folder: &Path) -> io::Result<()> {
    let samples = (target.samples)();
    let longest = samples.iter().map(Vec::len).max().unwrap_or_default();
    fs::create_dir_all(folder.join("samples"))?;
    for (number, sample) in samples.iter().enumerate() {
        fs::write(folder.join(format!("samples/{number}")), sample)?;
    }
    let escaped = |token: &&str| {
        let bytes: String = token.bytes().map(|byte| format!("\\x{byte:02x}")).collect();
        format!("\"{bytes}\"\n")
    };
    fs::write(folder.join("dictionary"), target.tokens.iter().map(escaped).collect::<String>())?;
    // A short text in a large input is seldom changed. Random input, which is cheaper to make, has all sizes.
    fs::write(folder.join("max_len"), (8 * longest).clamp(1 << 10, MAX_BYTES).to_string())
}
