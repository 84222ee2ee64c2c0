package audit_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"mm-abi.org/mm/internal/audit"
)

// Changed and truncated lines are detected, also after more lines were appended. A crash
// between a line and its head is not a fault.
func TestCheck(t *testing.T) {
	ctx := context.Background()
	more := func(t *testing.T, path string) {
		t.Helper()
		if err := audit.Append(ctx, path, audit.Entry{Action: "run", Result: "ok"}); err != nil {
			t.Fatal(err)
		}
	}
	lines := func(data []byte) []string { return strings.SplitAfter(string(data), "\n") }
	write := func(t *testing.T, path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Run("sound", func(t *testing.T) {
		path, _ := fill(t, 4)
		r, err := audit.Check(path, "")
		if err != nil || r.Entries != 4 {
			t.Fatalf("%+v, %v", r, err)
		}
		more(t, path)
		if _, err := audit.Check(path, r.Head); err != nil {
			t.Errorf("a line noted earlier: %v", err)
		}
		if _, err := audit.Check(path, strings.Repeat("1", 64)); !errors.Is(err, audit.ErrBroken) {
			t.Errorf("unknown hash: %v", err)
		}
	})
	t.Run("none", func(t *testing.T) {
		if r, err := audit.Check(t.TempDir()+"/a", ""); err != nil || r.Entries != 0 {
			t.Errorf("%+v, %v", r, err)
		}
	})
	t.Run("changed", func(t *testing.T) {
		path, data := fill(t, 4)
		write(t, path, strings.Replace(string(data), "a:1", "b:1", 1))
		if _, err := audit.Check(path, ""); !errors.Is(err, audit.ErrBroken) {
			t.Error(err)
		}
	})
	t.Run("last line changed", func(t *testing.T) {
		path, data := fill(t, 4)
		write(t, path, strings.Replace(string(data), "a:3", "b:3", 1))
		if _, err := audit.Check(path, ""); !errors.Is(err, audit.ErrBroken) {
			t.Error(err)
		}
	})
	t.Run("cut", func(t *testing.T) {
		for cut := 1; cut <= 4; cut++ {
			path, data := fill(t, 4)
			write(t, path, strings.Join(lines(data)[:4-cut], ""))
			if _, err := audit.Check(path, ""); !errors.Is(err, audit.ErrBroken) {
				t.Errorf("%d lines cut: %v", cut, err)
			}
			for range 6 {
				more(t, path)
			}
			if _, err := audit.Check(path, ""); !errors.Is(err, audit.ErrBroken) {
				t.Errorf("%d lines cut and others added: %v", cut, err)
			}
		}
	})
	t.Run("crash before the record", func(t *testing.T) {
		path, _ := fill(t, 3)
		old, err := os.ReadFile(path + ".head")
		if err != nil {
			t.Fatal(err)
		}
		more(t, path)
		write(t, path+".head", string(old))
		if r, err := audit.Check(path, ""); err != nil || r.Entries != 4 {
			t.Errorf("%+v, %v", r, err)
		}
		more(t, path)
		if now, _ := os.ReadFile(path + ".head"); !bytes.Contains(now, []byte(`"entries":5`)) {
			t.Errorf("head: %s", now)
		}
	})
	t.Run("without a head", func(t *testing.T) {
		for cut := range 4 {
			path, data := fill(t, 4)
			write(t, path, strings.Join(lines(data)[:4-cut], ""))
			if err := os.Remove(path + ".head"); err != nil {
				t.Fatal(err)
			}
			for range 2 { // lines that follow do not mend it
				if _, err := audit.Check(path, ""); !errors.Is(err, audit.ErrBroken) || !strings.Contains(err.Error(), "missing "+path+".head") {
					t.Errorf("%d lines cut: %v", cut, err)
				}
				more(t, path)
			}
		}
	})
	t.Run("crash after the first line", func(t *testing.T) {
		path, data := fill(t, 1)
		write(t, path+".head", `{"entries":0,"hash":"`+strings.Repeat("0", 64)+`"}`)
		if r, err := audit.Check(path, ""); err != nil || r.Entries != 1 {
			t.Errorf("%q: %+v, %v", data, r, err)
		}
	})
	t.Run("half a line", func(t *testing.T) {
		path, data := fill(t, 3)
		write(t, path, string(data)+`{"action":`)
		if r, err := audit.Check(path, ""); err != nil || !r.Unfinished || r.Entries != 3 {
			t.Errorf("%+v, %v", r, err)
		}
	})
}
