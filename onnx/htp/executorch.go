package htp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
)

// Limits of a program.
const (
	maxMethods     = 256
	maxProgramRank = 32
)

// The start of a program: the offset of the root, the identifier, and an extended
// header with the sizes of the FlatBuffer and of the segments after it.
const (
	executorchHead     = 40
	executorchExtended = "eh00"
)

// ExecuTorch describes a program (.pte).
type ExecuTorch struct {
	Size       int64
	Methods    []ProgramMethod
	Delegates  []string
	Weights    map[string]int64 // bytes of constants by element type
	Parameters int64
}

// ProgramMethod is an entry point of a program.
type ProgramMethod struct {
	Name            string
	Inputs, Outputs []LiteRTTensor // without names
	Calls           []Operator
	Memory          int64 // bytes that are planned for tensors
}

// ReadExecuTorch reads the program of size bytes in r. It returns [htp.ErrOther] if
// the magic does not match.
func ReadExecuTorch(r io.ReaderAt, size int64) (*ExecuTorch, error) {
	p, err := readExecuTorch(r, size)
	if err != nil {
		return nil, fmt.Errorf("executorch: %w", err)
	}
	return p, nil
}

func readExecuTorch(r io.ReaderAt, size int64) (*ExecuTorch, error) {
	head := make([]byte, min(executorchHead, max(size, 0)))
	if n, err := r.ReadAt(head, 0); n < len(head) {
		return nil, errors.Join(err, io.ErrUnexpectedEOF)
	}
	if len(head) < 8 || string(head[4:6]) != "ET" {
		return nil, fmt.Errorf("%w: bad ExecuTorch magic", ErrOther)
	}
	end, rest := size, size
	if len(head) == executorchHead && string(head[8:12]) == executorchExtended {
		program, base, segments := binary.LittleEndian.Uint64(head[16:]), binary.LittleEndian.Uint64(head[24:]), binary.LittleEndian.Uint64(head[32:])
		if program > uint64(size) || base > uint64(size) || segments > uint64(size)-base || base < program && segments > 0 {
			return nil, fmt.Errorf("%w: program of %d bytes and segments of %d at %d exceed the file of %d", ErrMalformed, program, segments, base, size)
		}
		end, rest = int64(program), int64(base)
	}
	b := newBuffer(r, 0, end)
	p := &ExecuTorch{Size: size, Weights: map[string]int64{}}
	seen := map[uint32]bool{}
	for i, t := range b.Root().Tables(1) {
		if i == maxMethods {
			b.Fail(fmt.Errorf("too many methods: limit %d", maxMethods))
			break
		}
		p.method(b, t, seen)
	}
	if b.Err() == nil {
		p.delegates(b, rest)
	}
	return p, b.Err()
}

// delegates adds the constants of the graphs of XNNPACK, which are segments from base
// on. Those of other delegates, and graphs in other places, are not described.
func (p *ExecuTorch) delegates(b *buffer, base int64) {
	seen, named, root := map[uint32]bool{}, map[string]bool{}, b.Root()
	for _, method := range root.Tables(1) {
		for _, d := range method.Tables(7) {
			data := d.Table(1)
			at := data.Uint32(1, 0)
			if d.Text(0) != xnnpack || data.Uint8(0, 0) != 1 || seen[at] {
				continue
			}
			seen[at] = true
			s := root.At(4, at)
			if !s.Valid() {
				b.malformed("segment %d of %d", at, root.Len(4))
				return
			}
			offset, size := s.Uint64(0), s.Uint64(1)
			if left := uint64(p.Size - base); offset > left || size > left-offset {
				b.malformed("segment of %d bytes at %d exceeds the file of %d", size, offset, p.Size)
				return
			}
			if err := p.xnnpack(b, base+int64(offset), int64(size), named); err != nil {
				b.Fail(err)
				return
			}
		}
	}
}

// xnnpack is the name of a delegate, whose data start with a header: its magic, and
// the place of a FlatBuffer.
const (
	xnnpack      = "XnnpackBackend"
	xnnpackMagic = "XH00"
	xnnpackHead  = 30
)

// xnnpackTypes are the types of elements by number.
var xnnpackTypes = map[uint8]struct {
	name string
	bits int64
}{1: {"float32", 32}, 2: {"float16", 16}, 3: {"int8", 8}, 6: {"int8", 8}, 8: {"int4", 4}, 10: {"int4", 4}, 14: {"bfloat16", 16}}

