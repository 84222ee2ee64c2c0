package modules

import (
	"encoding/json"
	"fmt"
	"slices"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/core/preprocess"
	"mm-abi.org/mm/internal/diag"
)

// Preprocess says for each input, by its name, how a picture or a sound becomes
// what the file takes. In YAML it may be one block without a name, which is for
// the module's only input.
type Preprocess map[string]preprocess.Spec

// UnmarshalJSON reads a block, or a mapping from inputs to blocks.
func (p *Preprocess) UnmarshalJSON(b []byte) error {
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(b, &keys); err != nil {
		return err
	}
	*p = Preprocess{}
	own := map[string]json.RawMessage{}
	for name, v := range keys {
		if v[0] != '{' {
			own[name] = v
			continue
		}
		var s preprocess.Spec
		if err := json.Unmarshal(v, &s); err != nil {
			return err
		}
		(*p)[name] = s
	}
	if len(own) == 0 {
		return nil
	}
	var s preprocess.Spec
	flat, err := json.Marshal(own)
	if err == nil {
		err = json.Unmarshal(flat, &s)
	}
	(*p)[""] = s
	return err
}

// State is what one input holds from call to call. Shape and DType may be left
// out where the file fixes them.
type State struct {
	From  string    `json:"from"` // the output that gives the next value
	Init  float64   `json:"init,omitempty"`
	Shape []int64   `json:"shape,omitempty"` // the batch included
	DType abi.DType `json:"dtype,omitempty"`
}

// UnmarshalJSON reads an output's name, or an object.
func (s *State) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '"' {
		*s = State{}
		return json.Unmarshal(b, &s.From)
	}
	type plain State
	return json.Unmarshal(b, (*plain)(s))
}

// Constant is an input that is always the same number.
type Constant struct {
	Value float64   `json:"value"`           // of every element
	Shape []int64   `json:"shape,omitempty"` // the batch included; none for a single number
	DType abi.DType `json:"dtype,omitempty"`
}

// UnmarshalJSON reads a number, or an object.
func (c *Constant) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] != '{' {
		*c = Constant{}
		return json.Unmarshal(b, &c.Value)
	}
	type plain Constant
	return json.Unmarshal(b, (*plain)(c))
}

// Postprocess says how one output is read; one of its fields is set.
type Postprocess struct {
	CTC      *CTC      `json:"ctc,omitempty"`
	Labels   *Labels   `json:"labels,omitempty"`
	Segments *Segments `json:"segments,omitempty"`
}

// CTC reads [1, T, classes] as text: the likeliest class of each step, repeats
// taken once, blanks left out (Graves et al. 2006).
type CTC struct {
	Labels string `json:"labels"` // file with a class a line, the blank not among them
	Blank  int    `json:"blank,omitempty"`
	Space  bool   `json:"space,omitempty"` // a last class behind the file's is " "
}

// Labels reads [1, classes] as the likeliest classes.
type Labels struct {
	File    string `json:"file,omitempty"` // a class a line; none: numbers alone
	Top     int    `json:"top,omitempty"`  // 0: 5
	Softmax bool   `json:"softmax,omitempty"`
}

// Segments reads [1, T] as spans of time. A span begins where a value reaches
// Threshold and ends where values stay under Low for MinSilenceMS.
type Segments struct {
	Threshold    float64  `json:"threshold,omitempty"` // 0: 0.5
	Low          *float64 `json:"low,omitempty"`       // nil: 0.15 below Threshold
	MinMS        int      `json:"min_ms,omitempty"`
	MinSilenceMS int      `json:"min_silence_ms,omitempty"`
	PadMS        int      `json:"pad_ms,omitempty"`
}

// Bounds are the two thresholds.
func (s *Segments) Bounds() (high, low float64) {
	if high = s.Threshold; high == 0 {
		high = 0.5
	}
	if s.Low != nil {
		return high, *s.Low
	}
	return high, high - 0.15
}

// Carried is the state by the input that holds it. A manifest may write it
// either way round; isInput says which names are the file's inputs.
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

