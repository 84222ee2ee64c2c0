package htp

import (
	"bytes"
	"fmt"
	"io"
	"strings"
)

// The fields of a model, by the numbers of schema.fbs.
const (
	fieldCodes     = 1
	fieldSubgraphs = 2
	fieldBuffers   = 4
	fieldMetadata  = 6
)

// code is an entry of the model's operator list: a builtin by number, or a
// custom operator by name.
type code struct {
	name   string
	custom bool
}

const customBuiltin = 32

func codes(root table) []code {
	names := strings.Split(strings.TrimSpace(operators), "\n")
	var out []code
	for _, t := range root.Tables(fieldCodes) {
		// The byte of old files covers up to 127; the wider field was added for
		// the rest.
		n := max(int64(t.Uint8(0, 0)), int64(t.Int32(3)))
		c := code{name: fmt.Sprintf("operator %d", n)}
		if n == customBuiltin {
			c = code{t.Text(1), true}
		} else if n >= 0 && n < int64(len(names)) {
			c.name = names[n]
		}
		out = append(out, c)
	}
	return out
}

// walk reads one subgraph.
type walk struct {
	b     *buffer
	r     io.ReaderAt
	m     *LiteRT
	codes []code
	index int
}

func (w *walk) subgraph(t table) {
	g := Subgraph{Name: t.Text(4), Inputs: w.tensors(t, 1), Outputs: w.tensors(t, 2)}
	count := map[string]int{}
	for i, op := range t.Tables(3) {
		n := op.Uint32(0, 0)
		if int64(n) >= int64(len(w.codes)) {
			w.b.Fail(fmt.Errorf("operator %d of subgraph %d: code %d out of range %d", i, w.index, n, len(w.codes)))
			return
		}
		switch c := w.codes[n]; {
		case c.custom && c.name == dispatchCode:
			w.dispatch(i, op)
		case c.custom:
			count["custom "+c.name]++
		default:
			count[c.name]++
		}
	}
	g.Left = sorted(count)
	w.m.Subgraphs = append(w.m.Subgraphs, g)
}

// tensors reads the tensors whose numbers a field lists.
func (w *walk) tensors(t table, field int) []LiteRTTensor {
	numbers := t.Uint32s(field)
	if len(numbers) == 0 {
		return nil
	}
	var out []LiteRTTensor
	for _, n := range numbers {
		e := t.At(0, n)
		if !e.Valid() {
			w.b.Fail(fmt.Errorf("subgraph %d: input or output tensor %d out of range %d", w.index, n, t.Len(0)))
			return nil
		}
		out = append(out, w.tensor(e))
	}
	return out
}

func (w *walk) tensor(t table) LiteRTTensor {
	x := LiteRTTensor{Name: t.Text(3), DType: dtype(t.Uint8(1, 0))}
	dims := t.Uint32s(0)
	if signature := t.Uint32s(7); len(signature) == len(dims) {
		dims = signature // with -1 for open dimensions
	}
	if len(dims) > maxLiteRTRank {
		w.b.Fail(fmt.Errorf("tensor %q: rank %d exceeds limit %d", x.Name, len(dims), maxLiteRTRank))
		return x
	}
	for _, d := range dims {
		x.Dims = append(x.Dims, int32(d))
	}
	return x
}

// dtype returns the name of an element type numbered as in schema.fbs.
func dtype(n uint8) string {
	names := [...]string{"float32", "float16", "int32", "uint8", "int64", "string", "bool", "int16", "complex64", "int8", "float64", "complex128",
		"uint64", "resource", "variant", "uint32", "uint16", "int4", "bfloat16", "int2", "uint4", "float8e4m3fn", "float8e5m2"}
	if int(n) < len(names) {
		return names[n]
	}
	return fmt.Sprintf("type %d", n)
}

// dispatch reads a compiled part's options.
func (w *walk) dispatch(i int, op table) {
	fail := func(format string, args ...any) {
		w.b.Fail(fmt.Errorf("operator %d of subgraph %d: "+format, append([]any{i, w.index}, args...)...))
	}
	if len(w.m.Dispatches) == maxDispatches {
		fail("too many compiled parts: limit %d", maxDispatches)
		return
	}
	raw := op.Bytes(5, maxOptions)
	if at, n := op.Uint64(9), op.Uint64(10); n > 0 { // outside the FlatBuffer
		if n > maxOptions || at > uint64(w.m.Size) || n > uint64(w.m.Size)-at {
			fail("options of %d bytes at %d exceed the file size %d or limit %d", n, at, w.m.Size, maxOptions)
			return
		}
		raw = make([]byte, n)
		if _, err := w.r.ReadAt(raw, int64(at)); err != nil {
			fail("options: %w", err)
			return
		}
	}
	if w.b.Err() != nil {
		return
	}
	numbers, texts, err := options(raw)
	if err != nil {
		fail("%w", err)
		return
	}
	at, here := numbers["bytecode_offset"]
	n, sized := numbers["bytecode_size"]
	if !here || !sized || n == 0 {
		fail("options without bytecode")
		return
	}
	if at > uint64(w.m.Size) || n > uint64(w.m.Size)-at {
		fail("bytecode at %d of %d bytes exceeds the file size %d", at, n, w.m.Size)
		return
	}
	w.m.Dispatches = append(w.m.Dispatches, Dispatch{w.index, i, texts["name"], int64(at), int64(n)})
}

// metadata reads the compiler's stamp. Its bytes are in the FlatBuffer or, in
// large files, after it.
func (m *LiteRT) metadata(b *buffer, root table, r io.ReaderAt) {
	type entry struct {
		name   string
		buffer uint32
	}
	var entries []entry
	for _, t := range root.Tables(fieldMetadata) {
		entries = append(entries, entry{t.Text(0), t.Uint32(1, 0)})
	}
	for _, e := range entries {
		m.Metadata = append(m.Metadata, e.name)
		switch e.name {
		case "LiteRtStamp":
			if data := m.buffer(b, root, r, e.buffer); len(data) == stampBytes {
				m.Stamp = &Stamp{padded(data[:stampBytes/2]), padded(data[stampBytes/2:])}
			} else if b.Err() == nil {
				b.Fail(fmt.Errorf("bad stamp size: got %d, want %d", len(data), stampBytes))
			}
		case "min_runtime_version":
			m.MinRuntime = padded(m.buffer(b, root, r, e.buffer))
		}
	}
}

// buffer returns the bytes of a buffer by number.
func (m *LiteRT) buffer(b *buffer, root table, r io.ReaderAt, number uint32) []byte {
	t := root.At(fieldBuffers, number)
	if !t.Valid() {
		b.Fail(fmt.Errorf("metadata buffer %d out of range %d", number, root.Len(fieldBuffers)))
		return nil
	}
	at, n := t.Uint64(1), t.Uint64(2)
	if at <= 1 { // 0 and 1 mark a buffer inside the FlatBuffer
		return t.Bytes(0, maxOptions)
	}
	if n > maxOptions || at > uint64(m.Size) || n > uint64(m.Size)-at {
		b.Fail(fmt.Errorf("buffer %d at %d of %d bytes exceeds the file size %d or limit %d", number, at, n, m.Size, maxOptions))
		return nil
	}
	out := make([]byte, n)
	if _, err := r.ReadAt(out, int64(at)); err != nil {
		b.Fail(err)
		return nil
	}
	return out
}

// padded returns the text before the first NUL.
func padded(b []byte) string {
	text, _, _ := bytes.Cut(b, []byte{0})
	return strings.ToValidUTF8(string(text), "\uFFFD")
}
