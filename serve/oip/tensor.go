package oip

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"mm-abi.org/mm/core/quant"
	ctensor "mm-abi.org/mm/core/tensor"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/modality"
	"mm-abi.org/mm/runtimes/part"
	"mm-abi.org/mm/serve/api"
)

// datatypes are the protocol's names of element types.
var datatypes = map[runtimes.Elem]string{
	runtimes.Bool: "BOOL", runtimes.Uint8: "UINT8", runtimes.Uint16: "UINT16", runtimes.Uint32: "UINT32", runtimes.Uint64: "UINT64",
	runtimes.Int8: "INT8", runtimes.Int16: "INT16", runtimes.Int32: "INT32", runtimes.Int64: "INT64",
	runtimes.Float16: "FP16", runtimes.Float32: "FP32", runtimes.Float64: "FP64", runtimes.BFloat16: "BF16",
}

func elemOf(datatype string) (runtimes.Elem, bool) {
	for e, name := range datatypes {
		if name == datatype {
			return e, true
		}
	}
	return "", false
}

// request is the body of an inference.
type request struct {
	ID         string                     `json:"id"`
	Parameters map[string]json.RawMessage `json:"parameters"`
	Inputs     []struct {
		tensor
		Parameters map[string]json.RawMessage `json:"parameters"`
		Data       json.RawMessage            `json:"data"`
	} `json:"inputs"`
	Outputs []struct {
		Name       string                     `json:"name"`
		Parameters map[string]json.RawMessage `json:"parameters"`
	} `json:"outputs"`
}

// response is the result of an inference.
type response struct {
	Model   string   `json:"model_name"`
	Version string   `json:"model_version"`
	ID      string   `json:"id,omitempty"`
	Outputs []result `json:"outputs"`
}

// result is a tensor with its elements, row by row.
type result struct {
	tensor
	Data any `json:"data"`
}

// Limits of a tensor of a client.
const (
	maxRank     = 8
	maxElements = 64 << 20
)

// arguments converts the inputs.
func (q *request) arguments() ([]part.Argument, error) {
	if len(q.Inputs) == 0 {
		return nil, api.Invalid("inputs", "inputs: want at least one")
	}
	var args []part.Argument
	for i, in := range q.Inputs {
		field := fmt.Sprintf("inputs[%d]", i)
		elem, ok := elemOf(in.Datatype)
		if err := fits(in.Shape); err != nil {
			return nil, api.Invalid(field, "%s.shape: %v", field, err)
		}
		n := 1
		for _, d := range in.Shape {
			n *= int(d)
		}
		switch {
		case in.Name == "":
			return nil, api.Invalid(field, "%s.name: missing", field)
		case !ok:
			return nil, api.Unsupported(field, "%s.datatype: got %q, want one of BF16, BOOL, FP16, FP32, FP64, INT8 to INT64, UINT8 to UINT64", field, in.Datatype)
		}
		numbers, err := flatten(in.Data, n)
		if err != nil {
			return nil, api.Invalid(field, "%s.data: %v", field, err)
		}
		data, err := pack(elem, numbers)
		if err != nil {
			return nil, api.Invalid(field, "%s.data: %v", field, err)
		}
		args = append(args, part.Argument{Name: in.Name, Input: modality.Input{Tensor: &runtimes.Tensor{Type: elem, Shape: in.Shape, Data: data}}})
	}
	return args, nil
}

// fits checks a shape.
func fits(shape []int64) error {
	if len(shape) > maxRank {
		return fmt.Errorf("got %d dimensions, limit %d", len(shape), maxRank)
	}
	n := int64(1)
	for _, d := range shape {
		if d < 0 || d > 0 && n > maxElements/d {
			return fmt.Errorf("got %v, limit %d elements", shape, maxElements)
		}
		n *= d
	}
	return nil
}

// flatten returns the n numbers of a flat or nested array. Booleans are 0 and 1.
func flatten(data json.RawMessage, n int) ([]json.Number, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	out := make([]json.Number, 0, min(n, len(data)))
	for {
		t, err := dec.Token()
		if err != nil { // the end
			break
		}
		switch t := t.(type) {
		case json.Delim:
			if t == '{' || t == '}' {
				return nil, fmt.Errorf("got an object, want numbers")
			}
			continue
		case json.Number:
			out = append(out, t)
		case bool:
			out = append(out, map[bool]json.Number{false: "0", true: "1"}[t])
		default:
			return nil, fmt.Errorf("got %v, want numbers", t)
		}
		if len(out) > n {
			break
		}
	}
	if len(out) != n {
		return nil, fmt.Errorf("got %d or more numbers, want %d", len(out), n)
	}
	return out, nil
}

