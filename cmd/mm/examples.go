package main

import (
	_ "embed"
	"strings"
	"sync"
)

//go:embed examples.txt
var exampleText string

// examples returns the lines at the end of the help of a command, such as
// "module new".
func examples(command string) []string { return readExamples()[command] }

// readExamples parses examples.txt: the path of a command, then its lines, which
// are indented.
var readExamples = sync.OnceValue(func() map[string][]string {
	all, command := map[string][]string{}, ""
	for line := range strings.Lines(exampleText) {
		line = strings.TrimSuffix(line, "\n")
		if text, ok := strings.CutPrefix(line, "\t"); ok {
			all[command] = append(all[command], text)
		} else if line != "" && line[0] != '#' {
			command = line
		}
	}
	return all
})
