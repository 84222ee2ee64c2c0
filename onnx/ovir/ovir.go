// Package ovir reads models in OpenVINO's intermediate representation of version 10
// or 11: NAME.xml with its weights in NAME.bin.
//
// OpenVINO ignores the types and shapes that a file declares. [Read] compares them
// along every edge, and the constants with their place in the weights.
package ovir

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"mm-abi.org/mm/internal/fsx"
)

// Extension is that of the files.
const Extension = ".xml"

// Limits of a file.
const (
	maxText   = 256 << 20 // bytes
	maxLayers = 1 << 20
	maxPorts  = 1 << 22 // of all layers, and edges
	maxRank   = 64
)

// Model describes a model.
type Model struct {
	Name       string
	Version    string
	Inputs     []Port
	Outputs    []Port
	Operations map[string]int   // by type
	Weights    map[string]int64 // elements of floats and narrow integers, by type
	Parameters int64
	Bytes      int64 // of both files
}

// Port is an input or an output. A dimension of -1 is open.
type Port struct {
	Name  string
	Type  string // f32
	Shape []int64
}

// Open reads a file; its weights are next to it.
func Open(path string) (*Model, error) {
	f, err := fsx.OpenRegular(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if err := limit("bytes of text", info.Size(), maxText); err != nil {
		return nil, err
	}
	var weights int64
	bin, err := os.Stat(strings.TrimSuffix(path, filepath.Ext(path)) + ".bin")
	switch {
	case err == nil:
		weights = bin.Size()
	case !errors.Is(err, os.ErrNotExist): // a model may have no constants
		return nil, err
	}
	m, err := Read(f, weights)
	if err == nil {
		m.Bytes = info.Size() + weights
	}
	return m, err
}

func limit(what string, n, most int64) error {
	if n > most {
		return fmt.Errorf("too many %s: got %d, the limit is %d", what, n, most)
	}
	return nil
}

// The elements of the text.
type (
	layer struct {
		ID     string `xml:"id,attr"`
		Name   string `xml:"name,attr"`
		Type   string `xml:"type,attr"`
		Data   data   `xml:"data"`
		Input  ports  `xml:"input"`
		Output ports  `xml:"output"`
	}
	data struct {
		Element string `xml:"element_type,attr"`
		Shape   string `xml:"shape,attr"`
		Offset  string `xml:"offset,attr"`
		Size    string `xml:"size,attr"`
	}
	ports struct {
		Port []port `xml:"port"`
	}
	port struct {
		ID        string   `xml:"id,attr"`
		Precision string   `xml:"precision,attr"`
		Names     string   `xml:"names,attr"`
		Dims      []string `xml:"dim"`
	}
	edge struct {
		FromLayer string `xml:"from-layer,attr"`
		FromPort  string `xml:"from-port,attr"`
		ToLayer   string `xml:"to-layer,attr"`
		ToPort    string `xml:"to-port,attr"`
	}
)

// at identifies a port.
type at struct{ layer, port string }

// reader collects layers and edges.
type reader struct {
	m       *Model
	weights int64
	layers  map[string]*layer
	from    map[at]*port // outputs
	to      map[at]*port // inputs
	bound   map[at]bool  // inputs with an edge
	order   []*layer
	ports   int64
}

// Read reads the text of a model whose weights have a size.
func Read(text io.Reader, weights int64) (*Model, error) {
	r := &reader{
		m: &Model{Operations: map[string]int{}, Weights: map[string]int64{}}, weights: weights,
		layers: map[string]*layer{}, from: map[at]*port{}, to: map[at]*port{}, bound: map[at]bool{},
	}
	d := xml.NewDecoder(io.LimitReader(text, maxText))
	var path []string
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("reading the model: %w", err)
		}
		switch t := token.(type) {
		case xml.StartElement:
			path = append(path, t.Name.Local)
			used, err := r.element(d, &t, path)
			if err != nil {
				return nil, err
			}
			if used {
				path = path[:len(path)-1]
			}
		case xml.EndElement:
			path = path[:len(path)-1]
		}
		if len(path) > maxRank {
			return nil, errors.New("elements nested too deeply")
		}
	}
	return r.m, r.finish()
}

