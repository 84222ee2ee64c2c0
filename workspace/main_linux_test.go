package workspace_test

import (
	"os"
	"testing"

	"mm-abi.org/mm/internal/testfiles"
	"mm-abi.org/mm/skills/sandbox/process"
)

// TestMain also runs as the second mm of a sandbox, which Examine starts: without it the
// child would run all the tests again. Stores are in memory, where a sync costs nothing.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == process.Command {
		process.Inner()
	}
	os.Exit(testfiles.InMemory(m))
}
