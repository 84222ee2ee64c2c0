package onnx

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"unsafe"

	"mm-abi.org/mm/internal/fsx"
)

// Parse reads a model from memory. Names are copied, weights are not.
func Parse(b []byte) (*Model, error) {
	if strings.HasPrefix(string(b[:min(len(b), 32)]), "version https://git-lfs") {
		return nil, fmt.Errorf("onnx: %w", ErrPointer)
	}
	if oversized(int64(len(b))) {
		return nil, fmt.Errorf("onnx: %w: %d bytes exceed the %d of protobuf", ErrLimit, len(b), maxFile)
	}
	if len(b) == 0 {
		return nil, errors.New("onnx: file is empty")
	}
	r := &reader{budget: minBudget + 16*len(b)}
	m, err := r.model(b)
	if kind := fsx.Sniff(b); err != nil && kind != fsx.Unknown && kind != fsx.ONNX {
		return nil, fmt.Errorf("onnx: not an ONNX file: got %s", kind)
	}
	if err != nil {
		return nil, fmt.Errorf("onnx: %w", err)
	}
	m.Unknown, m.size = r.unknown, int64(len(b))
	return m, nil
}

// fields returns the bit set of singular fields.
func fields(nums ...int) uint64 {
	set := uint64(0)
	for _, n := range nums {
		set |= 1 << n
	}
	return set
}

// in adds the place to an error.
func in(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf(format+": %w", append(args, err)...)
}

// add decodes a message into a new element of a slice.
func add[T any](r *reader, dst *[]T, f field, what string, decode func([]byte) (T, error)) error {
	if err := errors.Join(f.is(wireBytes), r.spend(2*int(unsafe.Sizeof(*new(T))))); err != nil {
		return err
	}
	v, err := decode(f.data)
	if err != nil {
		return in(err, "%s %d", what, len(*dst))
	}
	*dst = append(*dst, v)
	return nil
}

// one decodes a message into a pointer.
func one[T any](dst **T, f field, what string, decode func([]byte) (T, error)) error {
	if err := f.is(wireBytes); err != nil {
		return err
	}
	v, err := decode(f.data)
	*dst = &v
	return in(err, "%s", what)
}

// names appends a name.
func (r *reader) names(dst *[]string, f field) error {
	var s string
	err := errors.Join(f.name(&s), r.spend(2*int(unsafe.Sizeof(s))))
	*dst = append(*dst, s)
	return err
}

// strings appends a string of bytes, which is not copied.
func (r *reader) strings(dst *[][]byte, f field) error {
	*dst = append(*dst, f.data)
	return errors.Join(f.is(wireBytes), r.spend(2*int(unsafe.Sizeof(f.data))))
}

// skip skips a defined field that is not used.
func skip(f field) error { return f.is(wireBytes) }

// other counts an undefined field.
func (r *reader) other() error {
	r.unknown++
	return nil
}

// at binds a decoder of graphs or types to its depth.
func at[T any](depth int, decode func([]byte, int) (T, error)) func([]byte) (T, error) {
	return func(b []byte) (T, error) { return decode(b, depth) }
}

func (r *reader) model(b []byte) (*Model, error) {
	m := &Model{}
	var graph *Graph
	err := r.message(b, fields(1, 2, 3, 4, 5, 6, 7), func(f field) error {
		switch f.num {
		case 1:
			return f.int(&m.IRVersion)
		case 2:
			return f.text(&m.Producer)
		case 3:
			return f.text(&m.ProducerVersion)
		case 4:
			return f.text(&m.Domain)
		case 5:
			return f.int(&m.Version)
		case 6:
			return f.text(&m.Doc)
		case 7:
			return one(&graph, f, "graph", at(0, r.graph))
		case 8:
			return add(r, &m.Opsets, f, "opset", r.opset)
		case 14:
			return add(r, &m.Metadata, f, "metadata", r.entry)
		case 20:
			return r.training(m, f)
		case 25:
			return add(r, &m.Functions, f, "function", r.function)
		case 26:
			return skip(f)
		}
		return r.other()
	})
	if err != nil {
		return nil, err
	}
	if graph == nil {
		return nil, errors.New("missing graph: not an ONNX model")
	}
	m.Graph = *graph
	return m, nil
}

