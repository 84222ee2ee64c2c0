package qnnlib

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mm-abi.org/mm/runtimes/qnn/ask"
)

func TestLimits(t *testing.T) {
	for what, most := range map[string]uint32{"dimensions": maxRank, "tensors": maxTensors, "graphs": maxGraphs} {
		for n, ok := range map[uint32]bool{0: true, most: true, most + 1: false} {
			if err := listed(what, 1, n, most); (err == nil) != ok {
				t.Errorf("%d %s: %v", n, what, err)
			}
		}
		if listed(what, 0, 1, most) == nil || listed(what, 0, 0, most) != nil {
			t.Errorf("%s at a null pointer", what)
		}
	}
	if _, err := ports(1, maxTensors+1); err == nil {
		t.Error("more than maxTensors tensors accepted")
	}
	file := filepath.Join(t.TempDir(), "context.bin")
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for n, want := range map[int64]string{0: "bad span", 1: "", maxContext: "file truncated", maxContext + 1: "bad span"} {
		_, err := read(ask.File{Path: file, Size: n})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("a context of %d bytes: %v, want %q", n, err, want)
		}
	}
	if _, err := read(ask.File{Path: file, Size: 1, Offset: -1}); err == nil {
		t.Error("negative offset accepted")
	}
}

func TestProfileLimits(t *testing.T) {
	read := func(id uintptr) (ask.Event, bool) { return ask.Event{Value: uint64(id)}, true }
	for n, want := range map[int]int{maxEvents: maxEvents, maxEvents + 1: maxEvents} {
		left := maxEvents
		flat := func(_ uintptr, depth int) []uintptr { return make([]uintptr, n*max(1-depth, 0)) }
		if got := collect(flat, read, 0, 0, &left); len(got) != want {
			t.Errorf("%d events: %d collected", n, len(got))
		}
	}
	left, depth := maxEvents, 0
	chain := func(uintptr, int) []uintptr { return []uintptr{1} }
	for list := collect(chain, read, 0, 0, &left); len(list) > 0; list = list[0].Sub {
		depth++
	}
	if depth != maxNested+1 {
		t.Errorf("events %d deep, want %d", depth, maxNested+1)
	}
}
