package jinja

import (
	"bufio"
	"encoding/json"
	"errors"
	"os"
	"testing"
)

// golden is a row of testdata/golden.jsonl, written by testdata/golden.py with Python's Jinja.
type golden struct {
	Template string
	Vars     map[string]json.RawMessage
	Text     string
	Error    string // "syntax", "runtime" or "raised"; "" if rendered
	Message  string // of a raised error
}

// kindOfError returns the kind of an error as golden.py names it.
func kindOfError(err error) string {
	var raised *RaisedError
	switch {
	case err == nil:
		return ""
	case errors.Is(err, ErrSyntax):
		return "syntax"
	case errors.As(err, &raised):
		return "raised"
	}
	return "runtime"
}

// TestGolden compares with Python's Jinja, for every filter, test, statement and method.
func TestGolden(t *testing.T) {
	file, err := os.Open("testdata/golden.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	rows := 0
	for lines := bufio.NewScanner(file); lines.Scan(); rows++ {
		var g golden
		if err := json.Unmarshal(lines.Bytes(), &g); err != nil {
			t.Fatalf("row %d: %v", rows+1, err)
		}
		vars := map[string]any{}
		for name, v := range g.Vars {
			vars[name] = v
		}
		got, err := render(g.Template, vars, Options{})
		if kind := kindOfError(err); kind != g.Error || g.Error == "" && got != g.Text {
			t.Errorf("row %d: %q\n got  %q, %v\n want %q %s", rows+1, g.Template, got, err, g.Text, g.Error)
		}
		var raised *RaisedError
		if errors.As(err, &raised) && raised.Message != g.Message {
			t.Errorf("row %d: got message %q, want %q", rows+1, raised.Message, g.Message)
		}
	}
	if rows < 700 {
		t.Errorf("got %d rows", rows)
	}
}
