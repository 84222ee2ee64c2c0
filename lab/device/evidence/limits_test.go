package evidence

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestMaxRecords(t *testing.T) {
	if full(make([]Record, maxRecords-1)) || !full(make([]Record, maxRecords)) {
		t.Errorf("the limit is not %d", maxRecords)
	}
}

// TestMaxRecord has a record of maxRecord bytes, and one of a byte more.
func TestMaxRecord(t *testing.T) {
	var r Record
	if err := r.Seal(); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	for n, want := range map[int]bool{maxRecord: true, maxRecord + 1: false} {
		in := string(text) + strings.Repeat(" ", n-len(text))
		if _, err := Read(strings.NewReader(in)); (err == nil) != want {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
}
