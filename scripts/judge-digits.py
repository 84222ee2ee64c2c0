#!/usr/bin/env python3
"""Has pocketsphinx, which nobody here trained, write down digits that are spoken
in WAV files, and counts how often it is right.

    judge-digits.py DIR...          files named DIGITS_WHO_TAKE.wav: 7_decoder_0.wav, 314_x_2.wav
    judge-digits.py --espeak [DIR]  what espeak-ng says by itself, and DIR

One digit is asked of a grammar of one digit (chance: 10 %), more of a grammar of
any number of them. Measured (5.1.1): of the 40 recordings of people in the Free
Spoken Digit Dataset 90.0 % are right (95 %: 76.9 to 96.0), of espeak-ng's own
digits in ten voices 72.0 % (62.5 to 79.9), 80 % in American ones, 53 % in three
English ones: a speaker is judged against these, and no judge's 100. Needs the
Python package pocketsphinx, which brings its model of American English. Exit
status 0 also where it is absent: nothing is judged, and that is said.
"""

import argparse
import array
import math
import pathlib
import random
import subprocess
import sys
import tempfile
import wave

WORDS = "zero one two three four five six seven eight nine".split()
RATE = 16000
GRAMMAR = "#JSGF V1.0; grammar digits; <d> = zero | oh | one | two | three | four | five | six | seven | eight | nine; public <all> = %s;"
VOICES = ["en-us", "en-us+f2", "en-us+m3", "en-us+f5", "en-gb", "en-gb+f4", "en-gb-x-rp", "en-gb-scotland", "en-us+klatt2", "en-us+whisper"]


def samples(path):
    """The first channel at 16 kHz on a ground of soft noise, 0.3 s longer at both
    ends: samples that are all zero have no spectrum to compare, and without the
    noise half of all digits is not heard at all."""
    with wave.open(str(path)) as w:
        if w.getsampwidth() != 2:
            raise ValueError("want samples of 16 bits")
        v = array.array("h", w.readframes(w.getnframes()))[:: w.getnchannels()]
        rate = w.getframerate()
    if rate != RATE:
        v = resampled(v, rate)
    peak = max(1, max(map(abs, v)))
    quiet = [0] * (RATE * 3 // 10)
    noise = random.Random(1)
    return array.array("h", [int(x * 16000 / peak + noise.gauss(0, 15)) for x in quiet + list(v) + quiet])


def resampled(v, rate):
    """Windowed sinc, 16 zero crossings to each side."""
    ratio, cut = RATE / rate, min(1.0, RATE / rate)
    reach = int(16 / cut)
    out = []
    for i in range(int(len(v) * ratio)):
        x = i / ratio
        k0 = int(x)
        total = 0.0
        for k in range(max(k0 - reach + 1, 0), min(k0 + reach + 1, len(v))):
            d = x - k
            t = math.pi * d * cut
            total += v[k] * cut * (math.sin(t) / t if t else 1.0) * (0.5 + 0.5 * math.cos(math.pi * d / (reach + 1)))
        out.append(total)
    return out


def judge(decoders, path):
    text = path.name.split("_")[0]
    d = decoders[len(text) > 1]
    d.start_utt()
    d.process_raw(samples(path).tobytes(), full_utt=True)
    d.end_utt()
    h = d.hyp()
    heard = "" if h is None else "".join("0" if w == "oh" else str(WORDS.index(w)) for w in h.hypstr.split())
    return text, heard


def wilson(right, n):
    z, p = 1.96, right / n
    centre, half = p + z * z / (2 * n), z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    return (centre - half) / (1 + z * z / n), (centre + half) / (1 + z * z / n)


def espeak(folder, takes):
    for voice in VOICES:
        for digit, word in enumerate(WORDS):
            for take, (speed, pitch) in enumerate([(130, 50), (160, 35), (175, 65)][:takes]):
                out = folder / f"{digit}_{voice}_{take}.wav"
                subprocess.run(["espeak-ng", "-v", voice, "-s", str(speed), "-p", str(pitch), "-w", out, word], check=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dirs", nargs="*", type=pathlib.Path)
    parser.add_argument("--espeak", action="store_true")
    parser.add_argument("--takes", type=int, default=3, help="how often each voice of espeak-ng says each digit, 1 to 3")
    parser.add_argument("--wrong", action="store_true", help="print what was misheard")
    args = parser.parse_args()
    try:
        from pocketsphinx import Decoder
    except ImportError as e:
        print(f"skipped: no pocketsphinx ({e}): pip install pocketsphinx")
        return 0
    with tempfile.TemporaryDirectory() as d:
        dirs = list(args.dirs)
        if args.espeak:
            espeak(pathlib.Path(d), args.takes)
            dirs.insert(0, pathlib.Path(d))
        decoders = {}
        for several, rule in ((False, "<d>"), (True, "<d>+")):
            grammar = pathlib.Path(d, "grammar.jsgf")
            grammar.write_text(GRAMMAR % rule)
            decoders[several] = Decoder(jsgf=str(grammar), lm=None, loglevel="FATAL", samprate=RATE, beam=1e-60, wbeam=1e-40, pbeam=1e-60)
        for folder in dirs:
            by = {}
            for path in sorted(folder.glob("*.wav")):
                if not path.name.split("_")[0].isdigit():
                    continue
                text, heard = judge(decoders, path)
                if args.wrong and text != heard:
                    print(f"{path.name}: heard {heard or 'nothing'}")
                who = (path.stem.split("_") + [""])[1]
                right, n = by.get(who, (0, 0))
                by[who] = right + (text == heard), n + 1
            if not by:
                print(f"{folder}: no file named DIGITS_WHO_TAKE.wav", file=sys.stderr)
                return 1
            for who, (right, n) in sorted(by.items()):
                print(f"{who:20} {right:4} of {n:4}")
            right, n = map(sum, zip(*by.values()))
            low, high = wilson(right, n)
            print(f"{'espeak-ng' if str(folder) == d else folder}: {right} of {n} right, {right / n:.1%} (95 %: {low:.1%} to {high:.1%})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
