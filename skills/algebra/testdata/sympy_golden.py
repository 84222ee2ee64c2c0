"""Writes sympy.jsonl: questions to sympy-lite with SymPy's answers, one JSON object a line.

    python3 sympy_golden.py > sympy.jsonl

The rows were made with SymPy 1.14. `kind` says how a Go test compares an answer:
value   a number, a text or a boolean, exactly
decimal a number, within a relative error of 1e-13
points  an expression, by its value at each point of `at`; `terms` is its number of terms, `factors` that of its factors
roots   a list, by the value of each solution
system  one object of solutions or a list of them, by value
"""
import json
import random
import re

import sympy
from sympy import Abs, N, Rational, S, Symbol, factor_list, factorint, solve
from sympy.parsing.sympy_parser import parse_expr
from sympy.physics import units as u

rng = random.Random(20261125)
LOCAL = {"e": sympy.E, "i": sympy.I, "ln": sympy.log, "abs": Abs, "arcsin": sympy.asin, "cbrt": lambda v: sympy.real_root(v, 3),
         "log10": lambda v: sympy.log(v, 10), "log2": lambda v: sympy.log(v, 2), "ceil": sympy.ceiling, "root": sympy.real_root,
         "mod": sympy.Mod, "gcd": sympy.gcd, "lcm": lambda *v: sympy.ilcm(*v), "min": sympy.Min, "max": sympy.Max, "round": lambda v: sympy.sign(v) * sympy.floor(abs(v) + Rational(1, 2))}
rows, seen = [], set()


def read(text):
    text = text.replace("^", "**")
    text = re.sub(r"(?<![\w.])(\d+)(?![\w.])", r"Integer(\1)", text)
    return parse_expr(text, local_dict={**LOCAL, "Integer": sympy.Integer}, transformations=(sympy.parsing.sympy_parser.auto_symbol, sympy.parsing.sympy_parser.auto_number, sympy.parsing.sympy_parser.rationalize, sympy.parsing.sympy_parser.factorial_notation))


def put(op, expr, kind, **rest):
    if (op, expr) not in seen:
        seen.add((op, expr))
        rows.append({"op": op, "expr": expr, "kind": kind, **rest})


def number(v):
    z = complex(N(v, 20))
    if z != z or abs(z) == float("inf"):
        raise ValueError(v)
    return [z.real, z.imag]


POINTS = [[0.7, 1.9, 2.3], [1.9, 0.6, 0.4], [2.6, 3.1, 1.7], [-1.3, 0.8, -0.6]]


def points(op, expr, want, **rest):
    names = sorted(s.name for s in read(expr).free_symbols | want.free_symbols)
    at, values = [], []
    for p in POINTS:
        env = {Symbol(n): Rational(str(v)) for n, v in zip(names, p)}
        try:
            values.append(number(want.subs(env)))
        except (ValueError, TypeError, ZeroDivisionError):
            continue
        at.append(p[:len(names)])
    if at:
        put(op, expr, "points", names=names, at=at, want=values, **rest)


def exact(v):
    v = sympy.nsimplify(v) if v.is_Float else v
    assert v.is_Rational, v
    return int(v) if v.q == 1 else f"{v.p}/{v.q}"


