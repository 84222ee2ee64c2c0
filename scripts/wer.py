#!/usr/bin/env python3
"""Word error rates of Moonshine: mm on both engines, and a loop over the same files in
ONNX Runtime's Python binding, on recordings and on sentences that voices synthesize. Times
are processor seconds for a second of sound, at one thread, without those of a short sound
(start and load).

wer.py MM REAL TEXT [N [VOICE.onnx]]

MM is a program, REAL the folder of scripts/real.sh, TEXT a file with sentences, of which
the first N (200) are spoken, by Kokoro and, if VOICE.onnx is named, by a voice of Piper. The
Python needs numpy, scipy and onnxruntime; mm needs onnxruntime installed in MM_HOME.
"""
import json, os, re, resource, subprocess, sys, tempfile, time, wave
import numpy as np, onnxruntime as ort
from scipy.signal import resample_poly

MM, REAL, TEXT = sys.argv[1:4]
N = int(sys.argv[4]) if len(sys.argv) > 4 else 200
PIPER = sys.argv[5] if len(sys.argv) > 5 else ""
ASSETS = os.path.join(REAL, "packages/moonshine_voice/assets")
SPOKEN = {
    "beckett": "Ever tried. Ever failed. No matter. Try again. Fail again. Fail better.",
    "two_cities": "It was the best of times, it was the worst of times, it was the age of wisdom, it was the age of foolishness, "
    "it was the epoch of belief, it was the epoch of incredulity, it was the season of Light, it was the season of Darkness, "
    "it was the spring of hope, it was the winter of despair, we had everything before us, we had nothing before us, "
    "we were all going direct to Heaven, we were all going direct the other way - in short, the period was so far like the "
    "present period, that some of its noisiest authorities insisted on its being received, for good or for evil, in the "
    "superlative degree of comparison only.",
}


def words(text):
    return re.sub(r"[^a-z0-9' ]", " ", text.lower().replace("’", "'")).split()


def errors(want, got):
    """The least number of words that are changed, missing or added."""
    row = list(range(len(got) + 1))
    for i, w in enumerate(want, 1):
        before, row[0] = row[0], i
        for j, g in enumerate(got, 1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (w != g))
    return row[-1]


def samples(path):
    with wave.open(path) as w:
        x = np.frombuffer(w.readframes(w.getnframes()), "<i2").reshape(-1, w.getnchannels()).mean(1) / 32768
        return x, w.getframerate()


