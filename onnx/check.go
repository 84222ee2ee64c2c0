package onnx

import (
	"math"
	"slices"
	"strings"
)

// CheckOptions describes what a model may contain.
type CheckOptions struct {
	// MinOpset and MaxOpset bound the opset of ai.onnx. If zero, the defaults
	// are 7 and 26, the range of ONNX Runtime 1.30.
	MinOpset, MaxOpset int64
	// Domains are the allowed operator domains, in addition to the standard
	// ones and those of the model's functions.
	Domains []string
	// AnyDomain allows operators of every domain: the engine refuses unknown
	// ones by name.
	AnyDomain bool
	// External returns the size of a file that the model may refer to, by its
	// location. It returns [ErrLinked] for a file with several names, and any
	// other error for a file that the model must not use. If nil, only paths
	// and ranges are checked.
	External func(location string) (size int64, err error)
	// MaxBytes bounds the total size of the model and its external files; 0: no
	// limit.
	MaxBytes int64
	// NPU refuses control flow, which accelerators of fixed graphs cannot run.
	NPU bool
	// EPContext allows com.microsoft's EPContext nodes, which hold or name
	// compiled code for a device.
	EPContext bool
}

// The IR versions that onnx.proto 1.23 describes and runtimes still read.
const minIR, maxIR = 3, 14

// domains lists the operator domains of runtimes with their newest opset.
var domains = map[string]int64{
	"":                    0, // set by CheckOptions
	"ai.onnx.ml":          5,
	"com.microsoft":       1,
	"com.microsoft.nchwc": 1,
}

// Check returns all problems of the model that can be found in the file alone,
// in the order of the file.
func (m *Model) Check(opt CheckOptions) []Problem {
	if opt.MinOpset == 0 {
		opt.MinOpset = 7
	}
	if opt.MaxOpset == 0 {
		opt.MaxOpset = 26
	}
	c := &checker{m: m, opt: opt, functions: make(map[[3]string]bool), files: make(map[string]int64), uses: make(map[string][]use)}
	for _, f := range m.Functions {
		c.functions[[3]string{canonical(f.Domain), f.Name, f.Overload}] = true
	}
	c.header()
	c.opsets()
	m.walk(visitor{node: c.node, tensor: c.tensor})
	c.overlaps()
	c.size()
	c.names()
	c.recursion()
	return c.found
}

type checker struct {
	m         *Model
	opt       CheckOptions
	functions map[[3]string]bool
	files     map[string]int64 // sizes of the readable external files
	uses      map[string][]use // of external files
	found     []Problem

	faults, warnings int
}

// size checks the total size of the model and its external data.
func (c *checker) size() {
	total := c.m.size
	for _, n := range c.files {
		total += min(n, math.MaxInt64-total)
	}
	if c.opt.MaxBytes > 0 && total > c.opt.MaxBytes {
		c.fail(RuleSize, nil, "%d bytes with external data, want at most %d", total, c.opt.MaxBytes)
	}
}

// header checks everything outside the graph.
func (c *checker) header() {
	if v := c.m.IRVersion; v < minIR || v > maxIR {
		c.fail(RuleIR, nil, "IR version %d is unsupported, want %d to %d", v, minIR, maxIR)
	}
	if c.m.Unknown > 0 {
		c.fail(RuleFormat, nil, "%d fields are not defined in onnx.proto", c.m.Unknown)
	}
	if len(c.m.Training) > 0 {
		c.warn(RuleTraining, nil, "%d training graphs are never run", len(c.m.Training))
	}
	for _, e := range c.m.Metadata {
		if strings.HasPrefix(e.Key, "session.") || strings.HasPrefix(e.Key, "ep.") {
			c.fail(RuleContext, nil, "metadata key %q sets options of the session that runs the model", e.Key)
		}
	}
}

