package onnx

import (
	"math"
	"slices"
	"strings"
)

// CheckOptions says what a model may have.
type CheckOptions struct {
	// MinOpset and MaxOpset bound the opset of ai.onnx; 0 is 7 and 26, what
	// ONNX Runtime 1.30 runs.
	MinOpset, MaxOpset int64
	// Domains are operator domains allowed besides the standard ones and
	// those of the model's functions.
	Domains []string
	// AnyDomain leaves operators of every domain to the engine, which refuses
	// by name what it does not have.
	AnyDomain bool
	// External gives the size of a file that the model may refer to, by its
	// location. [ErrLinked] is a file that has another name; any other error
	// is a file that the model may not have. nil leaves that unchecked: paths
	// and ranges are checked all the same.
	External func(location string) (size int64, err error)
	// MaxBytes bounds the model and its external files together; 0: no bound.
	MaxBytes int64
	// NPU refuses control flow, which accelerators of fixed graphs lack.
	NPU bool
	// EPContext allows com.microsoft's EPContext nodes, which hold or name
	// compiled code for a device.
	EPContext bool
}

// The IR versions that onnx.proto 1.23 describes and runtimes still read.
const minIR, maxIR = 3, 14

// domains are the operator domains that runtimes know, with the newest opset.
var domains = map[string]int64{
	"":                    0, // by CheckOptions
	"ai.onnx.ml":          5,
	"com.microsoft":       1,
	"com.microsoft.nchwc": 1,
}

// Check gives everything that is wrong with the model as far as the file
// alone can tell, in the order of the file.
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
	files     map[string]int64 // sizes of the external files that may be read
	uses      map[string][]use // of external files
	found     []Problem

	faults, warnings int
}

// size checks how large the model is with its external files.
func (c *checker) size() {
	total := c.m.size
	for _, n := range c.files {
		total += min(n, math.MaxInt64-total)
	}
	if c.opt.MaxBytes > 0 && total > c.opt.MaxBytes {
		c.fail(RuleSize, nil, "%d bytes with its external data, the limit is %d", total, c.opt.MaxBytes)
	}
}

// header checks what stands around the graph.
func (c *checker) header() {
	if v := c.m.IRVersion; v < minIR || v > maxIR {
		c.fail(RuleIR, nil, "IR version %d, versions %d to %d are known", v, minIR, maxIR)
	}
	if c.m.Unknown > 0 {
		c.fail(RuleFormat, nil, "%d fields that onnx.proto does not define", c.m.Unknown)
	}
	if len(c.m.Training) > 0 {
		c.warn(RuleTraining, nil, "it holds %d training graphs, which no run uses", len(c.m.Training))
	}
	for _, e := range c.m.Metadata {
		if strings.HasPrefix(e.Key, "session.") || strings.HasPrefix(e.Key, "ep.") {
			c.fail(RuleContext, nil, "the metadata key %q sets options of the session that runs the model", e.Key)
		}
	}
}

// opsets checks the versions that are imported.
func (c *checker) opsets() {
	seen := make(map[string]bool)
	for _, o := range c.m.Opsets {
		d := canonical(o.Domain)
		if seen[d] {
			c.fail(RuleOpset, nil, "the domain %q is imported twice", o.Domain)
		}
		seen[d] = true
		newest, known := domains[d]
		switch {
		case d == "" && (o.Version < c.opt.MinOpset || o.Version > c.opt.MaxOpset):
			c.fail(RuleOpset, nil, "opset %d, opsets %d to %d are supported", o.Version, c.opt.MinOpset, c.opt.MaxOpset)
		case strings.HasPrefix(d, "ai.onnx.preview"):
			c.warn(RuleDomain, nil, "the domain %q is a preview", d) // its nodes, if there are any, are refused
		case known && newest > 0 && o.Version > newest:
			c.fail(RuleOpset, nil, "opset %d of %s, the newest supported is %d", o.Version, d, newest)
		}
	}
	if !seen[""] && len(c.m.Graph.Nodes) > 0 && slices.ContainsFunc(c.m.Graph.Nodes, func(n Node) bool { return canonical(n.Domain) == "" }) {
		c.fail(RuleOpset, nil, "no opset of ai.onnx is imported")
	}
}

// node checks where an operator comes from.
func (c *checker) node(at *place, n *Node) {
	d := canonical(n.Domain)
	_, known := domains[d]
	switch {
	case n.Op == "":
		c.fail(RuleNode, at, "the node has no operator")
	case c.functions[[3]string{d, n.Op, n.Overload}]:
	case strings.HasPrefix(d, "ai.onnx.preview") && !c.opt.AnyDomain:
		c.fail(RuleDomain, at, "the operator %s is a preview of %s", n.Op, d)
	case !known && !c.opt.AnyDomain && !slices.Contains(c.opt.Domains, d):
		c.fail(RuleDomain, at, "the operator %s is of the custom domain %q", n.Op, d)
	case d == "com.microsoft" && n.Op == "EPContext" && !c.opt.EPContext:
		c.fail(RuleContext, at, "EPContext holds compiled code for a device")
	}
	if d == "" {
		c.behaviour(at, n)
	}
	seen := make(map[string]bool, len(n.Attributes))
	for _, a := range n.Attributes {
		if a.Name == "" || seen[a.Name] {
			c.fail(RuleNode, at, "the attribute %q is without a name or given twice", a.Name)
		}
		seen[a.Name] = true
		if a.Type < 0 || a.Type > AttrTypes {
			c.fail(RuleNode, at, "the attribute %q has the unknown type %d", a.Name, a.Type)
		}
	}
}

// behaviour tells operators that golden outputs or accelerators do not bear.
func (c *checker) behaviour(at *place, n *Node) {
	switch n.Op {
	case "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial", "Bernoulli":
		c.warn(RuleRandom, at, "%s gives other results in each run", n.Op)
	case "Dropout":
		if len(n.Inputs) > 2 && n.Inputs[2] != "" {
			c.warn(RuleRandom, at, "Dropout with a training mode, %q, gives other results in each run", n.Inputs[2])
		}
	case "If", "Loop", "Scan":
		if c.opt.NPU {
			c.fail(RuleControl, at, "%s branches or loops, which the target's accelerator cannot", n.Op)
		}
	}
}

// tensor checks one tensor, wherever it is.
func (c *checker) tensor(at *place, t *Tensor) {
	if err := t.sound(); err != nil {
		c.fail(err.rule, at, "%s", err.text)
		return
	}
	if t.External != nil {
		c.external(at, t)
	}
}

// recursion refuses functions that lead back to themselves.
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
			c.fail(RuleRecursion, &place{what: "function", index: i, name: f.Name}, "it calls itself, or calls are nested deeper than %d", maxDepth)
			return
		}
	}
}
