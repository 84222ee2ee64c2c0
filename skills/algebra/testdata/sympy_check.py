"""Judges answers of sympy-lite by SymPy: lines of JSON in, one line of verdict each out."""
import json
import sys

import sympy
from sympy.parsing.sympy_parser import parse_expr, standard_transformations, convert_xor, implicit_multiplication_application

RULES = standard_transformations + (convert_xor, implicit_multiplication_application)
NAMES = {"e": sympy.E, "i": sympy.I, "pi": sympy.pi}


def read(text):
    return parse_expr(str(text), local_dict=dict(NAMES), transformations=RULES)


def zero(e):
    """Whether an expression is 0: by its values at three points."""
    e = sympy.sympify(e)
    names = sorted(e.free_symbols, key=str)
    for k in (0, 1, 2):
        at = {s: sympy.Rational(137 + 41 * i + 29 * k, 100) for i, s in enumerate(names)}
        v = complex(sympy.N(e.subs(at), 30))
        if abs(v) > 1e-9 * (1 + abs(complex(sympy.N(sum(abs(sympy.N(t.subs(at))) for t in sympy.Add.make_args(e)))))):
            return False
    return True


def judge(q):
    expr, op, got = q["expr"], q["op"], q["result"]
    x = sympy.Symbol("x")
    if op == "solve":
        left, right = expr.split("=")
        f = read(left) - read(right)
        if got == "all":
            return zero(f)
        want = [complex(v) for v in sympy.Poly(f, x).nroots(n=25, maxsteps=500)]
        have = [complex(sympy.N(read(v), 25)) for v in got]
        near = lambda a, b: abs(a - b) <= 1e-5 * (1 + abs(a))
        return all(any(near(a, b) for b in have) for a in want) and all(any(near(a, b) for b in want) for a in have)
    if op == "system":
        have = {sympy.Symbol(k): read(v) for k, v in got.items()}
        return all(zero((read(s.split("=")[0]) - read(s.split("=")[1])).subs(have)) for s in expr.split(","))
    if op == "diff":
        return zero(sympy.diff(read(expr), x) - read(got))
    if op == "factor":
        f = sympy.factor_list(read(expr))
        parts = sum(n for _, n in f[1])
        mine = sum(n for _, n in factors(got))
        return zero(read(expr) - read(got)) and parts == mine
    return zero(read(expr) - read(got))


def factors(text):
    """The factors of a product as it is written, with their powers."""
    with sympy.evaluate(False):
        e = read(text)
    out = []

    def take(f):
        if f.is_Mul:
            for g in f.args:
                take(g)
        elif f.free_symbols:
            b, n = f.as_base_exp()
            out.append((b, int(n)))

    take(e)
    return out


for line in sys.stdin:
    try:
        print("right" if judge(json.loads(line)) else "wrong", flush=True)
    except Exception as err:  # what SymPy cannot judge is told, not passed over
        print("error " + type(err).__name__ + " " + str(err).replace("\n", " ")[:200], flush=True)