// opsets checks the imported versions.
func (c *checker) opsets() {
	seen := make(map[string]bool)
	for _, o := range c.m.Opsets {
		d := canonical(o.Domain)
		if seen[d] {
			c.fail(RuleOpset, nil, "duplicate import of domain %q", o.Domain)
		}
		seen[d] = true
		newest, standard := domains[d]
		switch {
		case d == "" && (o.Version < c.opt.MinOpset || o.Version > c.opt.MaxOpset):
			c.fail(RuleOpset, nil, "opset %d is unsupported, want %d to %d", o.Version, c.opt.MinOpset, c.opt.MaxOpset)
		case standard && newest > 0 && o.Version > newest:
			c.fail(RuleOpset, nil, "opset %d of %s is unsupported, want at most %d", o.Version, d, newest)
		}
	}
	if !seen[""] && len(c.m.Graph.Nodes) > 0 && slices.ContainsFunc(c.m.Graph.Nodes, func(n Node) bool { return canonical(n.Domain) == "" }) {
		c.fail(RuleOpset, nil, "missing opset of ai.onnx")
	}
}

// node checks the origin of an operator.
func (c *checker) node(at *place, n *Node) {
	d := canonical(n.Domain)
	_, standard := domains[d]
	switch {
	case n.Op == "":
		c.fail(RuleNode, at, "missing operator")
	case c.functions[[3]string{d, n.Op, n.Overload}]:
	case strings.HasPrefix(d, "ai.onnx.preview") && !c.opt.AnyDomain:
		c.fail(RuleDomain, at, "operator %s is a preview of %s", n.Op, d)
	case !standard && !c.opt.AnyDomain && !slices.Contains(c.opt.Domains, d):
		c.fail(RuleDomain, at, "operator %s is of the custom domain %q", n.Op, d)
	case d == "com.microsoft" && n.Op == "EPContext" && !c.opt.EPContext:
		c.fail(RuleContext, at, "EPContext holds compiled code for a device")
	}
	if d == "" {
		c.behavior(at, n)
	}
	seen := make(map[string]bool, len(n.Attributes))
	for _, a := range n.Attributes {
		if a.Name == "" || seen[a.Name] {
			c.fail(RuleNode, at, "attribute %q is duplicate or has no name", a.Name)
		}
		seen[a.Name] = true
		if a.Type < 0 || a.Type > AttrTypes {
			c.fail(RuleNode, at, "attribute %q has the unknown type %d", a.Name, a.Type)
		}
	}
}

// behavior reports operators that are unsuitable for golden outputs or
// accelerators.
func (c *checker) behavior(at *place, n *Node) {
	switch n.Op {
	case "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial", "Bernoulli":
		c.warn(RuleRandom, at, "%s is not deterministic", n.Op)
	case "Dropout":
		if len(n.Inputs) > 2 && n.Inputs[2] != "" {
			c.warn(RuleRandom, at, "Dropout with a training mode, %q, is not deterministic", n.Inputs[2])
		}
	case "If", "Loop", "Scan":
		if c.opt.NPU {
			c.fail(RuleControl, at, "%s branches or loops, which the target's accelerator does not support", n.Op)
		}
	}
}

// tensor checks one tensor at any place.
func (c *checker) tensor(at *place, t *Tensor) {
	if err := t.sound(); err != nil {
		c.fail(err.rule, at, "%s", err.text)
		return
	}
	if t.External != nil {
		c.external(at, t)
	}
}

// recursion refuses recursive functions.
func (c *checker) recursion() {
	calls := make(map[[3]string][][3]string)
	for i := range c.m.Functions {
		f := &c.m.Functions[i]
		key := [3]string{canonical(f.Domain), f.Name, f.Overload}
		visitor{node: func(_ *place, n *Node) {
			callee := [3]string{canonical(n.Domain), n.Op, n.Overload}
			if c.functions[callee] {
				calls[key] = append(calls[key], callee)
			}
		}}.nodes(nil, f.Nodes)
	}
	const open, done = 1, 2
	state := make(map[[3]string]int)
	var visit func(key [3]string, depth int) bool
	visit = func(key [3]string, depth int) bool {
		if state[key] == open || depth > maxDepth {
			return true
		}
		if state[key] == done {
			return false
		}
		state[key] = open
		if slices.ContainsFunc(calls[key], func(callee [3]string) bool { return visit(callee, depth+1) }) {
			return true
		}
		state[key] = done
		return false
	}
	for i, f := range c.m.Functions {
		if visit([3]string{canonical(f.Domain), f.Name, f.Overload}, 0) {
			c.fail(RuleRecursion, &place{what: "function", index: i, name: f.Name}, "recursive, or calls nested deeper than %d", maxDepth)
			return
		}
	}
}
