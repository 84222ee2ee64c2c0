package htp

import (
	"encoding/binary"
	"fmt"
)

// layout holds the field numbers of the metadata's table in a schema.
type layout struct {
	blob, sharedCount, shared, graphCount, graphs, blobSize, extra, soc int
}

// absent is the number of a field that a schema lacks.
const absent = 1 << 14

// layoutOf returns the fields of a schema. The first five are shared by all.
func layoutOf(schema uint32) (layout, bool) {
	switch schema {
	case 1:
		return layout{blob: 6, sharedCount: 10, shared: 11, graphCount: 12, graphs: 13, blobSize: 14, extra: absent, soc: absent}, true
	case 3:
		return layout{blob: 5, sharedCount: 7, shared: 8, graphCount: 9, graphs: 10, blobSize: 11, extra: 15, soc: 16}, true
	}
	return layout{}, false
}

// metadata reads the FlatBuffer after the header.
func (c *Context) metadata(b *buffer) {
	versioned := b.Root().Table(0)
	schema, form := versioned.Uint32(0, 0), versioned.Uint8(1, 0)
	at, known := layoutOf(schema)
	if b.Err() != nil {
		return
	}
	if !known || uint32(form) != schema {
		c.Unread = fmt.Sprintf("schema %d of the metadata, in a table of form %d: unknown", schema, form)
		return
	}
	t := versioned.Table(2)
	if b.Err() == nil && !t.Valid() {
		b.Fail(fmt.Errorf("%w: missing information table", ErrMalformed))
		return
	}
	c.Schema, c.Backend, c.Build = schema, Backend(t.Uint32(0, 0)), t.Text(1)
	c.Core, c.API, c.SoCText, c.Blob = version(t, 2), version(t, 3), t.Text(4), version(t, at.blob)
	c.SoC = t.Uint32(at.soc, 0)
	extra := t.Bytes(at.extra, maxExtra)
	if size := t.Uint32(at.extra-1, 0); b.Err() == nil && int64(size) != int64(len(extra)) {
		b.Fail(fmt.Errorf("backend data size mismatch: got %d bytes, want %d", len(extra), size))
	}
	c.Arch = arch(c.Backend, extra)
	if size := t.Uint64(at.blobSize); b.Err() == nil && size != uint64(c.BlobSize) {
		b.Fail(fmt.Errorf("blob size mismatch: header has %d, metadata %d", c.BlobSize, size))
	}
	left := maxTensors
	c.Tensors = tensors(b, t, at.sharedCount, at.shared, &left, "shared tensors")
	c.graphs(b, t, at, &left)
}

// version reads a struct of three numbers.
func version(t table, field int) Version {
	w := t.Words(field, 3)
	return Version{Major: w[0], Minor: w[1], Patch: w[2]}
}

// maxExtra is the limit of backend data of a context or a graph, in bytes.
const maxExtra = 1 << 20

// arch reads the HTP's data of a context: a version and, in version 1, the
// architecture.
func arch(backend Backend, extra []byte) Arch {
	if backend != HTP || len(extra) < 8 || binary.LittleEndian.Uint32(extra) != 1 {
		return 0
	}
	return Arch(binary.LittleEndian.Uint32(extra[4:]))
}

// graphs reads the list of graphs and checks it against the declared counts.
func (c *Context) graphs(b *buffer, t table, at layout, left *int) {
	declared, n := t.Uint32(at.graphCount, 0), t.Len(at.graphs)
	if b.Err() == nil && (int64(declared) != int64(n) || n > maxGraphs) {
		b.Fail(fmt.Errorf("bad graph count: declared %d, got %d, limit %d", declared, n, maxGraphs))
		return
	}
	names := map[string]bool{}
	for i, e := range t.Tables(at.graphs) {
		g := graph(b, c.Backend, e, left)
		if b.Err() != nil {
			return
		}
		if names[g.Name] {
			b.Fail(fmt.Errorf("graph %d: duplicate name %q", i, g.Name))
			return
		}
		names[g.Name] = true
		c.Graphs = append(c.Graphs, g)
	}
}

