package blob

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"mm-abi.org/mm/onnx/htp"
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
		return nil, fmt.Errorf("%w: bad ExecuTorch magic", htp.ErrOther)
	}
	end := size
	if len(head) == executorchHead && string(head[8:12]) == executorchExtended {
		program, base, segments := binary.LittleEndian.Uint64(head[16:]), binary.LittleEndian.Uint64(head[24:]), binary.LittleEndian.Uint64(head[32:])
		if program > uint64(size) || base > uint64(size) || segments > uint64(size)-base || base < program && segments > 0 {
			return nil, fmt.Errorf("%w: program of %d bytes and segments of %d at %d exceed the file of %d", ErrMalformed, program, segments, base, size)
		}
		end = int64(program)
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
	return p, b.Err()
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
	for _, d := range t.Tables(7) {
		p.Delegates = append(p.Delegates, d.Text(0))
	}
	count := map[string]int{}
	for _, chain := range t.Tables(5) {
		for _, call := range chain.Tables(2) {
			kernel := call.Table(1)
			if call.Uint8(0, 0) != 1 { // not a kernel
				continue
			}
			at := kernel.Int32(0)
			if at < 0 || int(at) >= len(names) {
				b.malformed("call of operator %d of %d", at, len(names))
				break
			}
			count[names[at]]++
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
