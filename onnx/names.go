package onnx

// scope is what names are known in a graph.
type scope struct {
	up    *scope
	known map[string]bool
	used  map[string]bool
	later map[string]bool // what the graph's nodes produce, wherever they stand
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

// has reports a name that is known.
func (s *scope) has(name string) bool {
	for ; s != nil; s = s.up {
		if s.known[name] {
			return true
		}
	}
	return false
}

// use marks a name as used where it is known.
func (s *scope) use(name string) bool {
	for ; s != nil; s = s.up {
		if s.known[name] {
			s.used[name] = true
			return true
		}
	}
	return false
}

// made reports a name that a node produces only after its use.
func (s *scope) made(name string) bool {
	for ; s != nil; s = s.up {
		if s.later[name] {
			return true
		}
	}
	return false
}

// names checks that every name has one producer, which comes before its uses.
func (c *checker) names() {
	at := &place{what: "graph", index: -1, name: c.m.Graph.Name}
	c.scopeOf(at, &c.m.Graph, nil)
	for i := range c.m.Functions {
		c.function(&place{what: "function", index: i, name: c.m.Functions[i].Name}, &c.m.Functions[i])
	}
}

// define enters a name that something in the graph produces.
func (c *checker) define(at *place, s *scope, name string) {
	switch {
	case s.known[name]:
		c.fail(RuleName, at, "the name %q is produced twice", name)
	case s.up.has(name):
		c.warn(RuleName, at, "the name %q hides one of an enclosing graph", name)
	}
	s.known[name] = true
}

// scopeOf checks a graph and those within it.
func (c *checker) scopeOf(at *place, g *Graph, up *scope) {
	s := newScope(up, g.Nodes)
	for i, v := range g.Inputs {
		c.define(at.in("input", i, v.Name), s, v.Name)
	}
	inputs := make(map[string]bool, len(s.known))
	for name := range s.known {
		inputs[name] = true
	}
	constant := func(at *place, name string) {
		if inputs[name] { // IR version 3 lists initializers as inputs too
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
		case s.known[v.Name]:
			s.used[v.Name] = true
		case s.use(v.Name):
			c.warn(RuleOutput, at.in("output", i, ""), "the output %q is produced in an enclosing graph", v.Name)
		default:
			c.fail(RuleOutput, at.in("output", i, ""), "nothing produces the output %q", v.Name)
		}
	}
	for i := range g.Initializers {
		if t := &g.Initializers[i]; !s.used[t.Name] {
			c.warn(RuleUnused, at.in("initializer", i, t.Name), "nothing uses it: %s %v", t.DType, t.Dims)
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
			case s.made(name):
				c.fail(RuleOrder, here, "its input %q is produced only after it: the nodes are out of order or go round in a circle", name)
			default:
				c.fail(RuleDangling, here, "nothing before it produces its input %q", name)
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

// function checks the body of a function, which sees its inputs alone.
func (c *checker) function(at *place, f *Function) {
	s := newScope(nil, f.Nodes)
	for _, name := range f.Inputs {
		c.define(at, s, name)
	}
	c.body(at, f.Nodes, s)
	for _, name := range f.Outputs {
		if !s.known[name] {
			c.fail(RuleOutput, at, "nothing produces the output %q", name)
		}
	}
}
