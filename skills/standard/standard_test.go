package standard

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"flag"
	"hash/crc32"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/schemas"
	"mm-abi.org/mm/skills"
	"mm-abi.org/mm/skills/sandbox"
	"mm-abi.org/mm/skills/sandbox/builtin"
	"mm-abi.org/mm/train/dataset/scene"
)

var update = flag.Bool("update", false, "rewrite the golden answers")

// golden is a call and its answer.
type golden struct {
	Skill  string          `json:"skill"`
	Args   json.RawMessage `json:"args"`
	Result json.RawMessage `json:"result,omitempty"`
	Fault  string          `json:"fault,omitempty"`
}

// drawChart renders a chart as PNG.
func drawChart(t *testing.T) []byte {
	t.Helper()
	src, err := scene.New(scene.Options{Split: scene.Held, Kinds: []string{scene.Charts}, Size: 384, Seed: 7})
	if err != nil {
		t.Fatal(err)
	}
	s := src.Make(0)
	m := image.NewRGBA(image.Rect(0, 0, s.W, s.H))
	for i := range s.W * s.H {
		copy(m.Pix[4*i:], s.RGB[3*i:3*i+3])
		m.Pix[4*i+3] = 255
	}
	var b bytes.Buffer
	if err := png.Encode(&b, m); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestGolden compares answers with testdata/calls.jsonl, and checks them
// against the module of each skill and its memory limit.
func TestGolden(t *testing.T) {
	formula, err := os.ReadFile("testdata/formula.png")
	if err != nil {
		t.Fatal(err)
	}
	header := []byte("IHDR\x00\x00\x40\x00\x00\x00\x20\x00\x08\x02\x00\x00\x00") // 16384 × 8192
	huge := binary.BigEndian.AppendUint32(append([]byte("\x89PNG\r\n\x1a\n\x00\x00\x00\r"), header...), crc32.ChecksumIEEE(header))
	var assets []sandbox.Asset
	for _, a := range []struct {
		name string
		data []byte
	}{
		{"img0", drawChart(t)}, {"formula", formula}, {"huge", huge},
		{"table", []byte("fruit,sold\nann,12\nbob,30\nkim,\"1,018\"\n")},
		{"json", []byte(`{"a": 1, "b": 2.5, "c": 4}`)},
		{"years", []byte("2020;10\n2021;12\n2023;16\n")},
		{"noise", []byte{0, 1, 2, 0xff}},
	} {
		assets = append(assets, sandbox.Asset{Name: a.name, Data: bytes.NewReader(a.data), Size: int64(len(a.data))})
	}
	executor := builtin.Executor{Funcs: Funcs()}
	type skill struct {
		guest   sandbox.Guest
		in, out *schemas.Shape
	}
	prepared := map[string]skill{}
	for name := range Funcs() {
		m, list := modules.Load(filepath.Join("../../catalog", name))
		if len(list) > 0 || m.Runtime.Builtin != name {
			t.Fatalf("%s: %v", name, list)
		}
		in, inErr := schemas.NewShape(skills.Schema(m.Inputs))
		out, outErr := schemas.NewShape(skills.Schema(m.Outputs))
		if inErr != nil || outErr != nil {
			t.Fatal(inErr, outErr)
		}
		limits := modules.Effective{MemBytes: 32 << 20, TimeoutMS: 30_000} // less than the manifests allow
		if name == "chartqa" || name == "ocr-latex" {
			limits.MemBytes = 64 << 20 // the playbook's sandbox
		}
		g, err := executor.Prepare(t.Context(), sandbox.Program{Name: name, Limits: limits})
		if err != nil {
			t.Fatal(err)
		}
		defer g.Close()
		prepared[name] = skill{g, in, out}
	}
	const file = "testdata/calls.jsonl"
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for line := range strings.Lines(string(want)) {
		var c golden
		if err := json.Unmarshal([]byte(line), &c); err != nil {
			t.Fatal(err)
		}
		k := prepared[c.Skill]
		args, err := schemas.ReadValue(c.Args)
		if err != nil {
			t.Fatal(err)
		}
		if err := k.in.Check(args); err != nil {
			t.Errorf("%s %s: %v", c.Skill, c.Args, err)
		}
		c.Result, c.Fault = nil, ""
		reply, err := k.guest.Call(t.Context(), sandbox.Call{Input: c.Args, Assets: assets})
		if err != nil {
			if sandbox.KindOf(err) != sandbox.Args {
				t.Errorf("%s %s: %v", c.Skill, c.Args, err)
			}
			c.Fault = err.Error()
		} else {
			out, err := schemas.ReadValue(reply.Output)
			if err == nil {
				err = k.out.Check(out)
			}
			if err != nil {
				t.Errorf("%s %s: %v", c.Skill, c.Args, err)
			}
			var o struct{ Result json.RawMessage }
			if err := json.Unmarshal(reply.Output, &o); err != nil {
				t.Fatal(err)
			}
			c.Result = o.Result
		}
		enc := json.NewEncoder(&got)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(c); err != nil {
			t.Fatal(err)
		}
	}
	if *update {
		if err := os.WriteFile(file, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Error(diff)
	}
}
