"""Writes core/preprocess/testdata/tiles.json: the number of tiles, their grid and
the SHA-256 of their bytes (tile, channel, row, column) by transformers' Pillow
processors, for the picture (3x+y, 5y+2x, xy/7) mod 256; and fits.json: the size
and the SHA-256 of pictures that are resized as a whole.

    python scripts/tiles.py core/preprocess/testdata/tiles.json core/preprocess/testdata/fits.json    # transformers 5.23, pillow 12.1

Pillow 13 resizes tall pictures in the other order, which differs by a rounding.
"""
import hashlib
import json
import sys

import numpy as np
from PIL import Image
from transformers.models.got_ocr2.image_processing_pil_got_ocr2 import GotOcr2ImageProcessorPil
from transformers.models.idefics3.image_processing_pil_idefics3 import Idefics3ImageProcessorPil
from transformers.models.llava_next.image_processing_pil_llava_next import LlavaNextImageProcessorPil
from transformers.models.llava_onevision.image_processing_pil_llava_onevision import LlavaOnevisionImageProcessorPil
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
NEXT = [[336, 672], [672, 336], [672, 672], [1008, 336], [336, 1008]]
ONE = [[64 * (i + 1), 64 * (j + 1)] for i in range(6) for j in range(6)]
CASES += [
    ("pinpoints", 336, NEXT, 0, 0, LlavaNextImageProcessorPil(size={"shortest_edge": 336}, crop_size={"height": 336, "width": 336}, image_grid_pinpoints=NEXT, **RAW)),
    ("pinpoints", 64, ONE, 0, 0, LlavaOnevisionImageProcessorPil(size={"height": 64, "width": 64}, image_grid_pinpoints=ONE, **RAW)),
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
        if choose == "pinpoints":  # the overview comes first there
            tiles = np.concatenate([tiles[1:], tiles[:1]])
        assert np.array_equal(tiles, np.round(tiles)) and tiles.min() >= 0 and tiles.max() <= 255
        grid = [int(out["rows"][0][0]), int(out["cols"][0][0])] if choose == "longest" else None
        sizes = dict(pinpoints=longest) if choose == "pinpoints" else dict(longest=longest, most=most)
        rows.append(dict(choose=choose, size=size, **sizes, w=w, h=h, tiles=len(tiles), grid=grid,
                         sha256=hashlib.sha256(tiles.astype(np.uint8).tobytes()).hexdigest()))
with open(sys.argv[1], "w") as f:
    f.write("[\n" + ",\n".join(json.dumps(r) for r in rows) + "\n]\n")
print(len(rows))

from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil
from transformers.models.pixtral.image_processing_pil_pixtral import PixtralImageProcessorPil
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil, smart_resize
from transformers.models.siglip.image_processing_pil_siglip import SiglipImageProcessorPil

MORE = SIZES + [(30, 90), (97, 33), (50, 51), (33, 47), (47, 33), (28, 28), (42, 14), (41, 43), (1, 1), (1, 150), (5000, 40), (2100, 3001), (98, 70), (100, 101)]
AREAS = [(28, 3136, 12845056), (28, 3136, 1003520), (32, 65536, 16777216), (8, 256, 4096), (28, 3136, 3136)]


class Sized(Qwen2VLImageProcessorPil):
    """Returns the resized picture without dividing it into patches."""

    def patchify(self, image, **kwargs):
        self.image = image
        return super().patchify(image, **kwargs)


def shortest(edge, cut):
    return CLIPImageProcessorPil(size={"shortest_edge": edge}, crop_size={"height": cut, "width": cut}, **RAW)


fits = []


def add(spec, w, h, image):
    image = np.asarray(image)
    assert np.array_equal(image, np.round(image))
    fits.append(dict(spec=spec, w=w, h=h, size=list(image.shape[-2:][::-1]), sha256=hashlib.sha256(image.astype(np.uint8).tobytes()).hexdigest()))


for w, h in MORE:
    y, x = np.mgrid[0:h, 0:w]
    picture = Image.fromarray(np.stack([(3 * x + y) % 256, (5 * y + 2 * x) % 256, (x * y // 7) % 256], -1).astype(np.uint8))
    for multiple, least, most in AREAS:
        if max(w, h) > 200 * min(w, h) or np.prod(smart_resize(h, w, multiple, least, most)) > 1 << 21:
            continue
        p = Sized(size={"shortest_edge": least, "longest_edge": most}, patch_size=multiple // 2, merge_size=2, **RAW)
        p(images=[picture], return_tensors="np")
        add(dict(fit=dict(multiple=multiple, choose="area", least=least, most=most), resample="bicubic"), w, h, p.image)
    for multiple, longest in [(16, 1024), (14, 1540), (8, 64), (28, 100)]:
        if min(w, h) * longest < max(w, h):  # a side of no pixels, which the processor does not resize
            continue
        p = PixtralImageProcessorPil(size={"longest_edge": longest}, patch_size={"height": multiple, "width": multiple}, **RAW)
        add(dict(fit=dict(multiple=multiple, choose="longest", longest=longest), resample="bicubic"), w, h, p(images=[picture], return_tensors="np")["pixel_values"][0])
    for edge, cut in [(28, 28), (33, 28), (20, 28), (20, 27), (21, 28)]:
        if max(w, h) > 100 * min(w, h):
            continue
        add(dict(shortest_edge=edge, crop=[cut, cut], crop_round="down", resample="bicubic"), w, h, shortest(edge, cut)(images=[picture], return_tensors="np")["pixel_values"][0])
    for filter, name in [(2, "bilinear"), (3, "bicubic")]:
        p = SiglipImageProcessorPil(size={"height": 56, "width": 42}, resample=filter, **RAW)
        add(dict(resize=[56, 42], resample=name), w, h, p(images=[picture], return_tensors="np")["pixel_values"][0])
with open(sys.argv[2], "w") as f:
    f.write("[\n" + ",\n".join(json.dumps(r) for r in fits) + "\n]\n")
print(len(fits))
