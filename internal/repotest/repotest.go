// Package repotest holds the rules of this repository as tests: which package
// may import which, what every package must document, names that are
// forbidden, how long a file or a function may get, and that the files a
// newcomer reads first are there. It has no code of its own.
package repotest
