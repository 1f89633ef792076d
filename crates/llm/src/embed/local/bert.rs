//! The BERT encoder: tokens in, one vector per token out.
//!
//! Texts of a batch lie one after another without padding. The large products run over
//! all tokens at once; attention looks at one text at a time, so no mask is needed.

use rten_gemm::{GemmInputA, GemmInputB, GemmOptions};
use rten_tensor::Matrix;

use super::{
    Precision,
    directory::BertConfig,
    linear::{FLOAT, Linear, check_finite},
    math::{Activation, add, layer_norm, softmax},
    table::Table,
    weights::Weights,
};
use crate::error::BoxedError;

pub struct Bert {
    words: Table,
    /// With the embedding of the first segment added; sentences have no second one.
    positions: Vec<f32>,
    norm: Norm,
    layers: Vec<Layer>,
    hidden: usize,
    heads: usize,
    activation: Activation,
}

struct Layer {
    /// Query, key and value of a token, one after another.
    attention: Linear,
    mixed: Linear,
    mixed_norm: Norm,
    up: Linear,
    down: Linear,
    down_norm: Norm,
}

impl Bert {
    pub fn load(
        config: &BertConfig,
        weights: &mut Weights,
        precision: Precision,
    ) -> Result<Self, BoxedError> {
        let (hidden, heads) = (config.hidden_size, config.num_attention_heads);
        if hidden == 0 || heads == 0 || hidden % heads != 0 {
            return Err(format!("{heads} attention heads cannot share {hidden} numbers").into());
        }
        if config.intermediate_size == 0 || config.type_vocab_size == 0 {
            return Err("a network without an intermediate layer or without segments is not supported".into());
        }
        let activation = Activation::from_name(&config.hidden_act)
            .ok_or_else(|| format!("the activation `{}` is not supported", config.hidden_act))?;
        let words = weights.read("embeddings.word_embeddings.weight", &[config.vocab_size, hidden])?;
        let words = Table::new(words, hidden, precision)?;
        let segments =
            weights.read("embeddings.token_type_embeddings.weight", &[config.type_vocab_size, hidden])?;
        let mut positions = weights
            .read("embeddings.position_embeddings.weight", &[config.max_position_embeddings, hidden])?;
        positions.chunks_exact_mut(hidden).for_each(|position| add(position, &segments[..hidden]));
        let norm = Norm::load(weights, "embeddings.LayerNorm", config)?;
        let layers = (0..config.num_hidden_layers)
            .map(|at| Layer::load(weights, at, config, precision))
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
            states = self.layer(layer, texts, states)?;
        }
        Ok(states)
    }

    fn embed(&self, texts: &[Vec<u32>]) -> Result<Vec<f32>, BoxedError> {
        let mut states = Vec::with_capacity(texts.iter().map(Vec::len).sum::<usize>() * self.hidden);
        for text in texts {
            if text.len() * self.hidden > self.positions.len() {
                return Err(format!("the model has no positions for {} tokens", text.len()).into());
            }
            for (position, &token) in self.positions.chunks_exact(self.hidden).zip(text) {
                let start = states.len();
                if !self.words.push(token as usize, &mut states) {
                    return Err(format!("the model does not know token {token}").into());
                }
                add(&mut states[start..], position);
            }
        }
        self.norm.apply(&mut states);
        Ok(states)
    }

    fn layer(&self, layer: &Layer, texts: &[Vec<u32>], states: Vec<f32>) -> Result<Vec<f32>, BoxedError> {
        let mut mixed = layer.mixed.apply(&self.attention(layer, texts, &states)?)?;
        add(&mut mixed, &states);
        layer.mixed_norm.apply(&mut mixed);

        let mut wide = layer.up.apply(&mixed)?;
        self.activation.apply(&mut wide);
        let mut out = layer.down.apply(&wide)?;
        add(&mut out, &mixed);
        layer.down_norm.apply(&mut out);
        Ok(out)
    }

    fn attention(&self, layer: &Layer, texts: &[Vec<u32>], states: &[f32]) -> Result<Vec<f32>, BoxedError> {
        let parts = layer.attention.apply(states)?;
        let (hidden, width) = (self.hidden, self.hidden / self.heads);
        let row = 3 * hidden;
        let scale = 1.0 / (width as f32).sqrt();
        let mut out = vec![0.0; states.len()];
        let (mut scores, mut mixed) = (Vec::new(), Vec::new());
        let mut start = 0;
        for text in texts {
            let tokens = text.len();
            scores.resize(tokens * tokens, 0.0);
            mixed.resize(tokens * width, 0.0);
            for head in (0..hidden).step_by(width) {
                let at = start * row + head;
                let query = Matrix::from_slice_with_strides([tokens, width], &parts[at..], [row, 1])?;
                let key = Matrix::from_slice_with_strides([width, tokens], &parts[at + hidden..], [1, row])?;
                let value =
                    Matrix::from_slice_with_strides([tokens, width], &parts[at + 2 * hidden..], [row, 1])?;
                multiply(scale, query, key, &mut scores)?;
                scores.chunks_exact_mut(tokens).for_each(softmax);
                multiply(1.0, Matrix::from_data([tokens, tokens], &scores[..]), value, &mut mixed)?;
                let own = out[start * hidden..].chunks_exact_mut(hidden);
                for (own, mixed) in own.zip(mixed.chunks_exact(width)) {
                    own[head..head + width].copy_from_slice(mixed);
                }
            }
            start += tokens;
        }
        Ok(out)
    }
}

/// `into = scale · a · b`
fn multiply(alpha: f32, a: Matrix, b: Matrix, into: &mut [f32]) -> Result<(), BoxedError> {
    let options = GemmOptions { alpha, ..Default::default() };
    FLOAT.with(|product| product.gemm(into, GemmInputA::Unpacked(a), GemmInputB::Unpacked(b), options))?;
    Ok(())
}

impl Layer {
    fn load(
        weights: &mut Weights,
        at: usize,
        config: &BertConfig,
        precision: Precision,
    ) -> Result<Self, BoxedError> {
        let (hidden, wide) = (config.hidden_size, config.intermediate_size);
        let name = |part: &str| format!("encoder.layer.{at}.{part}");
        let mut linear = |parts: &[&str], inputs, outputs| {
            let (mut weight, mut bias) = (Vec::new(), Vec::new());
            for part in parts {
                let mut of_part = weights.read(&name(&format!("{part}.weight")), &[outputs, inputs])?;
                if precision == Precision::Int8 {
                    check_finite(&of_part).map_err(|error| format!("{}: {error}", name(part)))?;
                }
                weight.append(&mut of_part);
                bias.append(&mut weights.read(&name(&format!("{part}.bias")), &[outputs])?);
            }
            Linear::new(&weight, bias, precision)
        };
        let attention = ["attention.self.query", "attention.self.key", "attention.self.value"];
        let attention = linear(&attention, hidden, hidden)?;
        let mixed = linear(&["attention.output.dense"], hidden, hidden)?;
        let up = linear(&["intermediate.dense"], hidden, wide)?;
        let down = linear(&["output.dense"], wide, hidden)?;
        let mixed_norm = Norm::load(weights, &name("attention.output.LayerNorm"), config)?;
        let down_norm = Norm::load(weights, &name("output.LayerNorm"), config)?;
        Ok(Self { attention, mixed, mixed_norm, up, down, down_norm })
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
        for state in states.chunks_exact_mut(self.gain.len()) {
            layer_norm(state, &self.gain, &self.bias, self.epsilon);
        }
    }
}
