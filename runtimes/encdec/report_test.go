package encdec

import (
	"encoding/json"
	"testing"
	"time"
)

// A report has times in milliseconds and, without segments, an empty list.
func TestReport(t *testing.T) {
	r := &Result{Text: "hi", Encode: 20 * time.Millisecond, Decode: 1500 * time.Millisecond}
	got, err := json.Marshal(NewReport("whisper 1.0.0", "onnx", r))
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"part":"whisper 1.0.0","backend":"onnx","text":"hi","encode_ms":20,"decode_ms":1500,"segments":[]}`
	if string(got) != want {
		t.Errorf("got %s, want %s", got, want)
	}
	r.Segments = []Segment{{Start: 1, End: 2.5, Text: "hi", IDs: []int32{7}}}
	if s := NewReport("p", "onnx", r).Segments; len(s) != 1 || s[0].Start != 1 || s[0].End != 2.5 || s[0].Text != "hi" || s[0].IDs[0] != 7 {
		t.Errorf("got %+v", s)
	}
}