// training collects the graphs of a TrainingInfoProto.
func (r *reader) training(m *Model, f field) error {
	if err := f.is(wireBytes); err != nil {
		return err
	}
	return in(r.message(f.data, fields(1, 2), func(f field) error {
		switch f.num {
		case 1, 2:
			return add(r, &m.Training, f, "graph", at(0, r.graph))
		case 3, 4:
			return skip(f)
		}
		return r.other()
	}), "training_info")
}

func (r *reader) opset(b []byte) (o Opset, err error) {
	err = r.message(b, fields(1, 2), func(f field) error {
		switch f.num {
		case 1:
			return f.name(&o.Domain)
		case 2:
			return f.int(&o.Version)
		}
		return r.other()
	})
	return o, err
}

func (r *reader) entry(b []byte) (e Entry, err error) {
	err = r.message(b, fields(1, 2), func(f field) error {
		switch f.num {
		case 1:
			return f.name(&e.Key)
		case 2:
			return f.text(&e.Value)
		}
		return r.other()
	})
	return e, err
}

func (r *reader) graph(b []byte, depth int) (g Graph, err error) {
	if depth > maxDepth {
		return g, fmt.Errorf("%w: graphs nested deeper than %d", ErrLimit, maxDepth)
	}
	err = r.message(b, fields(2, 10), func(f field) error {
		switch f.num {
		case 1:
			return add(r, &g.Nodes, f, "node", at(depth, r.node))
		case 2:
			return f.name(&g.Name)
		case 5:
			return add(r, &g.Initializers, f, "initializer", r.tensor)
		case 10:
			return f.text(&g.Doc)
		case 11:
			return add(r, &g.Inputs, f, "input", r.value)
		case 12:
			return add(r, &g.Outputs, f, "output", r.value)
		case 13:
			return add(r, &g.Values, f, "value_info", r.value)
		case 14, 16:
			return skip(f)
		case 15:
			return add(r, &g.Sparse, f, "sparse_initializer", r.sparse)
		}
		return r.other()
	})
	return g, err
}

func (r *reader) node(b []byte, depth int) (n Node, err error) {
	err = r.message(b, fields(3, 4, 6, 7, 8), func(f field) error {
		switch f.num {
		case 1:
			return r.names(&n.Inputs, f)
		case 2:
			return r.names(&n.Outputs, f)
		case 3:
			return f.name(&n.Name)
		case 4:
			return f.name(&n.Op)
		case 5:
			return add(r, &n.Attributes, f, "attribute", at(depth, r.attribute))
		case 6:
			return f.text(&n.Doc)
		case 7:
			return f.name(&n.Domain)
		case 8:
			return f.name(&n.Overload)
		case 9, 10:
			return skip(f)
		}
		return r.other()
	})
	return n, err
}

func (r *reader) attribute(b []byte, depth int) (a Attribute, err error) {
	err = r.message(b, fields(1, 2, 3, 4, 5, 6, 13, 14, 20, 21, 22), func(f field) error {
		switch f.num {
		case 1:
			return f.name(&a.Name)
		case 2:
			a.Float = math.Float32frombits(uint32(f.value))
			return f.is(wireFixed32)
		case 3:
			return f.int(&a.Int)
		case 4:
			a.String = f.data
			return f.is(wireBytes)
		case 5:
			return one(&a.Tensor, f, "tensor", r.tensor)
		case 6:
			return one(&a.Graph, f, "graph", at(depth+1, r.graph))
		case 7:
			return r.floats(f, &a.Floats)
		case 8:
			return r.ints(f, &a.Ints)
		case 9:
			return r.strings(&a.Strings, f)
		case 10:
			return add(r, &a.Tensors, f, "tensor", r.tensor)
		case 11:
			return add(r, &a.Graphs, f, "graph", at(depth+1, r.graph))
		case 13:
			return f.text(&a.Doc)
		case 14, 15:
			return add(r, &a.Types, f, "type", at(0, r.typ))
		case 20:
			return f.int32((*int32)(&a.Type))
		case 21:
			return f.name(&a.Ref)
		case 22:
			return one(&a.Sparse, f, "sparse_tensor", r.sparse)
		case 23:
			return add(r, &a.Sparses, f, "sparse_tensor", r.sparse)
		}
		return r.other()
	})
	return a, err
}

