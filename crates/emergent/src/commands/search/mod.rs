//! The searches of the command line: `emergent graph search` for objects, `emergent document search` for passages.

mod chunks;
mod explanation;
mod objects;

pub use chunks::ChunkSearch;
pub use objects::ObjectSearch;

use emergent_domain::query::{EmbeddingUse, SearchMode};
use emergent_wire::search::Channels;

use super::{number::parse_finite, parse_flag};
use crate::{
    error::Result,
    hints,
    output::{self, dim},
};

/// How much of a text a hit shows.
const MAX_TEXT_CHARS: usize = 100;

/// The flags that both searches have.
#[derive(Debug, clap::Args)]
struct SearchFlags {
    /// By words (text), by meaning (vector), both (hybrid), or both and the names of the best hits (linked);
    /// auto is linked for a question that names a hit, otherwise hybrid
    #[arg(long, default_value = "hybrid", value_parser = ["hybrid", "text", "vector", "linked", "auto"])]
    mode: String,
    /// Drop hits by meaning whose similarity is lower, from -1 to 1 [default: the embedder's]
    #[arg(long, value_name = "COSINE", allow_negative_numbers = true, value_parser = parse_finite)]
    min_similarity: Option<f64>,
    /// At most this many [default: 10; with --budget-tokens: 1000]
    #[arg(long)]
    limit: Option<i64>,
    /// Only the first hits that have this many tokens together, at least one hit; four bytes are a token
    #[arg(long, value_name = "N")]
    budget_tokens: Option<i64>,
    /// Show why each hit was found: its words, its similarity, the name that led to it, and its date
    #[arg(long)]
    explain: bool,
}

impl SearchFlags {
    fn mode(&self) -> Result<SearchMode> {
        Ok(parse_flag("--mode", Some(&self.mode))?.unwrap_or_default())
    }
}

/// Says that a search by meaning alone had no embedder, and so could not find anything.
fn warn_without_embedder(mode: SearchMode, embedding: Option<EmbeddingUse>) {
    if mode == SearchMode::Vector && embedding == Some(EmbeddingUse::Unavailable) {
        output::print_notice(&format!(
            "a search by meaning needs an embedder, and there is none that works: `{}` says why; --mode text searches by \
             words",
            hints::command("doctor")
        ));
    }
}

/// The ranks of a hit, such as `text #1, vector #4`.
fn ranks(channels: &Channels) -> String {
    let named = [("text", &channels.text), ("vector", &channels.vector)].into_iter();
    let ranks = named
        .filter_map(|(name, channel)| channel.as_ref().map(|channel| format!("{name} #{}", channel.rank)));
    ranks.collect::<Vec<_>>().join(", ")
}

/// Prints the first line of a hit, with its ranks at the end. Returns whether a terminal shows a rank: a narrow one may
/// have no place for it.
fn print_hit(title: &str, channels: &Channels) -> Result<bool> {
    let ranks = ranks(channels);
    let row = format!("{title}  {}", dim(&ranks));
    output::print_row(&row)?;
    Ok(output::terminal_width().is_some_and(|width| shows_rank(&row, &ranks, width)))
}

fn shows_rank(row: &str, ranks: &str, width: usize) -> bool {
    let first = ranks.split(", ").next().unwrap_or_default();
    !first.is_empty() && output::fit_row(row, width).contains(first)
}

/// Explains the ranks if a terminal shows one, and says if hits were left out.
fn print_end(is_truncated: bool, shows_ranks: bool) -> Result<()> {
    if is_truncated {
        output::print_notice("further hits were left out, because they do not fit");
    }
    if !shows_ranks {
        return Ok(());
    }
    output::print_dim(
        "text #N, vector #N: the rank among the hits by words, and among those by meaning; both make the order",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_explained_only_where_one_is_shown() {
        let row = "  1  Person/ada-lovelace  Ada King, Countess of Lovelace  text #1, vector #4";
        let is_shown = |width| shows_rank(row, "text #1, vector #4", width);
        assert!(is_shown(80) && is_shown(70), "the first rank is enough");
        assert!(!is_shown(40));
        assert!(!shows_rank("  1  Person/ada", "", 80), "a hit that a name led to");
    }
}