// element reads a layer or an edge, and reports whether it has read it to its end.
func (r *reader) element(d *xml.Decoder, t *xml.StartElement, path []string) (bool, error) {
	switch strings.Join(path, "/") {
	case "net":
		for _, a := range t.Attr {
			switch a.Name.Local {
			case "name":
				r.m.Name = a.Value
			case "version":
				r.m.Version = a.Value
			}
		}
		if r.m.Version != "10" && r.m.Version != "11" {
			return false, fmt.Errorf("unsupported version of the format: got %q, want 10 or 11", r.m.Version)
		}
	case "net/layers/layer":
		l := &layer{}
		if err := d.DecodeElement(l, t); err != nil {
			return true, fmt.Errorf("reading a layer: %w", err)
		}
		return true, r.layer(l)
	case "net/edges/edge":
		e := edge{}
		if err := d.DecodeElement(&e, t); err != nil {
			return true, fmt.Errorf("reading an edge: %w", err)
		}
		return true, r.edge(e)
	}
	return false, nil
}

// layer checks a layer.
func (r *reader) layer(l *layer) error {
	if r.layers[l.ID] != nil {
		return fmt.Errorf("duplicate layer %q", l.ID)
	}
	r.layers[l.ID], r.order = l, append(r.order, l)
	r.ports += int64(len(l.Input.Port) + len(l.Output.Port))
	if err := errors.Join(limit("layers", int64(len(r.order)), maxLayers), limit("ports", r.ports, maxPorts)); err != nil {
		return err
	}
	for _, side := range []struct {
		list []port
		to   map[at]*port
	}{{l.Input.Port, r.to}, {l.Output.Port, r.from}} {
		for i := range side.list {
			p := &side.list[i]
			if side.to[at{l.ID, p.ID}] != nil {
				return fmt.Errorf("layer %q (%s): duplicate port %q", l.Name, l.Type, p.ID)
			}
			if err := limit("dimensions", int64(len(p.Dims)), maxRank); err != nil {
				return fmt.Errorf("layer %q (%s): %w", l.Name, l.Type, err)
			}
			side.to[at{l.ID, p.ID}] = p
		}
	}
	switch l.Type {
	case "Const":
		if err := r.constant(l); err != nil {
			return fmt.Errorf("constant %q: %w", l.Name, err)
		}
	case "Parameter", "Result":
	default:
		r.m.Operations[l.Type]++
	}
	return nil
}

// bits are the sizes of elements.
var bits = map[string]int64{
	"f64": 64, "f32": 32, "f16": 16, "bf16": 16, "i64": 64, "i32": 32, "i16": 16, "i8": 8, "i4": 4, "u64": 64, "u32": 32, "u16": 16, "u8": 8, "u4": 4, "u2": 2, "u1": 1,
	"nf4": 4, "f4e2m1": 4, "f8e4m3": 8, "f8e5m2": 8, "f8e8m0": 8, "boolean": 8,
}

// constant compares a constant with its shape and the weights.
func (r *reader) constant(l *layer) error {
	offset, err := strconv.ParseInt(l.Data.Offset, 10, 64)
	size, err2 := strconv.ParseInt(l.Data.Size, 10, 64)
	if err := errors.Join(err, err2); err != nil {
		return err
	}
	if offset < 0 || size < 0 || offset > r.weights || size > r.weights-offset {
		return fmt.Errorf("bytes %d to %d exceed the weights of %d bytes", offset, offset+size, r.weights)
	}
	shape, err := dimensions(l.Data.Shape)
	if err != nil {
		return err
	}
	if l.Data.Element == "string" {
		return nil
	}
	width := bits[l.Data.Element]
	if width == 0 {
		return fmt.Errorf("unknown element type %q", l.Data.Element)
	}
	n := int64(1)
	for _, d := range shape {
		if d < 0 || d > 0 && n > (1<<50)/d {
			return fmt.Errorf("bad shape %v", shape)
		}
		n *= d
	}
	if want := (n*width + 7) / 8; size != want {
		return fmt.Errorf("got %d bytes, want %d of %s %v", size, want, l.Data.Element, shape)
	}
	if len(l.Output.Port) == 1 && !slices.Equal(l.Output.Port[0].Dims, texts(shape)) {
		return fmt.Errorf("shape %v differs from its port's %v", shape, l.Output.Port[0].Dims)
	}
	if strings.HasPrefix(l.Data.Element, "f") || strings.HasPrefix(l.Data.Element, "bf") || width <= 8 && l.Data.Element != "boolean" {
		r.m.Weights[l.Data.Element] += n
		r.m.Parameters += n
	}
	return nil
}

