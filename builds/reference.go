package builds

import "embed"

// reference holds the reference graphs with their locks.
//
//go:embed *.graph.yaml *.lock.yaml
var reference embed.FS

// Reference returns the reference graphs and their locks.
func Reference() embed.FS { return reference }
