# Draws the formulas of TestUncertain with matplotlib 3.10.0 (python3 formulas.py, in this folder).
import matplotlib
matplotlib.use("Agg")
import matplotlib.pyplot as plt

for name, text in {"brackets": "(a+b)^2", "sum": "a+b"}.items():
    fig = plt.figure(figsize=(4, 1), dpi=100)
    fig.text(0.1, 0.4, f"${text}$", fontsize=28)
    fig.savefig(f"{name}.png")
