//! A model's tokenizer, from `tokenizer.json` or, for older models, `vocab.txt`.

use std::{fs, path::Path};

use emergent_domain::foreign_json;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokenizers::{
    AddedToken, PostProcessor, TruncationParams, models::wordpiece::WordPiece, normalizers::BertNormalizer,
    pre_tokenizers::bert::BertPreTokenizer, processors::bert::BertProcessing,
};

use super::directory::json;
use crate::error::BoxedError;

/// `[CLS]` before and `[SEP]` after each text.
const TOKENS_AROUND: usize = 2;
/// A text is cut at this many bytes for each token that the model takes, because the library reads a
/// text to its end before it truncates it. A token of English text has about five bytes.
const MAX_BYTES_PER_TOKEN: usize = 64;
/// A token of English text has about five bytes, one of names and numbers about three. The end of a part with more tokens
/// than the model reads would be in no vector, so this is the smaller one.
const TYPICAL_BYTES_PER_TOKEN: usize = 3;

pub struct Tokenizer {
    tokenizer: tokenizers::Tokenizer,
    lowercase_first: bool,
    max_bytes: usize,
}

impl Tokenizer {
    /// `max_tokens` includes the tokens around a text.
    pub fn load(dir: &Path, max_tokens: usize, lowercase_first: bool) -> Result<Self, BoxedError> {
        let mut tokenizer = match json::<Box<RawValue>>(&dir.join("tokenizer.json"))? {
            Some(file) => from_tokenizer_json(file.get())?,
            None => from_vocabulary(dir)?,
        };
        let around = tokenizer.get_post_processor().map_or(0, |processor| processor.added_tokens(false));
        if around != TOKENS_AROUND {
            return Err("`tokenizer.json`: the tokens around a text are not those of a BERT model".into());
        }
        let max_length = max_tokens.max(TOKENS_AROUND);
        let truncation = TruncationParams { max_length, ..TruncationParams::default() };
        tokenizer.with_padding(None).with_truncation(Some(truncation))?;
        let max_bytes = max_length.saturating_mul(MAX_BYTES_PER_TOKEN);
        Ok(Self { tokenizer, lowercase_first, max_bytes })
    }

    /// How many bytes of a text the model reads, also of one with many names and numbers.
    pub fn typical_max_bytes(&self) -> usize {
        self.max_bytes / MAX_BYTES_PER_TOKEN * TYPICAL_BYTES_PER_TOKEN
    }

    /// Returns at least two tokens and at most `max_tokens`; the end of a longer text is left out.
    ///
    /// Texts are encoded one by one: the batch calls of the library start threads of their own.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, BoxedError> {
        let text = &text[..text.floor_char_boundary(self.max_bytes)];
        let lowercase = self.lowercase_first.then(|| text.to_lowercase());
        let encoding = self.tokenizer.encode_fast(lowercase.as_deref().unwrap_or(text), true)?;
        Ok(encoding.get_ids().to_vec())
    }
}

/// The part of `tokenizer.json` that is checked before the library loads the file.
#[derive(Deserialize)]
struct TokenizerJson {
    model: ModelJson,
}

#[derive(Deserialize)]
struct ModelJson {
    #[serde(rename = "type")]
    kind: Option<String>,
    unk_token: Option<String>,
}

/// The library reads other models as well, but the encoder is BERT's: it would compute vectors for
/// them that mean nothing.
fn from_tokenizer_json(file: &str) -> Result<tokenizers::Tokenizer, BoxedError> {
    let named = |error: BoxedError| format!("`tokenizer.json`: {error}");
    let TokenizerJson { model } = foreign_json::from_str(file).map_err(|error| named(error.into()))?;
    let kind = model.kind.as_deref().unwrap_or("none");
    if kind != "WordPiece" {
        return Err(
            named(format!("a model of type `{kind}` is not supported, only `WordPiece`").into()).into()
        );
    }
    let tokenizer = tokenizers::Tokenizer::from_bytes(file).map_err(named)?;
    token_id(&tokenizer, model.unk_token.as_deref().unwrap_or("[UNK]"))?;
    Ok(tokenizer)
}

#[derive(Deserialize)]
#[serde(default)]
struct TokenizerConfig {
    do_lower_case: bool,
    /// The default is the value of `do_lower_case`.
    strip_accents: Option<bool>,
    tokenize_chinese_chars: bool,
}

impl Default for TokenizerConfig {
    fn default() -> Self {
        Self { do_lower_case: true, strip_accents: None, tokenize_chinese_chars: true }
    }
}

