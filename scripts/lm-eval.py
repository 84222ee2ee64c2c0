"""Judges mm eval suite by lm-evaluation-harness 0.4.13 on the tasks of eval/suite/testdata/tasks.

    MM_NATIVE_DIR=DIR python scripts/lm-eval.py [--update]

The harness asks mm serve (local-completions), and the same file by transformers (hf), whose
weights are those of the GGUF file in float32. Every sample of mm eval must equal that of mm
serve: prompt, likelihoods, text, score. The scores by transformers must be within mm's 95 %
interval, and the prompts equal. --update writes eval/suite/testdata/harness.json. Needs lm_eval,
transformers, torch, accelerate, gguf and tenacity, and MM, a built mm (default: it is built).
LIMIT=N asks the first N documents of each task.
"""
import glob, json, os, random, re, subprocess, sys, tempfile, time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TASKS = f"{ROOT}/eval/suite/testdata/tasks"
MODEL = os.environ.get("MM_NATIVE_DIR", ".native") + "/models/SmolLM2-135M-Instruct.Q4_1.gguf"
LIMIT = ["--limit", os.environ["LIMIT"]] if os.environ.get("LIMIT") else []
NAMES = "mm_colors,mm_last_word,mm_sums,mm_texts"


def run(*args, **more):
    return subprocess.run(args, check=True, **more)


def samples(folder):
    """returns the samples by task, document and filter."""
    out = {}
    for file in glob.glob(f"{folder}/**/samples_*.jsonl", recursive=True):
        task = re.match(r"samples_(.*?)(_\d{4}-\d\d-.*)?\.jsonl", os.path.basename(file)).group(1)
        for line in open(file):
            row = json.loads(line)
            out[task, row["doc_id"], row["filter"]] = row
    return out


def asked(row):
    """returns the texts of the requests of a sample."""
    return {k: [v["arg_0"], v.get("arg_1") if isinstance(v.get("arg_1"), str) else None] for k, v in row["arguments"].items()}


def answers(row):
    """returns the numbers and texts of the answers of a sample."""
    def plain(x):
        if isinstance(x, list):
            return [plain(y) for y in x]
        if x in ("True", "False"):
            return x == "True"
        return float(x) if isinstance(x, str) and re.fullmatch(r"-?[\d.]+(e-?\d+)?", x) else x
    out = plain(row["resps"])
    while isinstance(out, list) and len(out) == 1:
        out = out[0]
    return out


def results(folder):
    file = sorted(glob.glob(f"{folder}/**/results*.json", recursive=True))[-1]
    return json.load(open(file))


def harness(out, model, args):
    run(sys.executable, "-m", "lm_eval", "run", "--model", model, "--model_args", args, "--include_path", ".", "--tasks", NAMES, "--device", "cpu",
        "--batch_size", "1", "--output_path", out, "--log_samples", *LIMIT, cwd=TASKS, env={**os.environ, "HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"},
        stdout=subprocess.DEVNULL, stderr=open(out + ".log", "w"))


def served(mm, out):
    server = subprocess.Popen([mm, "serve", MODEL, "--alias", "m", "--addr", "127.0.0.1:0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        at = re.search(r"127\.0\.0\.1:\d+", server.stdout.readline()).group(0)
        harness(out, "local-completions", f"model=m,base_url=http://{at}/v1/completions,max_length=8192")
    finally:
        server.terminate()
        server.wait()


def update(rows):
    prompts = {}
    for (task, doc, _), row in sorted(rows.items()):
        prompts.setdefault(task, {})[doc] = row["prompt_hash"]
    drawn = []
    for seed in (0, 1, 1234, 4294967295):
        r = random.Random(seed)
        for n, k in ((5, 2), (21, 5), (22, 5), (30, 6), (100, 6), (84, 10), (86, 10), (1000, 1), (7, 7), (40, 25)):
            drawn.append([seed, n, k, r.sample(range(n), k)])
    with open(f"{ROOT}/eval/suite/testdata/harness.json", "w") as f:
        json.dump({"prompts": {t: [p[d] for d in sorted(p)] for t, p in sorted(prompts.items())}, "samples": drawn}, f, separators=(",", ":"))


def main():
    global MODEL
    if not os.path.exists(MODEL):
        print(f"skipped: no {MODEL}: scripts/fetch-native.sh fetches it, MM_NATIVE_DIR names the folder")
        return
    MODEL = os.path.abspath(MODEL)
    work = tempfile.mkdtemp(prefix="mm-lm-eval-")
    mm = os.environ.get("MM") or f"{work}/mm"
    if "MM" not in os.environ:
        run("go", "build", "-o", mm, "./cmd/mm", cwd=ROOT, env={**os.environ, "CGO_ENABLED": "0"})
    os.environ["MM_HOME"] = f"{work}/home"
    times = {}
    for name, step in {
        "mm eval suite": lambda: run(mm, "eval", "suite", MODEL, TASKS, "--out", f"{work}/mm", "--no-cache", *LIMIT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL),
        "mm serve": lambda: served(mm, f"{work}/serve"),
        "transformers": lambda: (os.makedirs(f"{work}/hf-model"), os.symlink(MODEL, f"{work}/hf-model/m.gguf"),
                                 harness(f"{work}/hf", "hf", f"pretrained={work}/hf-model,gguf_file=m.gguf,dtype=float32")),
    }.items():
        start = time.time()
        step()
        times[name] = time.time() - start
    own, serve, hf = samples(f"{work}/mm"), samples(f"{work}/serve"), samples(f"{work}/hf")
    if "--update" in sys.argv:
        update(hf)
    bad = [k for k in own if k not in serve or asked(own[k]) != asked(serve[k]) or answers(own[k]) != answers(serve[k]) or any(own[k][m] != serve[k][m] and list(own[k][m]) != list(serve[k][m]) for m in own[k]["metrics"])]
    other = [k for k in own if k not in hf or asked(own[k]) != asked(hf[k])]
    mine, theirs, remote = results(f"{work}/mm"), results(f"{work}/hf"), results(f"{work}/serve")
    print(f"{'task':14}{'metric':32}{'mm eval':>10}{'mm serve':>10}{'transformers':>14}  95 % interval of mm")
    outside = 0
    for task, rows in sorted(mine["intervals"].items()):
        for key, i in sorted(rows.items()):
            a, b, c = mine["results"][task][key], remote["results"][task][key], theirs["results"][task][key]
            inside = i["low"] <= c <= i["high"]
            outside += not inside
            print(f"{task:14}{key:32}{a:10.4f}{b:10.4f}{c:14.4f}  {i['low']:.4f}–{i['high']:.4f}{'' if inside else '  OUTSIDE'}")
    print(f"{len(own)} samples: {len(bad)} differ between mm eval and mm serve, {len(other)} prompts differ from the harness's with transformers, {outside} scores are outside")
    print(", ".join(f"{k} {v:.0f} s" for k, v in times.items()))
    if bad or other or outside or len(own) != len(serve):
        sys.exit(f"FAILED: {bad[:3]} {other[:3]}, see {work}")


main()
