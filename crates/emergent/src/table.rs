//! Lays out tables. On a terminal, ids are shortened, times lose their seconds, and wide columns are truncated
//! between words until the table fits; on a narrow one, the cells of a row are printed below each other. Elsewhere every
//! cell is printed whole.

use console::measure_text_width;

use crate::{
    printable::printable_line,
    text::{MINUTES_LENGTH, fit_line, is_time, shorten_ids, wrap_item},
};

/// Spaces between two columns of a table.
const COLUMN_GAP: usize = 2;
/// No column is made narrower than this, or than its header.
const MIN_COLUMN_WIDTH: usize = 6;
/// On a terminal with fewer columns than this, columns that are made narrower would not be readable.
const NARROW_TERMINAL: usize = 60;
/// The fewest columns for the text in the last column of a narrow terminal.
const MIN_TEXT_WIDTH: usize = 12;
/// The columns for the text in the last column, for which columns that are optional are left out.
const LAST_TEXT_WIDTH: usize = 32;
/// The header of the ids, which are of no use if they are truncated.
const ID: &str = "ID";
/// So much narrower a column of times counts when columns are made narrower: half a time says nothing, and the half of
/// a name often does.
const TIME_PREFERENCE: usize = 6;
/// The zone of the times, which their cells on a terminal have no room for.
const ZONE: &str = " (UTC)";

/// The lines of a table.
#[derive(Debug)]
pub struct TableLines {
    /// The names of the columns; `None` if every cell has the name beside it.
    pub headers: Option<String>,
    pub rows: Vec<String>,
}

/// Lays out a table. `width` is that of the terminal, if there is one. Each column is as wide as its widest cell; the
/// last one is not padded. The columns `whole` are not made narrower.
pub fn table_lines(
    headers: &[&str],
    rows: &[Vec<String>],
    whole: &[&str],
    width: Option<usize>,
) -> TableLines {
    let has_times = |column: usize| rows.iter().any(|row| row.get(column).is_some_and(|cell| is_time(cell)));
    let times: Vec<bool> = (0..headers.len()).map(has_times).collect();
    let rows: Vec<Vec<String>> = match width {
        Some(_) => rows.iter().map(|row| row.iter().map(|cell| short_cell(cell)).collect()).collect(),
        None => rows.iter().map(|row| row.iter().map(|cell| whole_cell(cell)).collect()).collect(),
    };
    let mut widths: Vec<usize> = headers.iter().map(|header| measure_text_width(header)).collect();
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(measure_text_width(cell));
        }
    }
    let titles: Vec<String> = headers
        .iter()
        .zip(&times)
        .map(|(header, has_times)| match (has_times, width) {
            (true, Some(_)) => format!("{header}{ZONE}"),
            _ => (*header).to_owned(),
        })
        .collect();
    if let Some(width) = width {
        if width < NARROW_TERMINAL && !fits_unshortened(&widths, width) {
            return TableLines { headers: None, rows: blocks(&titles, &rows, width) };
        }
        shrink(&mut widths, headers, whole, &times, width);
        if line_width(&widths) > width {
            return TableLines { headers: None, rows: blocks(&titles, &rows, width) };
        }
    }
    // A column that was made narrower than its title has no room for the zone.
    let fitting =
        |((title, header), width): ((&String, &&str), &usize)| match measure_text_width(title) <= *width {
            true => title.clone(),
            false => (*header).to_owned(),
        };
    let titles: Vec<String> = titles.iter().zip(headers).zip(&widths).map(fitting).collect();
    TableLines {
        headers: Some(table_line(&titles, &widths, width)),
        rows: rows.iter().map(|cells| table_line(cells, &widths, width)).collect(),
    }
}

