//! The output schemas that were compiled last. A schema is compiled before the transaction that stores it, which checks
//! it again, and by every run that uses it.

use std::{
    collections::HashMap,
    sync::{Arc, LazyLock, Mutex, PoisonError},
};

use crate::pack::ValueSchema;

/// The size in memory of all compiled schemas that are remembered, in bytes.
const MAX_BYTES: u64 = 64 << 20;

#[derive(Default)]
struct Compiled {
    /// The compiled schema of a text, its size, and when it was last used.
    schemas: HashMap<String, (Arc<ValueSchema>, u64, u64)>,
    bytes: u64,
    /// Counts the uses.
    uses: u64,
}

static COMPILED: LazyLock<Mutex<Compiled>> = LazyLock::new(Mutex::default);

pub(super) fn get(text: &str) -> Option<Arc<ValueSchema>> {
    let mut compiled = COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
    compiled.uses += 1;
    let now = compiled.uses;
    let (schema, _, last_used) = compiled.schemas.get_mut(text)?;
    *last_used = now;
    Some(Arc::clone(schema))
}

pub(super) fn insert(text: String, schema: &Arc<ValueSchema>) {
    let bytes = schema.bytes() + text.len() as u64;
    let mut compiled = COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
    compiled.uses += 1;
    let now = compiled.uses;
    if let Some((_, replaced, _)) = compiled.schemas.insert(text, (Arc::clone(schema), bytes, now)) {
        compiled.bytes -= replaced;
    }
    compiled.bytes += bytes;
    while compiled.bytes > MAX_BYTES && compiled.schemas.len() > 1 {
        let oldest = compiled.schemas.iter().min_by_key(|(_, (_, _, last_used))| *last_used);
        let Some(oldest) = oldest.map(|(text, _)| text.clone()) else { return };
        if let Some((_, bytes, _)) = compiled.schemas.remove(&oldest) {
            compiled.bytes -= bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_schema_is_compiled_once() {
        let schema = json!({ "type": "string", "title": "a_schema_is_compiled_once" });
        assert!(get(&schema.to_string()).is_none());
        let compiled = Arc::new(ValueSchema::compile(&schema).unwrap());
        insert(schema.to_string(), &compiled);
        assert!(get(&schema.to_string()).is_some_and(|found| Arc::ptr_eq(&found, &compiled)));
    }
}
