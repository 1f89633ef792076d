//! The BERT encoder: tokens in, one vector per token out.
//!
//! Texts of a batch lie one after another without padding. The large products run over
//! all tokens at once; attention looks at one text at a time, so no mask is needed.

use super::{
    directory::BertConfig,
    math::{Activation, View, multiply, softmax},
    weights::Weights,
};
use crate::error::BoxedError;

pub struct Bert {
    words: Vec<f32>,
    /// With the embedding of the first segment added; sentences have no second one.
    positions: Vec<f32>,
    norm: Norm,
    layers: Vec<Layer>,
    hidden: usize,
    heads: usize,
    activation: Activation,
}

struct Layer {
    query: Linear,
    key: Linear,
    value: Linear,
    mixed: Linear,
    mixed_norm: Norm,
    up: Linear,
    down: Linear,
    down_norm: Norm,
}

impl Bert {
    pub fn load(config: &BertConfig, weights: &mut Weights) -> Result<Self, BoxedError> {
        let (hidden, heads) = (config.hidden_size, config.num_attention_heads);
        if hidden == 0 || heads == 0 || hidden % heads != 0 {
            return Err(format!("{heads} attention heads cannot share {hidden} numbers").into());
        }
        let activation = Activation::from_name(&config.hidden_act)
            .ok_or_else(|| format!("the activation `{}` is not supported", config.hidden_act))?;
        let words = weights.read("embeddings.word_embeddings.weight", &[config.vocab_size, hidden])?;
        let segments =
            weights.read("embeddings.token_type_embeddings.weight", &[config.type_vocab_size, hidden])?;
        let mut positions = weights
            .read("embeddings.position_embeddings.weight", &[config.max_position_embeddings, hidden])?;
        positions.chunks_exact_mut(hidden).for_each(|position| add(position, &segments[..hidden]));
        let norm = Norm::load(weights, "embeddings.LayerNorm", config)?;
        let layers = (0..config.num_hidden_layers)
            .map(|at| Layer::load(weights, at, config))
            .collect::<Result<_, _>>()?;
        Ok(Self { words, positions, norm, layers, hidden, heads, activation })
    }

    pub fn hidden(&self) -> usize {
        self.hidden
    }

