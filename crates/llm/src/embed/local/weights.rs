//! Reads a `.safetensors` file: eight bytes of length, a JSON header, then raw numbers.
//!
//! One tensor at a time straight from the file, so that loading needs the memory of the
//! model once, not twice.

use std::{
    collections::HashMap,
    fs::File,
    io::{Read, Seek, SeekFrom},
    path::Path,
};

use serde::Deserialize;

use crate::error::BoxedError;

pub struct Weights {
    file: File,
    tensors: HashMap<String, Tensor>,
    data: u64,
    length: u64,
    /// Models saved with a head on top have `bert.` before every name.
    prefix: &'static str,
}

#[derive(Deserialize)]
struct Tensor {
    dtype: String,
    shape: Vec<usize>,
    data_offsets: (u64, u64),
}

impl Weights {
    pub fn open(path: &Path) -> Result<Self, BoxedError> {
        let mut file = File::open(path).map_err(|error| format!("`model.safetensors`: {error}"))?;
        let length = file.metadata()?.len();
        let mut size = [0; 8];
        file.read_exact(&mut size).map_err(|_| "`model.safetensors` is cut short")?;
        let size = u64::from_le_bytes(size);
        // Also keeps a file that is something else from asking for terabytes.
        if size > length.saturating_sub(8) {
            return Err("`model.safetensors` is not a safetensors file".into());
        }
        let mut header = vec![0; size as usize];
        file.read_exact(&mut header)?;
        let mut header: HashMap<String, serde_json::Value> = serde_json::from_slice(&header)
            .map_err(|error| format!("`model.safetensors` is not a safetensors file: {error}"))?;
        header.remove("__metadata__");
        let tensors: HashMap<String, Tensor> = header
            .into_iter()
            .map(|(name, entry)| Ok((name, serde_json::from_value(entry)?)))
            .collect::<Result<_, BoxedError>>()?;
        let prefix = if tensors.keys().any(|name| name.starts_with("bert.")) { "bert." } else { "" };
        Ok(Self { file, tensors, data: 8 + size, length, prefix })
    }

    /// The numbers of a tensor, in rows, if it has the shape the configuration promises.
    pub fn read(&mut self, name: &str, shape: &[usize]) -> Result<Vec<f32>, BoxedError> {
        let tensor = self.find(name).ok_or_else(|| format!("the weights `{name}` are missing"))?;
        if tensor.shape != shape {
            return Err(format!(
                "the weights `{name}` have the shape {:?} instead of {shape:?}",
                tensor.shape
            )
            .into());
        }
        let (width, number): (usize, fn(&[u8]) -> f32) = match tensor.dtype.as_str() {
            "F32" => (4, |b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])),
            "BF16" => (2, |b| f32::from_bits(u32::from(u16::from_le_bytes([b[0], b[1]])) << 16)),
            "F16" => (2, |b| from_half(u16::from_le_bytes([b[0], b[1]]))),
            other => {
                return Err(
                    format!("the weights `{name}` are of type `{other}`; use F32, F16 or BF16").into()
                );
            }
        };
        let (start, end) = tensor.data_offsets;
        let count: usize = shape.iter().product();
        let inside = end.checked_add(self.data).is_some_and(|end| end <= self.length);
        if !inside || end.checked_sub(start) != Some((count * width) as u64) {
            return Err(format!("the weights `{name}` are cut short").into());
        }
        self.file.seek(SeekFrom::Start(self.data + start))?;
        let mut bytes = vec![0; count * width];
        self.file.read_exact(&mut bytes)?;
        Ok(bytes.chunks_exact(width).map(number).collect())
    }

    fn find(&self, name: &str) -> Option<&Tensor> {
        let full = format!("{}{name}", self.prefix);
        // What the first BERT called gamma and beta is weight and bias today.
        let old =
            full.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta");
        self.tensors.get(&full).or_else(|| self.tensors.get(&old))
    }
}

/// A 16-bit float: moves the exponent from its bias of 15 to 127.
fn from_half(half: u16) -> f32 {
    let sign = if half >> 15 == 1 { -1.0 } else { 1.0 };
    let (exponent, fraction) = (i32::from(half >> 10 & 0x1f), f32::from(half & 0x3ff) / 1024.0);
    match exponent {
        0 => sign * fraction * (-14f32).exp2(),
        31 if fraction == 0.0 => sign * f32::INFINITY,
        31 => f32::NAN,
        _ => sign * (1.0 + fraction) * ((exponent - 15) as f32).exp2(),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn file(header: &str, data: &[u8]) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&(header.len() as u64).to_le_bytes()).unwrap();
        file.write_all(header.as_bytes()).unwrap();
        file.write_all(data).unwrap();
        file
    }

    fn read(header: &str, data: &[u8]) -> Result<Vec<f32>, String> {
        let file = file(header, data);
        let mut weights = Weights::open(file.path()).map_err(|error| error.to_string())?;
        weights.read("w", &[2]).map_err(|error| error.to_string())
    }

    #[test]
    fn numbers_of_three_widths_are_read() {
        let f32s: Vec<u8> = [1.5f32, -2.0].iter().flat_map(|x| x.to_le_bytes()).collect();
        let expected = Ok(vec![1.5, -2.0]);
        assert_eq!(read(r#"{"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}"#, &f32s), expected);
        let halves = [0x00, 0x3e, 0x00, 0xc0];
        assert_eq!(read(r#"{"w":{"dtype":"F16","shape":[2],"data_offsets":[0,4]}}"#, &halves), expected);
        let brains = [0xc0, 0x3f, 0x00, 0xc0];
        assert_eq!(read(r#"{"w":{"dtype":"BF16","shape":[2],"data_offsets":[0,4]}}"#, &brains), expected);
    }

    #[test]
    fn halves_cover_the_whole_range() {
        assert_eq!(from_half(0x0001), 5.960_464_5e-8);
        assert_eq!(from_half(0x7bff), 65504.0);
        assert_eq!(from_half(0xfc00), f32::NEG_INFINITY);
        assert!(from_half(0x7e00).is_nan());
    }

    #[test]
    fn names_of_older_models_are_understood() {
        let header = r#"{"__metadata__":{"format":"pt"},"bert.x.LayerNorm.gamma":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}"#;
        let file = file(header, &1f32.to_le_bytes());
        let mut weights = Weights::open(file.path()).unwrap();
        assert_eq!(weights.read("x.LayerNorm.weight", &[1]).unwrap(), [1.0]);
    }

    #[test]
    fn a_damaged_file_says_what_is_wrong() {
        let check = |header: &str, expected: &str| {
            let error = read(header, &[0; 4]).unwrap_err();
            assert!(error.contains(expected), "{error}");
        };
        check(r#"{"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}"#, "cut short");
        check(r#"{"w":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}}"#, "cut short");
        check(r#"{"w":{"dtype":"F32","shape":[3],"data_offsets":[0,12]}}"#, "shape [3] instead of [2]");
        check(r#"{"w":{"dtype":"I8","shape":[2],"data_offsets":[0,2]}}"#, "`I8`");
        check(r#"{}"#, "`w` are missing");
        check("not json", "not a safetensors file");
    }
}
