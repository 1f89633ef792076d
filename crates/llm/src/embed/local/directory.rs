//! Reads the configuration files of a sentence-transformers directory, and refuses what this crate
//! cannot compute.

use std::{
    collections::HashMap,
    fs, io,
    path::{Path, PathBuf},
};

use emergent_domain::foreign_json;
use serde::{Deserialize, de::DeserializeOwned};

use super::{Precision, bert::Bert, tokenize::Tokenizer, weights::Weights};
use crate::{embed::EmbedTask, error::BoxedError};

pub struct Directory {
    root: PathBuf,
    /// The directory of the network; older models keep it in a subdirectory.
    transformer: PathBuf,
    pub pooling: Pooling,
}

impl Directory {
    pub fn open(root: &Path) -> Result<Self, BoxedError> {
        let mut directory = Self { root: root.into(), transformer: root.into(), pooling: Pooling::Mean };
        let modules: Vec<Module> = json(&root.join("modules.json"))?.unwrap_or_default();
        for module in modules {
            let path = root.join(&module.path);
            match module.kind.rsplit('.').next().unwrap_or_default() {
                "Transformer" => directory.transformer = path,
                "Pooling" => {
                    directory.pooling = required::<PoolingConfig>(&path.join("config.json"))?.read()?
                }
                "Normalize" => {}
                other => return Err(format!("its step `{other}` is not supported").into()),
            }
        }
        Ok(directory)
    }

    pub fn config(&self) -> Result<BertConfig, BoxedError> {
        let config: BertConfig = required(&self.transformer.join("config.json"))?;
        if config.model_type != "bert" {
            return Err(
                format!("models of type `{}` are not supported, only `bert`", config.model_type).into()
            );
        }
        if config.position_embedding_type != "absolute" {
            return Err(
                format!("positions of type `{}` are not supported", config.position_embedding_type).into()
            );
        }
        Ok(config)
    }

    pub fn bert(&self, config: &BertConfig, precision: Precision) -> Result<Bert, BoxedError> {
        Bert::load(config, &mut Weights::open(&self.transformer.join("model.safetensors"))?, precision)
    }

    pub fn tokenizer(&self, config: &BertConfig) -> Result<Tokenizer, BoxedError> {
        let limits: Limits = json(&self.transformer.join("sentence_bert_config.json"))?.unwrap_or_default();
        let max_positions = config.max_position_embeddings;
        let max_tokens = limits.max_seq_length.map_or(max_positions, |length| length.min(max_positions));
        Tokenizer::load(&self.transformer, max_tokens, limits.do_lower_case)
    }

    pub fn prompts(&self) -> Result<Prompts, BoxedError> {
        Ok(json(&self.root.join("config_sentence_transformers.json"))?.unwrap_or_default())
    }
}

#[derive(Deserialize)]
struct Module {
    path: String,
    #[serde(rename = "type")]
    kind: String,
}

/// The part of `config.json` that shapes the network.
#[derive(Deserialize)]
pub struct BertConfig {
    model_type: String,
    #[serde(default = "default_position_type")]
    position_embedding_type: String,
    pub hidden_act: String,
    pub hidden_size: usize,
    pub intermediate_size: usize,
    pub layer_norm_eps: f32,
    pub max_position_embeddings: usize,
    pub num_attention_heads: usize,
    pub num_hidden_layers: usize,
    pub type_vocab_size: usize,
    pub vocab_size: usize,
}

fn default_position_type() -> String {
    "absolute".into()
}

#[derive(Default, Deserialize)]
struct Limits {
    max_seq_length: Option<usize>,
    #[serde(default)]
    do_lower_case: bool,
}

/// Texts that some models expect before the text to embed, such as `query: `.
#[derive(Default, Deserialize)]
pub struct Prompts {
    #[serde(default)]
    prompts: HashMap<String, String>,
    default_prompt_name: Option<String>,
}

impl Prompts {
    pub fn for_task(&self, task: EmbedTask) -> &str {
        let names: &[&str] = match task {
            EmbedTask::Query => &["query"],
            EmbedTask::Document => &["document", "passage", "corpus"],
        };
        let named = names.iter().copied().chain(self.default_prompt_name.as_deref());
        named.filter_map(|name| self.prompts.get(name)).next().map_or("", String::as_str)
    }
}

