//! Reads lines of a pipe up to a length limit. A line is returned whole or not at all.

use tokio::io::{AsyncBufRead, AsyncBufReadExt};

/// The result of reading one line.
#[derive(Debug, PartialEq, Eq)]
pub enum Line {
    /// A line without its line break.
    Text(Vec<u8>),
    /// The line is longer than the limit; the rest of it is not read.
    TooLong,
    /// The pipe was closed.
    End,
}

/// Reads up to the next line break. Text at the end without a line break is a line as well.
pub async fn next_line(reader: &mut (impl AsyncBufRead + Unpin), limit: usize) -> std::io::Result<Line> {
    let mut line = Vec::new();
    loop {
        let piece = reader.fill_buf().await?;
        if piece.is_empty() {
            return Ok(if line.is_empty() { Line::End } else { Line::Text(line) });
        }
        let end = piece.iter().position(|byte| *byte == b'\n');
        let text = &piece[..end.unwrap_or(piece.len())];
        if line.len() + text.len() > limit {
            return Ok(Line::TooLong);
        }
        line.extend_from_slice(text);
        let read = text.len() + usize::from(end.is_some());
        reader.consume(read);
        if end.is_some() {
            if line.last() == Some(&b'\r') {
                line.pop();
            }
            return Ok(Line::Text(line));
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::BufReader;

    use super::*;

    async fn lines(text: &str, limit: usize, piece: usize) -> Vec<String> {
        let mut reader = BufReader::with_capacity(piece, text.as_bytes());
        let mut read = Vec::new();
        loop {
            match next_line(&mut reader, limit).await.unwrap() {
                Line::Text(line) => read.push(String::from_utf8(line).unwrap()),
                Line::TooLong => {
                    read.push("too long".into());
                    return read;
                }
                Line::End => return read,
            }
        }
    }

    #[tokio::test]
    async fn lines_are_complete_for_every_size_of_pieces() {
        for piece in [1, 2, 3, 100] {
            assert_eq!(
                lines("a\r\n\nbcd\ne", 10, piece).await,
                ["a", "", "bcd", "e"],
                "in pieces of {piece}"
            );
            assert_eq!(lines("abc\nabcd\nx", 3, piece).await, ["abc", "too long"], "in pieces of {piece}");
        }
    }
}