// Given are the inputs that come from outside: those of the manifest that are
// neither state nor constant.
func (t *Tensors) Given() []abi.Port {
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

// LabelFiles are the files that postprocess names, sorted, each once.
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

// name gives a block without a name that of the only input it can mean.
func (t *Tensors) name() {
	s, ok := t.Preprocess[""]
	given := t.Given()
	if !ok || len(given) != 1 {
		return
	}
	if _, twice := t.Preprocess[given[0].Name]; twice {
		return
	}
	delete(t.Preprocess, "")
	t.Preprocess[given[0].Name] = s
}

// checkBlocks reports what preprocess, state, constants and postprocess say
// wrong of the manifest's own ports.
func (m *Manifest) checkBlocks(list *diag.List) {
	wrong := func(at, detail, hint string) { list.Add(diag.BadBlock, m.Pos(at), m.ID()+": "+detail, hint) }
	for _, name := range sortedKeys(m.Preprocess) {
		s := m.Preprocess[name]
		at := pointer("preprocess", name)
		if m.doc != nil && !m.doc.Has(at) {
			at = "/preprocess"
		}
		if !hasPort(m.Inputs, name) {
			detail := fmt.Sprintf("there is no input %q to prepare", name)
			if name == "" {
				detail = fmt.Sprintf("preprocess names no input, and there are %d", len(m.Given()))
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
			wrong("/state", fmt.Sprintf("%s and %s are both the next value of %q", other, in, s.From), "each output is the next value of one input")
		}
		from[s.From] = in
		m.checkState(in, s, wrong)
		for _, block := range []struct {
			key string
			has bool
		}{{"preprocess", has(m.Preprocess, in)}, {"constants", has(m.Constants, in)}} {
			if block.has {
				wrong("/"+block.key, fmt.Sprintf("%q is state and stands in %s", in, block.key), "leave it in one of them")
			}
		}
	}
	for _, name := range sortedKeys(m.Constants) {
		if has(m.Preprocess, name) {
			wrong("/constants", fmt.Sprintf("%q is constant and stands in preprocess", name), "leave it in one of them")
		}
	}
	for _, name := range sortedKeys(m.Postprocess) {
		m.checkPost(name, m.Postprocess[name], from, wrong)
	}
}

func has[V any](blocks map[string]V, name string) bool { _, ok := blocks[name]; return ok }

// checkState compares the two ports of a state where the manifest has both.
func (m *Manifest) checkState(in string, s State, wrong func(at, detail, hint string)) {
	i := slices.IndexFunc(m.Inputs, func(p abi.Port) bool { return p.Name == in })
	o := slices.IndexFunc(m.Outputs, func(p abi.Port) bool { return p.Name == s.From })
	if i < 0 || o < 0 {
		return
	}
	a, b := m.Inputs[i], m.Outputs[o]
	if a.DType != b.DType || a.Shape.String() != b.Shape.String() {
		wrong("/state", fmt.Sprintf("%s is not the next value of %s", b, a), "an input and the output that gives its next value have one shape and one type")
	}
}

func (m *Manifest) checkPost(name string, p Postprocess, states map[string]string, wrong func(at, detail, hint string)) {
	at := pointer("postprocess", name)
	i := slices.IndexFunc(m.Outputs, func(p abi.Port) bool { return p.Name == name })
	switch in, carried := states[name]; {
	case carried:
		wrong(at, fmt.Sprintf("%q is the next value of %q, which nobody reads", name, in), "")
		return
	case i < 0:
		wrong(at, fmt.Sprintf("there is no output %q to read", name), "write the name of an output")
		return
	}
	out := m.Outputs[i]
	if last := len(out.Shape) - 1; last < 0 || out.DType != "" && out.DType != abi.FP32 && out.DType != abi.FP16 && out.DType != "fp64" {
		wrong(at, fmt.Sprintf("%s holds no scores", out), "scores are floating-point numbers")
	}
	if s := p.Segments; s != nil {
		if high, low := s.Bounds(); low > high {
			wrong(at, fmt.Sprintf("a span begins at %v and ends under %v", high, low), "low is not above threshold")
		}
		if !slices.ContainsFunc(m.soundSpecs(), func(s preprocess.Spec) bool { return s.IsSound() }) {
			wrong(at, "spans of time need an input with a sample_rate in preprocess", "add preprocess: {INPUT: {sample_rate: 16000}}")
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
