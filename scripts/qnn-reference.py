#!/usr/bin/env python3
"""Asks Qualcomm's libraries what context binaries hold, for the test of our
own reader: qnn-reference.py LIBRARIES OUT [--damaged N] [FILE...]

LIBRARIES is the folder of libQnnHtp.so and libQnnSystem.so. Contexts of several
graphs are compiled for four chips, and each, and each FILE, is described by
QnnSystem in OUT/NAME.json beside OUT/NAME.bin. With --damaged N, N damaged
copies are asked about too, each in a process of its own. The layouts are those
of QNN's interface 2 on x86-64."""
import ctypes as C
import json
import os
import random
import resource
import struct
import sys

P = C.c_void_p
F32, U8, U16, I8, I32 = 0x232, 0x408, 0x416, 0x308, 0x32
CHIPS = {"sm8550": 43, "sm8650": 57, "sm8750": 69, "sm8850": 87}


def read(at, n):
    return C.string_at(at, n)


def u32(at):
    return struct.unpack("<I", read(at, 4))[0]


def u64(at):
    return struct.unpack("<Q", read(at, 8))[0]


def version(at):
    return list(struct.unpack("<III", read(at, 12)))


def text(at):
    return C.string_at(at).decode("utf-8", "replace") if at else ""


def provider(path, entry):
    """The table of functions of a library."""
    lib = C.CDLL(path)
    found, n = P(), C.c_uint32()
    if getattr(lib, entry)(C.byref(found), C.byref(n)) != 0 or n.value < 1:
        sys.exit(f"{path} has no interface")
    return C.cast(found, C.POINTER(P))[0]


class System:
    """QnnSystem, which describes contexts."""

    def __init__(self, folder):
        at = provider(os.path.join(folder, "libQnnSystem.so"), "QnnSystemInterface_getProviders")
        self.version = version(at + 16)
        fn = lambda i, *t: C.CFUNCTYPE(C.c_uint64, *t)(u64(at + 32 + 8 * i))
        self.create, self.info, self.free = fn(0, P), fn(1, P, P, C.c_uint64, P, P), fn(3, P)

    def describe(self, data):
        handle, info, size = P(), P(), C.c_uint64()
        if self.create(C.byref(handle)) != 0:
            sys.exit("QnnSystem does not start")
        buf = C.create_string_buffer(data, len(data))
        rc = self.info(handle, C.addressof(buf), len(data), C.byref(info), C.byref(size))
        out = {"rc": rc}
        if rc == 0 and info.value:
            out.update(binary(info.value))
        self.free(handle)
        return out


def binary(at):
    schema, u = u32(at), at + 8
    out = {"schema": schema, "backend": u32(u), "build": text(u64(u + 8)), "core": version(u + 16), "api": version(u + 28), "soc_text": text(u64(u + 40))}
    if schema == 1:
        out.update(blob=version(u + 60), blob_size=u64(u + 88), extra="", soc=0)
        shared, count, graphs, n = u64(u + 104), u32(u + 96), u64(u + 120), u32(u + 112)
    elif schema == 3:
        out.update(blob=version(u + 48), blob_size=u64(u + 64), soc=u32(u + 128))
        out["extra"] = read(u64(u + 120), u32(u + 112)).hex() if u64(u + 120) else ""
        shared, count, graphs, n = u64(u + 80), u32(u + 72), u64(u + 96), u32(u + 88)
    else:
        return out
    out["shared"] = [tensor(shared + 144 * i) for i in range(count)]
    out["graphs"] = [graph(graphs + 88 * i) for i in range(n)]
    return out


def graph(at):
    form = u32(at)
    list_of = lambda n, p: [tensor(u64(at + p) + 144 * i) for i in range(u32(at + n))]
    out = {"name": text(u64(at + 8)), "inputs": list_of(16, 24), "outputs": list_of(32, 40), "updates": 0, "extra": ""}
    if form >= 2:
        out["updates"] = u32(at + 48)
    if form == 3 and u64(at + 72):
        out["extra"] = read(u64(at + 72), u32(at + 64)).hex()
    return out


def tensor(at):
    rank, encoding = u32(at + 80), u32(at + 44)
    out = {"version": u32(at), "id": u32(at + 8), "name": text(u64(at + 16)), "kind": u32(at + 24), "format": u32(at + 28), "dtype": u32(at + 32),
           "dims": list(struct.unpack(f"<{rank}I", read(u64(at + 88), 4 * rank))) if rank else [],
           "encoding": 0x7FFFFFFF, "axis": 0, "bits": 0, "scales": [], "offsets": []}
    if u32(at + 40) != 1:
        return out
    out["encoding"] = encoding
    one = lambda p: list(struct.unpack("<f", read(p, 4)))
    many = lambda kind, p, n: list(struct.unpack(f"<{n}{kind}", read(p, 4 * n))) if n else []
    signed = lambda p: struct.unpack("<i", read(p, 4))[0]
    if encoding == 0:
        out.update(scales=one(at + 48), offsets=[signed(at + 52)])
    elif encoding == 1:
        n, pairs = u32(at + 52), u64(at + 56)
        out.update(axis=signed(at + 48), scales=[one(pairs + 8 * i)[0] for i in range(n)], offsets=[signed(pairs + 8 * i + 4) for i in range(n)])
    elif encoding == 2:
        out.update(bits=u32(at + 48), scales=one(at + 52), offsets=[signed(at + 56)])
    elif encoding == 3:
        n = u32(at + 56)
        out.update(bits=u32(at + 48), axis=signed(at + 52), scales=many("f", u64(at + 64), n), offsets=many("i", u64(at + 72), n) if u64(at + 72) else [])
    return out


