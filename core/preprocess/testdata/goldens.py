"""Writes goldens.json: what Pillow, torchvision, SciPy, librosa and libsndfile
make of the same pictures and sounds.

    python goldens.py [SEED] > goldens.json

Needs numpy, pillow<13, torchvision, scipy, librosa, soundfile. Pillow 13 chooses by
size whether rows or columns come first; all before it, with which models were
trained, begin with the rows. Another seed gives
other pictures and sounds, which the test takes from a live run (MM_PYTHON).
"""

import base64
import io
import json
import sys

import librosa
import numpy as np
import PIL
import scipy
import scipy.signal
import soundfile
import torch
import torchvision
from PIL import Image, ImageOps
from torchvision.transforms import v2

SEED = int(sys.argv[1]) if len(sys.argv) > 1 else 1
rng = np.random.default_rng(SEED)


def b64(data):
    return base64.b64encode(data).decode()


def array(a):
    a = np.ascontiguousarray(a)
    return {"dtype": a.dtype.name, "shape": list(a.shape), "data": b64(a.tobytes())}


def encoded(image, form, **options):
    out = io.BytesIO()
    image.save(out, form, **options)
    return b64(out.getvalue())


def scene(w, h):
    """Noise, a gradient and hard edges: every filter shows."""
    y, x = np.mgrid[0:h, 0:w]
    a = np.stack([x * 255 // max(w - 1, 1), y * 255 // max(h - 1, 1), (x // 5 + y // 7) % 2 * 255], -1)
    a[h // 3 :] = rng.integers(0, 256, a[h // 3 :].shape)
    return Image.fromarray(a.astype(np.uint8))


pictures = []


def picture(name, image, spec, result, form="PNG", **options):
    pictures.append({"name": name, "file": encoded(image, form, **options), "spec": spec, "want": array(result)})


FILTERS = {"nearest": Image.NEAREST, "bilinear": Image.BILINEAR, "bicubic": Image.BICUBIC, "lanczos": Image.LANCZOS}
base = scene(53, 37)
for name, code in FILTERS.items():
    for h, w in [(16, 24), (50, 61), (37, 20), (1, 1)]:
        picture(f"{name} {h}x{w}", base, {"resize": [h, w], "resample": name, "layout": "HWC", "dtype": "uint8"}, np.asarray(base.resize((w, h), code)))
picture("gray", base, {"resize": [20, 30], "color": "gray", "layout": "HWC", "dtype": "uint8"}, np.asarray(base.convert("L").resize((30, 20), Image.BILINEAR))[..., None])
picture("bgr", base, {"color": "bgr", "layout": "HWC", "dtype": "uint8"}, np.asarray(base)[..., ::-1])
picture("half", base, {"layout": "NHWC", "dtype": "fp16", "scale": 1 / 255, "mean": [0.5], "std": [0.25]},
        ((np.asarray(base)[None].astype(np.float64) / 255 - 0.5) / 0.25).astype(np.float32).astype(np.float16))
MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
for name, mode in [("bilinear", v2.InterpolationMode.BILINEAR), ("bicubic", v2.InterpolationMode.BICUBIC)]:
    for image in (base, scene(37, 90), scene(30, 31)):
        steps = v2.Compose([v2.Resize(28, interpolation=mode, antialias=True), v2.CenterCrop((24, 25)), v2.ToImage(), v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, STD)])
        picture(f"torchvision {name} {image.size}", image, {"shortest_edge": 28, "crop": [24, 25], "resample": name, "scale": 1 / 255, "mean": MEAN, "std": STD}, steps(image).numpy()[None])
small = scene(20, 20)
picture("torchvision crop beyond", small, {"crop": [27, 12], "layout": "CHW", "dtype": "uint8"}, v2.Compose([v2.CenterCrop((27, 12)), v2.PILToTensor()])(small).numpy())
line = scene(61, 19)
w = -(-48 * 61 // 19)
row = np.full((48, -(-w // 8) * 8, 3), 127.5)
row[:, :w] = np.asarray(line.resize((w, 48), Image.BILINEAR))
picture("line of text", line, {"height": 48, "max_width": 3200, "multiple_of": 8, "color": "bgr", "pad": 127.5, "scale": 1 / 255, "mean": [0.5], "std": [0.5]},
        ((row[..., ::-1] / 255 - 0.5) / 0.5).astype(np.float32).transpose(2, 0, 1)[None])
tiny = scene(11, 7)
for turn in range(1, 9):
    exif = Image.Exif()
    exif[0x0112] = turn
    for form, options in [("PNG", {}), ("WEBP", {"lossless": True})]:
        data = encoded(tiny, form, exif=exif, **options)
        upright = ImageOps.exif_transpose(Image.open(io.BytesIO(base64.b64decode(data)))).convert("RGB")
        pictures.append({"name": f"turned {turn} {form}", "file": data, "spec": {"layout": "HWC", "dtype": "uint8"}, "want": array(np.asarray(upright))})
flat = Image.fromarray(np.kron(rng.integers(0, 256, (2, 3, 3)), np.ones((8, 8, 1))).astype(np.uint8))
exif = Image.Exif()
exif[0x0112] = 6
data = encoded(flat, "JPEG", quality=100, subsampling=0, exif=exif)
pictures.append({"name": "turned JPEG", "file": data, "spec": {"layout": "HWC", "dtype": "uint8"}, "tolerance": 3,
                 "want": array(np.asarray(ImageOps.exif_transpose(Image.open(io.BytesIO(base64.b64decode(data))))))})
clear = Image.fromarray(rng.integers(0, 256, (9, 7, 4)).astype(np.uint8), "RGBA")
picture("transparent", clear, {"layout": "HWC", "dtype": "uint8"}, np.asarray(clear.convert("RGB")))
few = base.quantize(16)
picture("palette", few, {"layout": "HWC", "dtype": "uint8"}, np.asarray(few.convert("RGB")))
picture("gif", few, {"layout": "HWC", "dtype": "uint8"}, np.asarray(few.convert("RGB")), "GIF")
picture("bmp", base, {"layout": "HWC", "dtype": "uint8"}, np.asarray(base), "BMP")

waves = []
tone = rng.uniform(-1, 1, (97, 2))
for subtype, channels in [("PCM_U8", 1), ("PCM_16", 1), ("PCM_16", 2), ("PCM_24", 2), ("PCM_32", 1), ("FLOAT", 2), ("DOUBLE", 1)]:
    for form in ("WAV", "WAVEX"):
        out = io.BytesIO()
        soundfile.write(out, tone[:, :channels], 11025, subtype, format=form)
        out.seek(0)
        read, rate = soundfile.read(out, always_2d=True)
        waves.append({"name": f"{form} {subtype} {channels}", "file": b64(out.getvalue()), "rate": rate, "want": array(read.mean(1).astype(np.float32))})

resampled = []
for source, target in [(8000, 16000), (44100, 16000), (48000, 16000), (16000, 22050), (22050, 8000), (16000, 16001)]:
    x = rng.uniform(-1, 1, 301).astype(np.float32)
    g = np.gcd(source, target)
    y = scipy.signal.resample_poly(x.astype(np.float64), target // g, source // g)
    resampled.append({"from": source, "to": target, "in": array(x), "want": array(y)})

mels = []


def mel(name, spec, result):
    mels.append({"name": name, "spec": spec, "want": array(result.astype(np.float32))})


t = np.arange(2501) / 16000
noise = (0.4 * np.sin(2 * np.pi * (300 + 3000 * t) * t) + 0.1 * rng.standard_normal(t.size)).astype(np.float32)
S = lambda **k: librosa.feature.melspectrogram(y=noise.astype(np.float64), sr=16000, **k)
mel("power slaney", {"sample_rate": 16000, "window": 400, "hop": 160, "n_mels": 20, "layout": "MT"}, S(n_fft=400, hop_length=160, n_mels=20))
mel("htk", {"sample_rate": 16000, "window": 320, "n_fft": 512, "hop": 200, "n_mels": 16, "mel": "htk", "mel_norm": "none", "f_min": 60, "f_max": 7600, "power": 1, "layout": "TM"},
    S(n_fft=512, win_length=320, hop_length=200, n_mels=16, htk=True, norm=None, fmin=60, fmax=7600, power=1.0).T)
mel("decibels", {"sample_rate": 16000, "window": 512, "hop": 160, "n_mels": 24, "log": "db", "range": 80, "layout": "NMT"},
    librosa.power_to_db(S(n_fft=512, hop_length=160, n_mels=24), top_db=80)[None])
mel("decibels of amplitude", {"sample_rate": 16000, "window": 512, "hop": 128, "n_mels": 12, "log": "db", "power": 1, "layout": "NTM"},
    librosa.amplitude_to_db(S(n_fft=512, hop_length=128, n_mels=12, power=1.0), amin=1e-5, top_db=None).T[None])
mel("natural", {"sample_rate": 16000, "window": 400, "hop": 160, "n_mels": 13, "log": "ln", "floor": 1e-6, "uncenter": True, "layout": "NCMT"},
    np.log(np.maximum(S(n_fft=400, hop_length=160, n_mels=13, center=False), 1e-6))[None, None])
whisper = np.log10(np.maximum(S(n_fft=400, hop_length=160, n_mels=80, pad_mode="reflect"), 1e-10))
mel("whisper", {"sample_rate": 16000, "window": 400, "hop": 160, "n_mels": 80, "edge": "reflect", "log": "log10", "range": 8, "mean": [-4], "std": [4], "layout": "NMT"},
    ((np.maximum(whisper, whisper.max() - 8) + 4) / 4)[None])
unit = (noise.astype(np.float64) - noise.mean(dtype=np.float64)) / np.sqrt(noise.var(dtype=np.float64) + 1e-7)
mel("normalized", {"sample_rate": 16000, "normalize": True, "layout": "NT"}, unit[None])

versions = {"pillow": PIL.__version__, "torchvision": torchvision.__version__, "scipy": scipy.__version__, "librosa": librosa.__version__}
json.dump({"versions": versions, "pictures": pictures, "waves": waves, "resampled": resampled, "sound": array(noise), "mels": mels}, sys.stdout, indent=0)
print()
