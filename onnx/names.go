package onnx

// scope holds the names that are defined in a graph.
type scope struct {
	up      *scope
	defined map[string]bool
	used    map[string]bool
	later   map[string]bool // names that any node of the graph produces
}

func newScope(up *scope, nodes []Node) *scope {
	s := &scope{up, make(map[string]bool), make(map[string]bool), make(map[string]bool)}
	for i := range nodes {
		for _, name := range nodes[i].Outputs {
			s.later[name] = true
		}
	}
	return s
}

// has reports whether a name is defined.
func (s *scope) has(name string) bool {
	for ; s != nil; s = s.up {
		if s.defined[name] {
			return true
		}
	}
	return false
}

// use marks a name as used and reports whether it is defined.
func (s *scope) use(name string) bool {
	for ; s != nil; s = s.up {
		if s.defined[name] {
			s.used[name] = true
			return true
		}
	}
	return false
}

// producedLater reports whether a node produces a name only after its use.
func (s *scope) producedLater(name string) bool {
	for ; s != nil; s = s.up {
		if s.later[name] {
			return true
		}
	}
	return false
}

// names checks that every name has one producer, which precedes its uses.
func (c *checker) names() {
	at := &place{what: "graph", index: -1, name: c.m.Graph.Name}
	c.scopeOf(at, &c.m.Graph, nil)
	for i := range c.m.Functions {
		c.function(&place{what: "function", index: i, name: c.m.Functions[i].Name}, &c.m.Functions[i])
	}
}

// define adds a name that something in the graph produces.
func (c *checker) define(at *place, s *scope, name string) {
	switch {
	case s.defined[name]:
		c.fail(RuleName, at, "duplicate name %q", name)
	case s.up.has(name):
		c.warn(RuleName, at, "name %q hides one of an enclosing graph", name)
	}
	s.defined[name] = true
}

// scopeOf checks a graph and its subgraphs.
func (c *checker) scopeOf(at *place, g *Graph, up *scope) {
	s := newScope(up, g.Nodes)
	for i, v := range g.Inputs {
		c.define(at.in("input", i, v.Name), s, v.Name)
	}
	inputs := make(map[string]bool, len(s.defined))
	for name := range s.defined {
		inputs[name] = true
	}
	constant := func(at *place, name string) {
		if inputs[name] { // IR version 3 also lists initializers as inputs
			delete(inputs, name)
			return
		}
		c.define(at, s, name)
	}
	for i := range g.Initializers {
		constant(at.in("initializer", i, ""), g.Initializers[i].Name)
	}
	for i := range g.Sparse {
		constant(at.in("sparse_initializer", i, ""), g.Sparse[i].Values.Name)
	}
	c.body(at, g.Nodes, s)
	for i, v := range g.Outputs {
		switch {
		case s.defined[v.Name]:
			s.used[v.Name] = true
		case s.use(v.Name):
			c.warn(RuleOutput, at.in("output", i, ""), "output %q is produced in an enclosing graph", v.Name)
		default:
			c.fail(RuleOutput, at.in("output", i, ""), "no node produces output %q", v.Name)
		}
	}
	for i := range g.Initializers {
		if t := &g.Initializers[i]; !s.used[t.Name] {
			c.warn(RuleUnused, at.in("initializer", i, t.Name), "unused: %s %v", t.DType, t.Dims)
		}
	}
}

// body checks nodes in their order.
func (c *checker) body(at *place, nodes []Node, s *scope) {
	for i := range nodes {
		n := &nodes[i]
		here := at.in("node", i, n.Name)
		for _, name := range n.Inputs {
			switch {
			case name == "" || s.use(name):
			case s.producedLater(name):
				c.fail(RuleOrder, here, "input %q is produced by a later node: nodes are out of order or form a cycle", name)
			default:
				c.fail(RuleDangling, here, "no earlier node produces input %q", name)
			}
		}
		for j := range n.Attributes {
			a := &n.Attributes[j]
			if a.Graph != nil {
				c.scopeOf(here.in("attribute", -1, a.Name), a.Graph, s)
			}
			for k := range a.Graphs {
				c.scopeOf(here.in("attribute", k, a.Name), &a.Graphs[k], s)
			}
		}
		for _, name := range n.Outputs {
			if name != "" {
				c.define(here, s, name)
			}
		}
	}
}

// function checks the body of a function, in which only its inputs are defined.
func (c *checker) function(at *place, f *Function) {
	s := newScope(nil, f.Nodes)
	for _, name := range f.Inputs {
		c.define(at, s, name)
	}
	c.body(at, f.Nodes, s)
	for _, name := range f.Outputs {
		if !s.defined[name] {
			c.fail(RuleOutput, at, "no node produces output %q", name)
		}
	}
}
