package builds

import (
	"context"
	"os"

	"mm-abi.org/mm/modules"
)

// Build is one target of a build for an engine: its assembly, the manifests of
// its parts, and its verified bytes.
type Build struct {
	Assembly  *Assembly
	Manifests map[string]*modules.Manifest // by the name of the part; each was read from the verified bytes
	Files     Files
	Digest    string // of the verified artifact. Empty: the user's own files
	Template  string // chat template in Jinja that replaces the core's own. Empty: the core's
}

// Files are the verified files of a build under their own names, slash
// separated as in the assembly. An error names the missing file.
type Files interface {
	// Open opens a file for reading, at its beginning.
	Open(name string) (*os.File, error)
	// Path returns the path of a file, under any name, for engines that map
	// one file and open no others.
	Path(name string) (string, error)
	// Dir links the named files, under their own names and folders, into one
	// private folder, and returns it, for engines that look for a second file
	// in the same folder: external data, packages, tokenizers. The folder
	// remains until the build is closed.
	Dir(ctx context.Context, names ...string) (string, error)
}
