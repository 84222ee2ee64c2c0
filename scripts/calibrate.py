"""Judges the rows of recite calibrate (tools/recite), or fits the confidence of a projector to them.

    python scripts/calibrate.py judge HELD ODD          odd kinds that the fit did not see
    python scripts/calibrate.py fit TRAIN HELD ODD OUT  domain.npz in the folder OUT; prints the weights

The fit takes every second odd kind, in alphabetical order, and judge the others. Intervals are
of 1000 bootstrap samples of examples.
"""
import json, sys

import numpy as np


def load(path):
    rows = [json.loads(line) for line in open(path)]
    part = {k: np.array([r[k] for r in rows]) for k in ("kind", "cluster", "right", "likelihood", "withheld")}
    part["confidence"] = np.array([np.nan if r["confidence"] is None else r["confidence"] for r in rows])
    part["state"] = np.array([r.get("state", []) for r in rows])
    return part


def take(part, where):
    return {k: v[where] for k, v in part.items()}


def fitted(odd):
    """Marks the odd inputs of the fit."""
    return np.isin(odd["kind"], sorted(set(odd["kind"]))[::2])


def ece(p, right, bins=15):
    at = np.clip(np.ceil(p * bins).astype(int) - 1, 0, bins - 1)
    return np.abs(np.bincount(at, p - right, bins)).sum() / len(p)


def line(name, part, figure):
    rng, groups = np.random.default_rng(1), [np.where(part["cluster"] == c)[0] for c in np.unique(part["cluster"])]
    drawn = []
    for _ in range(1000):
        drawn.append(figure(take(part, np.concatenate([groups[i] for i in rng.integers(0, len(groups), len(groups))]))))
    low, high = np.nanpercentile(drawn, [2.5, 97.5])
    print(f"{name:<36} {figure(part):7.4f}  {low:.4f}-{high:.4f}  n {len(part['right'])} of {len(groups)} examples")


def judge(held, odd):
    held, odd = load(held), load(odd)
    odd = take(odd, ~fitted(odd))
    for part in (held, odd):
        if np.isnan(part["confidence"]).any():
            sys.exit("an answer has no confidence: not the build of the fit")
    print("odd kinds:", *sorted(set(odd["kind"])))
    line("accuracy", held, lambda x: x["right"].mean())
    line("accuracy of the answered", held, lambda x: x["right"][~x["withheld"]].mean())
    line("coverage", held, lambda x: (~x["withheld"]).mean())
    line("ECE of the likelihood", held, lambda x: ece(np.exp(x["likelihood"]), x["right"]))
    line("ECE of the confidence", held, lambda x: ece(x["confidence"], x["right"]))
    line("answered, odd", odd, lambda x: (~x["withheld"]).mean())
    both = {k: np.concatenate([held[k], odd[k]]) for k in ("right", "likelihood", "confidence")}
    both["cluster"] = np.concatenate([held["cluster"], odd["cluster"] + 10**6])
    line("ECE of the likelihood, odd included", both, lambda x: ece(np.exp(x["likelihood"]), x["right"]))
    line("ECE of the confidence, odd included", both, lambda x: ece(x["confidence"], x["right"]))
    for k in sorted(set(odd["kind"])):
        one = take(odd, odd["kind"] == k)
        line("answered, " + k, one, lambda x: (~x["withheld"]).mean())


def fit(train, held, odd, out):
    train, held, odd = load(train), load(held), load(odd)
    odd = take(odd, fitted(odd))
    x = train["state"]
    mean, width = x.mean(0), x.shape[1]
    cov = np.cov(x.T)
    cov = 0.98 * cov + 0.02 * np.trace(cov) / width * np.eye(width)
    factor = np.linalg.inv(np.linalg.cholesky(cov)).astype("<f4")
    mean = mean.astype("<f4")

    def far(part):
        return np.log((((part["state"] - mean) @ factor.T.astype(float)) ** 2).mean(1))

    edge = float(np.quantile(far(held), 0.98))

    def terms(part):
        l, d = np.minimum(part["likelihood"], -1e-6), far(part)
        return np.c_[np.ones(len(d)), l - np.log(-np.expm1(l)), d, np.maximum(0, d - edge)]

    z = np.r_[terms(held), terms(odd)]
    right = np.r_[held["right"], np.zeros(len(odd["kind"]))]
    weight = np.r_[np.ones(len(held["kind"])), np.full(len(odd["kind"]), 0.2 * len(held["kind"]) / len(odd["kind"]))]

    def logistic(on):
        b = np.zeros(4)
        for _ in range(100):
            q = 1 / (1 + np.exp(-z @ b))
            a = z[:, on]
            b[on] += np.linalg.solve((a * (weight * q * (1 - q))[:, None]).T @ a + 1e-4 * np.eye(len(on)), a.T @ (weight * (right - q)) - 1e-4 * b[on])
        return b

    b = logistic([0, 1, 2, 3])
    if b[2] > 0:  # a greater distance never raises the confidence
        b = logistic([0, 1, 3])
    np.savez_compressed(out + "/domain.npz", mean=mean, factor=factor)
    for k, v in zip(("bias", "likelihood", "distance", "beyond", "edge"), [*b, edge]):
        print(f"  {k}: {v:.4f}")


if __name__ == "__main__":
    {"judge": judge, "fit": fit}[sys.argv[1]](*sys.argv[2:])
