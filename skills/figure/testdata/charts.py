# Draws the charts of TestMatplotlib with matplotlib 3.10.0 (python3 charts.py, in this folder).
import json
import matplotlib
matplotlib.use("Agg")
import matplotlib.pyplot as plt

labels, low, high = ["A", "B", "C", "D"], [12, 35, 27, 8], [20, 5, 14, 30]
cases = {
    "plain": {}, "grid-y": {"axis": "y"}, "grid-both": {"axis": "both"}, "grid-x": {"axis": "x"},
    "grid-dashed": {"axis": "y", "linestyle": "--", "color": "gray"},
}
truth = {}
for name, grid in cases.items():
    for stacked in (False, True):
        for dpi in (72, 100):
            fig, ax = plt.subplots(figsize=(4, 3), dpi=dpi)
            ax.bar(labels, low)
            if stacked:
                ax.bar(labels, high, bottom=low)
            if grid:
                ax.grid(**grid)
            file = f"{name}-{'stacked' if stacked else 'single'}-{dpi}.png"
            fig.savefig(file)
            plt.close(fig)
            truth[file] = [a + b for a, b in zip(low, high)] if stacked else low
json.dump(truth, open("charts.json", "w"), indent=1, sort_keys=True)
