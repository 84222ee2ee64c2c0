package servers

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/internal/diag"
)

// Model is the configuration of a model of Triton.
type Model struct {
	Name     string
	Folder   string // must be the name
	Backend  string // empty: an ensemble
	Platform string // "ensemble"; empty: a model with a backend
	Inputs   []Port
	Outputs  []Port
	Steps    []Step // of an ensemble
}

// Port is an input or output with its batch dimension: the models are not batched by
// the server.
type Port struct {
	Name   string
	Type   string // TYPE_…; empty: one that Triton has not
	Dims   []int64
	Scalar bool // a tensor without dimensions
}

// Step is one model of an ensemble.
type Step struct {
	Model           string
	Inputs, Outputs []Wire
}

// Wire joins a port of a model with a tensor of an ensemble.
type Wire struct{ Port, Tensor string }

// check reports what Triton refuses: names that differ from their folders or occur
// twice, ports without a type or dimensions, and ensembles whose steps name a missing
// model, read tensors before they are written, or join different types or shapes.
func check(list *diag.List, models []Model) {
	byName := map[string]Model{}
	for _, m := range models {
		if _, twice := byName[m.Name]; twice {
			fault(list, m.Name+": two models of one name", "rename one of the modules")
		}
		byName[m.Name] = m
		if m.Folder != m.Name || !abi.ValidName(m.Name) {
			fault(list, fmt.Sprintf("%s: got folder %q, want the name of the model", m.Name, m.Folder), "")
		}
		if len(m.Inputs) == 0 || len(m.Outputs) == 0 {
			fault(list, fmt.Sprintf("%s: got %d inputs and %d outputs, want 1 or more of each", m.Name, len(m.Inputs), len(m.Outputs)), "a server computes outputs from inputs")
		}
		if (m.Backend == "") == (m.Platform == "") || m.Platform != "" && (m.Platform != "ensemble" || m.Steps == nil) || m.Backend != "" && m.Backend != "onnxruntime" {
			fault(list, fmt.Sprintf("%s: got backend %q and platform %q, want backend onnxruntime or an ensemble", m.Name, m.Backend, m.Platform), "")
		}
		seen := map[string]bool{}
		for _, p := range slices.Concat(m.Inputs, m.Outputs) {
			checkPort(list, m.Name, p, seen)
		}
	}
	for _, m := range models {
		if m.Steps != nil {
			checkSteps(list, m, byName)
		}
	}
}

func checkPort(list *diag.List, model string, p Port, seen map[string]bool) {
	switch {
	case p.Name == "" || seen[p.Name]:
		fault(list, fmt.Sprintf("%s: got port name %q, want another", model, p.Name), "mm onnx renames ports")
	case p.Type == "":
		fault(list, fmt.Sprintf("%s: port %s has an element type that Triton has not", model, p.Name), "convert the model to 32-bit or 16-bit floats or to integers")
	case len(p.Dims) == 0 && !p.Scalar:
		fault(list, fmt.Sprintf("%s: port %s has an unknown number of dimensions", model, p.Name), "export the model with shapes")
	case len(p.Dims) == 0:
		fault(list, fmt.Sprintf("%s: port %s is a scalar, want dimensions", model, p.Name), "export the model with the shape [1]")
	case slices.ContainsFunc(p.Dims, func(n int64) bool { return n == 0 || n < -1 }):
		fault(list, fmt.Sprintf("%s: port %s has the dimensions %v, want positive ones, or -1 for any", model, p.Name, p.Dims), "")
	}
	seen[p.Name] = true
}

