"""Writes moving.json: animations, and what Pillow shows of each frame on black.

    python moving.py > moving.json

Needs numpy and pillow.
"""

import base64
import io
import json
import sys

import numpy as np
import PIL
from PIL import Image, ImageDraw

W, H = 23, 17
rng = np.random.default_rng(3)


def frame(i, solid):
    m = Image.new("RGBA", (W, H), (30 + 9 * i, 200 - 8 * i, 90, 255) if solid else (0, 0, 0, 0))
    d = ImageDraw.Draw(m)
    x, y = (int(v) for v in rng.integers(0, 10, 2))
    d.rectangle([x, y, x + 8, y + 5], (250, 20 * i % 250, 40, 255))
    d.ellipse([12 - i % 5, 3, 20, 12], (40, 60, 250 - 13 * i, 255))
    return m


animations = []
for name, disposal in (("kept", 1), ("cleared", 2), ("mixed", [1, 1, 2, 1, 2, 1, 1, 2, 1])):
    frames = [frame(i, i == 0) for i in range(9)]
    out = io.BytesIO()
    frames[0].save(out, "GIF", save_all=True, append_images=frames[1:], disposal=disposal, duration=[0, 20, 40, 50, 500, 60, 70, 80, 90], loop=0, optimize=False)
    m = Image.open(io.BytesIO(out.getvalue()))
    shown = []
    for i in range(m.n_frames):
        m.seek(i)
        black = Image.new("RGBA", m.size, (0, 0, 0, 255))
        shown.append(np.asarray(Image.alpha_composite(black, m.convert("RGBA")).convert("RGB")).tobytes())
    animations.append({"name": name, "file": base64.b64encode(out.getvalue()).decode(), "frames": [base64.b64encode(f).decode() for f in shown]})

json.dump({"pillow": PIL.__version__, "w": W, "h": H, "animations": animations}, sys.stdout, indent=1)
