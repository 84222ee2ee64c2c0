package openvino

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"strconv"
	"strings"

	"mm-abi.org/mm/onnx/lower"
)

// elem is a type of elements, as constants declare it.
type elem string

const (
	f32     elem = "f32"
	f16     elem = "f16"
	i64     elem = "i64"
	i32     elem = "i32"
	i8      elem = "i8"
	i4      elem = "i4"
	boolean elem = "boolean"
)

var elements = [...]elem{lower.Float32: f32, lower.Int64: i64, lower.Int32: i32, lower.Bool: boolean}

// precision returns the name of the type in ports.
func (e elem) precision() string {
	switch e {
	case f32:
		return "FP32"
	case f16:
		return "FP16"
	case boolean:
		return "BOOL"
	}
	return strings.ToUpper(string(e))
}

// result is an output port of a layer.
type result struct {
	layer, port int
	elem        elem
	shape       []int
	names       string // of the tensor
}

// layer is an operation.
type layer struct {
	name, kind, opset string
	data              []string // names and values
	in                []*result
	out               []*result
	decompress        bool
}

// writer collects the layers of a model.
type writer struct {
	precision string
	layers    []*layer
	bin       weights
	at        map[*lower.Value]*result
	packed    map[packed]*result // weights
	shared    map[string]*result // small constants by type, shape and contents
	names     map[string]bool
	options   []string // of the runtime, names and values
	node      string   // name of the node being written
}

func newWriter(precision string) *writer {
	return &writer{precision: precision, at: map[*lower.Value]*result{}, packed: map[packed]*result{}, shared: map[string]*result{}, names: map[string]bool{}}
}

// add appends a layer with one result. Data are names and values in turn.
func (w *writer) add(kind, opset string, e elem, shape []int, in []*result, data ...string) *result {
	r := &result{layer: len(w.layers), port: len(in), elem: e, shape: shape}
	w.layers = append(w.layers, &layer{name: w.unique(w.node), kind: kind, opset: opset, data: data, in: in, out: []*result{r}})
	return r
}

// unique returns a name that no other layer has.
func (w *writer) unique(name string) string {
	for i, base := 1, name; w.names[name] || name == ""; i++ {
		name = base + "." + strconv.Itoa(i)
	}
	w.names[name] = true
	return name
}

// list formats integers.
func list(x []int) string {
	text := make([]string, len(x))
	for i, v := range x {
		text[i] = strconv.Itoa(v)
	}
	return strings.Join(text, ",")
}

// open formats a shape whose negative dimensions are open.
func open(shape []int) string {
	text := make([]string, len(shape))
	for i, d := range shape {
		if text[i] = strconv.Itoa(d); d < 0 {
			text[i] = "?"
		}
	}
	return strings.Join(text, ",")
}

// attribute formats a number.
func attribute(x float32) string { return strconv.FormatFloat(float64(x), 'g', -1, 32) }

// xml returns the text of the model.
func (w *writer) xml(name string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "<?xml version=\"1.0\"?>\n<net name=%s version=\"11\">\n\t<layers>\n", quoted(name))
	for id, l := range w.layers {
		fmt.Fprintf(&b, "\t\t<layer id=\"%d\" name=%s type=\"%s\" version=\"%s\">\n", id, quoted(l.name), l.kind, l.opset)
		l.write(&b)
		b.WriteString("\t\t</layer>\n")
	}
	b.WriteString("\t</layers>\n\t<edges>\n")
	for id, l := range w.layers {
		for i, from := range l.in {
			fmt.Fprintf(&b, "\t\t<edge from-layer=\"%d\" from-port=\"%d\" to-layer=\"%d\" to-port=\"%d\"/>\n", from.layer, from.port, id, i)
		}
	}
	b.WriteString("\t</edges>\n")
	if len(w.options) == 0 {
		b.WriteString("\t<rt_info/>\n</net>\n")
		return b.Bytes()
	}
	b.WriteString("\t<rt_info>\n\t\t<runtime_options>\n")
	for i := 0; i < len(w.options); i += 2 {
		fmt.Fprintf(&b, "\t\t\t<%s value=%s/>\n", w.options[i], quoted(w.options[i+1]))
	}
	b.WriteString("\t\t</runtime_options>\n\t</rt_info>\n</net>\n")
	return b.Bytes()
}

// write writes the parts of a layer.
func (l *layer) write(b *bytes.Buffer) {
	if len(l.data) > 0 {
		b.WriteString("\t\t\t<data")
		for i := 0; i < len(l.data); i += 2 {
			fmt.Fprintf(b, " %s=%s", l.data[i], quoted(l.data[i+1]))
		}
		b.WriteString("/>\n")
	}
	if l.decompress {
		b.WriteString("\t\t\t<rt_info>\n\t\t\t\t<attribute name=\"decompression\" version=\"0\"/>\n\t\t\t</rt_info>\n")
	}
	if len(l.in) > 0 {
		b.WriteString("\t\t\t<input>\n")
		for i, r := range l.in {
			r.write(b, i)
		}
		b.WriteString("\t\t\t</input>\n")
	}
	if len(l.out) > 0 && l.kind != "Result" {
		b.WriteString("\t\t\t<output>\n")
		for _, r := range l.out {
			r.write(b, r.port)
		}
		b.WriteString("\t\t\t</output>\n")
	}
}

// write writes a port.
func (r *result) write(b *bytes.Buffer, id int) {
	fmt.Fprintf(b, "\t\t\t\t<port id=\"%d\" precision=\"%s\"", id, r.elem.precision())
	if r.names != "" && id == r.port {
		fmt.Fprintf(b, " names=%s", quoted(strings.ReplaceAll(r.names, ",", "\\,")))
	}
	b.WriteString(">")
	for _, d := range r.shape {
		fmt.Fprintf(b, "<dim>%d</dim>", max(d, -1))
	}
	b.WriteString("</port>\n")
}

// quoted returns an attribute's value.
func quoted(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	_ = xml.EscapeText(&b, []byte(s)) // a strings.Builder does not fail
	b.WriteByte('"')
	return b.String()
}

// weights are the contents of the file of weights.
type weights struct {
	parts [][]byte
	size  int
}

// alignment is the distance between constants, in bytes.
const alignment = 64

// add appends a constant and returns its offset.
func (s *weights) add(data []byte) int {
	if pad := -s.size & (alignment - 1); pad > 0 {
		s.parts = append(s.parts, make([]byte, pad))
		s.size += pad
	}
	at := s.size
	s.parts = append(s.parts, data)
	s.size += len(data)
	return at
}

func (s *weights) write(to io.Writer) error {
	for _, p := range s.parts {
		if _, err := to.Write(p); err != nil {
			return err
		}
	}
	return nil
}
