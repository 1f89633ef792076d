//! Output on standard output: lines, tables and JSON, with colour on a terminal only.

use std::{
    borrow::Cow,
    io::{IsTerminal, Write},
    sync::atomic::{AtomicBool, Ordering},
};

use console::measure_text_width;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::{
    config,
    error::{Error, Result},
    hints,
    printable::{
        PrintableWriter, printable, printable_json, printable_line, printable_output, printable_output_line,
    },
    table::{TableLines, table_lines, without_empty_columns, without_optional_columns},
    text::{fit_line, shorten_ids, wrap, wrap_item},
    values::field_lines,
};

/// The width of the labels of `print_fact`.
const FACT_LABEL_WIDTH: usize = 12;
/// The columns before the label of a fact.
const FACT_INDENT: usize = 2;
/// The smallest size that a terminal is taken to have; some report none.
const MIN_ROWS: usize = 4;
pub const MIN_COLUMNS: usize = 20;

/// Whether lines that are no JSON are printed to standard error.
static HAS_TEXTS_ON_STDERR: AtomicBool = AtomicBool::new(false);

#[derive(Debug, Clone, Copy, clap::Args)]
pub struct OutputFlags {
    /// Print machine-readable JSON
    #[arg(long, global = true)]
    pub json: bool,
}

/// Whether to colour the output: on a terminal, unless `NO_COLOR` is set.
pub fn use_colour() -> bool {
    std::io::stdout().is_terminal() && config::env_value("NO_COLOR").is_none()
}

pub fn bold(text: &str) -> String {
    paint("1", text, use_colour())
}

pub fn dim(text: &str) -> String {
    paint("2", text, use_colour())
}

pub fn green(text: &str) -> String {
    paint("32", text, use_colour())
}

pub fn red(text: &str) -> String {
    paint("31", text, use_colour())
}

/// The text with an ANSI code (`1` bold, `2` dim, `32` green), if colour is on. The text has no such codes of its own:
/// they would be shown.
pub fn paint(code: &str, text: &str, has_colour: bool) -> String {
    if has_colour && !text.is_empty() {
        return format!("\x1b[{code}m{}\x1b[0m", printable(text));
    }
    text.to_owned()
}

/// What standard output shows for a text. A terminal is controlled by our own colours only.
fn for_output(text: &str) -> Cow<'_, str> {
    if std::io::stdout().is_terminal() { printable_output(text, use_colour()) } else { Cow::Borrowed(text) }
}

/// A duration for people: `120ms`, `1.5s`, `2m 05s`.
pub fn duration(millis: u64) -> String {
    match millis {
        0..1_000 => format!("{millis}ms"),
        1_000..60_000 => format!("{}.{}s", millis / 1_000, millis % 1_000 / 100),
        _ => format!("{}m {:02}s", millis / 60_000, millis % 60_000 / 1_000),
    }
}

/// Prints text without adding a line break, and flushes it.
pub fn print_part(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(for_output(text).as_bytes()).and_then(|()| out.flush()).map_err(Error::Io)
}

/// Standard output for a text that comes in parts. It is whole once it was flushed.
pub fn text_writer() -> Box<dyn Write> {
    let out = std::io::stdout();
    if out.is_terminal() { Box::new(PrintableWriter::new(out.lock())) } else { Box::new(out.lock()) }
}

/// From now on, standard output has only JSON, for a program that reads each line of it: texts for people are printed to
/// standard error.
pub fn print_only_json_on_stdout() {
    HAS_TEXTS_ON_STDERR.store(true, Ordering::Relaxed);
}

/// Prints a line. When the reader has ended (`| head`), `main` exits quietly on the error.
pub fn print_line(text: &str) -> Result<()> {
    if HAS_TEXTS_ON_STDERR.load(Ordering::Relaxed) {
        print_notice(text);
        return Ok(());
    }
    print_stdout_line(text)
}

fn print_stdout_line(text: &str) -> Result<()> {
    writeln!(std::io::stdout().lock(), "{}", for_output(text)).map_err(Error::Io)
}

pub fn print_json(value: &impl Serialize) -> Result<()> {
    let text = serde_json::to_string_pretty(value).map_err(|error| Error::Unexpected(error.to_string()))?;
    print_stdout_line(&printable_json(&text))
}

/// Prints JSON in one line.
pub fn print_json_line(value: &impl Serialize) -> Result<()> {
    let text = serde_json::to_string(value).map_err(|error| Error::Unexpected(error.to_string()))?;
    print_stdout_line(&printable_json(&text))
}

