package abi

import "fmt"

// Port is an input or output of a module: a tensor (Shape and DType) or, for a skill, a
// value of a scalar type (Type).
type Port struct {
	Name  string `json:"name"`
	Shape Shape  `json:"shape,omitempty"`
	DType DType  `json:"dtype,omitempty"`
	Type  string `json:"type,omitempty"` // uri, str, int, float, bool, json, list[…]

	Optional    bool   `json:"optional,omitempty"` // a skill's value that may be absent
	Description string `json:"description,omitempty"`
}

// String formats a port like "patch_tokens [T_enc, D_enc] fp16".
func (p Port) String() string {
	if p.Type != "" {
		return p.Name + " " + p.Type
	}
	return fmt.Sprintf("%s %s %s", p.Name, p.Shape, p.DType)
}

// MismatchKind is the kind of a mismatch.
type MismatchKind string

// The kinds of mismatches.
const (
	MismatchRank  MismatchKind = "rank"       // different numbers of dimensions
	MismatchSize  MismatchKind = "size"       // one dimension, two sizes
	MismatchName  MismatchKind = "name"       // two build-wide names in one place
	MismatchDType MismatchKind = "dtype"      // different element types
	MismatchNone  MismatchKind = "unattached" // nothing to connect to
)

// Mismatch is a reason why an output does not fit an input. Out and In are the two values
// as text.
type Mismatch struct {
	What MismatchKind
	Dim  string // name of the dimension, if any
	Axis int    // the dimension's index, outermost 0
	Out  string
	In   string
}

// Error describes the difference, the output first.
func (m *Mismatch) Error() string {
	if m.Dim != "" {
		return fmt.Sprintf("%s of %s: %s against %s", m.What, m.Dim, m.Out, m.In)
	}
	return fmt.Sprintf("%s: %s against %s", m.What, m.Out, m.In)
}

// Connect connects output out of module outScope to input in of module inScope: equal rank,
// each pair of dimensions joined in b, equal element types. It returns all mismatches; b
// keeps the joins that succeeded, for later connections.
func Connect(outScope string, out Port, inScope string, in Port, b *Binding) []*Mismatch {
	var faults []*Mismatch
	if len(out.Shape) != len(in.Shape) {
		faults = append(faults, &Mismatch{What: MismatchRank, Out: out.Shape.String(), In: in.Shape.String()})
	} else {
		for i := range out.Shape {
			if m := b.unify(outScope, out.Shape[i], inScope, in.Shape[i]); m != nil {
				m.Axis = i
				faults = append(faults, m)
			}
		}
	}
	if out.DType != in.DType {
		faults = append(faults, &Mismatch{What: MismatchDType, Out: string(out.DType), In: string(in.DType)})
	}
	return faults
}

// ConnectAll connects the outputs of a module to the inputs of the next: by name, or the
// only output to the only input regardless of names. An input without an output is a
// [MismatchNone]. The result is keyed by the index of the input.
func ConnectAll(outScope string, outs []Port, inScope string, ins []Port, b *Binding) map[int][]*Mismatch {
	faults := map[int][]*Mismatch{}
	for i, in := range ins {
		out, ok := findPort(outs, in.Name)
		if !ok && len(outs) == 1 && len(ins) == 1 {
			out, ok = outs[0], true
		}
		if !ok {
			faults[i] = []*Mismatch{{What: MismatchNone, Out: portNames(outs), In: in.Name}}
			continue
		}
		if m := Connect(outScope, out, inScope, in, b); m != nil {
			faults[i] = m
		}
	}
	return faults
}

func findPort(ports []Port, name string) (Port, bool) {
	for _, p := range ports {
		if p.Name == name {
			return p, true
		}
	}
	return Port{}, false
}

func portNames(ports []Port) string {
	s := ""
	for i, p := range ports {
		if i > 0 {
			s += ", "
		}
		s += p.Name
	}
	return s
}
