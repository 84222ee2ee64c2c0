#!/usr/bin/env python3
"""Compares mm's data way with its judges (make data).

  pii N        personal data in N generated lines beside Presidio
  near         clusters of similar documents beside datasketch
  croissant    an exported data set read by mlcroissant
  parquet      files written by PyArrow, row by row

MM names the program. The generators are seeded.
"""
import hashlib
import json
import os
import random
import subprocess
import sys
import tempfile
import time

MM = os.environ.get("MM", "mm")


def run(*args):
    return subprocess.run([MM, *args], check=True, capture_output=True, text=True).stdout


def luhn_digit(digits):
    total = 0
    for i, d in enumerate(reversed(digits)):
        d = int(d)
        if i % 2 == 0:
            d = 2 * d - 9 if d > 4 else 2 * d
        total += d
    return str(-total % 10)


def card(r, valid=True):
    head = r.choice(["4", "51", "55", "37", "6011"])
    n = 15 if head == "37" else 16
    body = head + "".join(r.choice("0123456789") for _ in range(n - 1 - len(head)))
    last = luhn_digit(body)
    if not valid:
        last = str((int(last) + r.randint(1, 9)) % 10)
    s = body + last
    sep = r.choice(["", " ", "-"])
    return sep.join(s[i : i + 4] for i in range(0, n, 4)) if n == 16 else s


def iban(r, valid=True):
    country, n = r.choice([("DE", 18), ("FR", 23), ("GB", 18), ("ES", 20), ("NL", 14)])
    body = "".join(r.choice("0123456789") for _ in range(n))
    if country == "GB":
        body = "NWBK" + body[:14]
    if country == "NL":
        body = "ABNA" + body[:10]
    number = "".join(str(int(c, 36)) for c in body + country + "00")
    check = 98 - int(number) % 97
    if not valid:
        check = (check + r.randint(1, 90)) % 97 + 2 if check < 90 else check - 13
    s = f"{country}{check:02d}{body}"
    return s if r.random() < 0.5 else " ".join(s[i : i + 4] for i in range(0, len(s), 4))


def bitcoin(r, valid=True):
    raw = bytes([r.choice([0, 5])]) + r.randbytes(20)
    check = hashlib.sha256(hashlib.sha256(raw).digest()).digest()[:4]
    if not valid:
        check = bytes([check[0] ^ 1]) + check[1:]
    n, out = int.from_bytes(raw + check, "big"), ""
    while n:
        n, m = divmod(n, 58)
        out = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"[m] + out
    zeros = len(raw + check) - len((raw + check).lstrip(b"\0"))
    return "1" * zeros + out


def ssn(r):
    return f"{r.choice([r.randint(1, 665), r.randint(667, 899)]):03d}-{r.randint(1, 99):02d}-{r.randint(1, 9999):04d}"


def phone(r):
    area, exchange, line = r.choice(["212", "415", "646", "303", "617"]), r.randint(220, 998), r.randint(0, 9999)
    return r.choice(
        [
            f"({area}) {exchange}-{line:04d}",
            f"{area}-{exchange}-{line:04d}",
            f"+1 {area} {exchange} {line:04d}",
            f"1-{area}-{exchange}-{line:04d}",
            f"+44 20 7{r.randint(100, 999)} {line:04d}",
            f"+49 30 {r.randint(1000000, 9999999)}",
            f"020 7{r.randint(100, 999)} {line:04d}",
        ]
    )


def address(r):
    return ".".join(str(r.randint(11, 254)) for _ in range(4))


def address6(r):
    groups = [f"{r.randint(0x1000, 0xFFFF):x}" for _ in range(8)]
    return r.choice([":".join(groups), f"2001:db8:{groups[0]}::{groups[1]}", f"fe80::{groups[0]}:{groups[1]}:{groups[2]}:{groups[3]}"])


def mail(r):
    return f"{r.choice(['ann', 'bob.lee', 'c_smith', 'd+news', 'e-roth'])}{r.randint(1, 99)}@{r.choice(['example.com', 'mail.example.org', 'uni.example.ac.uk', 'firma.example.de'])}"


