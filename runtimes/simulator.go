package runtimes

// Simulator is an [Engine] that may stand in for hardware that is not there.
// What it computes says nothing of that hardware, and is named accordingly.
type Simulator interface {
	Simulates() bool
}

// Simulates reports whether an engine stands in for hardware.
func Simulates(e Engine) bool {
	s, ok := e.(Simulator)
	return ok && s.Simulates()
}

// Shown is the name of an engine as results carry it: "qnn (emulated)" of one
// that stands in for hardware.
func Shown(e Engine) string {
	if Simulates(e) {
		return e.Name() + " (emulated)"
	}
	return e.Name()
}

// Documented is a [Model] that says what a record of its results must name,
// such as the digest of what was loaded.
type Documented interface {
	Facts() map[string]string
}
