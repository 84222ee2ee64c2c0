"""Writes eval/metric/testdata: what the reference implementations of metrics return for
generated cases, at least 200 of each.

    python scripts/metrics.py eval/metric/testdata VENDOR

needs sacrebleu 2.6.0, rouge_score 0.1.2, jiwer 4.0.0, pycocoevalcap 1.2, anls 0.0.2, scipy,
statsmodels and lm_eval 0.4.13; VENDOR is a folder with lmms_eval 0.7.3 and bfcl_eval
2026.3.23, installed without their dependencies (pip install --no-deps --target VENDOR).
"""
import importlib.util, json, logging, random, re, string, sys, types

import jiwer, sacrebleu
from anls import anls_score
from lm_eval.api.metrics import exact_match_hf_evaluate
from pycocoevalcap.bleu.bleu import Bleu
from pycocoevalcap.cider.cider import Cider
from pycocoevalcap.rouge.rouge import Rouge
from rouge_score import rouge_scorer
from scipy import stats

logging.disable(logging.WARNING)
OUT, VENDOR = sys.argv[1], sys.argv[2]
RND = random.Random(27)
WORDS = ("the a cat dog sat on mat red bus über Straße 3.50 $5.00 2,000 café U.S.A. it's dont two none hello, world! (approx. x-ray "
         "1-2 -5 &amp; &quot;so&quot; 中文 test。 don't end. 5% 0.05 … naïve ² A An THE yes/no e.g. \u00a0 #1 [b] {c} “q”").split(" ")


def text(low=0, high=9):
    return " ".join(RND.choice(WORDS) for _ in range(RND.randint(low, high)))


def change(s):
    """returns a text that resembles s."""
    words = s.split(" ")
    for _ in range(RND.randint(0, 3)):
        i = RND.randrange(len(words) + 1)
        kind = RND.randrange(4)
        if kind == 0:
            words.insert(i, RND.choice(WORDS))
        elif i < len(words):
            if kind == 1:
                del words[i]
            elif kind == 2:
                words[i] = RND.choice([words[i].upper(), words[i] + ".", words[i][:-1], RND.choice(WORDS)])
            else:
                words[i], words[-1] = words[-1], words[i]
    return RND.choice([" ", " ", " ", "  ", "\n"]).join(words)


def module(path, name):
    spec = importlib.util.spec_from_file_location(name, f"{VENDOR}/{path}")
    m = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(m)
    return m


def functions(path, *names):
    """returns functions of a file that cannot be imported without its dependencies."""
    source, out = open(f"{VENDOR}/{path}").read(), {}
    for name in names:
        body = re.search(rf"^def {name}\(.*?(?=^(?:def|@|class) |\Z)", source, re.S | re.M).group(0)
        exec(body, out)
    return [out[n] for n in names]


def write(name, value):
    with open(f"{OUT}/{name}.json", "w") as f:
        json.dump(value, f, ensure_ascii=False, separators=(",", ":"))
        f.write("\n")


def levenshtein(a, b):
    row = list(range(len(b) + 1))
    for i, x in enumerate(a):
        before, row[0] = row[0], i + 1
        for j, y in enumerate(b):
            before, row[j + 1] = row[j + 1], min(before + (x != y), row[j + 1] + 1, row[j] + 1)
    return row[-1]


def translation():
    scorer = rouge_scorer.RougeScorer(["rouge1", "rouge2", "rougeL"], use_stemmer=False)
    cases, hyps, refs = [], [], []
    for _ in range(240):
        ref = text(0 if RND.random() < 0.05 else 1)
        hyp = change(ref) if RND.random() < 0.8 else text()
        two = [ref, change(ref)]
        rouge = scorer.score(ref, hyp)
        cases.append([hyp, two, sacrebleu.sentence_bleu(hyp, two, use_effective_order=False).score,
                      sacrebleu.sentence_chrf(hyp, two).score, sacrebleu.sentence_chrf(hyp, two, word_order=2).score,
                      [rouge[k].fmeasure for k in ("rouge1", "rouge2", "rougeL")]])
        hyps.append(hyp)
        refs.append(two)
    streams = [list(s) for s in zip(*refs)]
    write("translation", {"cases": cases, "corpus": [
        sacrebleu.corpus_bleu(hyps, streams).score, sacrebleu.corpus_chrf(hyps, streams).score,
        sacrebleu.corpus_chrf(hyps, streams, word_order=2).score]})


