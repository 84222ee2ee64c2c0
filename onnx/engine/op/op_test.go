package op

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Each operator is in exactly one table.
func TestParts(t *testing.T) {
	n := 0
	for _, part := range parts() {
		n += len(part)
	}
	if got := len(Names()); got != n {
		t.Errorf("%d operators of %d entries", got, n)
	}
}

// The reference lists the operators of both domains.
func TestReference(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "reference", "onnx.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, names := range [][]string{Names(), Contributed()} {
		if want := "\n`" + strings.Join(names, "` `") + "`\n"; !strings.Contains(string(data), want) {
			t.Errorf("docs/reference/onnx.md lacks this line:%s", want)
		}
	}
}
