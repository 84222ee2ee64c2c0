"""Writes sounds.json: sounds of Debian's encoders, and what libsndfile (libFLAC,
mpg123, libvorbis) makes of them, mixed to one channel.

    python sounds.py > sounds.json

Needs numpy, soundfile, and flac, lame and oggenc in the path.
"""

import base64
import io
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import soundfile

rng = np.random.default_rng(5)


def sound(rate, channels, seconds):
    n = int(rate * seconds)
    t = np.arange(n) / rate
    out = []
    for c in range(channels):
        f = 300 + 200 * c
        v = 0.4 * np.sin(2 * np.pi * (f + 900 * t) * t) + 0.2 * np.sin(2 * np.pi * 1111 * t) * (t > seconds / 2)
        out.append(v * np.minimum(1, 40 * t) + 0.01 * rng.standard_normal(n))
    return np.stack(out, 1)


CASES = [
    # name, rate, channels, bits, seconds, command
    ("flac16", 16000, 1, "PCM_16", 0.21, ["flac", "-8", "--channel-map=none"]),
    ("flac24", 44100, 2, "PCM_24", 0.11, ["flac", "-5"]),
    ("flac8", 8000, 1, "PCM_U8", 0.2, ["flac", "-0"]),
    ("flac odd rate", 11025, 3, "PCM_16", 0.1, ["flac", "-8", "--channel-map=none"]),
    ("flac 24 kHz", 24000, 1, "PCM_16", 0.1, ["flac", "-3"]),
    ("mp3 44.1 kHz stereo", 44100, 2, "PCM_16", 0.21, ["lame", "-b", "96", "--cbr", "--resample", "44.1"]),
    ("mp3 48 kHz joint", 48000, 2, "PCM_16", 0.21, ["lame", "-m", "j", "-V", "5"]),
    ("mp3 22.05 kHz mono", 22050, 1, "PCM_16", 0.5, ["lame", "-b", "32", "--cbr", "--resample", "22.05"]),
    ("mp3 22.05 kHz stereo", 22050, 2, "PCM_16", 0.3, ["lame", "-b", "80", "--cbr", "--resample", "22.05"]),
    ("mp3 22.05 kHz VBR", 22050, 2, "PCM_16", 0.3, ["lame", "-V", "2", "--resample", "22.05"]),
    ("mp3 16 kHz tagged", 16000, 1, "PCM_16", 0.3, ["lame", "-V", "3", "--tt", "title", "--add-id3v2"]),
    ("mp3 without a note", 32000, 1, "PCM_16", 0.2, ["lame", "-b", "64", "-t"]),
    ("ogg 16 kHz", 16000, 1, "PCM_16", 0.31, ["oggenc", "-q", "2"]),
    ("ogg 44.1 kHz stereo", 44100, 2, "PCM_16", 0.21, ["oggenc", "-q", "6"]),
    ("ogg 8 kHz", 8000, 1, "PCM_16", 0.5, ["oggenc", "-q", "0"]),
]

sounds = []
for name, rate, channels, bits, seconds, command in CASES:
    with tempfile.TemporaryDirectory() as d:
        source, out = Path(d, "a.wav"), Path(d, "a.out")
        v = sound(rate, channels, seconds)
        soundfile.write(source, v, rate, subtype=bits, format="WAVEX" if bits != "PCM_U8" else "WAV")
        args = {"flac": ["-s", "-f", "-o", out, source], "lame": ["--quiet", source, out], "oggenc": ["-Q", "--serial", "7", "-o", out, source]}[command[0]]
        subprocess.run([*command, *args], check=True)
        data = out.read_bytes()
    got, r = soundfile.read(io.BytesIO(data), dtype="float64")
    got = got.reshape(len(got), -1).mean(1).astype("<f4")
    sounds.append({"name": name, "rate": r, "encoded": len(v), "file": base64.b64encode(data).decode(), "samples": base64.b64encode(got.tobytes()).decode()})

json.dump({"libsndfile": soundfile.__libsndfile_version__, "sounds": sounds}, sys.stdout, indent=1)