// xnnpack adds the constants of a graph of size bytes, which spends the budget of the
// program. Those with a name are shared by graphs.
func (p *ExecuTorch) xnnpack(program *buffer, at, size int64, named map[string]bool) error {
	head := make([]byte, min(xnnpackHead, size))
	if n, err := program.src.ReadAt(head, at); n < len(head) {
		return errors.Join(err, io.ErrUnexpectedEOF)
	}
	if len(head) < xnnpackHead || string(head[4:8]) != xnnpackMagic {
		return nil // another form
	}
	from, length := int64(binary.LittleEndian.Uint32(head[10:])), int64(binary.LittleEndian.Uint32(head[14:]))
	if from > size || length > size-from {
		return fmt.Errorf("%w: graph of %d bytes at %d exceeds the delegate of %d", ErrMalformed, length, from, size)
	}
	b := newBuffer(program.src, at+from, length)
	b.budget = program.budget
	defer func() { program.budget = b.budget }()
	root := b.Root()
	for _, v := range root.Tables(2) {
		x := v.Table(1)
		if v.Uint8(0, 0) == 2 { // with scales
			x = x.Table(0)
		}
		if x.Uint32(3, 0) == 0 {
			continue
		}
		place := root.At(8, x.Uint32(3, 0))
		if !place.Valid() {
			return fmt.Errorf("%w: constant %d of %d", ErrMalformed, x.Uint32(3, 0), root.Len(8))
		}
		if key := place.Text(2); key != "" {
			if named[key] {
				continue
			}
			named[key] = true
		}
		t, n := xnnpackTypes[x.Uint8(0, 0)], int64(1)
		for _, d := range x.Uint32s(2) {
			if n > 0 && int64(d) > math.MaxInt32*64/n {
				return fmt.Errorf("%w: constant of shape %v", ErrMalformed, x.Uint32s(2))
			}
			n *= int64(d)
		}
		p.Weights[t.name] += n * t.bits / 8
		p.Parameters += n
	}
	return b.Err()
}

// method reads an execution plan.
func (p *ExecuTorch) method(b *buffer, t table, seen map[uint32]bool) {
	m := ProgramMethod{Name: t.Text(0), Inputs: plannedTensors(t, 3), Outputs: plannedTensors(t, 4)}
	var names []string
	for _, o := range t.Tables(6) {
		name := o.Text(0)
		if overload := o.Text(1); overload != "" {
			name += "." + overload
		}
		names = append(names, name)
	}
	var delegates []string
	for _, d := range t.Tables(7) {
		delegates = append(delegates, d.Text(0))
	}
	p.Delegates = append(p.Delegates, delegates...)
	count := map[string]int{}
	for _, chain := range t.Tables(5) {
		for _, call := range chain.Tables(2) {
			from := names
			switch call.Uint8(0, 0) {
			case 1:
			case 2:
				from = delegates
			default:
				continue
			}
			at := call.Table(1).Int32(0)
			if at < 0 || int(at) >= len(from) {
				b.malformed("call of operator %d of %d", at, len(from))
				break
			}
			count[from[at]]++
		}
	}
	m.Calls = sorted(count)
	at, n := t.vector(8, 8)
	for i := range n {
		if bytes := b.at(at+8*i, 8); bytes != nil {
			m.Memory += max(0, int64(binary.LittleEndian.Uint64(bytes)))
		}
	}
	p.constants(b, t, seen)
	p.Methods = append(p.Methods, m)
}

// constants adds the constant tensors of a plan that no earlier one has.
func (p *ExecuTorch) constants(b *buffer, t table, seen map[uint32]bool) {
	for _, v := range t.Tables(2) {
		x := v.Table(1)
		if v.Uint8(0, 0) != executorchTensor || x.Table(6).Valid() || x.Uint32(5, 0) == 0 || seen[x.Uint32(5, 0)] {
			continue
		}
		seen[x.Uint32(5, 0)] = true
		name, width := executorchType(x.Uint8(0, 0))
		n := int64(1)
		for _, d := range x.Uint32s(2) {
			if n > 0 && int64(d) > math.MaxInt32*64/n {
				b.malformed("constant of shape %v", x.Uint32s(2))
				return
			}
			n *= int64(d)
		}
		p.Weights[name] += n * width
		p.Parameters += n
	}
}

// executorchTensor is the union's member for tensors.
const executorchTensor = 5

// plannedTensors returns the tensors that a vector of indices names.
func plannedTensors(t table, field int) (out []LiteRTTensor) {
	for _, i := range t.Uint32s(field) {
		v := t.At(2, i)
		if !v.Valid() {
			t.b.malformed("value %d of %d", i, t.Len(2))
			return nil
		}
		x := LiteRTTensor{}
		if v.Uint8(0, 0) == executorchTensor {
			tensor := v.Table(1)
			x.DType, _ = executorchType(tensor.Uint8(0, 0))
			dims := tensor.Uint32s(2)
			if len(dims) > maxProgramRank {
				t.b.malformed("tensor of %d dimensions exceeds limit %d", len(dims), maxProgramRank)
				return nil
			}
			for _, d := range dims {
				x.Dims = append(x.Dims, int32(d))
			}
		}
		out = append(out, x)
	}
	return out
}

// executorchTypes are the types of elements by number, with their bytes.
var executorchTypes = map[uint8]struct {
	name  string
	width int64
}{0: {"uint8", 1}, 1: {"int8", 1}, 2: {"int16", 2}, 3: {"int32", 4}, 4: {"int64", 8}, 5: {"float16", 2}, 6: {"float32", 4}, 7: {"float64", 8}, 11: {"bool", 1}, 15: {"bfloat16", 2}}

func executorchType(n uint8) (string, int64) {
	if t, ok := executorchTypes[n]; ok {
		return t.name, t.width
	}
	return fmt.Sprintf("type %d", n), 0
}

// Calls counts the calls of all methods by name.
func (p *ExecuTorch) Calls() map[string]int {
	count := map[string]int{}
	for _, m := range p.Methods {
		for _, o := range m.Calls {
			count[o.Name] += o.Count
		}
	}
	return count
}

// Names returns the names of the methods.
func (p *ExecuTorch) Names() (list []string) {
	for _, m := range p.Methods {
		list = append(list, m.Name)
	}
	slices.Sort(list)
	return list
}