// checkSteps follows the tensors of an ensemble in the order of its steps.
func checkSteps(list *diag.List, m Model, models map[string]Model) {
	tensors := map[string]Port{}
	for _, p := range m.Inputs {
		tensors[p.Name] = p
	}
	for _, s := range m.Steps {
		one, ok := models[s.Model]
		if !ok {
			fault(list, fmt.Sprintf("%s: step names the model %q, which is not in the repository", m.Name, s.Model), "")
			continue
		}
		for _, w := range s.Inputs {
			join(list, m.Name, s.Model, w, tensors, one.Inputs)
		}
		if len(s.Inputs) != len(one.Inputs) {
			fault(list, fmt.Sprintf("%s: step %s wires %d inputs, want %d", m.Name, s.Model, len(s.Inputs), len(one.Inputs)), "")
		}
		for _, w := range s.Outputs {
			if i := slices.IndexFunc(one.Outputs, func(p Port) bool { return p.Name == w.Port }); i >= 0 {
				tensors[w.Tensor] = one.Outputs[i]
			} else {
				fault(list, fmt.Sprintf("%s: step %s has no output %q", m.Name, s.Model, w.Port), "")
			}
		}
	}
	for _, p := range m.Outputs {
		join(list, m.Name, "output", Wire{p.Name, p.Name}, tensors, m.Outputs)
	}
}

// join compares a tensor with the port that reads it.
func join(list *diag.List, model, at string, w Wire, tensors map[string]Port, ports []Port) {
	i := slices.IndexFunc(ports, func(p Port) bool { return p.Name == w.Port })
	from, written := tensors[w.Tensor]
	switch {
	case i < 0:
		fault(list, fmt.Sprintf("%s: %s has no port %q", model, at, w.Port), "")
	case !written:
		fault(list, fmt.Sprintf("%s: no step before %s writes %q", model, at, w.Tensor), "")
	case from.Type != ports[i].Type:
		fault(list, fmt.Sprintf("%s: %s reads %s as %s, got %s", model, at, w.Tensor, ports[i].Type, from.Type), "export encoder and projector with the same types")
	case !fits(from.Dims, ports[i].Dims):
		fault(list, fmt.Sprintf("%s: %s reads %s as %v, got %v", model, at, w.Tensor, ports[i].Dims, from.Dims), "export encoder and projector with the same shapes")
	}
}

// fits reports whether dimensions can be equal.
func fits(a, b []int64) bool {
	return slices.EqualFunc(a, b, func(x, y int64) bool { return x == y || x < 0 || y < 0 })
}

// text returns config.pbtxt.
func (m Model) text() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "name: %s\n", quoted(m.Name))
	if m.Backend != "" {
		fmt.Fprintf(&b, "backend: %s\n", quoted(m.Backend))
	} else {
		fmt.Fprintf(&b, "platform: %s\n", quoted(m.Platform))
	}
	b.WriteString("max_batch_size: 0\n")
	for _, side := range []struct {
		word  string
		ports []Port
	}{{"input", m.Inputs}, {"output", m.Outputs}} {
		for _, p := range side.ports {
			dims := strings.ReplaceAll(strings.Trim(fmt.Sprint(p.Dims), "[]"), " ", ", ")
			fmt.Fprintf(&b, "%s {\n  name: %s\n  data_type: %s\n  dims: [%s]\n}\n", side.word, quoted(p.Name), p.Type, dims)
		}
	}
	if m.Steps == nil {
		b.WriteString("instance_group {\n  count: 1\n  kind: KIND_CPU\n}\n")
		return b.Bytes()
	}
	b.WriteString("ensemble_scheduling {\n")
	for _, s := range m.Steps {
		fmt.Fprintf(&b, "  step {\n    model_name: %s\n    model_version: -1\n", quoted(s.Model))
		for _, w := range s.Inputs {
			fmt.Fprintf(&b, "    input_map {\n      key: %s\n      value: %s\n    }\n", quoted(w.Port), quoted(w.Tensor))
		}
		for _, w := range s.Outputs {
			fmt.Fprintf(&b, "    output_map {\n      key: %s\n      value: %s\n    }\n", quoted(w.Port), quoted(w.Tensor))
		}
		b.WriteString("  }\n")
	}
	b.WriteString("}\n")
	return b.Bytes()
}

// quoted returns a string of the text format: bytes outside printable ASCII in octal.
func quoted(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c < ' ' || c > '~':
			fmt.Fprintf(&b, "\\%03o", c)
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}
