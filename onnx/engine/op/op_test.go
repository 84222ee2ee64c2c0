package op

import "testing"

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