/// Makes the widest columns narrower until the table fits, or nothing more can be taken away.
fn shrink(widths: &mut [usize], headers: &[&str], whole: &[&str], times: &[bool], available: usize) {
    let gaps = COLUMN_GAP * widths.len().saturating_sub(1);
    let available = available.saturating_sub(gaps);
    let least = |column: usize| {
        headers.get(column).map_or(0, |header| measure_text_width(header)).max(MIN_COLUMN_WIDTH)
    };
    while widths.iter().sum::<usize>() > available {
        let is_whole =
            |column: usize| headers.get(column).is_some_and(|header| *header == ID || whole.contains(header));
        let shrinkable =
            (0..widths.len()).filter(|column| widths[*column] > least(*column) && !is_whole(*column));
        // Of columns of the same width, the last one: it has the text, and the first ones have names.
        let counted_width = |column: usize| match times.get(column) {
            Some(true) => widths[column].saturating_sub(TIME_PREFERENCE),
            _ => widths[column],
        };
        let Some(widest) = shrinkable.max_by_key(|column| (counted_width(*column), *column)) else { return };
        widths[widest] -= 1;
    }
}

/// Whether all columns but the last one, which has the text, fit without being made narrower.
fn fits_unshortened(widths: &[usize], available: usize) -> bool {
    let Some((last, others)) = widths.split_last() else { return true };
    line_width(others) + COLUMN_GAP + (*last).min(MIN_TEXT_WIDTH) <= available
}

/// The columns that a line of a table needs.
fn line_width(widths: &[usize]) -> usize {
    widths.iter().sum::<usize>() + COLUMN_GAP * widths.len().saturating_sub(1)
}

/// The rows below each other, a line or more for each cell, for a terminal that is too narrow for the columns. Cells
/// without a value are left out.
fn blocks(headers: &[String], rows: &[Vec<String>], width: usize) -> Vec<String> {
    let label_width = headers.iter().map(|header| measure_text_width(header)).max().unwrap_or(0);
    let mut lines = Vec::new();
    for (index, row) in rows.iter().enumerate() {
        if index > 0 {
            lines.push(String::new());
        }
        for (header, cell) in headers.iter().zip(row).filter(|(_, cell)| !cell.is_empty() && *cell != "–") {
            let label = format!("{header:<label_width$}  ");
            lines.extend(wrap_item(&label, cell, width));
        }
    }
    lines
}

/// The table without the columns in which no row has a value. A dash is no value.
pub fn without_empty_columns<'a>(
    headers: &[&'a str],
    rows: &[Vec<String>],
) -> (Vec<&'a str>, Vec<Vec<String>>) {
    let has_value = |column: &usize| {
        rows.iter().any(|row| row.get(*column).is_some_and(|cell| !cell.is_empty() && cell != "–"))
    };
    let kept: Vec<usize> = (0..headers.len()).filter(has_value).collect();
    let row = |row: &Vec<String>| kept.iter().filter_map(|column| row.get(*column).cloned()).collect();
    (kept.iter().map(|column| headers[*column]).collect(), rows.iter().map(row).collect())
}

/// The table without some of the columns `optional`, the first ones first, so that the others need not be made much
/// narrower on a terminal of this width.
pub fn without_optional_columns<'a>(
    headers: &[&'a str],
    rows: &[Vec<String>],
    whole: &[&str],
    optional: &[&str],
    width: usize,
) -> (Vec<&'a str>, Vec<Vec<String>>) {
    let (mut headers, mut rows) = (headers.to_vec(), rows.to_vec());
    for name in optional {
        if needed_width(&headers, &rows, whole) <= width {
            break;
        }
        if let Some(column) = headers.iter().position(|header| header == name) {
            headers.remove(column);
            for row in rows.iter_mut().filter(|row| column < row.len()) {
                row.remove(column);
            }
        }
    }
    (headers, rows)
}

/// The columns of a table in which the columns `whole`, ids and times are complete, and others have at least the
/// beginning of their text, the last one a longer beginning.
fn needed_width(headers: &[&str], rows: &[Vec<String>], whole: &[&str]) -> usize {
    let column_width = |(column, header): (usize, &&str)| {
        let cells = || rows.iter().filter_map(|row| row.get(column));
        let widest = cells().map(|cell| measure_text_width(&short_cell(cell))).max().unwrap_or(0);
        let is_complete = *header == ID || whole.contains(header) || cells().any(|cell| is_time(cell));
        let text_width = if column + 1 == headers.len() { LAST_TEXT_WIDTH } else { MIN_TEXT_WIDTH };
        let widest = if is_complete { widest } else { widest.min(text_width) };
        widest.max(measure_text_width(header))
    };
    line_width(&headers.iter().enumerate().map(column_width).collect::<Vec<_>>())
}

