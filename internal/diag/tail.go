package diag

import "strings"

// Tail keeps the last bytes of a child's output. The zero value keeps none.
type Tail struct {
	Limit int // bytes
	data  []byte
}

// Write implements io.Writer; it never fails.
func (t *Tail) Write(p []byte) (int, error) {
	t.data = append(t.data, p...)
	if over := len(t.data) - t.Limit; over > 0 {
		t.data = append(t.data[:0], t.data[over:]...)
	}
	return len(p), nil
}

// String returns the kept text with each line printable ([Printable]) and without final
// line ends.
func (t *Tail) String() string {
	lines := strings.Split(strings.TrimRight(string(t.data), "\n"), "\n")
	for i := range lines {
		lines[i] = Printable(lines[i])
	}
	return strings.Join(lines, "\n")
}