func (r *reader) value(b []byte) (v Value, err error) {
	var typ *Type
	err = r.message(b, fields(1, 2, 3), func(f field) error {
		switch f.num {
		case 1:
			return f.name(&v.Name)
		case 2:
			return one(&typ, f, "type", at(0, r.typ))
		case 3:
			return f.text(&v.Doc)
		case 4:
			return skip(f)
		}
		return r.other()
	})
	if typ != nil {
		v.Type = *typ
	}
	return v, in(err, "%q", v.Name)
}

// typ reads a TypeProto, a union of which at most one member may be set.
func (r *reader) typ(b []byte, depth int) (t Type, err error) {
	if depth > maxDepth {
		return t, fmt.Errorf("%w: types nested deeper than %d", ErrLimit, maxDepth)
	}
	err = r.message(b, fields(1, 4, 5, 6, 7, 8, 9), func(f field) error {
		kind, ok := map[int]Kind{1: TensorKind, 4: SequenceKind, 5: MapKind, 7: OpaqueKind, 8: SparseKind, 9: OptionalKind}[f.num]
		switch {
		case f.num == 6:
			return skip(f)
		case !ok:
			return r.other()
		case t.Kind != NoKind:
			return errors.New("type has two kinds")
		}
		t.Kind = kind
		if err := f.is(wireBytes); err != nil {
			return err
		}
		switch kind {
		case TensorKind, SparseKind:
			return r.tensorType(f.data, &t)
		case OpaqueKind:
			return nil
		}
		return r.containerType(f.data, &t, depth)
	})
	return t, err
}

func (r *reader) tensorType(b []byte, t *Type) error {
	return r.message(b, fields(1, 2), func(f field) error {
		switch f.num {
		case 1:
			return f.int32((*int32)(&t.DType))
		case 2:
			if err := f.is(wireBytes); err != nil {
				return err
			}
			t.Ranked, t.Dims = true, []Dim{}
			return r.message(f.data, 0, func(f field) error {
				if f.num != 1 {
					return r.other()
				}
				return add(r, &t.Dims, f, "dimension", r.dim)
			})
		}
		return r.other()
	})
}

// containerType reads the element type of a sequence or an optional, or the key
// and value types of a map.
func (r *reader) containerType(b []byte, t *Type, depth int) error {
	return r.message(b, fields(1, 2), func(f field) error {
		switch {
		case f.num == 1 && t.Kind == MapKind:
			return f.int32((*int32)(&t.DType))
		case f.num == 1, f.num == 2 && t.Kind == MapKind:
			return one(&t.Elem, f, "element type", at(depth+1, r.typ))
		}
		return r.other()
	})
}

// dim reads a dimension: a number or a name, not both.
func (r *reader) dim(b []byte) (Dim, error) {
	d, set := Dim{Value: Unknown}, 0
	err := r.message(b, fields(1, 2, 3), func(f field) error {
		switch f.num {
		case 1:
			set++
			return f.int(&d.Value)
		case 2:
			set++
			return f.name(&d.Param)
		case 3:
			return skip(f)
		}
		return r.other()
	})
	if err == nil && set > 1 {
		err = errors.New("dimension has both a number and a name")
	}
	return d, err
}