# Numbers.
for text in """12+7; 3-11; 7*8; 9/12; -6/4; 2^10; 2^-3; (-3)^3; (1/2)^4; 1/3+1/6; 5/8-7/12; 3/7*14/9; 100!/98!; 7!; 0!; 1/2/3; 2^3^2; -2^2; (-2)^2; 17 % 5; -17 % 5; 15% * 80;
gcd(12,345); gcd(0,9); gcd(-12,18,30); lcm(4,6); lcm(4,6,10); min(3,1,2); max(3,1,2); min(1/3,1/4); max(-1,-2); floor(7/2); floor(-7/2); ceil(7/2); ceil(-7/2); round(5/2); round(-5/2); round(7/3);
abs(-3/4); binomial(10,3); binomial(5,0); binomial(5,6); binomial(30,15); factorial(12); mod(17,5); mod(-17,5); mod(7,-3); mod(22/7,1); sqrt(144); sqrt(49/64); cbrt(27); cbrt(-27); root(32,5); root(81,4); 8^(2/3); 27^(-1/3); 16^(3/4);
log2(1024); log10(1000); log(8)/log(2); log(27)/log(9); log(1); exp(0); e^0; sin(0); cos(0); tan(0); sin(pi/6); cos(pi/3); sin(pi/2); cos(pi); sin(3*pi/2); tan(pi/4); cos(2*pi/3); sin(-pi/6); cos(5*pi/3); sin(13*pi/6); tan(-pi/4);
tan(5*pi/4); sin(7*pi/6); cos(-pi); i^2; i^4; i^6*3; (1+i)*(1-i); (2+3*i)*(2-3*i); sqrt(2)^2; sqrt(2)*sqrt(8); sqrt(12)/sqrt(3); (sqrt(5)-1)*(sqrt(5)+1); sqrt(3+4)^2; (1+sqrt(2))^2-2*sqrt(2); 1/(sqrt(3)-sqrt(2))-sqrt(3)-sqrt(2);
sin(pi/3)^2; cos(pi/6)^2; tan(pi/3)^2; sin(1)^2+cos(1)^2; log(6)-log(2)-log(3); e^(2*ln(3)); 4^(1/2)+9^(1/2); 2^(1/2)*2^(3/2); asin(0); acos(1); atan(0); sinh(0); cosh(0); tanh(0); (2^(1/3))^3; 1234567*7654321; 3^40; (2/3)^-5; 1/(1/2+1/3)""".replace("\n", " ").split("; "):
    text = text.strip()
    asked = text
    if "%" in text:
        v = {"17 % 5": S(2), "-17 % 5": S(3), "15% * 80": S(12)}[text]
    else:
        v = sympy.nsimplify(sympy.simplify(read(text)))
    put("simplify", asked, "value", want=exact(v))

# Identities and forms with unknowns.
for text in """2*x+3*x; x-x+1; x*x^2; x^5/x^2; (x^2-1)/(x-1); (x^2-y^2)/(x+y); (x^3-8)/(x-2); (x^2+2*x+1)/(x+1); x/(x*y); (6*x^2)/(4*x); 1/x+1/y; 1/(x-1)-1/(x+1); x/(x+1)+1/(x+1); (x+1)/(x^2-1); (a^2-b^2)/(a-b);
(x^4-1)/(x^2-1); (x*y+y)/(x+1); 1/(1+1/x); (1/x-1/y)/(x-y); ((x+y)^2-(x-y)^2)/(x*y); sin(x)^2+cos(x)^2; 1-sin(x)^2; tan(x)*cos(x); sin(x)/cos(x); 2*sin(x)*cos(x)/sin(x); sin(-x); cos(-x); tan(-x); sin(x)^4-cos(x)^4; (1-cos(x)^2)/sin(x);
e^(2*ln(x)); exp(x)*exp(y); exp(x)/exp(2*x); exp(ln(x)+ln(y)); 2^x*2^y; 4^x/2^x; 2^(x+1)/2^x; (2^x)^3; 8^x*2^(-3*x); 9^x-3^(2*x); ln(e^3)*x; log(x)+log(x); log(8)*x/log(2); sqrt(x)*sqrt(x); sqrt(4*x); sqrt(x)/x; sqrt(9*x)/sqrt(x); x^(1/2)*x^(3/2);
(sqrt(x)+1)*(sqrt(x)-1); 1/(sqrt(x)+1); (x-1)/(sqrt(x)-1); x^(1/3)*x^(2/3); (x^(1/3))^6; sqrt(50)*x-sqrt(2)*x; 1/(1+sqrt(2))*x; sqrt(x+1)^2; (x+sqrt(2))*(x-sqrt(2)); abs(-2*x); abs(x*3)/3; x^0.5*2; 0.5*x+0.25*x; (x+1)^2-(x-1)^2; (x+1)^3-x^3-3*x^2-3*x;
i*x+i*x; (x+i)*(x-i); (x+i*y)^2; 1/(1+i)*x; a*b+b*a; (a+b)^2-a^2-b^2; a/b*b/a; (a/b)/(c/d); a-(b-c); -(a-b); -(-x); x^-2*x^3; (x*y)^3/(x^2*y); (2*x)^-2; ((x^2)^3)^2; sinh(x)+sinh(x); cosh(-x+x); atan(x)-atan(x); sin(x+y)-sin(y+x); cos(2*x)*3-cos(2*x); e^x*e^-x; (e^x)^2; (e^(2*x)-1)/(e^x-1);
x^y*x^z; x^y/x; (3/x)*(x/6); 1/(1/(1/x)); (x^2-5*x+6)/(x^2-4); (2*x^2+3*x-2)/(2*x-1); (x^3+1)/(x^2-x+1); (x^2*y-y)/(x*y+y); (x+1/x)^2-2; (x^2+x)/(x*(x+1)); (x-y)/(y-x); (y-x)^2/(x-y); sqrt(8)*sqrt(x)/sqrt(2)""".replace("\n", " ").split("; "):
    text = text.strip()
    points("simplify", text, sympy.nsimplify(read(text), rational=True))


