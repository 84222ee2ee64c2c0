package audit_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"mm-abi.org/mm/internal/audit"
)

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

// A changed byte, a line taken out or moved: each is found. Bytes whose change
// leaves the entry the same (there are none in compact JSON) would show here.
func TestVerifyFindsEveryChange(t *testing.T) {
	_, data := fill(t, 5)
	if entries, err := audit.Verify(bytes.NewReader(data)); err != nil || len(entries) != 5 {
		t.Fatalf("sound log: %d entries, %v", len(entries), err)
	}
	lines := strings.SplitAfter(strings.TrimSuffix(string(data), "\n"), "\n")
	last := strings.LastIndex(strings.TrimSuffix(string(data), "\n"), "\n")
	for i := range last { // the last line has no successor to tell on it
		bad := bytes.Clone(data)
		bad[i] ^= 1
		if _, err := audit.Verify(bytes.NewReader(bad)); err == nil {
			t.Fatalf("byte %d (%q) changed unseen", i, data[i])
		}
	}
	for i := range len(lines) - 1 {
		cut := strings.Join(append(append([]string{}, lines[:i]...), lines[i+1:]...), "")
		if _, err := audit.Verify(strings.NewReader(cut)); err == nil {
			t.Errorf("line %d taken out unseen", i+1)
		}
	}
}

// A crash in the middle of a line costs that line only.
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
		if entries, err := audit.Verify(bytes.NewReader(got)); err != nil || len(entries) != 3 {
			t.Fatalf("cut at %d: %d entries, %v", cut, len(entries), err)
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
	if entries, err := audit.Verify(bytes.NewReader(data)); err != nil || len(entries) != 40 {
		t.Errorf("%d entries, %v", len(entries), err)
	}
}

func FuzzVerify(f *testing.F) {
	f.Add([]byte(`{"action":"a","result":"ok","prev":"00"}` + "\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if _, err := audit.Verify(bytes.NewReader(data)); err == nil && len(data) > 0 && data[0] != '{' {
			t.Fatalf("%q accepted", data)
		}
	})
}
