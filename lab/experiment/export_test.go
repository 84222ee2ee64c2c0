package experiment

// The limits, for tests.
const (
	MaxSize    = maxSize
	MaxSeconds = maxSeconds
	MaxError   = maxError
	MaxTail    = maxTail

	MaxIdentity = maxIdentity
)

// TailOf returns what is kept of output that is written in two pieces.
func TailOf(a, b string) string {
	var t tail
	t.Write([]byte(a))
	t.Write([]byte(b))
	return t.b.String()
}