/// How the vectors of the tokens are combined into one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pooling {
    Mean,
    Cls,
    Max,
}

#[derive(Deserialize)]
struct PoolingConfig {
    #[serde(default = "default_true")]
    include_prompt: bool,
    #[serde(flatten)]
    rest: HashMap<String, serde_json::Value>,
}

fn default_true() -> bool {
    true
}

impl PoolingConfig {
    fn read(&self) -> Result<Pooling, BoxedError> {
        if !self.include_prompt {
            return Err("pooling without the prompt is not supported".into());
        }
        let mut modes: Vec<&str> =
            self.rest.iter().filter(|(_, on)| **on == true).map(|(mode, _)| &**mode).collect();
        modes.sort_unstable();
        match modes[..] {
            // They differ only by a factor, which normalisation removes.
            ["pooling_mode_mean_tokens"] | ["pooling_mode_mean_sqrt_len_tokens"] => Ok(Pooling::Mean),
            ["pooling_mode_cls_token"] => Ok(Pooling::Cls),
            ["pooling_mode_max_tokens"] => Ok(Pooling::Max),
            _ => Err(format!(
                "pooling by `{}` is not supported, only one of mean, cls and max",
                modes.join("`, `")
            )
            .into()),
        }
    }
}

impl Pooling {
    pub fn pool(self, states: &[f32], hidden: usize) -> Vec<f32> {
        let mut pooled = states[..hidden].to_vec();
        for state in states[hidden..].chunks_exact(hidden) {
            let both = pooled.iter_mut().zip(state);
            match self {
                Self::Cls => break,
                // The sum has the direction of the mean, and the length is normalised later.
                Self::Mean => both.for_each(|(sum, value)| *sum += value),
                Self::Max => both.for_each(|(max, value)| *max = max.max(*value)),
            }
        }
        pooled
    }
}

/// Reads a JSON file. Returns `None` if it does not exist.
pub fn json<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, BoxedError> {
    let name = path.file_name().unwrap_or_default().display();
    match fs::read(path) {
        Ok(bytes) => {
            Ok(Some(foreign_json::from_slice(&bytes).map_err(|error| format!("`{name}`: {error}"))?))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(format!("`{name}`: {error}").into()),
    }
}

fn required<T: DeserializeOwned>(path: &Path) -> Result<T, BoxedError> {
    json(path)?
        .ok_or_else(|| format!("`{}` is missing", path.file_name().unwrap_or_default().display()).into())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn tokens_are_pooled_as_the_model_was_trained() {
        let states = [1.0, 5.0, 3.0, -5.0, 2.0, 0.0];
        assert_eq!(Pooling::Cls.pool(&states, 2), [1.0, 5.0]);
        assert_eq!(Pooling::Max.pool(&states, 2), [3.0, 5.0]);
        assert_eq!(Pooling::Mean.pool(&states, 2), [6.0, 0.0]);
    }

    #[test]
    fn pooling_that_is_not_known_is_refused_by_name() {
        let read = |config| serde_json::from_value::<PoolingConfig>(config).unwrap().read();
        let mean = json!({ "word_embedding_dimension": 1, "pooling_mode_mean_tokens": true, "pooling_mode_cls_token": false });
        assert_eq!(read(mean).unwrap(), Pooling::Mean);
        let last = read(json!({ "pooling_mode_lasttoken": true })).unwrap_err().to_string();
        assert!(last.contains("pooling_mode_lasttoken"), "{last}");
    }

    #[test]
    fn a_prompt_is_chosen_by_task() {
        let prompts: Prompts =
            serde_json::from_value(json!({ "prompts": { "query": "query: ", "passage": "passage: " } }))
                .unwrap();
        assert_eq!(prompts.for_task(EmbedTask::Query), "query: ");
        assert_eq!(prompts.for_task(EmbedTask::Document), "passage: ");
        assert_eq!(Prompts::default().for_task(EmbedTask::Query), "");
    }
}