    /// Tells models apart: any training moves these numbers. FNV-1a over their bytes.
    pub fn fingerprint(&self) -> u32 {
        let last = self.layers.last().map_or(&self.norm, |layer| &layer.down_norm);
        let numbers = self.positions[..self.hidden].iter().chain(&last.gain).chain(&last.bias);
        numbers
            .flat_map(|number| number.to_le_bytes())
            .fold(0x811c_9dc5, |hash: u32, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
    }

    /// `hidden` numbers for every token of every text, texts one after another.
    pub fn encode(&self, texts: &[Vec<u32>]) -> Result<Vec<f32>, BoxedError> {
        let mut states = self.embed(texts)?;
        for layer in &self.layers {
            states = self.layer(layer, texts, states);
        }
        Ok(states)
    }

    fn embed(&self, texts: &[Vec<u32>]) -> Result<Vec<f32>, BoxedError> {
        let row = |table: &[f32], index: usize| {
            table.get(index * self.hidden..(index + 1) * self.hidden).map(<[f32]>::to_vec)
        };
        let mut states = Vec::new();
        for text in texts {
            for (at, &token) in text.iter().enumerate() {
                let mut state = row(&self.words, token as usize)
                    .ok_or_else(|| format!("the model does not know token {token}"))?;
                let start = at * self.hidden;
                add(&mut state, &self.positions[start..start + self.hidden]);
                states.append(&mut state);
            }
        }
        self.norm.apply(&mut states);
        Ok(states)
    }

    fn layer(&self, layer: &Layer, texts: &[Vec<u32>], states: Vec<f32>) -> Vec<f32> {
        let mut mixed = layer.mixed.apply(&self.attention(layer, texts, &states));
        add(&mut mixed, &states);
        layer.mixed_norm.apply(&mut mixed);

        let mut wide = layer.up.apply(&mixed);
        self.activation.apply(&mut wide);
        let mut out = layer.down.apply(&wide);
        add(&mut out, &mixed);
        layer.down_norm.apply(&mut out);
        out
    }

    fn attention(&self, layer: &Layer, texts: &[Vec<u32>], states: &[f32]) -> Vec<f32> {
        let (query, key, value) =
            (layer.query.apply(states), layer.key.apply(states), layer.value.apply(states));
        let width = self.hidden / self.heads;
        let scale = 1.0 / (width as f32).sqrt();
        let mut out = vec![0.0; states.len()];
        let mut scores = Vec::new();
        let mut start = 0;
        for text in texts {
            let tokens = text.len();
            scores.resize(tokens * tokens, 0.0);
            for head in 0..self.heads {
                let from = start * self.hidden + head * width;
                let part = |numbers| head_of(numbers, tokens, width, self.hidden);
                let (query, key, value) = (part(&query[from..]), part(&key[from..]), part(&value[from..]));
                multiply(scale, query, key.transposed(), 0.0, View::rows_of(&mut scores[..], tokens, tokens));
                scores.chunks_exact_mut(tokens).for_each(softmax);
                let weights = View::rows_of(&scores[..], tokens, tokens);
                multiply(1.0, weights, value, 0.0, head_of(&mut out[from..], tokens, width, self.hidden));
            }
            start += tokens;
        }
        out
    }
}

/// One head's columns of a matrix that holds all heads side by side.
fn head_of<T>(numbers: T, tokens: usize, width: usize, hidden: usize) -> View<T> {
    View { numbers, rows: tokens, columns: width, row_step: hidden, column_step: 1 }
}

fn add(to: &mut [f32], other: &[f32]) {
    to.iter_mut().zip(other).for_each(|(x, y)| *x += y);
}

impl Layer {
    fn load(weights: &mut Weights, at: usize, config: &BertConfig) -> Result<Self, BoxedError> {
        let (hidden, wide) = (config.hidden_size, config.intermediate_size);
        let name = |part: &str| format!("encoder.layer.{at}.{part}");
        let mut linear = |part, inputs, outputs| Linear::load(weights, &name(part), inputs, outputs);
        let query = linear("attention.self.query", hidden, hidden)?;
        let key = linear("attention.self.key", hidden, hidden)?;
        let value = linear("attention.self.value", hidden, hidden)?;
        let mixed = linear("attention.output.dense", hidden, hidden)?;
        let up = linear("intermediate.dense", hidden, wide)?;
        let down = linear("output.dense", wide, hidden)?;
        let mixed_norm = Norm::load(weights, &name("attention.output.LayerNorm"), config)?;
        let down_norm = Norm::load(weights, &name("output.LayerNorm"), config)?;
        Ok(Self { query, key, value, mixed, mixed_norm, up, down, down_norm })
    }
}

struct Linear {
    weight: Vec<f32>,
    bias: Vec<f32>,
    inputs: usize,
}

impl Linear {
    fn load(weights: &mut Weights, name: &str, inputs: usize, outputs: usize) -> Result<Self, BoxedError> {
        let weight = weights.read(&format!("{name}.weight"), &[outputs, inputs])?;
        let bias = weights.read(&format!("{name}.bias"), &[outputs])?;
        Ok(Self { weight, bias, inputs })
    }

    fn apply(&self, states: &[f32]) -> Vec<f32> {
        let (rows, outputs) = (states.len() / self.inputs, self.bias.len());
        let mut out = self.bias.repeat(rows);
        let states = View::rows_of(states, rows, self.inputs);
        let weight = View::rows_of(&self.weight[..], outputs, self.inputs).transposed();
        multiply(1.0, states, weight, 1.0, View::rows_of(&mut out[..], rows, outputs));
        out
    }
}

struct Norm {
    gain: Vec<f32>,
    bias: Vec<f32>,
    epsilon: f32,
}

impl Norm {
    fn load(weights: &mut Weights, name: &str, config: &BertConfig) -> Result<Self, BoxedError> {
        let gain = weights.read(&format!("{name}.weight"), &[config.hidden_size])?;
        let bias = weights.read(&format!("{name}.bias"), &[config.hidden_size])?;
        Ok(Self { gain, bias, epsilon: config.layer_norm_eps })
    }

    fn apply(&self, states: &mut [f32]) {
        let size = self.gain.len() as f32;
        for state in states.chunks_exact_mut(self.gain.len()) {
            let mean = state.iter().sum::<f32>() / size;
            let variance = state.iter().map(|x| (x - mean) * (x - mean)).sum::<f32>() / size;
            let scale = 1.0 / (variance + self.epsilon).sqrt();
            for ((x, gain), bias) in state.iter_mut().zip(&self.gain).zip(&self.bias) {
                *x = (*x - mean) * scale * gain + bias;
            }
        }
    }
}
