#!/usr/bin/env python3
"""Draws comments, diagnostics and sentences of documents at random, to be read
by a person: scripts/samples.py [SEED] [N]."""
import random
import re
import subprocess
import sys

seed, n = int(sys.argv[1]) if len(sys.argv) > 1 else 1, int(sys.argv[2]) if len(sys.argv) > 2 else 40
rows = []
for path in subprocess.check_output(["git", "ls-files", "*.go", "*.md"], text=True).split():
    text = open(path, encoding="utf-8").read()
    if path.endswith(".go"):
        for m in re.finditer(r"(?m)((?:^[ \t]*// .*\n)+)", text):
            rows.append((path, " ".join(line.strip().lstrip("/ ") for line in m[1].splitlines())))
    else:
        for m in re.finditer(r"(?m)^[A-Z][^|`\n].{40,}$", text):
            rows.append((path, m[0]))
for path, text in random.Random(seed).sample(rows, n):
    print(f"{path}: {text[:240]}")
