package modules_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/core/preprocess"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/modules"
)

const detector = `name: vad
version: 1.0.0
type: encoder
modality: audio
abi: mm-abi-1.1
license: MIT
inputs: [{name: pcm, shape: [S], dtype: fp32}, {name: h, shape: [2, 1], dtype: fp32}, {name: sr, shape: [], dtype: int64}]
outputs: [{name: prob, shape: [1], dtype: fp32}, {name: hn, shape: [2, 1], dtype: fp32}]
`

// Blocks in short and long form are equivalent.
func TestBlocks(t *testing.T) {
	for _, in := range []string{
		"preprocess: {sample_rate: 16000, chunk: 512}\nstate: {h: hn}\nconstants: {sr: 16000}\n",
		"preprocess: {pcm: {sample_rate: 16000, chunk: 512}}\nstate: {hn: h}\nconstants: {sr: {value: 16000}}\n",
		"preprocess: {pcm: {sample_rate: 16000, chunk: 512}}\nstate: {h: {from: hn}}\nconstants: {sr: {value: 16000}}\n",
	} {
		m, list := modules.Parse("module.yaml", []byte(detector+in))
		if m == nil || len(list) > 0 {
			t.Errorf("%s: %v", in, list)
			continue
		}
		want := modules.Preprocess{"pcm": {Sound: preprocess.Sound{SampleRate: 16000, Chunk: 512}}}
		if d := cmp.Diff(want, m.Preprocess); d != "" {
			t.Errorf("%s: %s", in, d)
		}
		carried := m.Carried(func(name string) bool { return name == "h" })
		if d := cmp.Diff(map[string]modules.State{"h": {From: "hn"}}, carried); d != "" {
			t.Errorf("%s: %s", in, d)
		}
		if free := m.FreeInputs(); len(free) != 1 || free[0].Name != "pcm" || m.Constants["sr"].Value != 16000 {
			t.Errorf("%s: %v, %v", in, free, m.Constants)
		}
	}
}

// A contradiction within a block or with the ports is reported at its position.
func TestBadBlocks(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"no such input", "preprocess: {x: {sample_rate: 16000}}\n", `9:17: error MM0212: inconsistent preprocess, state, constants or postprocess: vad@1.0.0: unknown input "x"`},
		{"which input", "preprocess: {sample_rate: 16000}\n", "preprocess has no input name, and there are 3 inputs"},
		{"layout", "preprocess: {pcm: {sample_rate: 16000, layout: NCHW}}\n", `9:48: error MM0212: inconsistent preprocess, state, constants or postprocess: vad@1.0.0: layout: got "NCHW", want one of [NT T]`},
		{"two of one value", "state: {h: hn, sr: hn}\n", `h and sr are both the next value of "hn"`},
		{"shapes of a state", "state: {pcm: hn}\n", "hn [2, 1] fp32 cannot be the next value of pcm [S] fp32"},
		{"prepared state", "state: {h: hn}\npreprocess: {h: {sample_rate: 16000}}\n", `"h" is a state and also in preprocess`},
		{"constant state", "state: {h: hn}\nconstants: {h: 1}\n", `"h" is a state and also in constants`},
		{"prepared constant", "constants: {pcm: 1}\npreprocess: {pcm: {sample_rate: 16000}}\n", `"pcm" is a constant and also in preprocess`},
		{"no such output", "postprocess: {x: {labels: {}}}\n", `unknown output "x"`},
		{"read state", "state: {h: hn}\npostprocess: {hn: {labels: {}}}\n", `"hn" is the next value of the state "h" and cannot be postprocessed`},
		{"no sound", "postprocess: {prob: {segments: {}}}\n", "segments require an input with a sample_rate"},
		{"thresholds", "preprocess: {pcm: {sample_rate: 16000}}\npostprocess: {prob: {segments: {threshold: 0.4, low: 0.5}}}\n", "threshold is 0.4, low is 0.5"},
		{"two readings", "postprocess: {prob: {labels: {}, segments: {}}}\n", "MM0105"},
		{"a labels file not listed", "postprocess: {prob: {ctc: {labels: a.txt}}}\nfiles: []\n", `9:36: error MM0205: missing file: "a.txt" is not in files`},
		{"a labels file elsewhere", "postprocess: {prob: {ctc: {labels: ../a.txt}}}\n", "MM0204"},
		{"another key", "postprocess: {prob: {ctc: {labels: a.txt, blnk: 1}}}\n", `did you mean "blank"?`},
		{"a word for a block", "preprocess: {pcm: yes}\n", "MM0103"},
	} {
		_, list := modules.Parse("module.yaml", []byte(detector+c.in))
		var text strings.Builder
		if err := list.Text(&text); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(text.String(), c.want) || !list.Failed() {
			t.Errorf("%s:\n%swant %q", c.name, text.String(), c.want)
		}
	}
	_, list := modules.Parse("module.yaml", []byte(strings.Replace(detector, "-1.1", "-1.0", 1)+"constants: {sr: 1}\npostprocess: {prob: {labels: {}}}\n"))
	if d := cmp.Diff([]diag.Code{diag.NeedsABI, diag.NeedsABI}, codes(list)); d != "" {
		t.Error(d)
	}
}

// Labels belong to the module's files.
func TestLabelFiles(t *testing.T) {
	m, list := modules.Parse("module.yaml", []byte(detector+"postprocess: {prob: {labels: {file: b.txt}}}\n"))
	if m == nil {
		t.Fatal(list)
	}
	if d := cmp.Diff([]string{"module.yaml", "b.txt"}, m.Paths()); d != "" {
		t.Error(d)
	}
	if pos := m.PathPos("b.txt"); pos.Line != 9 || pos.Col != 37 {
		t.Errorf("b.txt is at %v", pos)
	}
}
