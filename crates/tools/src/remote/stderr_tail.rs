//! [`StderrTail`], the end of what a program writes to its standard error. If the program ends before it answers, this
//! text is often the only one that says why: a package that does not exist, a missing module, no network.

use emergent_domain::redact::Redactor;
use parking_lot::Mutex;

/// How much of the text is kept.
const MAX_TAIL_BYTES: usize = 2 << 10;

/// The last lines of a program, without the secrets that the program was sent.
pub struct StderrTail {
    redactor: Redactor,
    text: Mutex<String>,
}

impl StderrTail {
    /// `redactor` hides the secrets that the program was sent.
    pub fn new(redactor: Redactor) -> Self {
        Self { redactor, text: Mutex::default() }
    }

    /// Forgets the lines of an earlier start of the program.
    pub fn clear(&self) {
        self.text.lock().clear();
    }

    /// Adds a line. It is redacted before anything is cut: the rest of a secret would not be recognised.
    pub fn push(&self, line: &str) {
        let plain = without_control_characters(line);
        let line = self.redactor.redact_text(plain.trim_end());
        if line.trim().is_empty() {
            return;
        }
        let mut text = self.text.lock();
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(&line);
        if text.len() > MAX_TAIL_BYTES {
            let start = text.ceil_char_boundary(text.len() - MAX_TAIL_BYTES);
            text.drain(..start);
        }
    }

    /// The failure, followed by the lines of the program in lines of their own.
    pub fn add_to(&self, failure: &str) -> String {
        match self.text.lock().as_str() {
            "" => failure.to_owned(),
            text => format!("{failure}; its standard error ends with:\n{text}"),
        }
    }
}

/// The line without colours and other sequences that would change the terminal of whoever reads it.
fn without_control_characters(line: &str) -> String {
    let mut plain = String::with_capacity(line.len());
    let mut chars = line.chars().peekable();
    while let Some(char) = chars.next() {
        match char {
            '\x1b' if chars.next_if_eq(&'[').is_some() => {
                // A control sequence ends with its first character of this range.
                while chars.next().is_some_and(|char| !('@'..='~').contains(&char)) {}
            }
            '\t' => plain.push(' '),
            char if char.is_control() => {}
            char => plain.push(char),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use emergent_domain::ids::ProjectId;

    use super::*;

    fn tail_of(lines: &[&str]) -> String {
        let redactor = Redactor::default();
        redactor.add_secret(ProjectId::new(), "TOKEN", "s3cr3t-of-the-program");
        let tail = StderrTail::new(redactor);
        lines.iter().for_each(|line| tail.push(line));
        tail.add_to("failed")
    }

    #[test]
    fn a_failure_is_followed_by_the_last_lines() {
        assert_eq!(tail_of(&[]), "failed");
        assert_eq!(tail_of(&["", "  "]), "failed");
        assert_eq!(
            tail_of(&["\x1b[31mnpm error\x1b[0m E404", "", "\tgiving\x07 up\r"]),
            "failed; its standard error ends with:\nnpm error E404\n giving up"
        );
    }

    #[test]
    fn only_the_end_is_kept_and_no_part_of_a_secret_is_in_it() {
        let secret = "the token is s3cr3t-of-the-program, which is refused";
        let shown = tail_of(&[secret; 100]);
        assert!(shown.ends_with("the token is [secret TOKEN], which is refused"), "{shown}");
        assert!(shown.len() < MAX_TAIL_BYTES + 100 && !shown.contains("s3cr3t"), "{shown}");
        // A secret at the border, in every position.
        for padding in 0..60 {
            let line = format!("{secret}{}", "ü".repeat(MAX_TAIL_BYTES / 2 - padding));
            let shown = tail_of(&[&line]);
            assert!(!shown.contains("cr3t") && shown.ends_with('ü'), "{shown}");
        }
    }
}
