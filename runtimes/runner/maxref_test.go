package runner

// MaxRef is maxRef, for tests.
const MaxRef = maxRef
