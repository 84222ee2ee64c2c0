"""Writes eval/metric/testdata/calibration.json: the expected calibration error of generated
answers in 15 bins by netcal 1.4.0. Its bins are open above, so no probability is at an edge.

    python scripts/calibration.py eval/metric/testdata
"""
import json, random, sys

import numpy as np
from netcal.metrics import ECE

RND = random.Random(15)
cases = []
while len(cases) < 260:
    n = RND.choice([1, 2, 5, 40, 300])
    p = [round(RND.betavariate(*RND.choice([(1, 1), (5, 1), (0.3, 0.2)])), 6) for _ in range(n)]
    slope, shift = RND.choice([(1, 0), (0.4, 0.2), (0, 0.9), (-1, 1)])
    right = [int(RND.random() < slope * x + shift) for x in p]
    if any(abs(x * 15 - round(x * 15)) < 1e-4 for x in p) or n > 40 and len(cases) % 8:
        continue
    cases.append([p, right, float(ECE(bins=15).measure(np.array(p), np.array(right)))])
with open(f"{sys.argv[1]}/calibration.json", "w") as f:
    json.dump(cases, f, separators=(",", ":"))
    f.write("\n")
