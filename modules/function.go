package modules

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/core/preprocess"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/fsx"
)

// Preprocess describes, by input, how an image or a sound is converted to a tensor.
// In YAML it may be a single block without a name, for a module with one input.
type Preprocess map[string]preprocess.Spec

// UnmarshalJSON parses a block, or a mapping from inputs to blocks.
func (p *Preprocess) UnmarshalJSON(b []byte) error {
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(b, &keys); err != nil {
		return err
	}
	*p = Preprocess{}
	block := map[string]json.RawMessage{} // without a name
	for name, v := range keys {
		if v[0] != '{' || (name == "tiles" || name == "fit") && bytes.Contains(v, []byte(`"choose"`)) {
			block[name] = v
			continue
		}
		var s preprocess.Spec
		if err := json.Unmarshal(v, &s); err != nil {
			return err
		}
		(*p)[name] = s
	}
	if len(block) == 0 {
		return nil
	}
	var s preprocess.Spec
	flat, err := json.Marshal(block)
	if err == nil {
		err = json.Unmarshal(flat, &s)
	}
	(*p)[""] = s
	return err
}

// State describes an input whose value is carried from call to call. Shape and
// DType are optional if the file defines them.
type State struct {
	From  string    `json:"from"` // the output with the next value
	Init  float64   `json:"init,omitempty"`
	Shape []int64   `json:"shape,omitempty"` // including the batch
	DType abi.DType `json:"dtype,omitempty"`
}

// UnmarshalJSON parses the name of an output, or an object.
func (s *State) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '"' {
		*s = State{}
		return json.Unmarshal(b, &s.From)
	}
	type plain State
	return json.Unmarshal(b, (*plain)(s))
}

// Constant describes an input with a constant value.
type Constant struct {
	Value float64   `json:"value"`           // of every element
	Shape []int64   `json:"shape,omitempty"` // including the batch; empty for a scalar
	DType abi.DType `json:"dtype,omitempty"`
}

// UnmarshalJSON parses a number or an object.
func (c *Constant) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] != '{' {
		*c = Constant{}
		return json.Unmarshal(b, &c.Value)
	}
	type plain Constant
	return json.Unmarshal(b, (*plain)(c))
}

// Postprocess describes how an output is decoded; exactly one field is set.
type Postprocess struct {
	CTC      *CTC      `json:"ctc,omitempty"`
	Labels   *Labels   `json:"labels,omitempty"`
	Segments *Segments `json:"segments,omitempty"`
}

// CTC decodes [1, T, classes] to text: the most likely class of each step, without
// repetitions and blanks (Graves et al. 2006).
type CTC struct {
	Labels string `json:"labels"` // file with a class per line, without the blank
	Blank  int    `json:"blank,omitempty"`
	Space  bool   `json:"space,omitempty"` // the class after those of the file is " "
}

// Labels decodes [1, classes] to the most likely classes.
type Labels struct {
	File    string `json:"file,omitempty"` // a class per line; if empty, only numbers
	Top     int    `json:"top,omitempty"`  // if 0, 5
	Softmax bool   `json:"softmax,omitempty"`
}

// Segments decodes [1, T] to time spans. A span begins when a value reaches
// Threshold and ends when values stay below Low for MinSilenceMS.
type Segments struct {
	Threshold    float64  `json:"threshold,omitempty"` // if 0, 0.5
	Low          *float64 `json:"low,omitempty"`       // if nil, 0.15 below Threshold
	MinMS        int      `json:"min_ms,omitempty"`
	MinSilenceMS int      `json:"min_silence_ms,omitempty"`
	PadMS        int      `json:"pad_ms,omitempty"`
}

// Bounds returns the two thresholds.
func (s *Segments) Bounds() (high, low float64) {
	if high = s.Threshold; high == 0 {
		high = 0.5
	}
	if s.Low != nil {
		return high, *s.Low
	}
	return high, high - 0.15
}

// Carried returns the states by input. A manifest may write a state in either
// direction; isInput reports which names are inputs of the file.
func (t *Tensors) Carried(isInput func(name string) bool) map[string]State {
	out := make(map[string]State, len(t.State))
	for name, s := range t.State {
		if !isInput(name) && isInput(s.From) {
			name, s.From = s.From, name
		}
		out[name] = s
	}
	return out
}

// FreeInputs returns the inputs that the caller provides: those that are neither state
// nor constant.
func (t *Tensors) FreeInputs() []abi.Port {
	carried := t.Carried(func(name string) bool { return hasPort(t.Inputs, name) })
	var out []abi.Port
	for _, p := range t.Inputs {
		_, held := carried[p.Name]
		if _, fixed := t.Constants[p.Name]; !held && !fixed {
			out = append(out, p)
		}
	}
	return out
}