// pack converts numbers to the elements of a type. An integer must be in its range.
func pack(e runtimes.Elem, numbers []json.Number) ([]byte, error) {
	var floats []float32
	out := make([]byte, 0, len(numbers)*e.Size())
	for _, text := range numbers {
		switch e {
		case runtimes.Float32, runtimes.Float16, runtimes.BFloat16, runtimes.Float64:
			f, err := text.Float64()
			if err != nil {
				return nil, fmt.Errorf("bad number %s", text)
			}
			switch e {
			case runtimes.Float64:
				out = binary.LittleEndian.AppendUint64(out, math.Float64bits(f))
			case runtimes.Float32:
				out = binary.LittleEndian.AppendUint32(out, math.Float32bits(float32(f)))
			default:
				floats = append(floats, float32(f))
			}
		default:
			v, err := integer(e, text)
			if err != nil {
				return nil, err
			}
			var b [8]byte
			binary.LittleEndian.PutUint64(b[:], v)
			out = append(out, b[:e.Size()]...)
		}
	}
	if floats != nil {
		out = make([]byte, 2*len(floats))
		quant.Quantize(out, floats, halves[e])
	}
	return out, nil
}

// halves maps 16-bit floats.
var halves = map[runtimes.Elem]ctensor.Type{runtimes.Float16: ctensor.F16, runtimes.BFloat16: ctensor.BF16}

// integer parses an integer of a type; the result is its two's complement.
func integer(e runtimes.Elem, text json.Number) (uint64, error) {
	bits := e.Bits()
	if e == runtimes.Bool {
		if text != "0" && text != "1" {
			return 0, fmt.Errorf("number %s is out of range of %s", text, e)
		}
		bits = 1
	}
	if slices.Contains([]runtimes.Elem{runtimes.Int8, runtimes.Int16, runtimes.Int32, runtimes.Int64}, e) {
		v, err := text.Int64()
		if err != nil || bits < 64 && (v < -1<<(bits-1) || v >= 1<<(bits-1)) {
			return 0, fmt.Errorf("number %s is out of range of %s", text, e)
		}
		return uint64(v), nil
	}
	var v uint64
	if _, err := fmt.Sscanf(text.String(), "%d", &v); err != nil || fmt.Sprint(v) != text.String() || bits < 64 && v >= 1<<bits {
		return 0, fmt.Errorf("number %s is out of range of %s", text, e)
	}
	return v, nil
}

// answer converts the outputs, those that the request names, or all.
func (q *request) answer(results []part.Computed) (*response, error) {
	out := &response{Outputs: []result{}}
	wanted := map[string]bool{}
	for _, o := range q.Outputs {
		wanted[o.Name] = true
	}
	for _, c := range results {
		var names []string
		for name := range c.Outputs {
			names = append(names, name)
		}
		slices.Sort(names)
		for _, name := range names {
			full := c.Part.Name + "." + name
			if len(wanted) > 0 && !wanted[full] && !wanted[name] {
				continue
			}
			delete(wanted, full)
			delete(wanted, name)
			t := c.Outputs[name]
			numbers, err := unpack(t)
			if err != nil {
				return nil, fmt.Errorf("output %s: %w", full, err)
			}
			out.Outputs = append(out.Outputs, result{tensor{full, datatypes[t.Type], t.Shape}, numbers})
		}
	}
	for name := range wanted {
		return nil, api.Invalid("outputs", "outputs: no function that ran has %q", name)
	}
	return out, nil
}

// unpack returns the elements of a tensor for JSON, which has no infinities.
func unpack(t runtimes.Tensor) (any, error) {
	n := 1
	for _, d := range t.Shape {
		n *= int(d)
	}
	switch t.Type {
	case runtimes.Float32, runtimes.Float16, runtimes.BFloat16:
		out := make([]float32, n)
		if typ, half := halves[t.Type]; half {
			quant.Dequantize(out, t.Data, typ)
		} else {
			quant.Dequantize(out, t.Data, ctensor.F32)
		}
		for _, v := range out {
			if v-v != 0 {
				return nil, fmt.Errorf("it holds %v, which JSON has no number for", v)
			}
		}
		return out, nil
	case runtimes.Float64:
		out := make([]float64, n)
		for i := range out {
			if out[i] = math.Float64frombits(binary.LittleEndian.Uint64(t.Data[8*i:])); out[i]-out[i] != 0 {
				return nil, fmt.Errorf("it holds %v, which JSON has no number for", out[i])
			}
		}
		return out, nil
	case runtimes.Bool:
		out := make([]bool, n)
		for i := range out {
			out[i] = t.Data[i] != 0
		}
		return out, nil
	}
	size := t.Type.Size()
	if datatypes[t.Type] == "" || size == 0 {
		return nil, fmt.Errorf("unsupported element type %s", t.Type)
	}
	out := make([]json.Number, n)
	for i := range out {
		var b [8]byte
		copy(b[:], t.Data[i*size:(i+1)*size])
		v := binary.LittleEndian.Uint64(b[:])
		if t.Type[0] == 'u' {
			out[i] = json.Number(fmt.Sprint(v))
		} else {
			shift := 64 - 8*size
			out[i] = json.Number(fmt.Sprint(int64(v<<shift) >> shift))
		}
	}
	return out, nil
}
