// Package graph is the record of what came of what: nodes and edges, added and
// never changed.
//
// Nodes and edges are two journals in a folder. [Read] puts them together and
// checks types and the SHA-256 of attributes; an edge to a node that nobody wrote
// down makes a placeholder of it, which says that something is missing.
package records

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// The files of a graph in its folder.
const (
	NodesFile = "nodes.jsonl"
	EdgesFile = "edges.jsonl"
)

// NodeTypes lists what a node can be.
func NodeTypes() []string {
	return []string{"Run", "Phase", "Experiment", "Model", "Tokenizer", "CorpusManifest", "CorpusSource", "CorpusChunk", "LicenseFinding", "OCRProvenance",
		"Checkpoint", "DeviceState", "DispatchRecord", "SchedulerPolicy", "EvalArtifact", "TeacherPanelJudgment", "FalsifierResult", "DisagreementRecord",
		"Decision", "SyncEvent", "ReasonerTuple", "ExportProbe"}
}

// EdgeTypes lists what an edge can be.
func EdgeTypes() []string {
	return []string{"USED_MODEL", "USED_TOKENIZER", "USED_CORPUS", "PRODUCED", "VALIDATED_BY", "FAILED_BY", "WARNED_BY", "DISAGREES_WITH", "DERIVED_FROM",
		"SYNCED_TO", "BLOCKED_BY", "SUPERSEDES", "RIGHTS_CONSTRAINED_BY", "JUDGED_BY"}
}

// Node is a thing. A placeholder has no type and is only read, never written.
type Node struct {
	ID          string          `json:"id"`
	Type        string          `json:"type,omitempty"`
	Time        string          `json:"time,omitempty"` // RFC 3339, the caller's
	Attributes  json.RawMessage `json:"attributes,omitempty"`
	SHA256      string          `json:"attributes_sha256,omitempty"` // hex, of the attributes as compact JSON with sorted keys
	Placeholder bool            `json:"placeholder,omitempty"`
}

// Edge leads from one node to another.
type Edge struct {
	Type string `json:"type"`
	From string `json:"from"`
	To   string `json:"to"`
}

// Graph is what was read.
type Graph struct {
	Nodes []Node `json:"nodes"` // in the order of the file, then placeholders by id
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

// canonical is JSON with sorted keys and numbers as they were written.
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
	case strings.TrimSpace(n.ID) == "" || len(n.ID) > 1024:
		return fmt.Errorf("%q is no id", n.ID)
	case n.Placeholder:
		return fmt.Errorf("node %s: a placeholder is not written", n.ID)
	case !slices.Contains(NodeTypes(), n.Type):
		return fmt.Errorf("node %s: there is no type %q", n.ID, n.Type)
	}
	sealed := n
	if err := sealed.Seal(); err != nil {
		return err
	}
	if sealed.SHA256 != n.SHA256 {
		return fmt.Errorf("node %s: its attributes were changed: their SHA-256 is %.12s…, it says %.12s…", n.ID, sealed.SHA256, n.SHA256)
	}
	return nil
}

func (e Edge) check() error {
	switch {
	case strings.TrimSpace(e.From) == "" || strings.TrimSpace(e.To) == "" || e.From == e.To:
		return fmt.Errorf("an edge from %q to %q", e.From, e.To)
	case !slices.Contains(EdgeTypes(), e.Type):
		return fmt.Errorf("an edge from %s to %s: there is no type %q", e.From, e.To, e.Type)
	}
	return nil
}

// Add seals and writes nodes and edges. A node that is there already must be the
// same; it and edges that are there are not written again. Other processes wait
// meanwhile. Nodes are written first: a crash leaves none that an edge misses.
func AddToGraph(ctx context.Context, dir string, nodes []Node, edges []Edge) error {
	return Update(ctx, filepath.Join(dir, EdgesFile), func(knownEdges []Edge) (more []Edge, err error) {
		err = Update(ctx, filepath.Join(dir, NodesFile), func(knownNodes []Node) ([]Node, error) {
			g, err := together(dir, knownNodes, knownEdges)
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

// newNodes are the sealed ones that the graph lacks.
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
			return nil, fmt.Errorf("node %s is there, and is another; what is new supersedes it under an id of its own", n.ID)
		}
		if old < 0 {
			more, g.Nodes = append(more, n), append(g.Nodes, n)
		}
	}
	return more, nil
}

// newEdges are those that the graph lacks.
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

// Read puts the graph in dir together. All faults are told.
func ReadGraph(dir string) (Graph, error) {
	nodes, err := Read[Node](filepath.Join(dir, NodesFile))
	if err != nil {
		return Graph{}, err
	}
	edges, err := Read[Edge](filepath.Join(dir, EdgesFile))
	if err != nil {
		return Graph{}, err
	}
	return together(dir, nodes, edges)
}

// together is the graph of rows that lie in dir.
func together(dir string, nodes []Node, edges []Edge) (g Graph, _ error) {
	var faults error
	known, seals := map[string]bool{}, map[string]string{}
	for i, n := range nodes {
		err := n.check()
		switch {
		case err != nil:
		case !known[n.ID]:
			g.Nodes = append(g.Nodes, n)
		case seals[n.ID] != n.Type+" "+n.SHA256: // the same twice is what two processes leave
			err = fmt.Errorf("node %s stands twice, and is another", n.ID)
		}
		if err != nil {
			faults = errors.Join(faults, fmt.Errorf("%s:%d: %w", filepath.Join(dir, NodesFile), i+1, err))
		}
		known[n.ID], seals[n.ID] = true, n.Type+" "+n.SHA256
	}
	var missing []string
	for i, e := range edges {
		if err := e.check(); err != nil {
			faults = errors.Join(faults, fmt.Errorf("%s:%d: %w", filepath.Join(dir, EdgesFile), i+1, err))
		}
		for _, id := range []string{e.From, e.To} {
			if !known[id] {
				known[id] = true
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

// Neighbours lists the edges at a node, of one type where it is not empty, and
// the nodes at their other ends.
func (g Graph) Neighbours(id, edge string) (Graph, error) {
	if !slices.ContainsFunc(g.Nodes, func(n Node) bool { return n.ID == id }) {
		return Graph{}, fmt.Errorf("there is no node %q", id)
	}
	if edge != "" && !slices.Contains(EdgeTypes(), edge) {
		return Graph{}, fmt.Errorf("there is no type of edges %q", edge)
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
