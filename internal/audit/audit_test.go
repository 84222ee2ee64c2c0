package audit_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"mm-abi.org/mm/internal/audit"
)

// chain checks the lines of a log whose head is that of an empty one.
func chain(t *testing.T, data []byte) (audit.Report, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	begin := []byte(`{"entries":0,"hash":"` + strings.Repeat("0", 64) + `"}`)
	if err := errors.Join(os.WriteFile(path, data, 0o600), os.WriteFile(path+".head", begin, 0o600)); err != nil {
		t.Fatal(err)
	}
	return audit.Check(path, "")
}

func fill(t *testing.T, n int) (path string, data []byte) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "audit.jsonl")
	for i := range n {
		if err := audit.Append(context.Background(), path, audit.Entry{Action: "verify", Ref: fmt.Sprint("a:", i), Result: "ok"}); err != nil {
			t.Fatal(err)
		}
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return path, data
}

// Any changed byte and any removed line is detected, also if the decoded entry stays the
// same.
func TestCheckFindsEveryChange(t *testing.T) {
	_, data := fill(t, 5)
	if r, err := chain(t, data); err != nil || r.Entries != 5 {
		t.Fatalf("sound log: %d entries, %v", r.Entries, err)
	}
	lines := strings.SplitAfter(strings.TrimSuffix(string(data), "\n"), "\n")
	last := strings.LastIndex(strings.TrimSuffix(string(data), "\n"), "\n")
	for i := range last { // nothing follows the last line
		bad := bytes.Clone(data)
		bad[i] ^= 1
		if _, err := chain(t, bad); err == nil {
			t.Fatalf("byte %d (%q) change not detected", i, data[i])
		}
	}
	for i := range len(lines) - 1 {
		cut := strings.Join(append(append([]string{}, lines[:i]...), lines[i+1:]...), "")
		if _, err := chain(t, []byte(cut+"\n")); err == nil {
			t.Errorf("line %d removed, not detected", i+1)
		}
	}
}

// A crash within a line costs only that line.
func TestAppendAfterCrash(t *testing.T) {
	path, data := fill(t, 3)
	for cut := len(data) - 1; cut > len(data)-60; cut-- {
		if err := os.WriteFile(path, data[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		if err := audit.Append(context.Background(), path, audit.Entry{Action: "run", Result: "ok"}); err != nil {
			t.Fatal(err)
		}
		got, _ := os.ReadFile(path)
		if r, err := chain(t, got); err != nil || r.Entries != 3 {
			t.Fatalf("cut at %d: %d entries, %v", cut, r.Entries, err)
		}
	}
}

func TestAppendTakesTurns(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 5 {
				if err := audit.Append(context.Background(), path, audit.Entry{Action: "pull", Ref: fmt.Sprint(i, j), Result: "ok"}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	data, _ := os.ReadFile(path)
	if r, err := chain(t, data); err != nil || r.Entries != 40 {
		t.Errorf("%d entries, %v", r.Entries, err)
	}
}

// Lines and heads of the maximum length are accepted, longer ones are not.
func TestLimits(t *testing.T) {
	_, data := fill(t, 1)
	ref := func(over int) string { return "a:0" + strings.Repeat("x", audit.MaxLine-len(data)+1+over) }
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	add := func(ref string) error {
		return audit.Append(context.Background(), path, audit.Entry{Action: "verify", Ref: ref, Result: "ok"})
	}
	if err := add(ref(1)); err == nil {
		t.Error("MaxLine: longer line appended")
	}
	if err := add(ref(0)); err != nil {
		t.Errorf("MaxLine: %v", err)
	}
	if r, err := audit.Check(path, ""); err != nil || r.Entries != 1 {
		t.Errorf("MaxLine: %+v, %v", r, err)
	}
	long, _ := os.ReadFile(path)
	if _, err := chain(t, bytes.Replace(long, []byte("xx"), []byte("xxx"), 1)); err == nil {
		t.Error("MaxLine: longer line accepted")
	}
	head, err := os.ReadFile(path + ".head")
	if err != nil {
		t.Fatal(err)
	}
	for n, ok := range map[int]bool{audit.MaxHead: true, audit.MaxHead + 1: false} {
		if err := os.WriteFile(path+".head", append(head[:len(head):len(head)], bytes.Repeat([]byte(" "), n-len(head))...), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := audit.Check(path, ""); (err == nil) != ok {
			t.Errorf("MaxHead: %d bytes: %v", n, err)
		}
	}
}

func FuzzCheck(f *testing.F) {
	f.Add([]byte(`{"action":"a","result":"ok","prev":"00"}` + "\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if _, err := chain(t, data); err == nil && bytes.IndexByte(data, '\n') > 0 && data[0] != '{' {
			t.Fatalf("%q accepted", data)
		}
	})
}

// Ready changes nothing, and fails where Append does.
func TestReady(t *testing.T) {
	path := filepath.Join(t.TempDir(), "home", "audit.jsonl")
	for i := range 3 {
		before, _ := os.ReadFile(path)
		if err := audit.Ready(t.Context(), path); err != nil {
			t.Fatal(err)
		}
		if after, err := os.ReadFile(path); err != nil || string(after) != string(before) {
			t.Errorf("the log changed: %q, %q, %v", before, after, err)
		}
		if err := audit.Append(t.Context(), path, audit.Entry{Action: "sign", Result: "ok"}); err != nil {
			t.Fatal(err)
		}
		if r, err := audit.Check(path, ""); err != nil || r.Entries != i+1 {
			t.Errorf("%+v, %v", r, err)
		}
	}
	if err := errors.Join(os.Remove(path), os.Mkdir(path, 0o700)); err != nil {
		t.Fatal(err)
	}
	if err := audit.Ready(t.Context(), path); err == nil || audit.Append(t.Context(), path, audit.Entry{}) == nil {
		t.Error("a folder in place of the log")
	}
}
