"""Write the table of strftime.jsonl: Python's strftime on glibc, C locale.

python3 strftime.py > strftime.jsonl
"""
import datetime, itertools, json

verbs = "aAbBcCdDeFgGhHIjklmMnpPrRsStTuUVwWxXyYzZ%"
flags = ["", "-", "_", "0", "^", "#", "-3", "5", "05", "_5", "^10", "E", "O"]
dates = [(2024, 7, 26, 0, 0, 0), (2025, 1, 5, 13, 7, 9), (2026, 11, 30, 23, 59, 59), (2027, 1, 1, 12, 0, 5), (2023, 12, 31, 1, 2, 3), (2000, 2, 29, 11, 30, 0)]
layouts = ["%" + f + v for f, v in itertools.product(flags, verbs)]
layouts += ["%d %B %Y", "%-d %B %Y", "%B %-d, %Y", "%Y-%m-%d", "%d %b %Y", "Today is %A, %e %B.", "100%", "%%d", "%", "%Q", "%-Q", "%f", "%5", "%E", "%:z x"]
for date in dates:
    for layout in layouts:
        try:
            text = datetime.datetime(*date).strftime(layout)
        except ValueError:
            continue
        print(json.dumps({"time": datetime.datetime(*date).isoformat(), "layout": layout, "text": text}))
