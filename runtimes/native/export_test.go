package native

// SetsOf returns the versions of the packages of QNN that contain all of the digests.
func SetsOf(digests ...string) []string { return setsOf(digests) }

// Digests returns the digests of the packages of a version.
func Digests(version string) (out []string) {
	for _, w := range setOf(version).wheels {
		out = append(out, w.sha256)
	}
	return out
}
