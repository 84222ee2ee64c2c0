package mcp

import (
	"strings"
	"testing"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/runtimes/runner"
)

func TestLimits(t *testing.T) {
	for name, most := range map[string]int{"maxText": maxText, "maxDetail": maxDetail} {
		if text := strings.Repeat("x", most); cut(text, most) != text || cut(text+"x", most) != text+"…" {
			t.Errorf("%s: wrong cut", name)
		}
	}
	s := &Server{root: &root{dir: t.TempDir()}}
	for n, left := range map[int]int{maxFaults: 0, maxFaults + 1: 1} {
		list, got := s.clientFaults(make(diag.List, n))
		if len(list) != maxFaults || got != left {
			t.Errorf("%d faults: %d listed, %d left", n, len(list), got)
		}
	}
	list, _ := s.clientFaults(diag.List{{Detail: strings.Repeat("x", maxDetail+1), Hint: strings.Repeat("y", maxDetail)}})
	if list[0].Detail != strings.Repeat("x", maxDetail)+"…" || list[0].Hint != strings.Repeat("y", maxDetail) {
		t.Error("maxDetail does not bound a fault")
	}
	for n, ok := range map[int]bool{maxResult: true, maxResult + 1: false} {
		if _, err := structured(strings.Repeat("x", n-2)); (err == nil) != ok { // two quotes
			t.Errorf("a result of %d bytes: %v", n, err)
		}
	}
	for n, ok := range map[int]bool{maxMedia: true, maxMedia + 1: false} {
		if _, err := media([]runner.Made{{Data: make([]byte, 1)}, {Data: make([]byte, n-1)}}, new(inferOutput)); (err == nil) != ok {
			t.Errorf("media of %d bytes: %v", n, err)
		}
	}
}
