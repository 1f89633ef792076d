//! A model's tokenizer, from `tokenizer.json` or, for older models, `vocab.txt`.

use std::{collections::HashMap, fs, path::Path};

use serde::Deserialize;
use serde_json::Value;

use super::{
    directory::json,
    wordpiece::{TextCleaner, WordPiece, words},
};
use crate::error::BoxedError;

pub struct Tokenizer {
    pieces: WordPiece,
    cleaning: TextCleaner,
    lowercase_first: bool,
    /// `[CLS]` before and `[SEP]` after each text.
    first: u32,
    last: u32,
    /// Written out in a text, these stand for themselves.
    special: Vec<(String, u32)>,
    max_tokens: usize,
}

impl Tokenizer {
    pub fn load(dir: &Path) -> Result<Self, BoxedError> {
        match json::<TokenizerJson>(&dir.join("tokenizer.json"))? {
            Some(file) => file.read(),
            None => from_vocabulary(dir),
        }
    }

    /// `most` counts the two tokens around the text.
    pub fn limit(&mut self, most: usize, lowercase_first: bool) {
        self.max_tokens = most.max(2);
        self.lowercase_first = lowercase_first;
    }

    /// At least two and at most `most` tokens; what is longer loses its end.
    pub fn encode(&self, text: &str) -> Vec<u32> {
        let lower = self.lowercase_first.then(|| text.to_lowercase());
        let mut rest = lower.as_deref().unwrap_or(text);
        let mut tokens = vec![self.first];
        while !rest.is_empty() && tokens.len() < self.max_tokens {
            let (plain, special, later) = self.next_special(rest);
            for word in words(&self.cleaning.apply(plain)) {
                // A long document is not read to its end for its first page.
                if tokens.len() >= self.max_tokens {
                    break;
                }
                self.pieces.split(word, &mut tokens);
            }
            tokens.extend(special);
            rest = later;
        }
        tokens.truncate(self.max_tokens - 1);
        tokens.push(self.last);
        tokens
    }

    /// The text up to the next special token, that token, and what follows.
    fn next_special<'a>(&self, text: &'a str) -> (&'a str, Option<u32>, &'a str) {
        let found = self.special.iter().filter_map(|(name, id)| Some((text.find(name)?, name.len(), *id)));
        match found.min_by_key(|(at, ..)| *at) {
            Some((at, length, id)) => (&text[..at], Some(id), &text[at + length..]),
            None => (text, None, ""),
        }
    }
}

/// The part of `tokenizer.json` that matters for BERT.
#[derive(Deserialize)]
struct TokenizerJson {
    #[serde(default)]
    added_tokens: Vec<AddedToken>,
    normalizer: Value,
    pre_tokenizer: Value,
    post_processor: Value,
    model: Value,
}

#[derive(Deserialize)]
struct AddedToken {
    id: u32,
    content: String,
}

#[derive(Deserialize)]
struct Normalizer {
    clean_text: bool,
    handle_chinese_chars: bool,
    strip_accents: Option<bool>,
    lowercase: bool,
}

#[derive(Deserialize)]
struct Vocabulary {
    unk_token: String,
    continuing_subword_prefix: String,
    max_input_chars_per_word: usize,
    vocab: HashMap<String, u32>,
}

impl TokenizerJson {
    fn read(self) -> Result<Tokenizer, BoxedError> {
        require_kind(&self.model, "model", "WordPiece")?;
        require_kind(&self.normalizer, "normalizer", "BertNormalizer")?;
        require_kind(&self.pre_tokenizer, "pre_tokenizer", "BertPreTokenizer")?;
        let normalizer: Normalizer = serde_json::from_value(self.normalizer)?;
        let model: Vocabulary = serde_json::from_value(self.model)?;
        let (first, last) = boundary_ids(&self.post_processor)
            .ok_or("`tokenizer.json`: the tokens around a text are not those of a BERT model")?;
        Ok(Tokenizer {
            pieces: WordPiece {
                unknown: id(&model.vocab, &model.unk_token)?,
                vocabulary: model.vocab,
                continuing: model.continuing_subword_prefix,
                longest_word: model.max_input_chars_per_word,
            },
            cleaning: TextCleaner {
                clean_text: normalizer.clean_text,
                chinese: normalizer.handle_chinese_chars,
                strip_accents: normalizer.strip_accents.unwrap_or(normalizer.lowercase),
                lowercase: normalizer.lowercase,
            },
            lowercase_first: false,
            first,
            last,
            special: self.added_tokens.into_iter().map(|token| (token.content, token.id)).collect(),
            max_tokens: usize::MAX,
        })
    }
}

fn require_kind(part: &Value, name: &str, kind: &str) -> Result<(), BoxedError> {
    let is = part["type"].as_str().unwrap_or("none");
    if is == kind {
        return Ok(());
    }
    Err(format!("`tokenizer.json`: a {name} of type `{is}` is not supported, only `{kind}`").into())
}

/// The ids of `[CLS]` and `[SEP]`, in either of the two ways a file may give them.
fn boundary_ids(processor: &Value) -> Option<(u32, u32)> {
    let number = |value: &Value| value.as_u64().and_then(|id| u32::try_from(id).ok());
    if processor["type"] == "BertProcessing" {
        return Some((number(&processor["cls"][1])?, number(&processor["sep"][1])?));
    }
    let single = processor["single"].as_array()?;
    let [first, _, last] = &single[..] else { return None };
    let id = |part: &Value| {
        let name = part["SpecialToken"]["id"].as_str()?;
        number(&processor["special_tokens"][name]["ids"][0])
    };
    Some((id(first)?, id(last)?))
}

fn id(vocabulary: &HashMap<String, u32>, token: &str) -> Result<u32, BoxedError> {
    vocabulary.get(token).copied().ok_or_else(|| format!("the vocabulary has no `{token}`").into())
}

#[derive(Deserialize)]
#[serde(default)]
struct TokenizerConfig {
    do_lower_case: bool,
    strip_accents: Option<bool>,
    tokenize_chinese_chars: bool,
}

impl Default for TokenizerConfig {
    fn default() -> Self {
        Self { do_lower_case: true, strip_accents: None, tokenize_chinese_chars: true }
    }
}

fn from_vocabulary(dir: &Path) -> Result<Tokenizer, BoxedError> {
    let lines = fs::read_to_string(dir.join("vocab.txt"))
        .map_err(|error| format!("neither `tokenizer.json` nor `vocab.txt` can be read: {error}"))?;
    let config: TokenizerConfig = json(&dir.join("tokenizer_config.json"))?.unwrap_or_default();
    let vocabulary: HashMap<String, u32> = lines.lines().map(str::to_owned).zip(0..).collect();
    let special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"];
    Ok(Tokenizer {
        first: id(&vocabulary, "[CLS]")?,
        last: id(&vocabulary, "[SEP]")?,
        special: special
            .iter()
            .filter_map(|name| Some((name.to_string(), *vocabulary.get(*name)?)))
            .collect(),
        pieces: WordPiece {
            unknown: id(&vocabulary, "[UNK]")?,
            vocabulary,
            continuing: "##".into(),
            longest_word: 100,
        },
        cleaning: TextCleaner {
            clean_text: true,
            chinese: config.tokenize_chinese_chars,
            strip_accents: config.strip_accents.unwrap_or(config.do_lower_case),
            lowercase: config.do_lower_case,
        },
        lowercase_first: false,
        max_tokens: usize::MAX,
    })
}