def speech():
    cases, refs, hyps = [], [], []
    while len(cases) < 240:
        ref = text(1)
        hyp = change(ref) if RND.random() < 0.8 else text(1)
        if not ref.strip():
            continue
        hyp, ref = hyp.replace("\n", " "), ref.replace("\u00a0", " ").strip() or "x"
        hyp = hyp.replace("\u00a0", " ")
        cases.append([ref, hyp, jiwer.wer(ref, hyp), jiwer.cer(ref, hyp)])
        refs.append(ref)
        hyps.append(hyp)
    write("speech", {"cases": cases, "corpus": [jiwer.wer(refs, hyps), jiwer.cer(refs, hyps)]})


def captions():
    words = "a the dog cat red bus on street runs is people two riding horses beach white plate of food rice".split()
    gts, res = {}, {}
    for i in range(220):
        ref = " ".join(RND.choice(words) for _ in range(RND.randint(3, 10)))
        gts[i] = [ref] + [" ".join(RND.sample(ref.split(), k=RND.randint(2, len(ref.split()))) + RND.choices(words, k=2)) for _ in range(RND.randint(0, 2))]
        hyp = ref.split()
        RND.shuffle(hyp)
        res[i] = [" ".join(hyp if RND.random() < 0.4 else ref.split()[: RND.randint(1, 9)] + RND.choices(words, k=RND.randint(0, 3)))]
    cider, each = Cider().compute_score(gts, res)
    rouge, rouges = Rouge().compute_score(gts, res)
    bleu, _ = Bleu(4).compute_score(gts, res, verbose=0)
    write("captions", {"cases": [[res[i][0], gts[i], float(each[i]), float(rouges[i])] for i in gts],
                       "corpus": [float(cider), float(rouge)] + bleu})


def answers():
    relaxed, = functions("lmms_eval/tasks/chartqa/utils.py", "relaxed_correctness")
    anls_lmms, = functions("lmms_eval/api/metrics.py", "anls")
    anls_lmms.__globals__["levenshtein_distance"] = levenshtein
    vqa = module("lmms_eval/tasks/_task_utils/vqa_eval_metric.py", "vqa").EvalAIAnswerProcessor()
    utils = types.ModuleType("utils")
    source = open(f"{VENDOR}/lmms_eval/tasks/vqav2/utils.py").read()
    import statistics
    scope = {"EvalAIAnswerProcessor": lambda: vqa, "statistics": statistics}
    exec(re.search(r"^def vqav2_process_results\(.*?(?=^def )", source, re.S | re.M).group(0), scope)
    numbers = ["10", "10.5", "9.5", "10.51", "0", "0.0", "5%", "0.05", "1,000", "1000", "nan", "inf", "1e3", "-9.6", " 7 ", "1_000", "_1", "1__0", "0x1p3",
               "52.4%", "50%", "52.6%", "5%%", "+3", "--3", ".5", "5.", "", "Yes", "yes", "yes ", "Infinity", "١٠", "1_", "1_.5", "- 3"]
    cases = {"relaxed": [], "anls": [], "vqa": [], "exact": [], "squad": []}
    for p in numbers:
        for g in RND.sample(numbers, 12):
            cases["relaxed"].append([p, g, bool(relaxed(p, g))])
    for _ in range(240):
        g = text(1, 4)
        p = change(g)
        golds = [g, change(g)]
        cases["anls"].append([p, golds, anls_score(p, golds), anls_lmms(golds, [p])["anls"]])
    letters = "ab c.d,e 1/2-?"
    for _ in range(240):
        pool = [change(text(1, 3)) if RND.random() < 0.7 else "".join(RND.choice(letters) for _ in range(RND.randint(1, 9))) for _ in range(3)]
        people = [RND.choice(pool) for _ in range(10)]
        p = RND.choice(pool + [pool[0].upper(), "the " + pool[1]])
        doc = {"answers": [{"answer": a, "answer_id": i} for i, a in enumerate(people)], "question_id": 0}
        cases["vqa"].append([p, people, scope["vqav2_process_results"](doc, [p])["exact_match"]])
    ignores = [[], [","], [r"\$", ","], [r"(?s).*#### ", r"\.$"], [r"[^a-z]+"]]
    for _ in range(240):
        g = text(1, 3)
        p = RND.choice([g, change(g), g.upper(), "so #### " + g, g + ".", g.replace(",", "")])
        opt = {"regexes_to_ignore": RND.choice(ignores) or None, "ignore_case": RND.random() < .5, "ignore_punctuation": RND.random() < .3, "ignore_numbers": RND.random() < .3}
        score = exact_match_hf_evaluate(predictions=[p], references=[g], **opt)["exact_match"]
        cases["exact"].append([p, g, opt["regexes_to_ignore"] or [], opt["ignore_case"], opt["ignore_punctuation"], opt["ignore_numbers"], bool(score)])

    def normal(s):  # SQuAD v1.1's evaluate
        s = "".join(c for c in s.lower() if c not in set(string.punctuation))
        return " ".join(re.sub(r"\b(a|an|the)\b", " ", s).split())

    def f1(p, g):
        from collections import Counter
        p, g = normal(p).split(), normal(g).split()
        if not p or not g:
            return float(p == g)
        same = sum((Counter(p) & Counter(g)).values())
        return 0.0 if same == 0 else 2 * (same / len(p)) * (same / len(g)) / (same / len(p) + same / len(g))

    for _ in range(240):
        g = text(0, 5)
        golds = [g, change(g)]
        p = change(RND.choice(golds))
        cases["squad"].append([p, golds, max(normal(p) == normal(x) for x in golds), max(f1(p, x) for x in golds)])
    write("answers", cases)