// graph reads one graph, whose table holds the table of version 1 at depth one,
// two or three.
func graph(b *buffer, backend Backend, e table, left *int) Graph {
	form, t := e.Uint8(1, 0), e.Table(2)
	var g Graph
	switch form {
	case 3:
		extra := t.Bytes(2, maxExtra)
		if size := t.Uint32(1, 0); b.Err() == nil && int64(size) != int64(len(extra)) {
			b.Fail(fmt.Errorf("backend data size mismatch in a graph: got %d bytes, want %d", len(extra), size))
			return g
		}
		g.Memory = memory(backend, extra)
		t = t.Table(0)
		fallthrough
	case 2:
		g.Updates = tensors(b, t, 1, 2, left, "tensors to be updated")
		t = t.Table(0)
	case 1:
	default:
		b.Fail(fmt.Errorf("%w: unknown graph form %d", ErrMalformed, form))
		return g
	}
	if b.Err() == nil && !t.Valid() {
		b.Fail(fmt.Errorf("%w: graph without a table", ErrMalformed))
		return g
	}
	g.Name = t.Text(0)
	g.Inputs, g.Outputs = tensors(b, t, 1, 2, left, "inputs"), tensors(b, t, 3, 4, left, "outputs")
	return g
}

// memory reads the HTP's data of a graph: the VTCM use in version 1, followed
// by memory sizes in version 2.
func memory(backend Backend, extra []byte) *Memory {
	const plain, sized = 40, 112
	if backend != HTP || len(extra) < plain || binary.LittleEndian.Uint32(extra) != 1 {
		return nil
	}
	u64 := func(at int) uint64 { return binary.LittleEndian.Uint64(extra[at:]) }
	m := &Memory{SpillFill: u64(8), VTCM: binary.LittleEndian.Uint32(extra[16:]), Optimization: binary.LittleEndian.Uint32(extra[20:]), HVXThreads: u64(32)}
	if len(extra) >= sized && binary.LittleEndian.Uint32(extra[plain:]) == 2 {
		m.Sized, m.IO, m.OpData, m.Constants, m.DDR, m.Shared = true, u64(72), u64(80), u64(88), u64(96), u64(104)
	}
	return m
}

// tensors reads a list of tensors and its count; left is how many more may be
// read.
func tensors(b *buffer, t table, count, list int, left *int, what string) []Tensor {
	declared, n := t.Uint32(count, 0), t.Len(list)
	if b.Err() != nil {
		return nil
	}
	if int64(declared) != int64(n) || n > *left {
		b.Fail(fmt.Errorf("bad count: declared %d %s, got %d, limit %d", declared, what, n, *left))
		return nil
	}
	*left -= n
	names := map[string]bool{}
	var out []Tensor
	for _, e := range t.Tables(list) {
		x := tensor(b, e)
		if b.Err() != nil {
			return nil
		}
		if names[x.Name] {
			b.Fail(fmt.Errorf("duplicate name in %s: %q", what, x.Name))
			return nil
		}
		names[x.Name] = true
		out = append(out, x)
	}
	return out
}

func tensor(b *buffer, t table) Tensor {
	x := Tensor{ID: t.Uint32(0, 0), Kind: t.Uint32(1, 0), Format: t.Uint32(2, 0), DType: DType(t.Uint32(3, 0)), Dims: t.Uint32s(7), Name: t.Text(9), Version: 1}
	if rank := t.Uint32(6, 0); int64(rank) != int64(len(x.Dims)) || rank > maxRank {
		b.Fail(fmt.Errorf("tensor %q: rank %d with %d dimensions, limit %d", x.Name, rank, len(x.Dims), maxRank))
	}
	const form, isDynamic = 10, 11 // the second form has isDynamic, possibly empty
	if dynamic := t.Bytes(isDynamic, maxRank); len(dynamic) > 0 {
		if len(dynamic) != len(x.Dims) {
			b.Fail(fmt.Errorf("tensor %q: %d dimensions with %d dynamic flags", x.Name, len(x.Dims), len(dynamic)))
		}
		for _, d := range dynamic {
			x.Dynamic = append(x.Dynamic, d != 0)
		}
	}
	if t.Uint32(form, 0) == 1 && t.Has(isDynamic) {
		x.Version = 2
	}
	x.Quant = quantization(b, t)
	return x
}
