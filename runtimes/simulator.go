package runtimes

// Simulator is an [Engine] that may emulate absent hardware. Its results do not
// describe that hardware and are marked accordingly.
type Simulator interface {
	Simulates() bool
}

// Simulates reports whether an engine emulates hardware.
func Simulates(e Engine) bool {
	s, ok := e.(Simulator)
	return ok && s.Simulates()
}

// Shown returns an engine's name as results show it: "qnn (emulated)" if it
// emulates hardware.
func Shown(e Engine) string {
	if Simulates(e) {
		return e.Name() + " (emulated)"
	}
	return e.Name()
}

// Documented is a [Model] with facts that a record of its results must name, such
// as the digest of the loaded file.
type Documented interface {
	Facts() map[string]string
}