def tools():
    sys.modules["bfcl_eval"] = types.ModuleType("bfcl_eval")
    for name, values in {"constants": {}, "constants.enums": {"Language": types.SimpleNamespace(PYTHON=1, JAVA=2, JAVASCRIPT=3)},
                         "constants.model_config": {"MODEL_CONFIG_MAPPING": {"m": types.SimpleNamespace(underscore_to_dot=False)}},
                         "constants.type_mappings": {"JAVA_TYPE_CONVERSION": {}, "JS_TYPE_CONVERSION": {}}, "eval_checker": {}, "eval_checker.ast_eval": {},
                         "eval_checker.ast_eval.type_convertor": {},
                         "eval_checker.ast_eval.type_convertor.java_type_converter": {"java_type_converter": None},
                         "eval_checker.ast_eval.type_convertor.js_type_converter": {"js_type_converter": None}}.items():
        m = types.ModuleType("bfcl_eval." + name)
        m.__dict__.update(values)
        sys.modules["bfcl_eval." + name] = m
    check = module("bfcl_eval/eval_checker/ast_eval/ast_checker.py", "ast_checker").ast_checker
    values = {"string": ["Paris", "paris, France", "April 1, 2024", "it's", ""], "integer": [1, 5, -3], "float": [1.5, 2.0, 7], "boolean": [True, False],
              "array": [["a", "B b"], ["c"], []], "ints": [[1, 2], [3], [2, 1]], "dict": [{"x": "P q", "n": 3}, {"x": "r"}],
              "dicts": [[{"k": 1}], [{"k": 1}, {"k": 2}]], "any": ["v", "w"]}
    wrong = ["Paris", 1, 1.5, True, [1], {"x": 1}, "5", [], ["a"], None, "var", {"k": 2}]
    typ = {"array": {"type": "array", "items": {"type": "string"}}, "ints": {"type": "array", "items": {"type": "integer"}},
           "dicts": {"type": "array", "items": {"type": "dict"}}}

    def accepted(kind):
        if RND.random() < 0.1:
            return ["var", "other"]  # a variable
        some = RND.sample(values[kind], k=RND.randint(1, len(values[kind])))
        if kind == "dict":
            some = [{k: [v, "alt"] + ([""] if RND.random() < .3 else []) for k, v in d.items()} for d in some]
        if kind == "dicts":
            some = [[{k: [v] for k, v in d.items()} for d in l] for l in some]
        return some

    def given(kind, want):
        r = RND.random()
        if r < 0.6:
            v = RND.choice(want)
            if kind == "dict" and isinstance(v, dict):
                return {k: x[0] for k, x in v.items()}
            if kind == "dicts" and isinstance(v, list):
                return [{k: x[0] for k, x in d.items()} for d in v]
            if isinstance(v, str) and RND.random() < .5:
                return v.upper().replace(" ", "")
            return v
        return RND.choice(values[kind]) if r < 0.85 else RND.choice(wrong)

    cases, raised = [], 0
    while len(cases) < 300:
        funcs, golds, calls = [], [], []
        for i in range(RND.choice([1, 1, 1, 2])):
            name, kinds = RND.choice(["f.one", "g_two", "h"]) + str(i), RND.sample(list(values), k=RND.randint(1, 3))
            props = {f"p{j}": typ.get(k, {"type": k}) for j, k in enumerate(kinds)}
            funcs.append({"name": name, "parameters": {"type": "dict", "properties": props, "required": [p for p in props if RND.random() < .6]}})
            gold = {f"p{j}": accepted(k) + ([""] if RND.random() < .3 else []) for j, k in enumerate(kinds)}
            golds.append({name: gold})
            args = {f"p{j}": given(k, [v for v in gold[f"p{j}"] if v != ""] or [""]) for j, k in enumerate(kinds) if RND.random() < .95}
            if RND.random() < .05:
                args["more"] = 1
            calls.append({name if RND.random() < .95 else "no": args})
        if RND.random() < .05:
            calls = calls[1:]
        RND.shuffle(calls)
        try:
            valid = check(funcs, calls, golds, 1, "parallel" if len(funcs) > 1 else "simple", "m")["valid"]
        except (TypeError, AttributeError, KeyError):  # values that the checker does not read
            raised += 1
            continue
        cases.append([funcs, calls, golds, valid])
    print(f"tools: {raised} cases raise in the reference, {sum(c[3] for c in cases)} of {len(cases)} are valid")
    write("tools", cases)


