package suite

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/fsx"
)

// code returns the code of the only diagnostic, or "".
func code(list diag.List) diag.Code {
	if len(list) == 0 {
		return ""
	}
	return list[0].Code
}

func TestMaxTasks(t *testing.T) {
	dir := t.TempDir()
	write := func(n int) {
		task := strings.Replace(plainTask, "task: t", fmt.Sprintf("task: t%d", n), 1)
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%04d.yaml", n)), []byte(task), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "docs.jsonl"), []byte(`{"q":"x","a":"y"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for n := range maxTasks {
		write(n)
	}
	if tasks, list := Load([]string{dir}, Options{}); len(tasks) != maxTasks || list.Failed() {
		t.Errorf("%d tasks: got %d, %v", maxTasks, len(tasks), list)
	}
	write(maxTasks)
	if _, list := Load([]string{dir}, Options{}); code(list) != diag.TooLarge {
		t.Errorf("%d tasks: got %v", maxTasks+1, list)
	}
}

func TestMaxInclude(t *testing.T) {
	for _, n := range []int{maxInclude, maxInclude + 1} {
		path := written(t, plainTask, `{"q":"x","a":"y"}`)
		last := "task.yaml"
		for i := range n {
			name := fmt.Sprintf("%d.yaml", i)
			if err := os.WriteFile(filepath.Join(filepath.Dir(path), name), []byte("include: "+last+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			last = name
		}
		_, list := Load([]string{filepath.Join(filepath.Dir(path), last)}, Options{})
		if (code(list) == diag.TooLarge) != (n > maxInclude) || n <= maxInclude && list.Failed() {
			t.Errorf("%d files: got %v", n, list)
		}
	}
}

// sparse makes a file of zeros.
func sparse(t *testing.T, n int64) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "sparse")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, n); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestMaxData(t *testing.T) {
	if _, err := readData(sparse(t, maxData)); err != nil {
		t.Errorf("%d bytes: %v", maxData, err)
	}
	if _, err := readData(sparse(t, maxData+1)); !errors.Is(err, fsx.ErrTooLarge) {
		t.Errorf("%d bytes: got %v", maxData+1, err)
	}
}

func TestMaxOutcome(t *testing.T) {
	for n, large := range map[int64]bool{maxOutcome: false, maxOutcome + 1: true} {
		if _, err := readSamples(sparse(t, n)); errors.Is(err, fsx.ErrTooLarge) != large {
			t.Errorf("%d bytes: got %v", n, err)
		}
	}
}

func TestMaxSample(t *testing.T) {
	for n, long := range map[int64]bool{maxSample - 1: false, maxSample: true} {
		if _, err := readSamples(sparse(t, n)); errors.Is(err, bufio.ErrTooLong) != long {
			t.Errorf("%d bytes: got %v", n, err)
		}
	}
}

func TestMaxDocs(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	all := strings.Repeat("{}\n", maxDocs-1) + `{"q":"x","a":"y"}` + "\n"
	for more, want := range map[string]diag.Code{"": "", "{}\n": diag.TooLarge} {
		path := written(t, strings.Replace(plainTask, "{{q}}", "{{q or \"\"}}", 1), all+more)
		if _, list := Load([]string{path}, Options{}); code(list) != want {
			t.Errorf("%d documents and %q: got %v", maxDocs, more, list)
		}
	}
}
