package compile

import (
	"fmt"
	"slices"
	"strings"

	"mm-abi.org/mm/onnx"
)

// cut proposes where to cut a model so that a part has none of the refused nodes:
// before them, or after them if they come first.
func cut(path string, m *onnx.Model, refused []string) string {
	const otherwise = "remove them from the model, or compile a part of it (mm onnx cut)"
	g := &m.Graph
	// tainted are the values that depend on a refused node; needed are those that
	// one depends on.
	tainted, needed := make(map[string]bool), make(map[string]bool)
	found := 0
	for i := range g.Nodes {
		n := &g.Nodes[i]
		isRefused := slices.Contains(refused, n.Name)
		if isRefused {
			found++
		}
		if isRefused || slices.ContainsFunc(n.Inputs, func(name string) bool { return tainted[name] }) {
			for _, name := range n.Outputs {
				tainted[name] = true
			}
		}
	}
	if found == 0 {
		return otherwise
	}
	for i := len(g.Nodes) - 1; i >= 0; i-- {
		n := &g.Nodes[i]
		if slices.Contains(refused, n.Name) || slices.ContainsFunc(n.Outputs, func(name string) bool { return needed[name] }) {
			for _, name := range slices.Concat(n.Inputs, n.Outputs) {
				needed[name] = true
			}
		}
	}
	if before := border(g, tainted, true); len(before) > 0 {
		return fmt.Sprintf("cut it before them and compile that part: mm onnx cut %s%s --out part.onnx", path, flags("--to", before))
	}
	if after := border(g, needed, false); len(after) > 0 {
		return fmt.Sprintf("cut it after them and compile that part: mm onnx cut %s%s%s --out part.onnx", path, flags("--from", after), flags("--to", outputs(g)))
	}
	return otherwise
}

// border lists the values that cross the border of a set of nodes: into the set, or
// out of it.
func border(g *onnx.Graph, set map[string]bool, into bool) (out []string) {
	produced := make(map[string]bool)
	for i := range g.Nodes {
		n := &g.Nodes[i]
		inside := slices.ContainsFunc(n.Outputs, func(name string) bool { return set[name] })
		for _, name := range n.Inputs {
			if produced[name] && set[name] != into && inside == into && !slices.Contains(out, name) {
				out = append(out, name)
			}
		}
		for _, name := range n.Outputs {
			produced[name] = true
		}
	}
	slices.Sort(out)
	return out
}

func outputs(g *onnx.Graph) (out []string) {
	for _, v := range g.Outputs {
		out = append(out, v.Name)
	}
	return out
}

func flags(flag string, names []string) string {
	var b strings.Builder
	for _, name := range names {
		fmt.Fprintf(&b, " %s %s", flag, name)
	}
	return b.String()
}
