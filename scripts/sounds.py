#!/usr/bin/env python3
"""Write sounds of every format with libsndfile's samples.

sounds.py OUT.json.gz [small]

A case is {name, file, kind, tolerance, rms, rate, samples}; file and samples are
base64, samples are float32 of soundfile.read(f, dtype="float64").mean(1). MP3
is decoded to 16 bits, so its channels are clipped; the bound of its RMS error
is that of ISO 11172-4 for limited accuracy. FLAC whose depth libsndfile lacks
has the samples that were written. Kinds:
  equal    the reader gives these samples within the tolerance;
  either   the reader gives them, or refuses the file;
  refused  the reader refuses the file.
TestSounds of core/preprocess reads them; `small` writes its golden file.
"""
import base64, gzip, io, json, struct, sys
import numpy as np
import soundfile as sf

SMALL = len(sys.argv) > 2
CASES = []
VORBIS = {"tolerance": 2e-6}
MP3 = {"tolerance": 8 / 32768, "rms": 2**-11 / 12**0.5}


def sound(n, channels=1, seed=1, loud=0.6):
    """Sweeps, noise, silence, and the largest and smallest samples."""
    rng = np.random.default_rng(seed + 7 * channels)
    t = np.arange(n)[:, None] / max(n, 1)
    v = loud * np.sin(2 * np.pi * (20 + 3 * np.arange(channels)) * t * (1 + t)) + 0.1 * rng.standard_normal((n, channels))
    v[n // 2 : n // 2 + n // 8] = 0
    return np.clip(v, -1, 1)


def spiked(v):
    v = v.copy()
    v[3 % len(v) :: 97], v[5 % len(v) :: 89] = 1, -1
    return v


def case(name, data, kind="equal", tolerance=0.0, rms=1.0, want=None):
    entry = {"name": name, "file": base64.b64encode(data).decode(), "kind": kind, "tolerance": tolerance, "rms": rms}
    if kind != "refused":
        try:
            v, rate = (want, 16000) if want is not None else sf.read(io.BytesIO(data), dtype="float64", always_2d=True)
            if name.startswith("mp3/"):
                v = np.clip(v, -1, 1)
            if len(v) == 0:
                raise ValueError("empty")
            entry |= {"rate": rate, "samples": base64.b64encode(v.mean(1).astype("<f4").tobytes()).decode()}
        except Exception as e:  # libsndfile refuses: so must the reader
            entry |= {"kind": "refused", "reason": f"{type(e).__name__}: {e}"}
    CASES.append(entry)


def written(v, rate, fmt, sub, **kw):
    b = io.BytesIO()
    sf.write(b, v, rate, format=fmt, subtype=sub, **kw)
    return b.getvalue()


def cuts(name, data):
    n = len(data)
    for at in sorted({4, 12, 20, n // 4, n // 2, n * 3 // 4, n - 5, n - 1}):
        case(f"{name}-cut-at-{at}-of-{n}", data[:at], "either", 1e-4)


def chunk(name, body, size=None):
    return name + struct.pack("<I", len(body) if size is None else size) + body + b"\0" * (len(body) & 1)


def fmt(code, channels, rate, bits, extra=b"", block=None, valid=None, guid=None):
    block = block or channels * ((bits + 7) // 8)
    body = struct.pack("<HHIIHH", 0xFFFE if guid is not None else code, channels, rate, rate * block, block, bits) + extra
    if guid is not None:
        body += struct.pack("<HHIH", 22, valid or bits, 0, code) + guid
    return chunk(b"fmt ", body)


GUID = b"\0\0\0\0\x10\0\x80\0\0\xaa\0\x38\x9b\x71"


def riff(*chunks, head=b"RIFF", size=None):
    body = b"WAVE" + b"".join(chunks)
    return head + struct.pack("<I", len(body) if size is None else size) + body


def wavs():
    n = 60 if SMALL else 700
    subs = ("PCM_U8", "PCM_16", "PCM_24", "PCM_32", "FLOAT", "DOUBLE", "ALAW", "ULAW")
    for sub in subs:
        for ch in (1, 2) if SMALL else (1, 2, 3, 6, 8):
            for kind in ("WAV", "WAVEX", "RF64"):
                case(f"{kind.lower()}/{sub}-{ch}", written(spiked(sound(n, ch)), 16000, kind, sub))
    for rate in (8000, 192000) if SMALL else (1000, 8000, 11025, 22050, 44100, 48000, 88200, 96000, 176400, 192000, 384000):
        case(f"wav/{rate}Hz", written(sound(n), rate, "WAV", "PCM_16"))
    for code, bits in ((6, 8), (7, 8)):
        case(f"wav/all-codes-of-{code}", riff(fmt(code, 1, 8000, bits), chunk(b"data", bytes(range(256)))))
    case("wav/all-bytes", riff(fmt(1, 1, 8000, 8), chunk(b"data", bytes(range(256)))))
    v = (sound(101, 1) * 32767).astype("<i2").tobytes()
    f, d = fmt(1, 1, 16000, 16), chunk(b"data", v)
    odd = chunk(b"LIST", b"INFOabc")
    for name, data in {
        "list-before": riff(f, odd, d), "list-after": riff(f, d, odd), "list-first": riff(odd, f, d), "fmt-18": riff(fmt(1, 1, 16000, 16, b"\0\0"), d),
        "fact": riff(f, chunk(b"fact", struct.pack("<I", 101)), d), "unknown-chunk": riff(f, chunk(b"zzzz", b"12345"), d),
        "odd-bytes": riff(fmt(1, 1, 16000, 8), chunk(b"data", bytes(range(101)))), "odd-24": riff(fmt(1, 1, 16000, 24), chunk(b"data", bytes(range(99)))),
        "odd-bytes-list": riff(fmt(1, 1, 16000, 8), chunk(b"data", bytes(range(101))), odd),
        "tail": riff(f, d) + b"tail",
    }.items():
        case(f"odd/{name}", data)
    for name, data in {
        "size-0": riff(f, d, size=0), "size-unknown": riff(f, d, size=0xFFFFFFFF), "data-unknown": riff(f, chunk(b"data", v, 0xFFFFFFFF), size=0xFFFFFFFF),
        "data-sox": riff(f, chunk(b"data", v, 0x7FFFF000), size=0x7FFFF024), "data-0": riff(f, chunk(b"data", v, 0)), "data-too-long": riff(f, chunk(b"data", v, len(v) + 100)),
        "no-data": riff(f), "no-fmt": riff(d), "data-before-fmt": riff(d, f), "two-fmt": riff(f, f, d), "two-data": riff(f, d, d), "partial-block": riff(fmt(1, 2, 16000, 16), chunk(b"data", v[:-2] + b"\1")),
        "no-channels": riff(fmt(1, 0, 16000, 16, block=2), d), "channels-1000": riff(fmt(1, 1000, 16000, 16), d), "rate-0": riff(fmt(1, 1, 0, 16), d),
        "bits-0": riff(fmt(1, 1, 16000, 0, block=2), d), "bits-12": riff(fmt(1, 1, 16000, 12), d), "bits-20": riff(fmt(1, 1, 16000, 20), chunk(b"data", v[:198])),
        "block-of-4": riff(fmt(1, 1, 16000, 24, block=4), chunk(b"data", v[:200])), "valid-20": riff(fmt(1, 1, 16000, 24, valid=20, guid=GUID), chunk(b"data", v[:198])),
        "valid-12": riff(fmt(1, 1, 16000, 16, valid=12, guid=GUID), d), "extensible-foreign": riff(fmt(1, 1, 16000, 16, guid=b"\1" * 14), d),
        "adpcm": written(sound(n), 16000, "WAV", "MS_ADPCM"), "ima": written(sound(n), 16000, "WAV", "IMA_ADPCM"), "gsm": written(sound(n), 8000, "WAV", "GSM610"),
        "float-nan": riff(fmt(3, 1, 16000, 32), chunk(b"data", np.float32([0, np.nan, 1]).tobytes())), "float-loud": riff(fmt(3, 1, 16000, 32), chunk(b"data", np.float32([0, 5, -7.5]).tobytes())),
        "float-inf": riff(fmt(3, 1, 16000, 32), chunk(b"data", np.float32([0, np.inf, 1]).tobytes())), "float-16": riff(fmt(3, 1, 16000, 16), d),
        "rifx": b"RIFX" + struct.pack(">I", 36 + len(v)) + b"WAVEfmt " + struct.pack(">IHHIIHH", 16, 1, 1, 16000, 32000, 2, 16) + b"data" + struct.pack(">I", len(v)) + v,
        "rf64-without-ds64": riff(f, chunk(b"data", v, 0xFFFFFFFF), head=b"RF64", size=0xFFFFFFFF),
        "bw64": riff(chunk(b"ds64", struct.pack("<QQQI", 80 + len(v), len(v), 101, 0)), f, chunk(b"data", v, 0xFFFFFFFF), head=b"BW64", size=0xFFFFFFFF),
        "rf64-too-long": riff(chunk(b"ds64", struct.pack("<QQQI", 1 << 40, 1 << 40, 1 << 39, 0)), f, chunk(b"data", v, 0xFFFFFFFF), head=b"RF64", size=0xFFFFFFFF),
        "id3-before": b"ID3\4\0\0\0\0\0\5hello" + riff(f, d),
    }.items():
        case(f"odd/{name}", data, "either")
    for kind in ("WAV", "WAVEX", "RF64"):
        case(f"{kind.lower()}/empty", written(sound(0), 16000, kind, "PCM_16"))
        case(f"{kind.lower()}/one-sample", written(sound(1), 16000, kind, "PCM_16"))
        cuts(f"{kind.lower()}/PCM_16", written(sound(n, 2), 16000, kind, "PCM_16"))


def crc(data, poly, width):
    c = 0
    for b in data:
        c ^= b << (width - 8)
        for _ in range(8):
            c = (c << 1 ^ (poly if c >> (width - 1) else 0)) & ((1 << width) - 1)
    return c


def flac(v, bits, rate=16000, mode=None, block=64, constant=False, total=None):
    """v: integers, samples × channels; verbatim subframes. mode: 8 left and side, 9 side and right, 10 middle and side."""
    n, channels = v.shape
    info = struct.pack(">HHHHH", block, block, 0, 0, 0)
    info += ((rate << 44) | (channels - 1) << 41 | (bits - 1) << 36 | (n if total is None else total)).to_bytes(8, "big") + bytes(16)
    out = b"fLaC\x80" + len(info).to_bytes(3, "big") + info
    for k, at in enumerate(range(0, n, block)):
        part = v[at : at + block]
        size = {8: 1, 12: 2, 16: 4, 20: 5, 24: 6, 32: 7}.get(bits, 0)
        head = b"\xff\xf8" + bytes([0x70, (mode or channels - 1) << 4 | size << 1, k]) + struct.pack(">H", len(part) - 1)
        head += bytes([crc(head, 7, 8)])
        columns = [(part[:, c].astype(object), bits) for c in range(channels)]
        if mode:
            l, r = (c[0] for c in columns)
            columns = {8: [(l, bits), (l - r, bits + 1)], 9: [(l - r, bits + 1), (r, bits)], 10: [((l + r) >> 1, bits), (l - r, bits + 1)]}[mode]
        text = ""
        for c, width in columns:
            values = [c[0]] if constant else c
            text += "00000000" if constant else "00000010"
            text += "".join(format(int(x) & ((1 << width) - 1), f"0{width}b") for x in values)
        text += "0" * (-len(text) % 8)
        frame = head + int(text, 2).to_bytes(len(text) // 8, "big")
        out += frame + struct.pack(">H", crc(frame, 0x8005, 16))
    return out


def flacs():
    n = 200 if SMALL else 5000
    for sub in ("PCM_S8", "PCM_16", "PCM_24"):
        for ch in (1, 2) if SMALL else range(1, 9):
            for rate in (16000,) if SMALL or ch > 2 else (8000, 44100, 192000):
                for level in (0.5,) if SMALL else (0.0, 1.0):
                    case(f"flac/{sub}-{ch}-{rate}-level{level}", written(spiked(sound(n, ch)), rate, "FLAC", sub, compression_level=level))
    both = np.column_stack([sound(n)[:, 0]] * 2) * [1, 0.99]
    case("flac/joint", written(both, 16000, "FLAC", "PCM_16"))
    case("flac/silence", written(np.zeros((n, 2)), 16000, "FLAC", "PCM_16"))
    for bits in (8, 12, 16, 20, 24) if SMALL else (4, 5, 7, 8, 11, 12, 16, 17, 20, 24, 25, 28, 31, 32):
        whole = 1 << (bits - 1)
        for ch in (1, 2) if SMALL else (1, 2, 3, 8):
            v = np.clip(np.rint(spiked(sound(100, ch)) * whole), -whole, whole - 1).astype(np.int64)
            at = "equal" if bits <= 24 else "either"
            same = None if bits in (8, 16, 24) else v / whole
            case(f"flac/verbatim-{bits}bit-{ch}", flac(v, bits), at, want=same)
            if ch == 2:
                for mode in (8, 9, 10):
                    case(f"flac/verbatim-{bits}bit-mode{mode}", flac(v, bits, mode=mode), at, want=same)
        case(f"flac/constant-{bits}bit", flac(np.full((100, 1), 1 - whole), bits, constant=True), at, want=np.full((100, 1), 1 / whole - 1))
    v = np.rint(sound(100, 2) * 32767).astype(np.int64)
    case("flac/unknown-length", flac(v, 16, total=0), want=v / 32768)
    case("flac/longer-than-said", flac(v, 16, total=60))
    case("flac/shorter-than-said", flac(v, 16, total=500), "either")
    case("flac/tail", flac(v, 16) + b"tail", "either")
    case("flac/empty", flac(v[:0], 16), "either")
    case("flac/one-sample", flac(v[:1], 16), "either")
    case("flac/id3-before", b"ID3\4\0\0\0\0\0\5hello" + flac(v, 16), "either")
    bad = bytearray(flac(v, 16))
    bad[100] ^= 4
    case("flac/flipped-bit", bytes(bad), "refused")
    cuts("flac/PCM_16", written(sound(n, 2), 16000, "FLAC", "PCM_16"))


def lossy():
    n = 1500 if SMALL else 12000
    for ch in (1, 2) if SMALL else range(1, 9):
        for rate in (16000,) if SMALL else (8000, 16000, 22050, 32000, 44100, 48000, 96000, 192000):
            # The decoder lacks floors without partitions, which libvorbis writes for the sixth channel of 5.1.
            case(f"vorbis/{ch}-{rate}", written(sound(n, ch), rate, "OGG", "VORBIS"), "either" if ch == 6 else "equal", **VORBIS)
    case("vorbis/loud", written(np.sign(sound(n)) * 1.0, 44100, "OGG", "VORBIS"), **VORBIS)
    for m in (1, 63, 64, 500, 2048):
        case(f"vorbis/length-{m}", written(sound(m), 44100, "OGG", "VORBIS"), "either", **VORBIS)
    case("vorbis/empty", written(sound(0), 16000, "OGG", "VORBIS"))
    case("opus", written(sound(n), 16000, "OGG", "OPUS"), "refused")
    cuts("vorbis/1", written(sound(n), 16000, "OGG", "VORBIS"))
    for ch in (1, 2):
        for rate in (16000, 44100) if SMALL else (16000, 22050, 24000, 32000, 44100, 48000):
            for mode in ("CONSTANT",) if SMALL else ("CONSTANT", "AVERAGE", "VARIABLE"):
                case(f"mp3/{ch}-{rate}-{mode.lower()}", written(sound(n, ch), rate, "MP3", "MPEG_LAYER_III", bitrate_mode=mode), **MP3)
    case("mp3/loud", written(np.sign(sound(n)) * 1.0, 44100, "MP3", "MPEG_LAYER_III"), **MP3)
    for m in (1, 500, 1152, 2305):
        case(f"mp3/length-{m}", written(sound(m), 44100, "MP3", "MPEG_LAYER_III"), "either", **MP3)
    for rate in (8000, 11025, 12000):
        case(f"mp3/mpeg2.5-{rate}", written(sound(n), rate, "MP3", "MPEG_LAYER_III"), "refused")
    whole = written(sound(n), 44100, "MP3", "MPEG_LAYER_III")
    case("mp3/id3", b"ID3\4\0\0\0\0\0\5hello" + whole, **MP3)
    case("mp3/id3v1", whole + b"TAG" + bytes(125), **MP3)
    cuts("mp3/1", whole)


def others():
    for kind, sub in (("AIFF", "PCM_16"), ("AU", "PCM_16"), ("CAF", "PCM_16"), ("W64", "PCM_16"), ("RAW", "PCM_16"), ("VOC", "PCM_16")):
        case(f"other/{kind.lower()}", written(sound(200), 16000, kind, sub), "refused")
    case("other/nothing", b"", "refused")
    case("other/text", b"not a sound at all, but a text", "refused")


for part in (wavs, flacs, lossy, others):
    part()
with open(sys.argv[1], "wb") as f, gzip.GzipFile(fileobj=f, mode="wb", mtime=0, filename="") as z:
    z.write(json.dumps(CASES, separators=(",", ":")).encode())
print(len(CASES), "sounds", file=sys.stderr)