fn table_line(cells: &[String], widths: &[usize], terminal: Option<usize>) -> String {
    let mut line = String::new();
    let last = cells.len().saturating_sub(1);
    for (column, (cell, width)) in cells.iter().zip(widths).enumerate() {
        let cell = if terminal.is_some() { fit_line(cell, *width) } else { cell.clone() };
        line.push_str(&cell);
        if column < last {
            let padding = width.saturating_sub(measure_text_width(&cell)) + COLUMN_GAP;
            line.extend(std::iter::repeat_n(' ', padding));
        }
    }
    match terminal {
        Some(width) => fit_line(line.trim_end(), width),
        None => line,
    }
}

/// A cell for a terminal.
fn short_cell(cell: &str) -> String {
    if is_time(cell) {
        return cell[..MINUTES_LENGTH].replace('T', " ");
    }
    shorten_ids(&printable_line(cell))
}

/// A cell where there is no terminal. It has no line breaks either: they would end the row.
fn whole_cell(cell: &str) -> String {
    printable_line(cell).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All lines of a table, the headers first.
    fn lines_of(headers: &[&str], rows: &[Vec<String>], whole: &[&str], width: Option<usize>) -> Vec<String> {
        let lines = table_lines(headers, rows, whole, width);
        lines.headers.into_iter().chain(lines.rows).collect()
    }

    #[test]
    fn names_are_shortened_before_times() {
        let row =
            ["a-rather-long-name-of-a-token", "graph:read graph:write agents:read", "2026-01-31T08:00:00Z"];
        let rows = vec![row.map(str::to_owned).to_vec()];
        let lines = lines_of(&["NAME", "SCOPES", "CREATED"], &rows, &[], Some(60));
        assert!(lines[1].ends_with("2026-01-31 08:00"), "{lines:?}");
        let lines = lines_of(&["NAME", "SCOPES", "LAST USED"], &rows, &[], Some(44));
        assert!(lines.iter().all(|line| measure_text_width(line) <= 44), "{lines:?}");
    }

    fn runs() -> Vec<Vec<String>> {
        let row = |id: &str, text: &str| {
            let id = format!("0198c0de-0000-7000-8000-0000{id}");
            vec![id, "researcher".to_owned(), "2026-01-31T10:11:12.123Z".to_owned(), text.to_owned()]
        };
        vec![row("deadbeef", "It found three patterns that fit the knowledge base"), row("cafebabe", "")]
    }

    const HEADERS: [&str; 4] = ["ID", "AGENT", "CREATED", "SUMMARY"];

    #[test]
    fn a_table_fits_the_terminal_without_breaking_words() {
        for width in [200, 80, 60, 40] {
            let lines = lines_of(&HEADERS, &runs(), &[], Some(width));
            assert!(lines.iter().all(|line| measure_text_width(line) <= width), "{width}: {lines:#?}");
        }
        assert_eq!(
            lines_of(&HEADERS, &runs(), &[], Some(72)),
            [
                "ID        AGENT       CREATED (UTC)     SUMMARY",
                "deadbeef  researcher  2026-01-31 10:11  It found three patterns that…",
                "cafebabe  researcher  2026-01-31 10:11",
            ]
        );
    }

    #[test]
    fn a_column_that_has_to_be_whole_is_not_made_narrower() {
        let lines = lines_of(&HEADERS, &runs(), &["SUMMARY"], Some(80));
        assert!(lines[1].ends_with("It found three patterns that fit the knowledge base"), "{lines:#?}");
        assert!(lines.iter().all(|line| measure_text_width(line) <= 80), "{lines:#?}");
    }

    #[test]
    fn a_table_that_does_not_fit_shows_its_rows_below_each_other() {
        let rows = [
            vec!["abc".to_owned(), "paused (step_limit)".to_owned(), "It found three patterns".to_owned()],
            vec!["def".to_owned(), "–".to_owned(), String::new()],
        ];
        assert_eq!(
            lines_of(&["ID", "STATUS", "SUMMARY"], &rows, &["STATUS"], Some(30)),
            [
                "ID       abc",
                "STATUS   paused (step_limit)",
                "SUMMARY  It found three",
                "         patterns",
                "",
                "ID       def",
            ]
        );
    }

    #[test]
    fn columns_without_values_are_left_out() {
        let rows = [vec!["a".to_owned(), String::new(), "–".to_owned(), "b".to_owned()]];
        let (headers, rows) = without_empty_columns(&["A", "B", "C", "D"], &rows);
        assert_eq!((headers, rows), (vec!["A", "D"], vec![vec!["a".to_owned(), "b".to_owned()]]));
    }

    #[test]
    fn optional_columns_are_left_out_before_names_are_truncated() {
        let row = |from: &str, to: &str| {
            let cells = [from, "collaborated_with_somebody", to, "1", "2026-01-31T10:11:12.123Z"];
            cells.map(str::to_owned).to_vec()
        };
        let rows = [row("Person/ada-lovelace", "Machine/analytical-engine"), row("Person/ada-lovelace", "x")];
        let headers = ["FROM", "TYPE", "TO", "VERSION", "WRITTEN"];
        let (whole, optional) = (["FROM", "TO"], ["VERSION", "WRITTEN"]);
        let shown = |width| without_optional_columns(&headers, &rows, &whole, &optional, width).0;
        assert_eq!(shown(120), headers);
        assert_eq!(shown(80), ["FROM", "TYPE", "TO", "WRITTEN"]);
        assert_eq!(shown(70), ["FROM", "TYPE", "TO"]);
        let (headers, rows) = without_optional_columns(&headers, &rows, &whole, &optional, 70);
        let lines = lines_of(&headers, &rows, &whole, Some(70));
        assert!(lines[1].starts_with("Person/ada-lovelace  "), "{lines:#?}");
        assert!(lines[1].ends_with("  Machine/analytical-engine"), "{lines:#?}");
    }

    #[test]
    fn columns_that_identify_a_row_are_whole_or_below_each_other() {
        let headers = ["ID", "NAME", "STATUS", "CREATED", "SCOPES"];
        let row = |scopes: &str| {
            let cells = ["deadbeef", "deploys-of-the-website", "valid", "2026-01-31T08:00:00Z", scopes];
            vec![cells.map(str::to_owned).to_vec()]
        };
        let (whole, optional) = (["NAME", "SCOPES"], ["CREATED"]);
        let lines = |scopes: &str, width| {
            let rows = row(scopes);
            let (headers, rows) = without_optional_columns(&headers, &rows, &whole, &optional, width);
            lines_of(&headers, &rows, &whole, Some(width))
        };
        let few = "graph:read agents:read";
        assert_eq!(lines(few, 80)[1], format!("deadbeef  deploys-of-the-website  valid   {few}"));
        let many = "graph:read graph:write agents:read agents:write agents:invoke";
        let many_lines = lines(many, 80);
        assert!(many_lines.contains(&format!("SCOPES  {many}")), "{many_lines:#?}");
        assert!(many_lines.contains(&"NAME    deploys-of-the-website".to_owned()), "{many_lines:#?}");
    }

    #[test]
    fn a_cell_neither_breaks_its_row_nor_controls_the_terminal() {
        let rows = [vec!["a\u{1b}[2Jb\r\nc".to_owned(), "d\u{202e}".to_owned()]];
        for width in [Some(60), Some(20), None] {
            let shown = lines_of(&["KEY", "STATUS"], &rows, &[], width).join(" ");
            assert!(
                shown.contains(r"a\u{1b}[2Jb\r\nc") && shown.contains(r"d\u{202e}"),
                "{width:?}: {shown}"
            );
        }
    }

    #[test]
    fn cells_are_whole_where_there_is_no_terminal() {
        let lines = lines_of(&HEADERS, &runs(), &[], None);
        assert!(
            lines[1]
                .starts_with("0198c0de-0000-7000-8000-0000deadbeef  researcher  2026-01-31T10:11:12.123Z")
        );
        assert!(lines[1].ends_with("that fit the knowledge base"));
    }
}