def leaf():
    return rng.choice(["x", "x", "y", str(rng.randint(1, 9)), f"({rng.randint(1, 9)}/{rng.randint(2, 9)})"])


def tree(depth, functions=True):
    if depth == 0:
        return leaf()
    a, b = tree(depth - 1, functions), tree(rng.randint(0, depth - 1), functions)
    k = rng.randint(0, 8 if functions else 5)
    if k <= 1:
        return f"({a}+{b})"
    if k == 2:
        return f"({a}-{b})"
    if k <= 4:
        return f"{a}*{b}"
    if k == 5:
        return f"({a})^{rng.randint(1, 3)}"
    if k == 6:
        return f"({a})/({b}+{rng.randint(7, 11)})"
    if k == 7:
        return f"sqrt({a}+{rng.randint(20, 50)})"
    return rng.choice(["sin", "cos", "exp", "log", "tan", "atan"]) + f"({leaf()})"


for _ in range(40):
    text = tree(3)
    points("simplify", text, read(text))

# Multiplied out: as many terms as SymPy has.
for text in ["(x+1)^2", "(x-1)^3", "(2*x+3)^2", "(x+y)^2", "(x+y)*(x-y)", "(x+y+z)^2", "x*(x+1)*(x+2)", "(x^2+x+1)*(x-1)", "(a+b)^4", "(x-1/2)^2", "(1-x)^5", "3*(x-2)*(x+5)", "(x+sqrt(2))^2", "(x+1)^6", "-(x-1)*(y+2)", "(x*y+1)^2", "x*(y+z)-y*(x+z)"] + [tree(3, False) for _ in range(35)]:
    w = sympy.expand(read(text))
    points("expand", text, w, terms=len(sympy.Add.make_args(w)))


# Factored: as many factors as SymPy has.
def small(degree):
    return f"({rng.choice([1, 1, 2, 3])}*x^{degree}" + "".join(f"{rng.randint(-5, 5):+d}*x^{k}" for k in range(degree - 1, 0, -1)) + f"{rng.choice([-1, 1]) * rng.randint(1, 7):+d})"


for text in ["x^2-1", "x^2+1", "x^3-1", "x^4-1", "x^4+4", "x^6-1", "x^8-1", "x^2-y^2", "x^3+y^3", "x^2+2*x*y+y^2", "2*x^2+4*x+2", "6*x^2+5*x-6", "x^3-6*x^2+11*x-6", "x^4+x^2+1", "x^5-x", "x^2*y-y", "x*y+x+y+1", "4*x^2-9*y^2", "x^4-5*x^2+4", "x^2/4-1/9", "a*x+a*y+b*x+b*y", "x^10-1", "x^12-1", "x^4-y^4", "x^2-2", "3*x+6", "(x+1)^3*(x-2)^2"] + ["*".join(small(rng.randint(1, 2)) for _ in range(rng.randint(1, 3))) for _ in range(35)]:
    w = read(text)
    points("factor", text, w, factors=int(sum(n for _, n in factor_list(w)[1])))
for n in [2, 12, 97, 360, 1001, 1024, 2310, 9999, 65536, 99990, 123456, 720720, 1000000, -84, 994009, 3628800, 999999, 510510]:
    parts = [f"{p}^{k}" if k > 1 else str(p) for p, k in sorted(factorint(abs(n)).items())]
    put("factor", str(n), "value", want=("-" if n < 0 else "") + "*".join(parts))

