//! Reads a `.safetensors` file: eight bytes of length, a JSON header, then raw numbers.
//!
//! Tensors are read from the file one at a time, so that loading needs the memory of the model once,
//! not twice.

use std::{
    fs::File,
    io::{Read, Seek, SeekFrom},
    path::Path,
};

use emergent_domain::foreign_json;
use half::{bf16, f16};
use safetensors::tensor::{Dtype, Metadata, TensorInfo};

use crate::error::BoxedError;

pub struct Weights {
    file: File,
    metadata: Metadata,
    /// Where the numbers start in the file.
    data_start: u64,
    /// Models saved with a head on top have `bert.` before every name.
    prefix: &'static str,
}

impl Weights {
    pub fn open(path: &Path) -> Result<Self, BoxedError> {
        let mut file = File::open(path).map_err(|error| format!("`model.safetensors`: {error}"))?;
        let length = file.metadata()?.len();
        let mut size = [0; 8];
        file.read_exact(&mut size).map_err(|_| "`model.safetensors` is cut short")?;
        let size = u64::from_le_bytes(size);
        // Without this check, a file in another format could ask for terabytes of memory.
        if size > length.saturating_sub(8) {
            return Err("`model.safetensors` is not a safetensors file".into());
        }
        let mut header = vec![0; size as usize];
        file.read_exact(&mut header)?;
        let metadata: Metadata = foreign_json::from_slice(&header)
            .map_err(|error| format!("`model.safetensors` is not a safetensors file: {error}"))?;
        let (promised, present) = (metadata.data_len() as u64, length - 8 - size);
        if promised != present {
            return Err(format!(
                "`model.safetensors` is cut short or damaged: its header promises {promised} bytes of \
                 numbers, the file has {present}"
            )
            .into());
        }
        let has_prefix = metadata.tensors().keys().any(|name| name.starts_with("bert."));
        Ok(Self { file, metadata, data_start: 8 + size, prefix: if has_prefix { "bert." } else { "" } })
    }

    /// Returns the numbers of a tensor, row by row, if it has the shape that the configuration names.
    pub fn read(&mut self, name: &str, shape: &[usize]) -> Result<Vec<f32>, BoxedError> {
        let tensor = self.find(name).ok_or_else(|| format!("the weights `{name}` are missing"))?;
        if tensor.shape != shape {
            return Err(format!(
                "the weights `{name}` have the shape {:?} instead of {shape:?}",
                tensor.shape
            )
            .into());
        }
        let (width, to_f32): (usize, fn(&[u8]) -> f32) = match tensor.dtype {
            Dtype::F32 => (4, |b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])),
            Dtype::BF16 => (2, |b| bf16::from_le_bytes([b[0], b[1]]).to_f32()),
            Dtype::F16 => (2, |b| f16::from_le_bytes([b[0], b[1]]).to_f32()),
            other => {
                return Err(
                    format!("the weights `{name}` are of type `{other}`; use F32, F16 or BF16").into()
                );
            }
        };
        // The header was checked: the range is inside the file and fits the type and the shape.
        let (start, end) = tensor.data_offsets;
        self.file.seek(SeekFrom::Start(self.data_start + start as u64))?;
        let mut bytes = vec![0; end - start];
        self.file.read_exact(&mut bytes)?;
        Ok(bytes.chunks_exact(width).map(to_f32).collect())
    }

    fn find(&self, name: &str) -> Option<&TensorInfo> {
        let full = format!("{}{name}", self.prefix);
        // The first BERT models call these weights gamma and beta.
        let old =
            full.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta");
        self.metadata.info(&full).or_else(|| self.metadata.info(&old))
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
        let read = |first: u16, second: u16| {
            let data = [first.to_le_bytes(), second.to_le_bytes()].concat();
            read(r#"{"w":{"dtype":"F16","shape":[2],"data_offsets":[0,4]}}"#, &data).unwrap()
        };
        assert_eq!(read(0x0001, 0x7bff), [5.960_464_5e-8, 65504.0]);
        let special = read(0xfc00, 0x7e00);
        assert!(special[0] == f32::NEG_INFINITY && special[1].is_nan(), "{special:?}");
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
        let check = |header: &str, length: usize, expected: &str| {
            let error = read(header, &vec![0; length]).unwrap_err();
            assert!(error.contains(expected), "{error}");
        };
        check(r#"{"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}"#, 4, "cut short");
        check(r#"{"w":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}}"#, 8, "not a safetensors file");
        check(r#"{"w":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}}"#, 4, "not a safetensors file");
        check(r#"{"w":{"dtype":"F32","shape":[3],"data_offsets":[0,12]}}"#, 12, "shape [3] instead of [2]");
        check(r#"{"w":{"dtype":"I8","shape":[2],"data_offsets":[0,2]}}"#, 2, "`I8`");
        check(r#"{}"#, 0, "`w` are missing");
        check("not json", 4, "not a safetensors file");
    }
}
