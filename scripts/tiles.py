"""Writes core/preprocess/testdata/tiles.json: the number of tiles, their grid and
the SHA-256 of their bytes (tile, channel, row, column) by transformers' Pillow
processors, for the picture (3x+y, 5y+2x, xy/7) mod 256.

    python scripts/tiles.py core/preprocess/testdata/tiles.json    # transformers 5.23, pillow 12.1

Pillow 13 resizes tall pictures in the other order, which differs by a rounding.
"""
import hashlib
import json
import sys

import numpy as np
from transformers.models.got_ocr2.image_processing_pil_got_ocr2 import GotOcr2ImageProcessorPil
from transformers.models.idefics3.image_processing_pil_idefics3 import Idefics3ImageProcessorPil
from transformers.models.smolvlm.image_processing_pil_smolvlm import SmolVLMImageProcessorPil

RAW = dict(do_rescale=False, do_normalize=False)
SIZES = [(640, 480), (300, 900), (64, 48), (280, 70), (70, 280), (512, 512), (513, 512), (1600, 1200), (2, 900), (900, 2), (333, 777), (4097, 33), (448, 448), (1000, 999)]
CASES = [
    ("longest", 364, 1456, 0, 3, Idefics3ImageProcessorPil(**RAW)),
    ("longest", 512, 2048, 0, 3, SmolVLMImageProcessorPil(size={"longest_edge": 2048}, max_image_size={"longest_edge": 512}, **RAW)),
    ("longest", 64, 64, 0, 3, Idefics3ImageProcessorPil(size={"longest_edge": 64}, max_image_size={"longest_edge": 64}, **RAW)),
    ("aspect", 448, 0, 12, 2, GotOcr2ImageProcessorPil(size={"height": 448, "width": 448}, crop_to_patches=True, max_patches=12, **RAW)),
    ("aspect", 64, 0, 5, 2, GotOcr2ImageProcessorPil(size={"height": 64, "width": 64}, crop_to_patches=True, max_patches=5, **RAW)),
]
rows = []
for choose, size, longest, most, _, processor in CASES:
    for w, h in SIZES:
        y, x = np.mgrid[0:h, 0:w]
        picture = np.stack([(3 * x + y) % 256, (5 * y + 2 * x) % 256, (x * y // 7) % 256], -1).astype(np.uint8)
        kwargs = dict(return_row_col_info=True) if choose == "longest" else {}
        try:
            out = processor(images=[[picture]] if choose == "longest" else [picture], return_tensors="np", **kwargs)
        except Exception as e:  # the processor has no answer
            print("skipped", choose, size, w, h, repr(e)[:80])
            continue
        tiles = np.asarray(out["pixel_values"])
        tiles = tiles.reshape((-1,) + tiles.shape[-3:])
        assert np.array_equal(tiles, np.round(tiles)) and tiles.min() >= 0 and tiles.max() <= 255
        grid = [int(out["rows"][0][0]), int(out["cols"][0][0])] if choose == "longest" else None
        rows.append(dict(choose=choose, size=size, longest=longest, most=most, w=w, h=h, tiles=len(tiles), grid=grid,
                         sha256=hashlib.sha256(tiles.astype(np.uint8).tobytes()).hexdigest()))
with open(sys.argv[1], "w") as f:
    f.write("[\n" + ",\n".join(json.dumps(r) for r in rows) + "\n]\n")
print(len(rows))