POSITIVE = {
    "email": (mail, ["Write to {} today.", "Contact: {}", "{} answered late.", "<{}> sent it", "her address is {}, she said"]),
    "phone": (phone, ["Call {} after six.", "my phone number is {}", "Tel. {}", "You can reach us at {}.", "mobile: {}", "{} is what she wrote down"]),
    "card": (card, ["Pay with {} please.", "card number {}", "{} expires soon", "Visa {} was charged"]),
    "iban": (iban, ["Send it to {}.", "IBAN {}", "the account {} is closed"]),
    "ssn": (ssn, ["my social security number is {}", "SSN {}", "{} was on the form"]),
    "ipv4": (address, ["The server at {} is down.", "login from {}", "ping {}", "{} answered"]),
    "ipv6": (address6, ["The host {} is up.", "route to {}", "{} answered"]),
    "bitcoin": (bitcoin, ["Send coins to {}.", "wallet {}", "{} received 2 BTC"]),
}
NEGATIVE = [
    lambda r: f"card {card(r, False)} was refused by the form",
    lambda r: f"IBAN {iban(r, False)} has a typing error",
    lambda r: f"the wallet {bitcoin(r, False)} does not exist",
    lambda r: f"release {r.randint(1, 9)}.{r.randint(0, 9)}.{r.randint(0, 9)}.{r.randint(0, 9)} fixes it",
    lambda r: f"version {address(r)} of the driver",
    lambda r: f"order {r.randint(10**9, 10**10 - 1)} was shipped",
    lambda r: f"invoice {r.randint(200, 999)}-{r.randint(220, 999)}-{r.randint(0, 9999):04d} is open",
    lambda r: f"at {r.randint(0, 23):02d}:{r.randint(0, 59):02d}:{r.randint(0, 59):02d} on {r.randint(2000, 2030)}-{r.randint(1, 12):02d}-{r.randint(1, 28):02d}",
    lambda r: "MAC " + ":".join(f"{r.randint(0, 255):02x}" for _ in range(6)),
    lambda r: f"ISBN 978-{r.randint(0, 9)}-{r.randint(100, 999)}-{r.randint(10000, 99999)}-{r.randint(0, 9)}",
    lambda r: f"logo@{r.randint(2, 3)}x.png and @handle{r.randint(1, 99)} are no addresses",
    lambda r: f"{r.choice(['000', '666', '9%02d' % r.randint(0, 99)])}-{r.randint(1, 99):02d}-{r.randint(1, 9999):04d} is no number of a person",
    lambda r: f"{r.randint(256, 999)}.{r.randint(256, 999)}.1.{r.randint(1, 99)} is out of range",
    lambda r: f"the mean of {r.randint(1000, 99999)}.{r.randint(100, 999)} and 1,{r.randint(100, 999)},{r.randint(100, 999)}",
    lambda r: f"id {'%08x-%04x-%04x-%04x-%012x' % (r.getrandbits(32), r.getrandbits(16), r.getrandbits(16), r.getrandbits(16), r.getrandbits(48))}",
    lambda r: f"std::vector<int>::iterator at line {r.randint(1, 999)}",
    lambda r: f"section {r.randint(1, 9)}.{r.randint(1, 9)}.{r.randint(1, 9)} on page {r.randint(1, 999)}",
]


def lines(n):
    r = random.Random(11)
    for _ in range(n):
        if r.random() < 0.5:
            kind = r.choice(list(POSITIVE))
            make, forms = POSITIVE[kind]
            value, form = make(r), r.choice(forms)
            start = form.index("{}")
            yield form.format(value), (kind, start, start + len(value))
        else:
            yield r.choice(NEGATIVE)(r), None


def presidio():
    import spacy
    import tldextract
    from presidio_analyzer import AnalyzerEngine
    from presidio_analyzer.nlp_engine import NlpArtifacts, NlpEngine

    tldextract.extract.__globals__["TLD_EXTRACTOR"] = tldextract.TLDExtract(suffix_list_urls=())
    tldextract.tldextract.TLD_EXTRACTOR = tldextract.TLDExtract(suffix_list_urls=())
    blank = spacy.blank("en")

    class Blank(NlpEngine):
        def load(self):
            pass

        def is_loaded(self):
            return True

        def process_text(self, text, language):
            doc = blank(text)
            return NlpArtifacts([], doc, [t.idx for t in doc], [t.text.lower() for t in doc], self, language)

        def process_batch(self, texts, language, **kwargs):
            return ((t, self.process_text(t, language)) for t in texts)

        def is_stopword(self, word, language):
            return False

        def is_punct(self, word, language):
            return False

        def get_supported_entities(self):
            return []

        def get_supported_languages(self):
            return ["en"]

    return AnalyzerEngine(nlp_engine=Blank(), supported_languages=["en"])