# Derivatives.
for text in """x^3+2*x; 5; x^2*y; 1/x; sqrt(x); x^(2/3); (x^2+1)^5; x/(x+1); (x+1)/(x-1); sin(x); cos(x); tan(x); sin(2*x+1); sin(x)*x; sin(x)^3; cos(x)^2; exp(2*x); exp(x^2); x*exp(-x); 2^x; x^x; log(x); log(x^2+1); log(sin(x)); x*log(x); asin(x/3); acos(x/3); atan(2*x); sinh(x); cosh(3*x);
tanh(x); exp(sin(x)); sqrt(1+x^2); 1/sqrt(x); (x^2+x)*exp(x); sin(x)/x; x^y; log(x)/x; e^x/(1+e^x); atan(1/x)""".replace("\n", " ").split("; "):
    text = text.strip()
    x = Symbol("x")
    points("diff x", text, sympy.diff(read(text), x))
for n, text in [(2, "x^5"), (3, "x^5"), (2, "sin(x)"), (4, "cos(2*x)"), (2, "exp(x^2)"), (2, "1/x"), (3, "log(x)"), (2, "x*exp(x)"), (8, "x^8"), (2, "sqrt(x)")]:
    points(f"diff x {n}", text, sympy.diff(read(text), Symbol("x"), n))
for _ in range(15):
    text = tree(2)
    points("diff x", text, sympy.diff(read(text), Symbol("x")))

# Decimals.
for text in "sqrt(2); 1/3; pi; e; sqrt(2)+sqrt(3); 2^0.5; sin(1); cos(1); tan(1); exp(1.5); log(10); log10(7); log2(3); atan(1); asin(0.3); acos(0.3); sinh(2); cosh(2); tanh(0.5); 22/7; 10!; 1.1^50; 2^200; 3^-20; cbrt(10); root(7,5); sqrt(sqrt(2)); pi^2/6; e^pi; 5.5 % 2; 1e10/3; 0.1+0.2; 100*1.07^10; sin(pi/7); log(2)/log(3); abs(-2.5); 7^(1/3)+1; sqrt(10^6+1); 1/(1+sqrt(5))".split("; "):
    w = Rational("3/2") if text == "5.5 % 2" else read(text)
    put("eval", text, "decimal", want=float(N(w, 25)))


# Equations: all complex solutions, each once.
def roots(text, name="x", op="solve"):
    left, right = (text.split("=") + ["0"])[:2]
    x = Symbol(name)
    w = solve(read(left) - read(right), x)
    rest = sorted({s.name for s in (read(left) - read(right)).free_symbols} - {name})
    env = {Symbol(n): Rational(str(v)) for n, v in zip(rest, POINTS[0])}
    put(op, text, "roots", names=rest, at=[POINTS[0][:len(rest)]], want=[number(v.subs(env)) for v in w])


for text in """2*x+3=7; 5*x=0; x/3=4/5; 3*(x-2)=2*(x+5); -x=1/2; x+1=2*x-3; 7-2*x=3*x+1; x/2+x/3=5; x^2=4; x^2=2; x^2+1=0; x^2+x+1=0; x^2-5*x+6=0; 2*x^2+3*x-2=0; x^2-2*x-1=0; 3*x^2=12*x; x^2+4*x+4=0; x^2/2-x=3/2; (x-1)*(x+2)=10; x^3=8; x^3-2=0; x^3-6*x^2+11*x-6=0; x^3=x;
x^3+x=0; x^4=16; x^4-5*x^2+4=0; x^4-10*x^2+1=0; x^4+x^2-2=0; x^5=x; x^3-x-1=0; x^4+x+1=0; x^5-x-1=0; x^6=1; x^6-9*x^3+8=0; 1/x=4; 1/x+1/(x+1)=3/2; x/(x-1)=2; (x^2-1)/(x-1)=3; 2/(x-1)=3/(x+1); x+1/x=5/2; (x+1)/(x-2)=(x-3)/(x+4); sqrt(x)=3; sqrt(x+6)=x; sqrt(2*x+3)=x; sqrt(x+1)+sqrt(x)=3;
sqrt(x)=x/2; sqrt(x^2+9)=5; abs(x)=3; abs(x-2)=5; abs(2*x+1)=7; log(x)=2; log(x)=0; 2*log(x)=log(9); exp(x)=5; atan(x)=pi/4; (x+3)^2=49; (2*x-1)^3=27; x^2-3=0; x^2=x+1; x^2+6*x+13=0; 9*x^2-6*x+1=0; x^4+4=0; x^3+8=0; x^2-0.25=0; 0.5*x=1.75; 1.2*x+0.6=3; x*(x-1)*(x-2)=0; x^2*(x-5)=0;
x^8=256; x^4-2*x^3-3*x^2+4*x+4=0; x^3+3*x^2+3*x+1=0; x^5-5*x^3+4*x=0""".replace("\n", " ").split("; "):
    text = text.strip()
    if text.startswith(("abs", "atan")):
        lx = Symbol("x", real=True)
        left, right = text.split("=")
        w = solve((read(left) - read(right)).subs(Symbol("x"), lx), lx)
        put("solve", text, "roots", names=[], at=[[]], want=[number(v) for v in w])
    else:
        roots(text)