def likelihoods():
    import numpy as np
    from lm_eval.api import metrics
    choice, rolling = [], []
    for _ in range(220):
        choices = [text(1, 3) or "x" for _ in range(RND.randint(2, 5))]
        logs = [-RND.choice([1, 2, 3, RND.random() * 20]) * len(c) / 5 for c in choices]
        gold = RND.randrange(len(choices))
        best = [int(np.argmax(np.array(logs) / n)) == gold for n in (1, np.array([len(c) for c in choices]), np.array([len(c.encode()) for c in choices]))]
        soft = np.exp(np.array(logs) - max(logs))
        choice.append([logs, choices, gold, best, float(metrics.brier_score([(gold, soft / soft.sum())]))])
        docs = [RND.choice(["", " ", "\n\n"]) + text(1) + RND.choice(["", " ", "\n"]) for _ in range(RND.randint(1, 4))]
        lls = [-RND.random() * 90 for _ in docs]
        words, sizes = [len(re.split(r"\s+", d)) for d in docs], [len(d.encode()) for d in docs]
        rolling.append([lls, docs, metrics.perplexity(lls), metrics.weighted_perplexity(list(zip(lls, words))),
                        metrics.weighted_perplexity(list(zip(lls, sizes))), metrics.bits_per_byte(list(zip(lls, sizes)))])
    write("likelihoods", {"choice": choice, "rolling": rolling})


def statistics_():
    from statsmodels.stats.contingency_tables import mcnemar
    from statsmodels.stats.multitest import multipletests
    from statsmodels.stats.proportion import proportion_confint
    wilson = []
    for _ in range(220):
        n = RND.randint(1, 2000)
        k = RND.randint(0, n)
        wilson.append([k, n, *map(float, proportion_confint(k, n, method="wilson"))])
    pairs = [[b, c] for b in range(15) for c in range(15)] + [[RND.randint(0, 900), RND.randint(0, 900)] for _ in range(40)]
    exact = [[b, c, float(mcnemar([[0, b], [c, 0]], exact=True).pvalue) if b + c else 1.0] for b, c in pairs]
    holm = []
    for _ in range(200):
        p = [RND.random() ** 3 for _ in range(RND.randint(1, 6))]
        holm.append([p, [float(x) for x in multipletests(p, method="holm")[1]]])
    write("statistics", {"wilson": wilson, "mcnemar": exact, "holm": holm})


for f in (translation, speech, captions, answers, tools, likelihoods, statistics_):
    f()
