package mmap

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
)

// Release drops whole pages of a part and nothing else; the bytes stay readable.
func TestRelease(t *testing.T) {
	const size = 8 << 20
	want := bytes.Repeat([]byte("mapped!!"), size/8)
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, want, 0o600); err != nil {
		t.Fatal(err)
	}
	m, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	for _, part := range [][]byte{nil, m.Data[:0], m.Data[1:2], m.Data[4095:8193], m.Data, bytes.Clone(want)} {
		m.Release(part)
		if !bytes.Equal(m.Data, want) {
			t.Fatalf("%d bytes: the content changed", len(part))
		}
	}
	if runtime.GOOS != "linux" {
		t.Skip("skipped: resident pages are read on Linux only")
	}
	before := resident(t)
	m.Release(m.Data)
	if after := resident(t); before-after < size/2 {
		t.Errorf("resident: %d bytes before, %d after, want %d less", before, after, size)
	}
}

// resident returns the bytes of file-backed pages in memory.
func resident(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "RssFile:"); ok {
			n, err := strconv.Atoi(strings.Fields(rest)[0])
			if err != nil {
				t.Fatal(err)
			}
			return n << 10
		}
	}
	t.Skip("skipped: no RssFile in /proc/self/status")
	return 0
}