func (r *reader) tensor(b []byte) (t Tensor, err error) {
	location := int32(0)
	var entries []Entry
	err = r.message(b, fields(2, 3, 8, 9, 12, 14), func(f field) error {
		switch f.num {
		case 1:
			return r.ints(f, &t.Dims)
		case 2:
			return f.int32((*int32)(&t.DType))
		case 3:
			return errors.New("segments are not supported")
		case floatData, int32Data, int64Data, doubleData, uint64Data:
			return errors.Join(t.addTyped(f), r.spend(2*int(unsafe.Sizeof(f.data))))
		case stringData:
			if t.Strings == nil {
				t.fields++
			}
			return r.strings(&t.Strings, f)
		case 8:
			return f.name(&t.Name)
		case rawData:
			t.fields++
			t.Raw = f.data
			return f.is(wireBytes)
		case 12:
			return f.text(&t.Doc)
		case 13:
			return add(r, &entries, f, "external_data", r.entry)
		case 14:
			return f.int32(&location)
		case 16:
			return skip(f)
		}
		return r.other()
	})
	switch {
	case err != nil:
	case location == 1:
		t.External = &External{entries}
	case location != 0:
		err = fmt.Errorf("unknown data location %d", location)
	case len(entries) > 0:
		err = errors.New("external_data of a tensor that is not external")
	}
	return t, in(err, "%q", t.Name)
}

// addTyped keeps the payload of a typed field, packed or a single value.
func (t *Tensor) addTyped(f field) error {
	if t.field != f.num {
		t.fields++
		t.field = f.num
	}
	width, wire := 0, wireVarint
	switch f.num {
	case floatData:
		width, wire = 4, wireFixed32
	case doubleData:
		width, wire = 8, wireFixed64
	}
	payload := f.data
	if f.wire == wireVarint {
		payload = appendVarint(nil, f.value)
	}
	if f.wire != wireBytes && f.wire != wire || width > 0 && len(payload)%width != 0 {
		return fmt.Errorf("field %d holds a partial value", f.num)
	}
	if width == 0 {
		for b := payload; len(b) > 0; {
			_, n := readVarint(b)
			if n == 0 {
				return fmt.Errorf("field %d holds an invalid varint", f.num)
			}
			b = b[n:]
		}
	}
	t.typed = append(t.typed, payload)
	return nil
}

func (r *reader) sparse(b []byte) (s SparseTensor, err error) {
	var values, indices *Tensor
	err = r.message(b, fields(1, 2), func(f field) error {
		switch f.num {
		case 1:
			return one(&values, f, "values", r.tensor)
		case 2:
			return one(&indices, f, "indices", r.tensor)
		case 3:
			return r.ints(f, &s.Dims)
		}
		return r.other()
	})
	if err == nil && (values == nil || indices == nil) {
		err = errors.New("sparse tensor without values or indices")
	}
	if err == nil {
		s.Values, s.Indices = *values, *indices
	}
	return s, err
}

func (r *reader) function(b []byte) (fn Function, err error) {
	err = r.message(b, fields(1, 8, 10, 13), func(f field) error {
		switch f.num {
		case 1:
			return f.name(&fn.Name)
		case 4:
			return r.names(&fn.Inputs, f)
		case 5:
			return r.names(&fn.Outputs, f)
		case 6:
			return r.names(&fn.Attributes, f)
		case 7:
			return add(r, &fn.Nodes, f, "node", at(0, r.node))
		case 8:
			return f.text(&fn.Doc)
		case 9:
			return add(r, &fn.Opsets, f, "opset", r.opset)
		case 10:
			return f.name(&fn.Domain)
		case 11:
			return add(r, &fn.Defaults, f, "attribute", at(0, r.attribute))
		case 12, 14:
			return skip(f)
		case 13:
			return f.name(&fn.Overload)
		}
		return r.other()
	})
	return fn, in(err, "%q", fn.Name)
}
