package part

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/runtimes"
)

func svg(t *testing.T, steps []Step) string {
	t.Helper()
	var b bytes.Buffer
	if err := DrawSteps(&b, "a build & <more>\x01", steps); err != nil {
		t.Fatal(err)
	}
	d := xml.NewDecoder(bytes.NewReader(b.Bytes()))
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return b.String()
		} else if err != nil {
			t.Fatalf("%v in %s", err, b.String())
		}
	}
}

// Joined steps keep the steps that they follow.
func TestJoin(t *testing.T) {
	all, last := JoinSteps(nil, []Step{{What: StepEncode}, {What: StepProject, After: []int{0}}})
	if last != 1 {
		t.Errorf("the last is %d", last)
	}
	all, last = JoinSteps(all, []Step{{What: StepRecall}})
	if last != 2 {
		t.Errorf("the last is %d", last)
	}
	more := []Step{{What: StepEncode}, {What: StepProject, After: []int{0}}, {What: StepPool, After: []int{0, 1}}}
	all, last = JoinSteps(all, more)
	want := []Step{{What: StepEncode}, {What: StepProject, After: []int{0}}, {What: StepRecall}, {What: StepEncode}, {What: StepProject, After: []int{3}}, {What: StepPool, After: []int{3, 4}}}
	if d := cmp.Diff(want, all); d != "" || last != 5 {
		t.Errorf("the last is %d (-want +got):\n%s", last, d)
	}
	if more[1].After[0] != 0 {
		t.Error("what was joined has changed")
	}
}

// A box for each step and a line for each reference; untrusted text is escaped; the output is
// deterministic.
func TestSVG(t *testing.T) {
	steps := []Step{
		{What: StepEncode, Part: "eye", Backend: "onnx", Out: TensorInfos(map[string]runtimes.Tensor{"z": {Type: runtimes.Float16, Shape: []int64{1, 2}}, "a": {Type: runtimes.Uint8}}), Run: 1500 * time.Microsecond, Load: time.Millisecond},
		{What: StepProject, Part: "lens", Backend: "onnx", After: []int{0}},
		{What: StepRecall, Part: "drum", Cached: "disk", Note: "<b>\"'&.wav\xff"},
		{What: StepPrompt, Part: "heart", Backend: "core", After: []int{1, 2}},
		{What: StepGenerate, Part: "heart", Backend: "core", After: []int{3}},
		{What: StepDecode, Part: strings.Repeat("long", 40), Backend: "onnx", After: []int{3}},
	}
	got := svg(t, steps)
	if got != svg(t, steps) {
		t.Error("the same steps gave other bytes")
	}
	for _, want := range []string{"a build &amp; &lt;more&gt; ", "encode eye", "from disk", "a uint8 []; z fp16 [1, 2]", "at 0.0 ms: 1.5 ms, load 1.0 ms", "&lt;b&gt;", "longlong…"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in %s", want, got)
		}
	}
	if boxes, lines := strings.Count(got, `rx="4"`), strings.Count(got, `<path d="M`); boxes != 6 || lines != 5 {
		t.Errorf("%d boxes, %d lines", boxes, lines)
	}
	svg(t, nil)
	for _, after := range []int{-1, 0, 1} {
		if DrawSteps(io.Discard, "", []Step{{After: []int{after}}}) == nil {
			t.Errorf("a step behind step %d was drawn", after)
		}
	}
}
