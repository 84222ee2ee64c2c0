package engine

// Steps returns the operators that a program runs.
func Steps(p *Program) []string {
	var out []string
	for _, st := range p.main.steps {
		out = append(out, st.node.Op)
	}
	return out
}
