package records

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"mm-abi.org/mm/internal/diag"
)

// The files of a graph, relative to its folder.
const (
	NodesFile = "nodes.jsonl"
	EdgesFile = "edges.jsonl"
)

// maxID is the maximum length of a node ID in bytes.
const maxID = 1024

// NodeTypes returns the valid node types.
func NodeTypes() []string {
	return []string{"Run", "Phase", "Experiment", "Model", "Tokenizer", "CorpusManifest", "CorpusSource", "CorpusChunk", "LicenseFinding", "OCRProvenance",
		"Checkpoint", "DeviceState", "DispatchRecord", "SchedulerPolicy", "EvalArtifact", "TeacherPanelJudgment", "FalsifierResult", "DisagreementRecord",
		"Decision", "SyncEvent", "ReasonerTuple", "ExportProbe"}
}

// EdgeTypes returns the valid edge types.
func EdgeTypes() []string {
	return []string{"USED_MODEL", "USED_TOKENIZER", "USED_CORPUS", "PRODUCED", "VALIDATED_BY", "FAILED_BY", "WARNED_BY", "DISAGREES_WITH", "DERIVED_FROM",
		"SYNCED_TO", "BLOCKED_BY", "SUPERSEDES", "RIGHTS_CONSTRAINED_BY", "JUDGED_BY"}
}

// Node describes an object of the research record. A placeholder has no type; it is
// returned by [ReadGraph] and never written.
type Node struct {
	ID          string          `json:"id"`
	Type        string          `json:"type,omitempty"`
	Time        string          `json:"time,omitempty"` // RFC 3339, set by the caller
	Attributes  json.RawMessage `json:"attributes,omitempty"`
	SHA256      string          `json:"attributes_sha256,omitempty"` // hex, of the attributes as compact JSON with sorted keys
	Placeholder bool            `json:"placeholder,omitempty"`
}

// Edge connects two nodes.
type Edge struct {
	Type string `json:"type"`
	From string `json:"from"`
	To   string `json:"to"`
}

// Graph holds nodes and edges.
type Graph struct {
	Nodes []Node `json:"nodes"` // in file order, then placeholders by ID
	Edges []Edge `json:"edges"`
}

// Seal makes the node's attributes canonical and sets their digest.
func (n *Node) Seal() error {
	if len(n.Attributes) == 0 {
		n.SHA256 = ""
		return nil
	}
	text, err := canonical(n.Attributes)
	if err != nil {
		return fmt.Errorf("node %s: attributes: %w", n.ID, err)
	}
	sum := sha256.Sum256(text)
	n.Attributes, n.SHA256 = text, hex.EncodeToString(sum[:])
	return nil
}

// canonical returns a JSON object with sorted keys and unchanged numbers.
func canonical(raw []byte) ([]byte, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var tree map[string]any
	if err := dec.Decode(&tree); err != nil {
		return nil, err
	}
	return json.Marshal(tree)
}

func (n Node) check() error {
	switch {
	case strings.TrimSpace(n.ID) == "" || len(n.ID) > maxID:
		return fmt.Errorf("invalid node ID %q", n.ID)
	case n.Placeholder:
		return fmt.Errorf("node %s: placeholders cannot be added", n.ID)
	case !slices.Contains(NodeTypes(), n.Type):
		return fmt.Errorf("node %s: unknown type %q, want one of %s", n.ID, n.Type, strings.Join(NodeTypes(), ", "))
	}
	sealed := n
	if err := sealed.Seal(); err != nil {
		return err
	}
	if sealed.SHA256 != n.SHA256 {
		return fmt.Errorf("node %s: attributes changed: SHA-256 %.12s…, recorded %.12s…", n.ID, sealed.SHA256, n.SHA256)
	}
	return nil
}

func (e Edge) check() error {
	switch {
	case strings.TrimSpace(e.From) == "" || strings.TrimSpace(e.To) == "" || e.From == e.To:
		return fmt.Errorf("invalid edge from %q to %q", e.From, e.To)
	case !slices.Contains(EdgeTypes(), e.Type):
		return fmt.Errorf("edge from %s to %s: unknown type %q, want one of %s", e.From, e.To, e.Type, strings.Join(EdgeTypes(), ", "))
	}
	return nil
}

// AddToGraph seals and writes nodes and edges. It skips those that exist; a node that
// differs from an existing one with the same ID is an error. Other processes wait. Nodes
// are written first, so that a crash leaves no edge without its nodes.
func AddToGraph(ctx context.Context, dir string, nodes []Node, edges []Edge) error {
	return Update(ctx, filepath.Join(dir, EdgesFile), func(oldEdges []Edge) (more []Edge, err error) {
		err = Update(ctx, filepath.Join(dir, NodesFile), func(oldNodes []Node) ([]Node, error) {
			g, err := assemble(dir, oldNodes, oldEdges)
			if err != nil {
				return nil, err
			}
			if more, err = g.newEdges(edges); err != nil {
				return nil, err
			}
			return g.newNodes(nodes)
		})
		return more, err
	})
}

