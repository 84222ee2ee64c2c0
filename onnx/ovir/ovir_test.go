package ovir

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// small multiplies an input of two rows by a constant in eight bits.
const small = `<?xml version="1.0"?>
<net name="m" version="11"><layers>
<layer id="0" name="x" type="Parameter" version="opset1"><data shape="2,?" element_type="f32"/><output><port id="0" precision="FP32" names="x\,1,other"><dim>2</dim><dim>-1</dim></port></output></layer>
<layer id="1" name="w" type="Const" version="opset1"><data element_type="i8" shape="1,3" offset="64" size="3"/><output><port id="0" precision="I8"><dim>1</dim><dim>3</dim></port></output></layer>
<layer id="2" name="c" type="Convert" version="opset1"><data destination_type="f32"/><input><port id="0" precision="I8"><dim>1</dim><dim>3</dim></port></input><output><port id="1" precision="FP32"><dim>1</dim><dim>3</dim></port></output></layer>
<layer id="3" name="p" type="Multiply" version="opset1"><input><port id="0" precision="FP32"><dim>2</dim><dim>-1</dim></port><port id="1" precision="FP32"><dim>1</dim><dim>3</dim></port></input><output><port id="2" precision="FP32" names="y"><dim>2</dim><dim>3</dim></port></output></layer>
<layer id="4" name="r" type="Result" version="opset1"><input><port id="0" precision="FP32"><dim>2</dim><dim>3</dim></port></input></layer>
</layers><edges>
<edge from-layer="0" from-port="0" to-layer="3" to-port="0"/><edge from-layer="1" from-port="0" to-layer="2" to-port="0"/>
<edge from-layer="2" from-port="1" to-layer="3" to-port="1"/><edge from-layer="3" from-port="2" to-layer="4" to-port="0"/>
</edges></net>`

func TestRead(t *testing.T) {
	got, err := Read(strings.NewReader(small), 67)
	if err != nil {
		t.Fatal(err)
	}
	want := &Model{
		Name: "m", Version: "11", Inputs: []Port{{"x,1", "f32", []int64{2, -1}}}, Outputs: []Port{{"y", "f32", []int64{2, 3}}},
		Operations: map[string]int{"Convert": 1, "Multiply": 1}, Weights: map[string]int64{"i8": 3}, Parameters: 3,
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// Files that OpenVINO refuses are errors, and those that it accepts silently.
func TestFaults(t *testing.T) {
	for _, c := range []struct{ old, new, want string }{
		{`version="11"`, `version="9"`, "unsupported version"},
		{`offset="64"`, `offset="65"`, "exceed the weights of 67 bytes"},
		{`offset="64"`, `offset="-1"`, "exceed the weights"},
		{`size="3"`, `size="2"`, "got 2 bytes, want 3"},
		{`shape="1,3"`, `shape="1,x"`, "bad dimension"},
		{`shape="1,3"`, `shape="3,1"`, "differs from its port"},
		{`shape="1,3"`, `shape="1125899906842624,1125899906842624"`, "bad shape"},
		{`element_type="i8"`, `element_type="i9"`, "unknown element type"},
		{`layer id="1"`, `layer id="0"`, "duplicate layer"},
		{`<port id="1" precision="FP32"><dim>1`, `<port id="0" precision="FP32"><dim>1`, "missing port"},
		{`to-layer="3" to-port="1"`, `to-layer="3" to-port="0"`, "two edges"},
		{`to-layer="3" to-port="1"`, `to-layer="9" to-port="1"`, "missing port"},
		{`<edge from-layer="2" from-port="1" to-layer="3" to-port="1"/>`, ``, "has no edge"},
		{`"FP32"><dim>2</dim><dim>3</dim></port></input></layer>`, `"FP32"><dim>2</dim><dim>4</dim></port></input></layer>`, "got FP32 [2 3], want FP32 [2 4]"},
		{`"FP32"><dim>2</dim><dim>3</dim></port></input></layer>`, `"FP16"><dim>2</dim><dim>3</dim></port></input></layer>`, "got FP32 [2 3], want FP16 [2 3]"},
		{`</net>`, ``, "reading the model"},
		{`<net`, `<other`, "reading the model"},
	} {
		text := strings.Replace(small, c.old, c.new, 1)
		if text == small {
			t.Fatalf("%s is not in the text", c.old)
		}
		if _, err := Read(strings.NewReader(text), 67); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %s", c.new, err, c.want)
		}
	}
	if _, err := Read(strings.NewReader("<a/>"), 0); err == nil {
		t.Error("another document is accepted")
	}
}

func TestOpen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.xml")
	if err := os.WriteFile(path, []byte(small), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path); err == nil || !strings.Contains(err.Error(), "weights of 0 bytes") {
		t.Errorf("without weights: %v", err)
	}
	if err := os.WriteFile(strings.TrimSuffix(path, ".xml")+".bin", make([]byte, 67), 0o600); err != nil {
		t.Fatal(err)
	}
	if m, err := Open(path); err != nil || m.Bytes != int64(len(small))+67 {
		t.Errorf("got %+v, %v", m, err)
	}
}

func TestLimits(t *testing.T) {
	for what, most := range map[string]int64{"text": maxText, "layers": maxLayers, "ports": maxPorts, "dimensions": maxRank} {
		if limit(what, most, most) != nil || limit(what, most+1, most) == nil {
			t.Errorf("the limit of %s is not %d", what, most)
		}
	}
	dims := func(n int) string { return strings.TrimSuffix(strings.Repeat("1,", n), ",") }
	if _, err := dimensions(dims(maxRank)); err != nil {
		t.Error(err)
	}
	if _, err := dimensions(dims(maxRank + 1)); err == nil {
		t.Errorf("%d dimensions are accepted", maxRank+1)
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(small), int64(67))
	f.Fuzz(func(t *testing.T, text []byte, weights int64) {
		m, err := Read(strings.NewReader(string(text)), weights)
		if err == nil && m.Version == "" {
			t.Error("a model without version")
		}
	})
}
