//! Builds the readable text during extraction: collapses whitespace, puts one blank line between
//! blocks, and records the positions of headings.

use super::Heading;

/// The space before the text that is written next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Gap {
    #[default]
    None,
    Space,
    Line,
    Paragraph,
}

impl Gap {
    fn as_str(self) -> &'static str {
        match self {
            Gap::None => "",
            Gap::Space => " ",
            Gap::Line => "\n",
            Gap::Paragraph => "\n\n",
        }
    }
}

/// Builds the text. Gaps, list markers and cell separators are buffered until text follows them, so
/// that empty elements leave no trace.
#[derive(Debug, Default)]
pub(super) struct Writer {
    text: String,
    headings: Vec<Heading>,
    heading: Option<OpenHeading>,
    gap: Gap,
    lists: Vec<List>,
    /// The bullet or number of an item that has no text yet.
    marker: Option<String>,
    /// The current row of each open table, outermost first.
    tables: Vec<Row>,
    /// The number of cells that were started in this row since it last got text.
    empty_cells: usize,
}

/// A heading whose end was not reached yet. It has no offset until it has text.
#[derive(Debug)]
struct OpenHeading {
    level: u8,
    offset: Option<usize>,
}

/// A list that was not ended yet.
#[derive(Debug)]
struct List {
    /// The number of the next item, if the list is numbered.
    number: Option<u64>,
    /// How many items were started.
    items: usize,
}

/// The current row of a table.
#[derive(Debug, Default)]
struct Row {
    /// The length of the text at the start of the row.
    start: usize,
    /// The number of the row in its table, from 1; 0 before the first row.
    index: usize,
    /// How many cells were started.
    cells: usize,
}

/// Longer text is not a heading: the end tag of the heading is missing.
const MAX_HEADING_BYTES: usize = 300;

/// Deeper lists are not indented further. Otherwise the text could grow with the square of the
/// depth.
const MAX_INDENT: usize = 6;

impl Writer {
    /// Returns the text and its headings.
    pub fn finish(mut self) -> (String, Vec<Heading>) {
        self.end_heading();
        self.text.truncate(self.text.trim_end().len());
        (self.text, self.headings)
    }

    /// Requests at least this gap before the next text.
    pub fn gap(&mut self, gap: Gap) {
        if self.marker.is_some() || self.in_empty_cell() {
            return;
        }
        let gap = match self.heading {
            Some(_) => gap.min(Gap::Space),
            None => gap,
        };
        self.gap = self.gap.max(gap);
    }

    /// Writes text in which a run of whitespace means a single space.
    pub fn words(&mut self, text: &str) {
        if text.starts_with(char::is_whitespace) {
            self.gap(Gap::Space);
        }
        let mut words = text.split_whitespace().peekable();
        while let Some(word) = words.next() {
            self.fill_gap();
            // Soft hyphens mark where a word may be broken, and would prevent it from being found.
            self.text.extend(word.split('\u{ad}'));
            if words.peek().is_some() || text.ends_with(char::is_whitespace) {
                self.gap(Gap::Space);
            }
        }
    }

    /// Writes text whose spaces and line breaks are significant, such as code.
    pub fn verbatim(&mut self, text: &str) {
        if self.heading.is_some() {
            return self.words(text);
        }
        let starts_block = self.gap != Gap::None || self.marker.is_some() || self.text.is_empty();
        let text = if starts_block { text.trim_start_matches('\n') } else { text };
        if !text.is_empty() {
            self.fill_gap();
            self.text.push_str(text);
        }
    }

    /// Writes the buffered gap, list marker and cell separators. Must be called before any text is written.
    fn fill_gap(&mut self) {
        let gap = std::mem::take(&mut self.gap);
        if gap >= Gap::Line {
            self.text.truncate(self.text.trim_end().len());
        }
        if !self.text.is_empty() {
            self.text.push_str(gap.as_str());
        }
        if let Some(marker) = self.marker.take() {
            self.text.push_str(&marker);
        }
        for _ in 0..std::mem::take(&mut self.empty_cells) {
            let begins_line = self.text.is_empty() || self.text.ends_with('\n');
            self.text.push_str(if begins_line { "| " } else { " | " });
        }
        if let Some(heading) = &mut self.heading {
            heading.offset.get_or_insert(self.text.len());
        }
    }

    pub fn begin_heading(&mut self, level: u8) {
        self.end_heading();
        self.gap(Gap::Paragraph);
        self.heading = Some(OpenHeading { level, offset: None });
    }

    pub fn end_heading(&mut self) {
        let Some(heading) = self.heading.take() else {
            return;
        };
        if let Some(offset) = heading.offset {
            let title = self.text[offset..].trim_end();
            if !title.is_empty() && title.len() <= MAX_HEADING_BYTES {
                let (level, title) = (heading.level, title.to_owned());
                self.headings.push(Heading { offset, level, title });
            }
        }
        self.gap(Gap::Paragraph);
    }

    /// Starts a list, numbered from `first` if it is set.
    pub fn begin_list(&mut self, first: Option<u64>) {
        self.end_heading();
        self.marker = None;
        match self.lists.is_empty() {
            true => self.gap(Gap::Paragraph),
            false => self.gap = self.gap.min(Gap::Line),
        }
        self.lists.push(List { number: first, items: 0 });
    }

    /// Starts an item of the current list.
    pub fn item(&mut self) {
        self.end_heading();
        self.marker = None;
        self.gap(Gap::Line);
        let depth = self.lists.len().saturating_sub(1).min(MAX_INDENT);
        let mut marker = "  ".repeat(depth);
        match self.lists.last_mut() {
            Some(List { number: Some(number), .. }) => {
                marker += &format!("{number}. ");
                *number = number.saturating_add(1);
            }
            _ => marker += "- ",
        }
        if let Some(list) = self.lists.last_mut() {
            // Items stay together even if each is a paragraph.
            if list.items > 0 {
                self.gap = self.gap.min(Gap::Line);
            }
            list.items += 1;
        }
        self.marker = Some(marker);
    }

    pub fn end_list(&mut self) {
        self.end_heading();
        self.marker = None;
        self.lists.pop();
        self.gap(if self.lists.is_empty() { Gap::Paragraph } else { Gap::Line });
    }

    pub fn begin_table(&mut self) {
        self.end_heading();
        self.gap(Gap::Paragraph);
        self.tables.push(Row::default());
    }

    /// Starts a row of the current table.
    pub fn row(&mut self) {
        self.end_heading();
        self.empty_cells = 0;
        let Some(row) = self.tables.last_mut() else {
            return self.gap(Gap::Line);
        };
        *row = Row { start: self.text.len(), index: row.index + 1, cells: 0 };
        // Rows stay together even if their cells are paragraphs.
        if row.index > 1 {
            self.gap = Gap::Line;
        }
    }

    /// Starts a cell of the current row.
    pub fn cell(&mut self) {
        self.end_heading();
        let Some(row) = self.tables.last_mut() else {
            return self.gap(Gap::Space);
        };
        if row.cells > 0 {
            self.empty_cells += 1;
            if self.text.len() > row.start {
                self.gap = Gap::None;
            }
        }
        row.cells += 1;
    }

    /// Whether the current cell has no text yet, so that gaps before its text are ignored.
    fn in_empty_cell(&self) -> bool {
        let row = self.tables.last();
        self.empty_cells > 0
            || row.is_some_and(|row| row.cells > 0 && row.index > 1 && self.text.len() == row.start)
    }

    pub fn end_table(&mut self) {
        self.end_heading();
        self.tables.pop();
        self.empty_cells = 0;
        self.gap(Gap::Paragraph);
    }
}