class Operation(C.Structure):
    _fields_ = [("words", C.c_uint64 * 10)]


class Compiler:
    """libQnnHtp, which compiles graphs; what is handed to it is kept alive."""

    def __init__(self, folder):
        at = provider(os.path.join(folder, "libQnnHtp.so"), "QnnInterface_getProviders")
        fn = lambda i, *t: C.CFUNCTYPE(C.c_uint64, *t)(u64(at + 40 + 8 * i))
        self.kept = []
        self.device, self.device_free = fn(40, P, P, P), fn(43, P)
        self.context, self.context_free = fn(9, P, P, P, P), fn(14, P, P)
        self.graph, self.add, self.finish = fn(15, P, C.c_char_p, P, P), fn(18, P, Operation), fn(19, P, P, P)
        self.make, self.size, self.bytes = fn(24, P, P), fn(11, P, P), fn(12, P, P, C.c_uint64, P)
        self.backend = P()
        self.ok(fn(1, P, P, P)(None, None, C.byref(self.backend)), "backendCreate")

    def ok(self, rc, what):
        if rc != 0:
            sys.exit(f"{what} answers {rc}")

    def keep(self, data):
        b = C.create_string_buffer(data, len(data))
        self.kept.append(b)
        return C.addressof(b)

    def word(self, s):
        return self.keep(s.encode() + b"\0")

    def tensor(self, g, name, kind, dtype, dims, quant=b"", encoding=0x7FFFFFFF, data=None):
        t = bytearray(144)
        struct.pack_into("<IxxxxIxxxxQIII", t, 0, 1, 0, self.word(name), kind, 0, dtype)
        struct.pack_into("<II", t, 40, 1 if quant else 0x7FFFFFFF, encoding)
        t[48:48 + len(quant)] = quant
        struct.pack_into("<IxxxxQ", t, 80, len(dims), self.keep(struct.pack(f"<{len(dims)}I", *dims)))
        if data is not None:
            struct.pack_into("<QI", t, 104, self.keep(data), len(data))
        b = C.create_string_buffer(bytes(t), 144)
        self.ok(self.make(g, b), f"tensor {name}")
        return b

    def node(self, g, name, kind, ins, outs):
        raw = struct.pack("<IxxxxQQQ", 1, self.word(name), self.word("qti.aisw"), self.word(kind)) + struct.pack("<IxxxxQ", 0, 0)
        for side in (ins, outs):
            raw += struct.pack("<IxxxxQ", len(side), self.keep(b"".join(x.raw for x in side)))
        op = Operation()
        C.memmove(C.byref(op), raw, 80)
        self.ok(self.add(g, op), f"node {name}")

    def compile(self, soc, graphs):
        extra = struct.pack("<IIIxxxxxxxxxxxxxxxxxxxx", 0, soc, soc)  # the number lies at 4 or at 8, by the SDK
        config = self.keep(struct.pack("<IxxxxQ", 0, self.keep(extra)))
        device, context, n = P(), P(), C.c_uint64()
        self.ok(self.device(None, self.keep(struct.pack("<QQ", config, 0)), C.byref(device)), "deviceCreate")
        self.ok(self.context(self.backend, device, None, C.byref(context)), "contextCreate")
        for name, fill in graphs:
            g = P()
            self.ok(self.graph(context, name.encode(), None, C.byref(g)), f"graph {name}")
            fill(self, g)
            self.ok(self.finish(g, None, None), f"graph {name}")
        self.ok(self.size(context, C.byref(n)), "contextGetBinarySize")
        b, w = C.create_string_buffer(n.value), C.c_uint64()
        self.ok(self.bytes(context, b, n.value, C.byref(w)), "contextGetBinary")
        self.context_free(context, None)
        self.device_free(device)
        return b.raw[:w.value]


def relu(rows, columns):
    def fill(q, g):
        r = random.Random(1)
        w = struct.pack(f"<{columns * 8}f", *[r.uniform(-1, 1) for _ in range(columns * 8)])
        x, h, y = q.tensor(g, "x", 0, F32, [rows, columns]), q.tensor(g, "h", 3, F32, [rows, 8]), q.tensor(g, "y", 1, F32, [rows, 8])
        q.node(g, "fc", "FullyConnected", [x, q.tensor(g, "w", 4, F32, [8, columns], data=w), q.tensor(g, "b", 4, F32, [8], data=bytes(32))], [h])
        q.node(g, "relu", "Relu", [h], [y])
    return fill


