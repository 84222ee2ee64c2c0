// Package console holds what cmd/mm shows and reads at a terminal without any
// model: declared commands with their help and manual pages, turns, results, messages,
// passwords, progress, and how the program was built.
package console