// newNodes returns the sealed nodes that g lacks.
func (g Graph) newNodes(nodes []Node) (more []Node, err error) {
	for _, n := range nodes {
		if err := n.Seal(); err != nil {
			return nil, err
		}
		if err := n.check(); err != nil {
			return nil, err
		}
		old := slices.IndexFunc(g.Nodes, func(x Node) bool { return x.ID == n.ID && !x.Placeholder })
		if old >= 0 && (g.Nodes[old].Type != n.Type || g.Nodes[old].SHA256 != n.SHA256) {
			return nil, fmt.Errorf("node %s exists and differs; add the new one under another ID with a SUPERSEDES edge", n.ID)
		}
		if old < 0 {
			more, g.Nodes = append(more, n), append(g.Nodes, n)
		}
	}
	return more, nil
}

// newEdges returns the edges that g lacks.
func (g Graph) newEdges(edges []Edge) (more []Edge, err error) {
	for _, e := range edges {
		if err := e.check(); err != nil {
			return nil, err
		}
		if !slices.Contains(g.Edges, e) {
			more, g.Edges = append(more, e), append(g.Edges, e)
		}
	}
	return more, nil
}

// ReadGraph reads the graph in dir. The error joins all faults.
func ReadGraph(dir string) (Graph, error) {
	nodes, err := Read[Node](filepath.Join(dir, NodesFile))
	if err != nil {
		return Graph{}, err
	}
	edges, err := Read[Edge](filepath.Join(dir, EdgesFile))
	if err != nil {
		return Graph{}, err
	}
	return assemble(dir, nodes, edges)
}

// assemble builds the graph of the rows read from dir.
func assemble(dir string, nodes []Node, edges []Edge) (g Graph, _ error) {
	var faults error
	seen, seals := map[string]bool{}, map[string]string{}
	for i, n := range nodes {
		err := n.check()
		switch {
		case err != nil:
		case !seen[n.ID]:
			g.Nodes = append(g.Nodes, n)
		case seals[n.ID] != n.Type+" "+n.SHA256: // two processes may write equal rows
			err = fmt.Errorf("duplicate node %s with different content", n.ID)
		}
		if err != nil {
			faults = errors.Join(faults, fmt.Errorf("%s:%d: %w", filepath.Join(dir, NodesFile), i+1, err))
		}
		seen[n.ID], seals[n.ID] = true, n.Type+" "+n.SHA256
	}
	var missing []string
	for i, e := range edges {
		if err := e.check(); err != nil {
			faults = errors.Join(faults, fmt.Errorf("%s:%d: %w", filepath.Join(dir, EdgesFile), i+1, err))
		}
		for _, id := range []string{e.From, e.To} {
			if !seen[id] {
				seen[id] = true
				missing = append(missing, id)
			}
		}
	}
	if faults != nil {
		return Graph{}, faults
	}
	g.Edges = edges
	slices.Sort(missing)
	for _, id := range missing {
		g.Nodes = append(g.Nodes, Node{ID: id, Placeholder: true})
	}
	return g, nil
}

// Neighbors returns the edges at a node, of the given type if edge is not empty, and the
// nodes at their other ends.
func (g Graph) Neighbors(id, edge string) (Graph, error) {
	if !slices.ContainsFunc(g.Nodes, func(n Node) bool { return n.ID == id }) {
		return Graph{}, fmt.Errorf("unknown node %q", id)
	}
	if edge != "" && !slices.Contains(EdgeTypes(), edge) {
		return Graph{}, fmt.Errorf("unknown edge type %q, want one of %s", edge, strings.Join(EdgeTypes(), ", "))
	}
	var out Graph
	near := map[string]bool{}
	for _, e := range g.Edges {
		if (e.From == id || e.To == id) && (edge == "" || e.Type == edge) {
			out.Edges = append(out.Edges, e)
			near[e.From], near[e.To] = true, true
		}
	}
	for _, n := range g.Nodes {
		if n.ID != id && near[n.ID] {
			out.Nodes = append(out.Nodes, n)
		}
	}
	return out, nil
}

// Write writes a row for each node, and then the edges.
func (g Graph) Write(to io.Writer) error {
	var rows [][]string
	for _, n := range g.Nodes {
		what := n.Type
		if n.Placeholder {
			what = "(not recorded)"
		}
		rows = append(rows, []string{n.ID, what, n.Time})
	}
	if err := diag.Table(to, []string{"NODE", "TYPE", "TIME"}, rows); err != nil {
		return err
	}
	for _, e := range g.Edges {
		fmt.Fprintf(to, "%s %s %s\n", e.From, e.Type, e.To)
	}
	return nil
}
