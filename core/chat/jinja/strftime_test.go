package jinja

import (
	"bufio"
	"encoding/json"
	"os"
	"testing"
	"time"
)

// TestStrftime compares dates with Python's (testdata/strftime.py).
func TestStrftime(t *testing.T) {
	f, err := os.Open("testdata/strftime.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines, n := bufio.NewScanner(f), 0
	for lines.Scan() {
		var c struct{ Time, Layout, Text string }
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			t.Fatal(err)
		}
		now, err := time.Parse("2006-01-02T15:04:05", c.Time)
		if err != nil {
			t.Fatal(err)
		}
		if n++; strftime(now, c.Layout) != c.Text {
			t.Errorf("%s as %q: got %q, want %q", c.Time, c.Layout, strftime(now, c.Layout), c.Text)
		}
	}
	if err := lines.Err(); err != nil || n < 3000 {
		t.Errorf("%d rows, %v", n, err)
	}
}

func TestMaxWidth(t *testing.T) {
	for layout, want := range map[string]int{"%1024d": maxWidth, "%1025d": maxWidth, "%99999999999999999999d": maxWidth} {
		if got := len(strftime(time.Unix(0, 0).UTC(), layout)); got != want {
			t.Errorf("%s: got %d characters, want %d", layout, got, want)
		}
	}
}