// LabelFiles returns the files in postprocess, sorted, without duplicates.
func (t *Tensors) LabelFiles() []string {
	var out []string
	for _, p := range t.Postprocess {
		if p.CTC != nil && p.CTC.Labels != "" {
			out = append(out, p.CTC.Labels)
		}
		if p.Labels != nil && p.Labels.File != "" {
			out = append(out, p.Labels.File)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func hasPort(ports []abi.Port, name string) bool {
	return slices.ContainsFunc(ports, func(p abi.Port) bool { return p.Name == name })
}

// name assigns an unnamed preprocess block to the only possible input.
func (t *Tensors) name() {
	s, ok := t.Preprocess[""]
	free := t.FreeInputs()
	if !ok || len(free) != 1 {
		return
	}
	if _, twice := t.Preprocess[free[0].Name]; twice {
		return
	}
	delete(t.Preprocess, "")
	t.Preprocess[free[0].Name] = s
}

// checkBlocks checks preprocess, state, constants and postprocess against the
// manifest's ports.
func (m *Manifest) checkBlocks(list *diag.List) {
	wrong := func(at, detail, hint string) { list.Add(diag.BadBlock, m.Pos(at), m.ID()+": "+detail, hint) }
	for _, name := range sortedKeys(m.Preprocess) {
		s := m.Preprocess[name]
		at := pointer("preprocess", name)
		if m.doc != nil && !m.doc.Has(at) {
			at = "/preprocess"
		}
		if !hasPort(m.Inputs, name) {
			detail := fmt.Sprintf("unknown input %q", name)
			if name == "" {
				detail = fmt.Sprintf("preprocess has no input name, and there are %d inputs", len(m.FreeInputs()))
			}
			wrong(at, detail, "write preprocess: {INPUT: {…}}, with the name of an input")
		}
		for _, f := range s.Check() {
			place := at + "/" + f.Key
			if m.doc == nil || !m.doc.Has(place) {
				place = at
			}
			wrong(place, f.Error(), "")
		}
	}
	carried := m.Carried(func(name string) bool { return hasPort(m.Inputs, name) })
	from := map[string]string{}
	for _, in := range sortedKeys(carried) {
		s := carried[in]
		if other, ok := from[s.From]; ok {
			wrong("/state", fmt.Sprintf("%s and %s are both the next value of %q", other, in, s.From), "use each output for one input")
		}
		from[s.From] = in
		m.checkState(in, s, wrong)
		for _, block := range []struct {
			key string
			has bool
		}{{"preprocess", has(m.Preprocess, in)}, {"constants", has(m.Constants, in)}} {
			if block.has {
				wrong("/"+block.key, fmt.Sprintf("%q is a state and also in %s", in, block.key), "remove one of them")
			}
		}
	}
	for _, name := range sortedKeys(m.Constants) {
		if has(m.Preprocess, name) {
			wrong("/constants", fmt.Sprintf("%q is a constant and also in preprocess", name), "remove one of them")
		}
	}
	for _, name := range sortedKeys(m.Postprocess) {
		m.checkPost(name, m.Postprocess[name], from, wrong)
	}
}

func has[V any](blocks map[string]V, name string) bool { _, ok := blocks[name]; return ok }

// checkState compares the two ports of a state, if the manifest has both.
func (m *Manifest) checkState(in string, s State, wrong func(at, detail, hint string)) {
	i := slices.IndexFunc(m.Inputs, func(p abi.Port) bool { return p.Name == in })
	o := slices.IndexFunc(m.Outputs, func(p abi.Port) bool { return p.Name == s.From })
	if i < 0 || o < 0 {
		return
	}
	a, b := m.Inputs[i], m.Outputs[o]
	if a.DType != b.DType || a.Shape.String() != b.Shape.String() {
		wrong("/state", fmt.Sprintf("%s cannot be the next value of %s", b, a), "use an output with the shape and the type of the input")
	}
}

func (m *Manifest) checkPost(name string, p Postprocess, states map[string]string, wrong func(at, detail, hint string)) {
	at := pointer("postprocess", name)
	i := slices.IndexFunc(m.Outputs, func(p abi.Port) bool { return p.Name == name })
	switch in, carried := states[name]; {
	case carried:
		wrong(at, fmt.Sprintf("%q is the next value of the state %q and cannot be postprocessed", name, in), "")
		return
	case i < 0:
		wrong(at, fmt.Sprintf("unknown output %q", name), "use the name of an output")
		return
	}
	out := m.Outputs[i]
	if last := len(out.Shape) - 1; last < 0 || out.DType != "" && out.DType != abi.FP32 && out.DType != abi.FP16 && out.DType != "fp64" {
		wrong(at, fmt.Sprintf("%s does not contain scores", out), "use an output of floating-point numbers")
	}
	if s := p.Segments; s != nil {
		if high, low := s.Bounds(); low > high {
			wrong(at, fmt.Sprintf("threshold is %v, low is %v", high, low), "use a low of at most threshold")
		}
		if !slices.ContainsFunc(m.soundSpecs(), func(s preprocess.Spec) bool { return s.IsSound() }) {
			wrong(at, "segments require an input with a sample_rate in preprocess", "add preprocess: {INPUT: {sample_rate: 16000}}")
		}
	}
}

func (m *Manifest) soundSpecs() []preprocess.Spec {
	var out []preprocess.Spec
	for _, name := range sortedKeys(m.Preprocess) {
		out = append(out, m.Preprocess[name])
	}
	return out
}

// maxLabels bounds a labels file, in bytes.
const maxLabels = 16 << 20

// ReadLabels returns the lines of a labels file, one for each class. A line of white
// space is a class too.
func ReadLabels(path string) ([]string, error) {
	data, err := fsx.ReadFile(path, maxLabels)
	if err != nil {
		return nil, err
	}
	var lines []string
	scan := bufio.NewScanner(bytes.NewReader(bytes.TrimPrefix(data, []byte("\ufeff"))))
	for scan.Scan() {
		lines = append(lines, scan.Text())
	}
	return lines, scan.Err()
}

// Classes returns the number of classes that n labels are for: the blank and the
// space have no line in the file.
func (c *CTC) Classes(n int) int {
	if c.Space {
		n++
	}
	return n + 1
}