ENTITIES = {"EMAIL_ADDRESS": "email", "PHONE_NUMBER": "phone", "CREDIT_CARD": "card", "IBAN_CODE": "iban", "US_SSN": "ssn", "IP_ADDRESS": "ip", "CRYPTO": "bitcoin"}


def judge(found, planted):
    """Counts by kind: right, wrong, missed. A finding is right if it overlaps the planted value and has its kind."""
    counts = {}
    for spans, want in zip(found, planted):
        hit = False
        for kind, start, end in spans:
            c = counts.setdefault(kind, [0, 0, 0])
            if want and kind == want[0] and start < want[2] and want[1] < end:
                c[0] += not hit
                hit = True
            else:
                c[1] += 1
        if want and not hit:
            counts.setdefault(want[0], [0, 0, 0])[2] += 1
    return counts


def show(name, counts):
    total = [sum(c[i] for c in counts.values()) for i in range(3)]
    for kind, (right, wrong, missed) in [*sorted(counts.items()), ("all", total)]:
        precision = right / (right + wrong) if right + wrong else 1
        recall = right / (right + missed) if right + missed else 1
        print(f"{name:14} {kind:8} precision {precision:.3f} recall {recall:.3f}  ({right} right, {wrong} wrong, {missed} missed)")
    return total


def ip(kind):
    return "ip" if kind.startswith("ipv") else kind


def pii(n):
    texts, planted = zip(*lines(n))
    planted = [p and (ip(p[0]), p[1], p[2]) for p in planted]
    with tempfile.TemporaryDirectory() as d:
        with open(f"{d}/in", "w") as f:
            f.write("\n".join(texts) + "\n")
        began = time.time()
        run("data", "scrub", "--spans", "--out", f"{d}/out", f"{d}/in")
        seconds = time.time() - began
        with open(f"{d}/out") as f:
            ours = [[(ip(x["kind"]), x["start"], x["end"]) for x in json.loads(line)] for line in f]
    if os.environ.get("VERBOSE"):
        for text, found, want in zip(texts, ours, planted):
            if judge([found], [want]) not in ({}, {want and want[0]: [1, 0, 0]}):
                print("  ", text, found, want)
    mine = show("mm", judge(ours, planted))
    print(f"mm: {seconds:.2f} s for {n} lines")
    engine = presidio()
    entities = [e for e in ENTITIES if e in engine.get_supported_entities("en")]
    for threshold in (0.5, 0.4):
        began = time.time()
        theirs = [[(ENTITIES[x.entity_type], x.start, x.end) for x in engine.analyze(t, "en", entities=entities, score_threshold=threshold)] for t in texts]
        other = show(f"presidio {threshold}", judge(theirs, planted))
        print(f"presidio: {time.time() - began:.1f} s")
    if mine[0] < 0.9 * sum(p is not None for p in planted) or mine[1] > 0.05 * n:
        sys.exit("mm: precision or recall is too low")


def manifest(d, name, extra=""):
    with open(f"{d}/{name}", "rb") as f:
        digest = hashlib.sha256(f.read()).hexdigest()
    with open(f"{d}/m.data.yaml", "w") as f:
        f.write(f"version: 1\nname: judged\nsources:\n  - {{id: s, path: {name}, sha256: {digest}, license: MIT}}\n{extra}")


def build(d, *args):
    run("data", "build", f"{d}/m.data.yaml", "--out", f"{d}/out", *args)