/// Prints a table. On a terminal it fits the width, with short ids, and says so if it is empty; elsewhere every
/// cell is whole.
pub fn print_table(headers: &[&str], rows: &[Vec<String>]) -> Result<()> {
    if rows.is_empty() && terminal_width().is_some() {
        print_line(&bold(&headers.join("  ")))?;
        return print_line(&dim("(none)"));
    }
    print_table_lines(table_lines(headers, rows, &[], terminal_width()))
}

/// Prints a table like [`print_table`]. On a terminal, columns without a value are left out, and the columns `whole`
/// are not made narrower.
pub fn print_compact_table(headers: &[&str], rows: &[Vec<String>], whole: &[&str]) -> Result<()> {
    match terminal_width() {
        Some(_) => {
            let (headers, rows) = without_empty_columns(headers, rows);
            print_table_lines(table_lines(&headers, &rows, whole, terminal_width()))
        }
        None => print_table(headers, rows),
    }
}

/// Prints a table like [`print_compact_table`]. If a terminal is not wide enough, the columns `optional` are left out,
/// the first ones first.
pub fn print_table_with_optional(
    headers: &[&str],
    rows: &[Vec<String>],
    whole: &[&str],
    optional: &[&str],
) -> Result<()> {
    match terminal_width() {
        Some(width) if !rows.is_empty() => {
            let (headers, rows) = without_empty_columns(headers, rows);
            let (headers, rows) = without_optional_columns(&headers, &rows, whole, optional, width);
            print_table_lines(table_lines(&headers, &rows, whole, Some(width)))
        }
        _ => print_table(headers, rows),
    }
}

fn print_table_lines(lines: TableLines) -> Result<()> {
    if let Some(headers) = &lines.headers {
        print_line(&bold(headers))?;
    }
    lines.rows.iter().try_for_each(|line| print_line(line))
}

/// Prints a table like [`print_table`]. If it is empty, a terminal shows what to do next instead: `next` is the rest of
/// a sentence that begins with a command, such as ("agent create FILE", "creates one").
pub fn print_list(headers: &[&str], rows: &[Vec<String>], next: (&str, &str)) -> Result<()> {
    print_list_with_whole(headers, rows, &[], next)
}

/// Prints a list like [`print_list`]. The columns `whole`, which identify a row, are not made narrower. If a terminal
/// is not wide enough, the columns `optional` are left out, the first ones first, and then the cells of a row are
/// printed below each other.
pub fn print_list_with_optional(
    headers: &[&str],
    rows: &[Vec<String>],
    whole: &[&str],
    optional: &[&str],
    next: (&str, &str),
) -> Result<()> {
    match rows.is_empty() {
        true => print_list(headers, rows, next),
        false => print_table_with_optional(headers, rows, whole, optional),
    }
}

/// Prints a list like [`print_list`]. The columns `whole` are not made narrower.
pub fn print_list_with_whole(
    headers: &[&str],
    rows: &[Vec<String>],
    whole: &[&str],
    next: (&str, &str),
) -> Result<()> {
    if !rows.is_empty() || terminal_width().is_none() {
        return print_table_lines(table_lines(headers, rows, whole, terminal_width()));
    }
    let (command, purpose) = next;
    print_text(&format!("There are none. `{}` {purpose}.", hints::command(command)))
}

/// The columns of the terminal that standard output is; `None` when it is something else.
pub fn terminal_width() -> Option<usize> {
    let (_, columns) = terminal_size()?;
    Some(columns)
}

/// The lines and columns of the terminal that standard output is.
pub fn terminal_size() -> Option<(usize, usize)> {
    if !std::io::stdout().is_terminal() {
        return None;
    }
    let (rows, columns) = console::Term::stdout().size();
    Some((usize::from(rows).max(MIN_ROWS), usize::from(columns).max(MIN_COLUMNS)))
}

/// Prints a line that stands for one item. On a terminal it fits the width, with short ids; elsewhere it is whole.
pub fn print_row(text: &str) -> Result<()> {
    match terminal_width() {
        Some(width) => print_line(&fit_row(text, width)),
        None => print_line(text.trim_end()),
    }
}

/// What a terminal of this width shows of a line for [`print_row`].
pub fn fit_row(text: &str, width: usize) -> String {
    fit_line(&shorten_ids(&printable_output_line(text.trim_end(), use_colour())), width)
}

/// Prints a text; on a terminal it is wrapped between words, and has no colours.
pub fn print_text(text: &str) -> Result<()> {
    match terminal_width() {
        Some(_) => print_coloured_text(&printable(text)),
        None => print_line(text),
    }
}