fn from_vocabulary(dir: &Path) -> Result<tokenizers::Tokenizer, BoxedError> {
    let lines = fs::read(dir.join("vocab.txt"))
        .map_err(|error| format!("neither `tokenizer.json` nor `vocab.txt` can be read: {error}"))?;
    let config: TokenizerConfig = json(&dir.join("tokenizer_config.json"))?.unwrap_or_default();
    let model = WordPiece::builder().vocab(WordPiece::read_bytes(&lines)?).build()?;
    let mut tokenizer = tokenizers::Tokenizer::new(model);
    token_id(&tokenizer, "[UNK]")?;
    let cls = ("[CLS]".to_owned(), token_id(&tokenizer, "[CLS]")?);
    let sep = ("[SEP]".to_owned(), token_id(&tokenizer, "[SEP]")?);
    let TokenizerConfig { do_lower_case, strip_accents, tokenize_chinese_chars } = config;
    tokenizer
        .with_normalizer(Some(BertNormalizer::new(
            true,
            tokenize_chinese_chars,
            strip_accents,
            do_lower_case,
        )))?
        .with_pre_tokenizer(Some(BertPreTokenizer))
        .with_post_processor(Some(BertProcessing::new(sep, cls)));
    // A name that is not in the vocabulary would get a new id, for which the model has no weights.
    let special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
        .into_iter()
        .filter(|name| tokenizer.token_to_id(name).is_some())
        .map(|name| AddedToken::from(name, true))
        .collect::<Vec<_>>();
    tokenizer.add_special_tokens(special)?;
    Ok(tokenizer)
}

fn token_id(tokenizer: &tokenizers::Tokenizer, name: &str) -> Result<u32, BoxedError> {
    tokenizer.token_to_id(name).ok_or_else(|| format!("the vocabulary has no `{name}`").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPECIAL: [&str; 3] = ["[UNK]", "[CLS]", "[SEP]"];

    fn with_vocabulary(pieces: &[&str], max_tokens: usize) -> Tokenizer {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("vocab.txt"), [&SPECIAL, pieces].concat().join("\n")).unwrap();
        Tokenizer::load(dir.path(), max_tokens, false).unwrap()
    }

    /// Encodes with a vocabulary of the expected pieces, and reads the pieces back.
    fn check(text: &str, expected: &str) {
        let mut pieces: Vec<&str> = expected.split(' ').collect();
        pieces.sort_unstable();
        pieces.dedup();
        let tokens = with_vocabulary(&pieces, 512).encode(text).unwrap();
        let [1, inner @ .., 2] = &tokens[..] else { panic!("{tokens:?}") };
        let all = [&SPECIAL, &pieces[..]].concat();
        let found: Vec<&str> = inner.iter().map(|id| all[*id as usize]).collect();
        assert_eq!(found.join(" "), expected);
    }

    #[test]
    fn a_text_is_split_at_spaces_punctuation_and_chinese_characters() {
        check("Hey friend!\tHow are-you?!?", "hey friend ! how are - you ? ! ?");
        check("日本 語です", "日 本 語 てす");
        check("$5…»x«", "$ 5 … » x «");
    }

    #[test]
    fn accents_case_and_invisible_characters_are_removed() {
        check("Ünïcode\u{200b}\u{0} RÉSUMÉ ΣΊΣΥΦΟΣ", "unicode resume σισυφοσ");
    }

    #[test]
    fn the_longest_piece_of_the_vocabulary_is_used() {
        let tokenizer = with_vocabulary(&["un", "##aff", "##able", "##a", "##ff", "u"], 512);
        let encode = |word: &str| tokenizer.encode(word).unwrap();
        assert_eq!(encode("unaffable"), [1, 3, 4, 5, 2]);
        assert_eq!(encode("unaff"), [1, 3, 4, 2]);
        assert_eq!(encode("unaffordable"), [1, 0, 2]);
        assert_eq!(encode(&"u".repeat(101)), [1, 0, 2]);
        assert_eq!(encode("u [SEP] u"), [1, 8, 2, 8, 2]);
    }

    #[test]
    fn a_long_text_loses_its_end() {
        let tokenizer = with_vocabulary(&["a"], 4);
        assert_eq!(tokenizer.encode("").unwrap(), [1, 2]);
        assert_eq!(tokenizer.encode(&"a ".repeat(1_000_000)).unwrap(), [1, 3, 3, 2]);
        // The bound of bytes is inside a character.
        assert_eq!(tokenizer.encode(&"€".repeat(1_000)).unwrap(), [1, 0, 2]);
        assert_eq!(with_vocabulary(&["a"], 0).encode("a a").unwrap(), [1, 2]);
    }
}
