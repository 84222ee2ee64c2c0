#!/usr/bin/env python3
"""Write pictures of every format and mode with Pillow's values.

pictures.py OUT.json.gz [small]

A case is {name, file, kind, tolerance, mean, width, height, rgb}; file and rgb
are base64, rgb is ImageOps.exif_transpose(Image.open(f)).convert("RGB"); of
16-bit grey, which Pillow clips at 255, the high bytes. Kinds:
  equal    the reader gives these values within the tolerance;
  either   the reader gives them, or refuses the file;
  refused  the reader refuses the file.
TestPictures of core/preprocess reads them; `small` writes its golden file.
"""
import base64, gzip, io, json, struct, sys, zlib
import numpy as np
import simplejpeg
from PIL import Image, ImageOps

SMALL = len(sys.argv) > 2
SIZES = [(19, 13)] if SMALL else [(1, 1), (2, 3), (19, 13), (64, 48)]
CASES = []


def picture(w, h, channels=3):
    """A gradient with hard edges, noise, a white and a black area."""
    rng = np.random.default_rng(1000 * w + h)
    y, x = np.mgrid[0:h, 0:w]
    planes = []
    for c in range(channels):
        p = (x * 255 // max(1, w - 1) + y * (3 - c % 3) * 17) % 256
        p = np.where((x // 4 + y // 3) % 3 == c % 3, 255, p)
        planes.append(np.where((x + y) % 7 == 0, rng.integers(0, 256, (h, w)), p))
    a = np.stack(planes, -1).astype(np.uint8)
    a[: h // 4, : w // 3] = 255
    a[h - h // 4 :, : w // 3] = 0
    return a


def case(name, data, kind="equal", tolerance=0, mean=0.0):
    entry = {"name": name, "file": base64.b64encode(data).decode(), "kind": kind, "tolerance": tolerance, "mean": mean}
    if kind != "refused":
        try:
            im = ImageOps.exif_transpose(Image.open(io.BytesIO(data)))
            if im.mode == "I;16":  # Pillow clips at 255: all but black turns white
                im = Image.fromarray((np.asarray(im) >> 8).astype(np.uint8))
            im = im.convert("RGB")
            entry |= {"width": im.width, "height": im.height, "rgb": base64.b64encode(im.tobytes()).decode()}
        except Exception as e:  # Pillow refuses: so must the reader
            entry |= {"kind": "refused", "pillow": f"{type(e).__name__}: {e}"}
    CASES.append(entry)


def saved(im, fmt, **kw):
    b = io.BytesIO()
    im.save(b, fmt, **kw)
    return b.getvalue()


def exif(orientation):
    e = Image.Exif()
    e[0x0112] = orientation
    return e.tobytes()


def cuts(fmt, data, kind="either"):
    n = len(data)
    for at in sorted({4, 10, n // 4, n // 2, n * 3 // 4, n - 20, n - 12, n - 2, n - 1}):
        case(f"{fmt}/cut-at-{at}-of-{n}", data[:at], kind)


def chunk(name, body):
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))


def packed(row, depth):
    """One row of samples at 1 to 16 bits."""
    if depth >= 8:
        return row.astype(">u2" if depth == 16 else np.uint8).tobytes()
    bits = "".join(format(int(v), f"0{depth}b") for v in row)
    bits += "0" * (-len(bits) % 8)
    return bytes(int(bits[i : i + 8], 2) for i in range(0, len(bits), 8))


PASSES = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]


def png(samples, depth, color, laced=False, palette=None, trns=None, extra=b""):
    h, w, _ = samples.shape
    raw = b""
    for x0, y0, dx, dy in PASSES if laced else [(0, 0, 1, 1)]:
        part = samples[y0::dy, x0::dx]
        if part.size:
            raw += b"".join(b"\0" + packed(r.ravel(), depth) for r in part)
    out = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", w, h, depth, color, 0, 0, int(laced)))
    if palette is not None:
        out += chunk(b"PLTE", palette)
    if trns is not None:
        out += chunk(b"tRNS", trns)
    return out + extra + chunk(b"IDAT", zlib.compress(raw)) + chunk(b"IEND", b"")


def pngs():
    for w, h in SIZES:
        for laced in (False, True):
            tail = f"{'-adam7' if laced else ''}-{w}x{h}"
            for depth in (1, 2, 4, 8, 16):
                rng = np.random.default_rng(depth)
                v = rng.integers(0, 1 << depth, (h, w, 1))
                first = struct.pack(">H", int(v[0, 0, 0]))
                case(f"png/grey{depth}{tail}", png(v, depth, 0, laced))
                case(f"png/grey{depth}-trns{tail}", png(v, depth, 0, laced, trns=first))
                if depth < 16:
                    pal = rng.integers(0, 256, 3 << depth).astype(np.uint8).tobytes()
                    case(f"png/palette{depth}{tail}", png(v, depth, 3, laced, pal))
                    case(f"png/palette{depth}-trns{tail}", png(v, depth, 3, laced, pal, bytes([0, 128])))
            for depth in (8, 16):
                rng = np.random.default_rng(depth)
                for color, c, what in ((2, 3, "rgb"), (4, 2, "greyalpha"), (6, 4, "rgba")):
                    v = rng.integers(0, 1 << depth, (h, w, c))
                    if c != 3:
                        v[::2, :, -1] = 0
                    case(f"png/{what}{depth}{tail}", png(v, depth, color, laced))
                v = rng.integers(0, 1 << depth, (h, w, 3))
                case(f"png/rgb{depth}-trns{tail}", png(v, depth, 2, laced, trns=struct.pack(">HHH", *map(int, v[0, 0]))))
    v = picture(19, 13)
    for o in range(1, 9):
        case(f"png/exif{o}", png(v, 8, 2, extra=chunk(b"eXIf", exif(o)[6:])))
    case("png/gamma", png(v, 8, 2, extra=chunk(b"gAMA", struct.pack(">I", 100000))))
    case("png/index-beyond-palette", png(np.full((13, 19, 1), 3), 8, 3, palette=bytes(range(9))), "either")
    case("png/animated", saved(Image.fromarray(v), "PNG", save_all=True, append_images=[Image.fromarray(255 - v)]))
    cuts("png", png(v, 8, 2))
    bad = bytearray(png(v, 8, 2))
    bad[-20] ^= 0x40
    case("png/crc", bytes(bad), "refused")


# Inverse transforms of JPEG differ from one another by a level or two.
JPEG = {"tolerance": 6, "mean": 0.8}


def jpegs():
    for w, h in SIZES + ([] if SMALL else [(17, 16), (33, 31), (8, 8)]):
        rgb, cmyk = np.ascontiguousarray(picture(w, h)), Image.fromarray(picture(w, h, 4), "CMYK")
        im = Image.fromarray(rgb)
        for q in (95,) if SMALL else (30, 95):
            at = f"q{q}-{w}x{h}"
            case(f"jpeg/grey-{at}", saved(im.convert("L"), "JPEG", quality=q), **JPEG)
            for sub in ("444", "422", "420", "440", "411"):
                case(f"jpeg/{sub}-{at}", simplejpeg.encode_jpeg(rgb, quality=q, colorspace="RGB", colorsubsampling=sub), **JPEG)
            for i, sub in enumerate(("444", "422", "420")):
                case(f"jpeg/{sub}-progressive-{at}", saved(im, "JPEG", quality=q, subsampling=i, progressive=True), **JPEG)
            case(f"jpeg/restart-{at}", saved(im, "JPEG", quality=q, restart_marker_blocks=1), **JPEG)
            case(f"jpeg/adobe-rgb-{at}", saved(im, "JPEG", quality=q, keep_rgb=True), **JPEG)
            case(f"jpeg/cmyk-progressive-{at}", saved(cmyk, "JPEG", quality=q, progressive=True), **JPEG)
            c = saved(cmyk, "JPEG", quality=q)
            case(f"jpeg/cmyk-{at}", c, **JPEG)
            a = c.find(b"Adobe")
            case(f"jpeg/ycck-{at}", c[: a + 11] + b"\2" + c[a + 12 :], **JPEG)
            case(f"jpeg/cmyk-without-adobe-{at}", c[: a - 4] + c[a + 12 :], "either", **JPEG)
    im = Image.fromarray(picture(19, 13))
    for o in range(0, 10):
        case(f"jpeg/exif{o}", saved(im, "JPEG", quality=95, exif=exif(o)), **JPEG)
    plain = saved(im, "JPEG", quality=95)
    case("jpeg/tail", plain + b"tail", **JPEG)
    sof = plain.find(b"\xff\xc0")
    case("jpeg/12-bit", plain[: sof + 4] + b"\x0c" + plain[sof + 5 :], "refused")
    case("jpeg/16-bit", plain[: sof + 4] + b"\x10" + plain[sof + 5 :], "refused")
    case("jpeg/lossless", plain[: sof + 1] + b"\xc3" + plain[sof + 2 :], "refused")
    cuts("jpeg", plain)
    cuts("jpeg-progressive", saved(im, "JPEG", quality=95, progressive=True))


def lzw(indices, bits):
    """Literal codes, with a clear code before the width would grow."""
    acc = n = 0
    out = bytearray()
    codes = []
    for i, v in enumerate(indices):
        if i % ((1 << bits) - 2) == 0:
            codes.append(1 << bits)
        codes.append(int(v))
    for c in codes + [(1 << bits) + 1]:
        acc |= c << n
        n += bits + 1
        while n >= 8:
            out.append(acc & 255)
            acc, n = acc >> 8, n - 8
    if n:
        out.append(acc & 255)
    return bytes([bits]) + b"".join(bytes([len(out[i : i + 255])]) + bytes(out[i : i + 255]) for i in range(0, len(out), 255)) + b"\0"


def gif(screen, frames, bits=4, background=0, whole=True, transparent=None):
    """frames: x, y, indices, interlaced, with a palette of its own, disposal."""
    rng = np.random.default_rng(bits)
    out = b"GIF89a" + struct.pack("<HHBBB", *screen, (0x80 | (bits - 1)) if whole else 0, background, 0)
    if whole:
        out += rng.integers(0, 256, 3 << bits).astype(np.uint8).tobytes()
    for x, y, ix, laced, own, disposal in frames:
        h, w = ix.shape
        if transparent is not None or disposal:
            out += b"\x21\xf9\x04" + bytes([disposal << 2 | (transparent is not None), 5, 0, transparent or 0, 0])
        out += b"," + struct.pack("<HHHHB", x, y, w, h, (0x40 if laced else 0) | ((0x80 | (bits - 1)) if own else 0))
        if own:
            out += rng.integers(0, 256, 3 << bits).astype(np.uint8).tobytes()
        if laced:
            ix = ix[[*range(0, h, 8), *range(4, h, 8), *range(2, h, 4), *range(1, h, 2)]]
        out += lzw(ix.ravel(), max(2, bits))
    return out + b";"


def gifs():
    for w, h in SIZES:
        for bits in (2, 4) if SMALL else (2, 4, 7, 8):
            ix = np.random.default_rng(bits).integers(0, 1 << bits, (h, w))
            for laced in (False, True):
                for t in (None, int(ix[0, 0])):
                    for own in (False, True):
                        name = f"{bits}bit{'-interlaced' if laced else ''}{'-transparent' if t is not None else ''}{'-own' if own else ''}"
                        case(f"gif/{name}-{w}x{h}", gif((w, h), [(0, 0, ix, laced, own, 0)], bits, transparent=t))
    ix = np.random.default_rng(3).integers(0, 16, (7, 9))
    for bg in (0, 5):
        for t in (None, 2, 5):
            for whole in (True, False):
                name = f"gif/smaller-frame-background{bg}-transparent{t}{'' if whole else '-own'}"
                case(name, gif((19, 13), [(4, 3, ix, False, not whole, 0)], 4, bg, whole, t), "either")
    full = np.random.default_rng(3).integers(0, 16, (13, 19))
    for d in range(4):
        case(f"gif/frames-disposal{d}", gif((19, 13), [(0, 0, full, False, False, d), (4, 3, ix, False, True, d)]))
    case("gif/frame-outside-screen", gif((8, 8), [(4, 3, ix, False, False, 0)]), "either")
    case("gif/no-palette", gif((9, 7), [(0, 0, ix, False, False, 0)], whole=False), "either")
    case("gif/pillow", saved(Image.fromarray(picture(19, 13)).quantize(32), "GIF"))
    cuts("gif", gif((19, 13), [(0, 0, full, False, False, 0)]))


def bmp(w, h, bits, rows, compression=0, palette=b"", masks=b"", header=40, top=False, used=0):
    body = b"".join(r + b"\0" * (-len(r) % 4) for r in rows) if isinstance(rows, list) else rows
    info = struct.pack("<IiiHHIIiiII", header, w, -h if top else h, 1, bits, compression, len(body), 2835, 2835, used, 0)
    info += masks if header == 40 else (masks + b"\0" * header)[: header - 40]
    offset = 14 + len(info) + len(palette)
    return b"BM" + struct.pack("<IHHI", offset + len(body), 0, 0, offset) + info + palette + body


def bmps():
    for w, h in SIZES:
        for top in (False, True):
            at = f"{'-topdown' if top else ''}-{w}x{h}"
            for bits in (1, 4, 8):
                rng = np.random.default_rng(bits)
                rows = [packed(r, bits) for r in rng.integers(0, 1 << bits, (h, w))]
                pal = rng.integers(0, 256, 4 << bits).astype(np.uint8).tobytes()
                case(f"bmp/{bits}bit{at}", bmp(w, h, bits, rows, palette=pal, top=top))
            grey = bytes(b for i in range(256) for b in (i, i, i, 0))
            case(f"bmp/8bit-grey{at}", bmp(w, h, 8, rows, palette=grey, top=top))
            case(f"bmp/8bit-two-colors{at}", bmp(w, h, 8, [b"\1" * w] * h, palette=pal[:8], top=top, used=2))
            v = picture(w, h, 4)
            for header in (40, 108, 124):
                case(f"bmp/24bit-v{header}{at}", bmp(w, h, 24, [r.tobytes() for r in v[:, :, :3]], header=header, top=top))
                case(f"bmp/32bit-v{header}{at}", bmp(w, h, 32, [r.tobytes() for r in v], header=header, top=top))
            for name, m in (("bgra", (0xFF0000, 0xFF00, 0xFF, 0xFF000000)), ("rgba", (0xFF, 0xFF00, 0xFF0000, 0xFF000000)), ("bgrx", (0xFF0000, 0xFF00, 0xFF, 0))):
                for header in (40, 56, 108, 124):
                    masks = struct.pack("<IIII", *m)[: 12 if header == 40 else 16]
                    case(f"bmp/32bit-{name}-v{header}{at}", bmp(w, h, 32, [r.tobytes() for r in v], 3, masks=masks, header=header, top=top), "either")
            rows = [r.tobytes() for r in np.random.default_rng(6).integers(0, 65536, (h, w)).astype("<u2")]
            case(f"bmp/16bit{at}", bmp(w, h, 16, rows, top=top), "either")
            case(f"bmp/16bit-565{at}", bmp(w, h, 16, rows, 3, masks=struct.pack("<III", 0xF800, 0x7E0, 0x1F), top=top), "either")
    pal = bytes(range(256)) * 4
    case("bmp/rle8", bmp(4, 2, 8, bytes([4, 7, 0, 0, 2, 9, 2, 3, 0, 1]), 1, pal), "either")
    case("bmp/rle4", bmp(4, 2, 4, bytes([4, 0x12, 0, 0, 4, 0x34, 0, 1]), 2, pal[:64]), "either")
    os2 = b"BM" + struct.pack("<IHHI", 42, 0, 0, 26) + struct.pack("<IHHHH", 12, 2, 2, 1, 24) + bytes(range(16))
    case("bmp/os2", os2, "either")
    cuts("bmp", saved(Image.fromarray(picture(19, 13)), "BMP"))


def webps():
    for w, h in SIZES + ([] if SMALL else [(17, 16), (33, 31)]):
        at = f"{w}x{h}"
        im, al = Image.fromarray(picture(w, h)), Image.fromarray(picture(w, h, 4), "RGBA")
        for q in (80,) if SMALL else (10, 80, 100):
            case(f"webp/lossy-q{q}-{at}", saved(im, "WEBP", quality=q))
            case(f"webp/lossy-alpha-q{q}-{at}", saved(al, "WEBP", quality=q))
        case(f"webp/lossless-{at}", saved(im, "WEBP", lossless=True))
        case(f"webp/lossless-alpha-{at}", saved(al, "WEBP", lossless=True, exact=True))
        case(f"webp/lossless-palette-{at}", saved(im.quantize(8).convert("RGB"), "WEBP", lossless=True))
        for v, what in ((255, "white"), (0, "black"), (128, "grey")):
            case(f"webp/{what}-{at}", saved(Image.fromarray(np.full((h, w, 3), v, np.uint8)), "WEBP", quality=90))
    im = Image.fromarray(picture(19, 13))
    for o in range(1, 9):
        case(f"webp/exif{o}", saved(im, "WEBP", quality=80, exif=exif(o)))
    case("webp/animated", saved(im, "WEBP", save_all=True, append_images=[im.rotate(180)]), "refused")
    cuts("webp", saved(im, "WEBP", quality=80))
    cuts("webp-lossless", saved(im, "WEBP", lossless=True))


def others():
    im = Image.fromarray(picture(19, 13))
    for fmt in ("TIFF", "PPM", "TGA", "ICO", "PCX", "JPEG2000", "AVIF"):
        case(f"other/{fmt.lower()}", saved(im, fmt), "refused")


for part in (pngs, jpegs, gifs, bmps, webps, others):
    part()
with open(sys.argv[1], "wb") as f, gzip.GzipFile(fileobj=f, mode="wb", mtime=0, filename="") as z:
    z.write(json.dumps(CASES, separators=(",", ":")).encode())
print(len(CASES), "pictures", file=sys.stderr)