class Loop:
    """The greedy loop of Moonshine's authors over ONNX Runtime, at one thread."""

    def __init__(self, folder):
        o = ort.SessionOptions()
        o.intra_op_num_threads = o.inter_op_num_threads = 1
        self.encoder, self.decoder = (ort.InferenceSession(f"{folder}/{n}.ort", o) for n in ("encoder_model", "decoder_model_merged"))
        self.names = [v.name for v in self.decoder.get_outputs()]
        self.pieces, data = [], open(f"{folder}/tokenizer.bin", "rb").read()
        while data:
            n, head = (data[0], 1) if data[0] < 128 else (data[1] * 128 + data[0] - 128, 2)
            self.pieces.append(data[head:head + n])
            data = data[head + n:]

    def text(self, x, rate):
        g = np.gcd(16000, rate)
        x = resample_poly(x, 16000 // g, rate // g).astype(np.float32)[None]
        mask, cache, ids = np.ones(x.shape, np.int64), {}, [1]
        h = self.encoder.run(None, {"input_values": x, "attention_mask": mask})[0]
        while len(ids) <= min(194, 6.5 * x.shape[1] / 16000):
            feed = {"input_ids": np.array([ids[-1:]]), "encoder_hidden_states": h, "encoder_attention_mask": mask, "use_cache_branch": np.array([len(ids) > 1])}
            for v in self.decoder.get_inputs():
                if v.name not in feed:
                    feed[v.name] = cache.get(v.name, np.zeros((1, 8, 0, 36), np.float32))
            out = dict(zip(self.names, self.decoder.run(None, feed)))
            cache.update({k.replace("present", "past_key_values"): v for k, v in out.items() if k != "logits" and (len(ids) == 1 or ".encoder." not in k)})
            ids.append(int(out["logits"][0, -1].argmax()))
            if ids[-1] == 2:
                break
        return b"".join(self.pieces[i] for i in ids[1:] if i > 2).decode(errors="replace").replace("▁", " ").strip()


def spent_by_children():
    u = resource.getrusage(resource.RUSAGE_CHILDREN)
    return u.ru_utime + u.ru_stime


def mm(*args):
    p = subprocess.run([MM, *args], capture_output=True, stdin=subprocess.DEVNULL)
    if p.returncode:
        sys.exit(p.stderr.decode())
    return p.stdout.decode()


def sentences():
    text = re.sub(r"\s+", " ", open(TEXT, encoding="utf-8").read())
    found = re.findall(r"(?<=[.!?] )[A-Z][a-z ,']{20,90}[.!?](?= )", text)
    return list(dict.fromkeys(s for s in found if 5 <= len(s.split()) <= 16))[:N]


def spoken(module, texts, folder, *flags):
    """Writes a WAV file for each sentence, synthesized in one call."""
    every = os.path.join(folder, "every.wav")
    report = json.loads(mm("run", module, "\n\n".join(texts), "--out-audio", every, "--json", *flags))
    x, rate = samples(every)
    assert len(report["pieces"]) == len(texts), "sentences were divided"
    at = 0
    for i, piece in enumerate(report["pieces"]):
        n = round(piece["seconds"] * rate)
        with wave.open(f"{folder}/{i}.wav", "wb") as w:
            w.setnchannels(1), w.setsampwidth(2), w.setframerate(rate)
            w.writeframes((x[at:at + n] * 32768).clip(-32768, 32767).astype("<i2").tobytes())
        at += n
    print(f"{os.path.basename(module)}: {len(texts)} sentences, {len(x) / rate:.0f} s of speech in {report['ms'] / 1000:.0f} s", file=sys.stderr)
    return [(f"{folder}/{i}.wav", t) for i, t in enumerate(texts)]


def transcript(module, path, engine):
    begin = spent_by_children()
    r = json.loads(mm("run", module, "--audio", path, "--backend", engine, "--threads", "1", "--format", "json"))
    return r["text"], spent_by_children() - begin


def row(name, items, loop, module, start):
    """Prints a row and returns the processor seconds of the engine onnx for a second of sound."""
    wrong, total, equal, seconds, spent = {"onnx": 0, "onnxruntime": 0, "loop": 0}, 0, 0, 0, {"onnx": 0, "onnxruntime": 0, "loop": 0}
    for path, want in items:
        x, rate = samples(path)
        seconds, total = seconds + len(x) / rate, total + len(words(want))
        texts = {}
        for engine in ("onnx", "onnxruntime"):
            texts[engine], took = transcript(module, path, engine)
            spent[engine] += took - start[engine]
        begin = time.process_time()
        texts["loop"] = loop.text(x, rate)
        spent["loop"] += time.process_time() - begin
        for k, text in texts.items():
            wrong[k] += errors(words(want), words(text))
        equal += words(texts["onnx"]) == words(texts["loop"])
    print(f"| {name} | {len(items)} | {total} | " + " | ".join(f"{100 * wrong[k] / total:.1f} %" for k in wrong) + f" | {equal} of {len(items)} | "
          + " | ".join(f"{spent[k] / seconds:.3f}" for k in spent) + " |", flush=True)
    return spent["onnx"] / seconds


def main():
    loop, work = Loop(f"{ASSETS}/tiny-en"), tempfile.mkdtemp()
    asr, kokoro = os.path.join(work, "moonshine"), os.path.join(work, "kokoro")
    mm("module", "import", "hf", f"{ASSETS}/tiny-en", "--name", "moonshine", "--version", "1.0.0", "--license", "MIT", "--dir", asr)
    mm("module", "import", "onnx", f"{REAL}/kokoro/kokoro-v1.0.int8.onnx", "--name", "kokoro", "--version", "1.0.0", "--license", "Apache-2.0",
       "--with", f"{REAL}/kokoro/vocab.json", "--with", f"{REAL}/kokoro/voices_ja.npz", "--dir", kokoro)
    print("| speech | sounds | words | onnx | onnxruntime | reference loop | same words | onnx, time | onnxruntime, time | loop, time |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    with wave.open(f"{work}/short.wav", "wb") as w:
        w.setnchannels(1), w.setsampwidth(2), w.setframerate(16000), w.writeframes(bytes(3200))
    start = {e: min(transcript(asr, f"{work}/short.wav", e)[1] for _ in range(3)) for e in ("onnx", "onnxruntime")}
    slowest = row("recordings", [(f"{ASSETS}/{k}.wav", v) for k, v in SPOKEN.items()], loop, asr, start)
    texts = sentences()
    if PIPER:
        piper = os.path.join(work, "piper")
        mm("module", "import", "onnx", PIPER, "--name", "piper", "--version", "1.0.0", "--license", "MIT", "--dir", piper)
        os.mkdir(f"{work}/p")
        slowest = max(slowest, row("Piper, en_US-joe", spoken(piper, texts, f"{work}/p"), loop, asr, start))
    os.mkdir(f"{work}/k")
    slowest = max(slowest, row("Kokoro, jf_alpha", spoken(kokoro, texts, f"{work}/k", "--language", "en-us", "--voice", "jf_alpha"), loop, asr, start))
    sys.exit(slowest > 0.3)


main()