/// Prints a text like [`print_text`] that has our own colours. Nobody else's text may be in it before it is
/// [`printable`].
pub fn print_coloured_text(text: &str) -> Result<()> {
    match terminal_width() {
        Some(width) => wrap(&for_output(text), width).iter().try_for_each(|line| print_line(line)),
        None => print_line(text),
    }
}

/// Prints a dim text; on a terminal it is wrapped between words.
pub fn print_dim(text: &str) -> Result<()> {
    match terminal_width() {
        Some(width) => wrap(&printable(text), width).iter().try_for_each(|line| print_line(&dim(line))),
        None => print_line(text),
    }
}

/// Prints a notice to standard error; on a terminal it is wrapped between words.
pub fn print_notice(text: &str) {
    match std::io::stderr().is_terminal() {
        true => print_wrapped(&shorten_ids(&printable_output(text, use_colour()))),
        false => eprintln!("{text}"),
    }
}

/// Prints an error to standard error; on a terminal it is wrapped between words, with whole ids.
pub fn print_error(text: &str) {
    match std::io::stderr().is_terminal() {
        true => print_wrapped(&printable(text)),
        false => eprintln!("{text}"),
    }
}

/// Prints an error in which lines that begin with spaces are commands. They are never broken, so that they can be
/// copied.
pub fn print_error_with_commands(text: &str) {
    for line in text.lines() {
        if line.is_empty() || line.starts_with(' ') {
            eprintln!("{}", printable(line));
        } else {
            print_error(line);
        }
    }
}

/// Prints lines to the terminal that standard error is.
fn print_wrapped(text: &str) {
    let columns = usize::from(console::Term::stderr().size().1).max(MIN_COLUMNS);
    for line in wrap(text, columns) {
        eprintln!("{line}");
    }
}

/// Prints the name of the one thing that is shown, and its id: beside it if there is space, and below it otherwise.
pub fn print_title(name: &str, id: &str) -> Result<()> {
    let name = &*printable_line(name);
    let one_line = format!("{name}  {id}");
    match terminal_width() {
        Some(width) if measure_text_width(&one_line) > width => {
            wrap(name, width).iter().try_for_each(|line| print_line(&bold(line)))?;
            print_dim(id)
        }
        _ => print_line(&format!("{}  {}", bold(name), dim(id))),
    }
}

/// Prints a dim line that says what a command is for, and the command, which is never broken: beside the line if there is
/// space, and below it otherwise.
pub fn print_command(purpose: &str, command: &str) -> Result<()> {
    let one_line = format!("  {purpose} {command}");
    match terminal_width() {
        Some(width) if measure_text_width(&one_line) > width => {
            print_dim(&format!("  {purpose}"))?;
            print_line(&dim(&format!("  {command}")))
        }
        _ => print_line(&dim(&one_line)),
    }
}

/// Prints a line with a label and a value, as the views of one thing have it.
pub fn print_fact(label: &str, value: &str) -> Result<()> {
    print_item(&format!("  {label:<FACT_LABEL_WIDTH$} "), value)
}

/// Prints the fields of a JSON object, a line each: `name  value`, with nested values indented below their name.
pub fn print_fields(fields: &Map<String, Value>) -> Result<()> {
    print_fields_below(fields, FACT_INDENT)
}

/// Prints a JSON value below its label; one that is no object beside it.
pub fn print_value(label: &str, value: &Value) -> Result<()> {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            print_line(&format!("{:FACT_INDENT$}{label}", ""))?;
            print_fields_below(fields, 2 * FACT_INDENT)
        }
        other => print_fact(label, &printable_json(&other.to_string())),
    }
}

fn print_fields_below(fields: &Map<String, Value>, indent: usize) -> Result<()> {
    field_lines(fields, indent, terminal_width()).iter().try_for_each(|line| print_line(line))
}

/// Prints a text after a label; on a terminal, the text is wrapped beside the label.
pub fn print_item(label: &str, text: &str) -> Result<()> {
    print_painted_item(label, text, str::to_owned)
}

/// Prints a text after a label like [`print_item`], each line painted. Lines are painted after they are wrapped, so
/// that no colour code is broken.
pub fn print_painted_item(label: &str, text: &str, paint: fn(&str) -> String) -> Result<()> {
    let lines = match terminal_width() {
        Some(width) => wrap_item(label, &printable(text), width),
        None => vec![format!("{label}{text}")],
    };
    lines.iter().try_for_each(|line| print_line(&paint(line)))
}

/// The first line of a text, truncated between words to `max_chars` with an ellipsis. No character of it controls a
/// terminal.
pub fn first_line(text: &str, max_chars: usize) -> String {
    fit_line(&printable_line(text.lines().next().unwrap_or_default()), max_chars)
}
