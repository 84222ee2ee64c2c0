package builds

import (
	"context"
	"os"

	"mm-abi.org/mm/modules"
)

// Build is one target of a build as an engine is given it: what is joined to
// what, what each part says of itself, and its bytes, which were verified.
type Build struct {
	Assembly  *Assembly
	Manifests map[string]*modules.Manifest // by the name of the part; each was read from the verified bytes
	Files     Files
}

// Files are the verified files of a build under their own names, slash
// separated as the assembly spells them. An error says which name is missing.
type Files interface {
	// Open opens a file for reading, at its beginning.
	Open(name string) (*os.File, error)
	// Path is where a file lies on disk, under whatever name; for engines that
	// map one file and ask for no others.
	Path(name string) (string, error)
	// Dir makes the named files, under their own names and folders, lie below
	// one folder that nobody else writes to, and returns it; for engines that
	// look for a file beside another: external data, packages, tokenizers. It
	// stays until the build is closed.
	Dir(ctx context.Context, names ...string) (string, error)
}