func texts(shape []int64) []string {
	var out []string
	for _, d := range shape {
		out = append(out, strconv.FormatInt(d, 10))
	}
	return out
}

// dimensions parses a shape: 1,3,?,8. A range is open.
func dimensions(text string) ([]int64, error) {
	var out []int64
	if text = strings.TrimSpace(text); text == "" || text == "[]" || text == "..." {
		return out, nil
	}
	for d := range strings.SplitSeq(text, ",") {
		n := int64(-1)
		if d = strings.TrimSpace(d); d != "?" && !strings.Contains(d, "..") {
			var err error
			if n, err = strconv.ParseInt(d, 10, 64); err != nil || n < -1 {
				return nil, fmt.Errorf("bad dimension %q of the shape %q", d, text)
			}
		}
		if out = append(out, n); len(out) > maxRank {
			return nil, limit("dimensions", int64(len(out)), maxRank)
		}
	}
	return out, nil
}

// edge compares the ends of an edge.
func (r *reader) edge(e edge) error {
	from, to := at{e.FromLayer, e.FromPort}, at{e.ToLayer, e.ToPort}
	a, b := r.from[from], r.to[to]
	if a == nil || b == nil {
		return fmt.Errorf("edge from port %s of layer %s to port %s of layer %s: missing port", e.FromPort, e.FromLayer, e.ToPort, e.ToLayer)
	}
	if r.bound[to] {
		return fmt.Errorf("port %s of layer %s has two edges", e.ToPort, e.ToLayer)
	}
	r.bound[to] = true
	if a.Precision != b.Precision && a.Precision != "" && b.Precision != "" || !slices.Equal(a.Dims, b.Dims) {
		return fmt.Errorf("edge to port %s of layer %q: got %s %v, want %s %v", e.ToPort, r.layers[e.ToLayer].Name, a.Precision, a.Dims, b.Precision, b.Dims)
	}
	if l := r.layers[e.ToLayer]; l.Type == "Result" {
		shape, err := dimensions(strings.Join(a.Dims, ","))
		if err != nil {
			return err
		}
		r.m.Outputs = append(r.m.Outputs, Port{name(a, r.layers[e.FromLayer]), element(a.Precision), shape})
	}
	return nil
}

// name returns the first name of a port's tensor, or that of the layer.
func name(p *port, l *layer) string {
	var out strings.Builder
	for i := 0; i < len(p.Names); i++ {
		switch c := p.Names[i]; {
		case c == '\\' && i+1 < len(p.Names):
			i++
			out.WriteByte(p.Names[i])
			continue
		case c == ',':
			return out.String()
		default:
			out.WriteByte(c)
		}
	}
	if out.Len() == 0 {
		return l.Name
	}
	return out.String()
}

// element returns the name of a port's type in constants.
func element(precision string) string {
	switch p := strings.ToLower(precision); p {
	case "fp32", "fp16", "fp64":
		return "f" + p[2:]
	case "bool":
		return "boolean"
	default:
		return p
	}
}

// finish lists the inputs and refuses ports without an edge.
func (r *reader) finish() error {
	if r.m.Version == "" {
		return errors.New("not a model of OpenVINO")
	}
	for _, l := range r.order {
		for _, p := range l.Input.Port {
			if !r.bound[at{l.ID, p.ID}] {
				return fmt.Errorf("layer %q (%s): port %s has no edge", l.Name, l.Type, p.ID)
			}
		}
		if l.Type != "Parameter" {
			continue
		}
		shape, err := dimensions(l.Data.Shape)
		if err != nil {
			return fmt.Errorf("input %q: %w", l.Name, err)
		}
		if len(l.Output.Port) != 1 {
			return fmt.Errorf("input %q: got %d ports, want 1", l.Name, len(l.Output.Port))
		}
		r.m.Inputs = append(r.m.Inputs, Port{name(&l.Output.Port[0], l), l.Data.Element, shape})
	}
	return nil
}
