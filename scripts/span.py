"""Writes core/preprocess/testdata/span.json: every 97th value of the mel frames of
WhisperFeatureExtractor with 16 bands.

    python scripts/span.py core/preprocess/testdata/span.json    # transformers 5.23, torch 2.15
"""
import json
import sys

import numpy as np
from transformers import WhisperFeatureExtractor

rows = []
for n, seconds, divide in [(16000, 1, False), (7, 1, False), (4001, 1, False), (50000, 2, False), (50000, 1, True), (16001, 1, True), (12345, 2, False)]:
    i = np.arange(n)
    x = (np.round(9000 * np.sin(i * 0.05) * np.sin(i * 0.0007)) / 32768).astype(np.float32)
    extractor = WhisperFeatureExtractor(feature_size=16, chunk_length=seconds)
    more = dict(padding=True, truncation=False, pad_to_multiple_of=16000 * seconds) if divide else {}
    mel = extractor(x, sampling_rate=16000, return_tensors="np", **more)["input_features"][0]
    rows.append(dict(n=n, seconds=seconds, divide=divide, frames=mel.shape[1], values=[round(float(v), 6) for v in mel.reshape(-1)[::97]]))
with open(sys.argv[1], "w") as f:
    f.write("[\n" + ",\n".join(json.dumps(r) for r in rows) + "\n]\n")