def near():
    from datasketch import MinHash, MinHashLSH

    r = random.Random(7)
    words = [f"w{i}" for i in range(3000)]
    docs = [[r.choice(words) for _ in range(120)] for _ in range(1000)]
    for _ in range(200):
        d = list(docs[r.randrange(1000)])
        for _ in range(r.choice([1, 1, 2, 2, 3, 4, 6])):
            d[r.randrange(len(d))] = r.choice(words)
        docs.append(d)
    r.shuffle(docs)
    with tempfile.TemporaryDirectory() as d:
        with open(f"{d}/d.jsonl", "w") as f:
            f.writelines(json.dumps({"text": " ".join(x)}) + "\n" for x in docs)
        manifest(d, "d.jsonl", "dedup: {near: {threshold: 0.8}}\n")
        build(d)
        with open(f"{d}/out/train.jsonl") as f:
            kept = {json.loads(line)["text"] for line in f}
    ours = {i for i, x in enumerate(docs) if " ".join(x) not in kept}
    sets = [{" ".join(x[i : i + 5]) for i in range(len(x) - 4)} for x in docs]

    def similar(a, b):
        return len(sets[a] & sets[b]) / len(sets[a] | sets[b]) >= 0.8

    def dropped(pairs):
        parent = list(range(len(docs)))

        def find(x):
            while parent[x] != x:
                x = parent[x]
            return x

        for a, b in pairs:
            a, b = find(a), find(b)
            parent[max(a, b)] = min(a, b)
        return {i for i in range(len(docs)) if find(i) != i}

    truth = dropped((a, b) for a in range(len(docs)) for b in range(a) if similar(a, b))
    index, hashes = MinHashLSH(threshold=0.5, num_perm=128), []
    for i, s in enumerate(sets):
        m = MinHash(num_perm=128)
        for x in s:
            m.update(x.encode())
        hashes.append(m)
        index.insert(str(i), m)
    theirs = dropped((i, int(k)) for i, m in enumerate(hashes) for k in index.query(m) if int(k) != i and similar(i, int(k)))
    print(f"near: {len(truth)} to drop by all pairs, datasketch {len(theirs)}, mm {len(ours)}; mm equals datasketch: {ours == theirs}, all pairs: {ours == truth}")
    if ours != truth:
        sys.exit("near: clusters differ")


def croissant():
    import mlcroissant as mlc

    with tempfile.TemporaryDirectory() as d:
        with open(f"{d}/d.jsonl", "w") as f:
            f.writelines(json.dumps({"text": f"line {i} é \" \\ \n of the set"}) + "\n" for i in range(500))
        manifest(d, "d.jsonl", "splits: {held_out: 0.2}\n")
        build(d)
        run("data", "croissant", "export", f"{d}/out")
        data = mlc.Dataset(jsonld=f"{d}/out/croissant.json")
        total = 0
        for split in ("train", "held-out"):
            with open(f"{d}/out/{split}.jsonl") as f:
                want = [json.loads(line) for line in f]
            got = [{k.split("/")[-1]: v.decode() if isinstance(v, bytes) else v for k, v in x.items()} for x in data.records(split)]
            if got != want:
                sys.exit(f"croissant: records of {split} differ")
            total += len(got)
        print(f"croissant: mlcroissant reads {total} records as written; errors {len(data.metadata.issues.errors)}, warnings {len(data.metadata.issues.warnings)}")
        run("data", "croissant", "import", f"{d}/out/croissant.json", "--out", f"{d}/again.data.yaml")
        run("data", "build", f"{d}/again.data.yaml", "--dir", f"{d}/out", "--out", f"{d}/again")
        with open(f"{d}/again/train.jsonl") as f:
            print(f"croissant: imported and built again, {sum(1 for _ in f)} documents")


def parquet():
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = [{"text": f"row {i} of the table", "n": i, "ok": i % 3 == 0} for i in range(3000)]
    for codec in ("none", "snappy", "gzip", "zstd"):
        for version in ("1.0", "2.0"):
            for dictionary in (True, False):
                with tempfile.TemporaryDirectory() as d:
                    pq.write_table(pa.Table.from_pylist(rows), f"{d}/d.parquet", compression=codec, data_page_version=version, use_dictionary=dictionary, row_group_size=700)
                    manifest(d, "d.parquet", "where: 'ok && n < 2000'\n")
                    build(d)
                    with open(f"{d}/out/train.jsonl") as f:
                        got = [json.loads(line)["text"] for line in f]
                    if got != [x["text"] for x in rows if x["ok"] and x["n"] < 2000]:
                        sys.exit(f"parquet: {codec}, pages {version}, dictionary {dictionary}: rows differ")
    print("parquet: 16 files of PyArrow, equal rows")


if __name__ == "__main__":
    what = sys.argv[1]
    if what == "pii":
        pii(int(sys.argv[2]))
    else:
        {"near": near, "croissant": croissant, "parquet": parquet}[what]()