for op, name, text in [("solve x", "x", "a*x+b=c"), ("solve r", "r", "A=2*r*h"), ("solve t", "t", "s=v*t+u"), ("solve x", "x", "a*x^2+b*x=0"), ("solve x", "x", "x^2=a"), ("solve y", "y", "x*y+y=1"), ("solve m", "m", "F=m*a"), ("solve c", "c", "1/a=1/b+1/c"), ("solve x", "x", "x^2+a*x-1=0"), ("solve b", "b", "A=(a+b)*h/2")]:
    roots(text, name, op)
for text, want in [("x=x", "all"), ("x=x+1", []), ("2*(x+1)=2*x+2", "all"), ("0*x=3", []), ("sqrt(x)=-3", []), ("abs(x)=-1", []), ("2^x=8", [3]), ("4^x-2^x=2", [1]), ("3^(2*x)=81", [2]), ("2^x=0", []), ("5^(x-1)=1", [1]), ("10^x=1000", [3]), ("2^(x+1)=1/4", [-3])]:
    put("solve", text, "value", want=want)
for _ in range(20):
    roots(small(2) + "=" + str(rng.randint(-6, 6)))


# Systems: each solution of SymPy.
def system(text):
    eqs = [read(a) - read(b) for a, b in (q.split("=") for q in text.split(","))]
    names = sorted({s.name for q in eqs for s in q.free_symbols})
    w = solve(eqs, [Symbol(n) for n in names], dict=True)
    if any(len(s) < len(names) for s in w):
        return
    put("solve", text, "system", names=names, want=[[number(s[Symbol(n)]) for n in names] for s in w])


for _ in range(20):
    a, b, c, d = (rng.randint(-9, 9) or 4 for _ in range(4))
    system(f"{a}*x+{b}*y={rng.randint(-30, 30)}, {c}*x-{d}*y={rng.randint(-30, 30)}".replace("+-", "-").replace("--", "+"))
for text in ["x+y+z=6, x-y+z=2, 2*x+y-z=1", "x+2*y+3*z=1, 4*x+5*y+6*z=2, 7*x+8*y+10*z=3", "a+b=3, b+c=5, c+a=4", "x+y=5, x*y=6", "x^2+y^2=25, x+y=7", "y=x^2, y=x+2", "x*y=12, x-y=1", "x^2-y=0, y=4", "x+y=1, x+y=2", "x+y=10, x-y=2", "x/2+y/3=1, x-y=0", "x^2+y^2=2, x-y=0", "p+q=7, p*q=10", "x+y+z+w=10, x-y=1, z-w=1, x+z=6", "0.5*x+y=2, x-y=1", "y=2*x+1, 3*x+2*y=16", "x=3, x+y=5", "x^2=4, x+y=1", "1/x+1/y=1, x=y", "a+2*b=8, 3*a-b=3"]:
    system(text)

# Comparisons of numbers.
for text in ["3*4=12", "3*4=13", "sqrt(2)>3/2", "sqrt(2)<3/2", "1/3<=1/3", "2^10>=1000", "pi>3", "e<2.7", "1/2!=0.5", "7!=8", "pi<22/7", "log(2)>0.69", "sqrt(2)+sqrt(3)>pi", "2^100>10^30", "-3>=-2"]:
    op = next(s for s in ["<=", ">=", "!=", "<", ">", "="] if s in text)
    a, b = (read(t) for t in text.split(op))
    put("simplify", text, "value", want=bool({"<=": a <= b, ">=": a >= b, "!=": a != b, "<": a < b, ">": a > b, "=": sympy.simplify(a - b) == 0}[op]))

