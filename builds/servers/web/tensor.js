// Tensors of numbers: files of NumPy, 16-bit floats, comparisons.

const float16 = globalThis.Float16Array;

// arrays are the typed arrays of ONNX Runtime's element types.
export const arrays = {
  float32: Float32Array, float64: Float64Array, float16: float16 ?? Uint16Array,
  int8: Int8Array, int16: Int16Array, int32: Int32Array, int64: BigInt64Array,
  uint8: Uint8Array, uint16: Uint16Array, uint32: Uint32Array, uint64: BigUint64Array, bool: Uint8Array,
};

const codes = {
  '<f4': 'float32', '<f8': 'float64', '<f2': 'float16', '|i1': 'int8', '<i2': 'int16', '<i4': 'int32', '<i8': 'int64',
  '|u1': 'uint8', '<u2': 'uint16', '<u4': 'uint32', '<u8': 'uint64', '|b1': 'bool',
};

// fromHalf returns the value of the bits of a 16-bit float.
export function fromHalf(bits) {
  const sign = bits & 0x8000 ? -1 : 1, exponent = bits >> 10 & 31, fraction = bits & 1023;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return exponent ? sign * 2 ** (exponent - 15) * (1 + fraction / 1024) : sign * 2 ** -24 * fraction;
}

// toHalf returns the bits of the nearest 16-bit float, the even one of two.
export function toHalf(value) {
  const sign = value < 0 || Object.is(value, -0) ? 0x8000 : 0;
  let rest = Math.abs(value);
  if (Number.isNaN(value)) return 0x7e00;
  if (rest >= 65520) return sign | 0x7c00;
  const exponent = rest < 2 ** -14 ? -14 : Math.floor(Math.log2(rest));
  rest = even(rest / 2 ** (exponent - 10));
  return sign | (exponent === -14 && rest < 1024 ? rest : (exponent + 14 << 10) + rest);
}

// even rounds to the nearest integer, the even one of two.
export function even(x) {
  const down = Math.floor(x), rest = x - down;
  return rest < .5 || rest === .5 && down % 2 === 0 ? down : down + 1;
}

// size returns the number of elements of a shape.
export const size = dims => dims.reduce((n, d) => n * Number(d), 1);

// parseNpy reads a file of NumPy: {type, dims, data}, with 16-bit floats as bits.
export function parseNpy(buffer) {
  const bytes = new Uint8Array(buffer), view = new DataView(buffer);
  if (bytes.length < 12 || String.fromCharCode(...bytes.subarray(1, 6)) !== 'NUMPY') throw new Error('not a .npy file');
  const wide = bytes[6] > 1, start = wide ? 12 : 10;
  const length = wide ? view.getUint32(8, true) : view.getUint16(8, true);
  const head = new TextDecoder('latin1').decode(bytes.subarray(start, start + length));
  const code = /'descr':\s*'([^']+)'/.exec(head)?.[1], type = codes[code];
  const shape = /'shape':\s*\(([\d,\s]*)\)/.exec(head);
  if (!type || !shape || /'fortran_order':\s*True/.test(head)) throw new Error(`unsupported .npy file: type ${code}`);
  const dims = shape[1].split(',').filter(s => s.trim()).map(Number);
  const Kind = type === 'float16' ? Uint16Array : arrays[type];
  const want = size(dims) * Kind.BYTES_PER_ELEMENT;
  if (bytes.length - start - length !== want) throw new Error(`${bytes.length - start - length} bytes of data, want ${want}`);
  return { type, dims, data: new Kind(buffer.slice(start + length)) };
}

// formatNpy returns the bytes of a file of NumPy.
export function formatNpy(type, dims, data) {
  const code = Object.keys(codes).find(k => codes[k] === type);
  const shape = dims.length === 1 ? `${dims[0]},` : dims.join(', ');
  let head = `{'descr': '${code}', 'fortran_order': False, 'shape': (${shape}), }`;
  head = head.padEnd(Math.ceil((head.length + 11) / 64) * 64 - 11) + '\n';
  const bytes = new Uint8Array(10 + head.length + data.byteLength);
  bytes.set([0x93, 78, 85, 77, 80, 89, 1, 0, head.length & 255, head.length >> 8]);
  for (let i = 0; i < head.length; i++) bytes[10 + i] = head.charCodeAt(i);
  bytes.set(new Uint8Array(data.buffer, data.byteOffset, data.byteLength), 10 + head.length);
  return bytes;
}

// numbers returns the elements of a tensor as numbers; bits reports that 16-bit floats
// are their bits.
export function numbers(type, data, bits = data instanceof Uint16Array) {
  if (type === 'float16' && bits) return Float64Array.from(data, fromHalf);
  return Float64Array.from(data, Number);
}

// elements returns numbers as the elements of a type. A number that an integer type does
// not have is an error.
export function elements(type, values) {
  const Kind = arrays[type];
  if (type === 'float16') return Kind === Uint16Array ? Uint16Array.from(values, toHalf) : Kind.from(values);
  if (Kind === Float32Array || Kind === Float64Array) return Kind.from(values);
  const big = Kind === BigInt64Array || Kind === BigUint64Array;
  const out = new Kind(values.length);
  values.forEach((v, i) => {
    if (!Number.isSafeInteger(v)) throw new Error(`${v} is not an integer`);
    out[i] = big ? BigInt(v) : v;
    if (Number(out[i]) !== v || type === 'bool' && v > 1) throw new Error(`${v} exceeds the range of ${type}`);
  });
  return out;
}

// fitted returns sizes for open dimensions, so that a shape has count elements. given is
// the shape of the numbers, if it has one.
export function fitted(dims, count, given) {
  if (given && given.length === dims.length && given.every((d, i) => typeof dims[i] === 'string' || dims[i] === d)) return given;
  const open = dims.filter(d => typeof d === 'string').length;
  const fixed = dims.reduce((n, d) => typeof d === 'string' ? n : n * d, 1);
  if (!open && fixed === count) return dims;
  if (open && fixed && count % fixed === 0) {
    let rest = count / fixed;
    const last = dims.findLastIndex(d => typeof d === 'string');
    return dims.map((d, i) => typeof d !== 'string' ? d : i === last ? rest : 1);
  }
  throw new Error(`${count} numbers do not have the shape [${dims.join(', ')}]`);
}

// cosine returns the cosine of two lists of numbers and their largest difference.
export function cosine(a, b) {
  if (a.length !== b.length) throw new Error(`${a.length} numbers, want ${b.length}`);
  let ab = 0, aa = 0, bb = 0, most = 0;
  for (let i = 0; i < a.length; i++) {
    ab += a[i] * b[i]; aa += a[i] * a[i]; bb += b[i] * b[i];
    const d = Math.abs(a[i] - b[i]);
    if (!(d <= most)) most = d;
  }
  return { cosine: aa || bb ? ab / Math.sqrt(aa * bb) : 1, most };
}