def quantised(dtype):
    def fill(q, g):
        x = q.tensor(g, "x", 0, dtype, [1, 4, 4, 3], struct.pack("<fi", 0.0125, -117), 0)
        q.node(g, "relu", "Relu", [x], [q.tensor(g, "y", 1, dtype, [1, 4, 4, 3], struct.pack("<fi", 0.5, -3), 0)])
    return fill


def encodings(q, g):
    """Inputs quantised in the other ways, which no operator reads."""
    q.node(g, "relu", "Relu", [q.tensor(g, "x", 0, F32, [1, 2, 3, 4, 5])], [q.tensor(g, "y", 1, F32, [1, 2, 3, 4, 5])])
    pairs = q.keep(struct.pack("<fififi", .1, 0, .2, -1, .3, 5))
    q.tensor(g, "axis", 0, I8, [4, 3], struct.pack("<iIQ", 1, 3, pairs), 1)
    q.tensor(g, "bits", 0, I8, [4, 3], struct.pack("<Ifi", 4, .25, -1), 2)
    q.tensor(g, "both", 0, I8, [4, 3], struct.pack("<IiIxxxxQQ", 4, 1, 3, q.keep(struct.pack("<3f", .1, .2, .3)), q.keep(struct.pack("<3i", 0, -1, 5))), 3)


def integers(q, g):
    a, b = q.tensor(g, "a", 0, I32, [7]), q.tensor(g, "b", 0, I32, [7])
    q.node(g, "add", "ElementWiseAdd", [a, b], [q.tensor(g, "c", 1, I32, [7])])


def damage(data, seed):
    """One place of the metadata changed."""
    r, b = random.Random(seed), bytearray(data)
    at = r.randrange(16, min(1400, len(b) - 4))
    if r.randrange(3) == 0:
        b[at] ^= 1 << r.randrange(8)
    elif r.randrange(2) == 0:
        b[at] = r.choice([0, 1, 0x7F, 0x80, 0xFF])
    else:
        at &= ~3
        old = struct.unpack_from("<I", b, at)[0]
        struct.pack_into("<I", b, at, r.choice([0, 1, 0x7FFFFFFF, 0xFFFFFFFF, len(b), (old + 4) & 0xFFFFFFFF, (old - 4) & 0xFFFFFFFF]))
    return bytes(b)


def apart(system, data):
    """Asks in a child: QnnSystem may die of a damaged file, or not end."""
    r, w = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(r)
        resource.setrlimit(resource.RLIMIT_CPU, (2, 2))  # seconds
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        with os.fdopen(w, "w") as to:
            json.dump(system.describe(data), to)
        os._exit(0)
    os.close(w)
    with os.fdopen(r) as back:
        answer = back.read()
    os.waitpid(pid, 0)
    return json.loads(answer) if answer.endswith("}") else {"rc": -1}


def main():
    args = sys.argv[1:]
    damaged = 0
    if "--damaged" in args:
        i = args.index("--damaged")
        damaged = int(args[i + 1])
        del args[i:i + 2]
    libraries, out, files = args[0], args[1], args[2:]
    os.makedirs(out, exist_ok=True)
    system, compiler = System(libraries), Compiler(libraries)
    made = {}
    for chip, soc in CHIPS.items():
        made[f"plain.{chip}"] = compiler.compile(soc, [("main", relu(2, 16))])
        made[f"two.{chip}"] = compiler.compile(soc, [("prefill", relu(8, 16)), ("decode", relu(1, 16))])
        made[f"u8.{chip}"] = compiler.compile(soc, [("q", quantised(U8))])
        made[f"u16.{chip}"] = compiler.compile(soc, [("q", quantised(U16))])
        made[f"ints.{chip}"] = compiler.compile(soc, [("i", integers)])
        made[f"encodings.{chip}"] = compiler.compile(soc, [("e", encodings)])
    for f in files:
        with open(f, "rb") as from_:
            made[os.path.basename(f)] = from_.read()
    names = sorted(made)
    for seed in range(damaged):
        name = names[seed % len(names)]
        made[f"damaged.{seed}.{name}"] = damage(made[name], seed)
    told = refused = died = 0
    for name, data in made.items():
        answer = apart(system, data) if name.startswith("damaged.") else system.describe(data)
        told += answer["rc"] == 0
        refused += answer["rc"] > 0
        died += answer["rc"] < 0
        with open(os.path.join(out, name + ".bin"), "wb") as to:
            to.write(data)
        with open(os.path.join(out, name + ".json"), "w") as to:
            json.dump(answer, to)
    print(f"QnnSystem {'.'.join(map(str, system.version))}: {len(made)} files, {told} told, {refused} refused, {died} killed it")


main()