# Units. SymPy has the sizes; the question is in the tool's names.
NAMES = {"m": u.meter, "cm": u.centimeter, "mm": u.millimeter, "km": u.kilometer, "inch": u.inch, "ft": u.foot, "yd": u.yard, "mi": u.mile, "nmi": u.nautical_mile, "g": u.gram, "kg": u.kilogram, "lb": u.pound, "s": u.second, "ms": u.millisecond,
         "min": u.minute, "h": u.hour, "d": u.day, "L": u.liter, "mL": u.milliliter, "N": u.newton, "J": u.joule, "W": u.watt, "kW": 1000 * u.watt, "Pa": u.pascal, "kPa": 1000 * u.pascal, "bar": u.bar, "atm": u.atmosphere, "Hz": u.hertz,
         "C": u.coulomb, "V": u.volt, "A": u.ampere, "K": u.kelvin, "mol": u.mol, "ly": u.lightyear, "deg": u.degree, "rad": u.radian, "au": u.astronomical_unit, "MHz": 10**6 * u.hertz, "uF": u.farad / 10**6, "F": u.farad, "ohm": u.ohm}

def quantity(text):
    return eval(text.replace("^", "**").replace(" ", "*"), {}, NAMES)


for text, to in [("3 m", "cm"), ("5 km", "m"), ("1 mi", "km"), ("1 inch", "mm"), ("12 inch", "ft"), ("3 ft", "yd"), ("2 kg", "g"), ("1 lb", "kg"), ("10 kg", "lb"), ("90 min", "h"), ("2 d", "s"), ("1500 ms", "s"), ("2 L", "mL"), ("1 m^3", "L"), ("10 m/s", "km/h"), ("72 km/h", "m/s"), ("1 atm", "kPa"), ("2 bar", "Pa"), ("3 kW", "W"),
                 ("1 kW h", "J"), ("5 N", "kg m/s^2"), ("2 J", "N m"), ("12 V", "J/C"), ("50 Hz", "1/s"), ("1 ly", "km"), ("100 MHz", "Hz"), ("4700 uF", "F"), ("6 V/(2 A)", "ohm"), ("5 kg m^2/s^2", "J"), ("1 mi/h", "m/s"), ("1 cm^2", "mm^2"), ("1 g/mL", "kg/m^3"), ("2.5 h", "min")]:
    ratio = (quantity(text) / quantity(to)).replace(lambda f: isinstance(f, u.Quantity), lambda f: f.scale_factor)
    put("convert " + to, text, "decimal", want=float(N(ratio, 25)))
for text in ["0 degC=K", "100 degC=degF", "-40 degF=degC", "98.6 degF=degC", "300 K=degC", "25 degC=degF", "0 K=degF", "451 degF=K"]:
    q, to = text.split("=")
    v, unit = q.split(" ")
    k = {"K": lambda t: t, "degC": lambda t: t + Rational("273.15"), "degF": lambda t: (t + Rational("459.67")) * Rational(5, 9)}[unit](Rational(v))
    put("convert " + to, q, "decimal", want=float({"K": lambda t: t, "degC": lambda t: t - Rational("273.15"), "degF": lambda t: t * Rational(9, 5) - Rational("459.67")}[to](k)))
SI = u.systems.SI.get_dimension_system()
for text in ["3 m+20 cm", "3 m+2 s", "5 m/s*3 s=15 m", "1 N=1 kg m/s^2", "1 J=1 N m", "1 W=1 J/s", "1 Pa=1 N/m^2", "1 V=1 W/A", "2 kg+3 lb", "4 L+1 m^3", "1 Hz+2 s", "3 m^2-1 m", "1 ohm=1 V/A", "1 F=1 C/V", "5 km/h+2 m/s", "1 J=1 Pa m^2", "1 N s=1 kg m/s", "1 K+1 m", "2 mol+3 kg", "1 C=1 A s"]:
    sides = [t.replace("-", "+") for t in text.split("=")]
    dims = set()
    for t in "+".join(sides).split("+"):
        d = u.Dimension(1)
        for f in quantity(t).as_powers_dict().items():
            if not f[0].is_number:
                d *= f[0].dimension ** f[1]
        dims.add(tuple(sorted((str(k.name), v) for k, v in SI.get_dimensional_dependencies(d).items())))
    put("units", text, "value", want=len(dims) == 1)

for r in rows:
    print(json.dumps(r, separators=(",", ":")))
